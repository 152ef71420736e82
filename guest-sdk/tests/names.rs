//! Names that clash: with Rust's words, with what is generated, and with each other.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use granary_guest::prelude::*;
use granary_guest::testing::TestContext;

use contract::box_::{Box as BoxRecord, BoxGrainRef, BoxMethods, Guest_, Option as Choice, ResultOf};

#[grain(
    interfaces = ["test:names/box", "test:names/list@0.1.0"],
    refs = ["test:names/box", "other:names/list"],
    grain_type = "box",
    wit = "tests/wit/names",
    placement = "prefer-local",
    idle_age = "5m",
    memory_max = "32MiB",
    turn_cpu_max = "2s",
    property("immovable" = "1")
)]
#[derive(Default)]
struct BoxGrain;

impl BoxMethods for BoxGrain {
    fn get(&mut self) -> BoxRecord {
        BoxRecord { get: "got".into() }
    }

    fn new(&mut self, box_: BoxRecord) -> String {
        box_.get
    }

    fn key(&mut self) -> String {
        context::key()
    }

    fn send(&mut self, grain: String) -> Choice {
        if grain.is_empty() { Choice::None } else { Choice::Some }
    }

    fn grain_ref(&mut self) -> String {
        context::self_ref().to_string()
    }

    fn match_(&mut self, type_: u8, self_: u8) -> Guest_ {
        Guest_ { self_: type_ + self_ }
    }

    fn deref(&mut self, method: String, arguments: String) -> Result<ResultOf, String> {
        Ok(ResultOf { string: method + &arguments })
    }
}

impl contract::test_names_list::List for BoxGrain {
    fn get(&mut self) -> contract::test_names_list::Box {
        contract::test_names_list::Box::Large
    }
}

struct Toucher;

impl contract::other_names_list::List for Toucher {
    fn touch(&mut self, count: u32) {
        granary_guest::logging::log(granary_guest::logging::Level::Info, "touch", &count.to_string());
    }
}

#[test]
fn a_contract_may_use_any_name() {
    let ctx = TestContext::new();
    ctx.serve::<BoxGrain>("box");
    let it = BoxGrainRef::get("a/b").unwrap();
    assert_eq!(it.get().unwrap(), BoxRecord { get: "got".into() });
    assert_eq!(it.new(&BoxRecord { get: "x".into() }).unwrap(), "x");
    assert_eq!(it.key().unwrap(), "a/b");
    assert_eq!(it.send("").unwrap(), Choice::None);
    assert_eq!(it.grain_ref().unwrap(), "box/a/b");
    assert_eq!(it.match_(1, 2).unwrap(), Guest_ { self_: 3 });
    assert_eq!(it.deref("a", "b").unwrap(), ResultOf { string: "ab".into() });
    contract::box_::BoxSend::from(&it).grain_ref().unwrap();
}

#[test]
fn a_grain_may_have_several_interfaces() {
    let ctx = TestContext::new();
    let it = ctx.activate::<BoxGrain>("a").unwrap();
    let size = it.call(contract::test_names_list::List::get);
    assert_eq!(size, contract::test_names_list::Box::Large);
    assert_eq!(BoxGrain::INTERFACES, ["test:names/box", "test:names/list"]);
}

#[test]
fn stand_ins_serve_interfaces_of_other_packages() {
    let ctx = TestContext::new();
    contract::other_names_list::mock(&ctx, "list", |_| Toucher);
    contract::other_names_list::ListRef::get("x").unwrap().touch(3).unwrap();
    assert_eq!(ctx.logs()[0].grain, Some(GrainRef::new("list", "x")));
    assert_eq!(ctx.logs()[0].message, "3");
}
