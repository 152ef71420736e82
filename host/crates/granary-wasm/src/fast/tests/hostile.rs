//! Guests whose results are no values: the turn ends with an error, as on the dynamic path, and nothing else happens.

use super::*;

/// A component whose `f` returns a pointer, with bytes at 1024.
async fn lying(ty: &str, pointer: i64, data: &str) -> (Store<()>, Func, Signature) {
    let engine = compiling_engine(&EngineConfig::default(), EngineVariant::PLAIN).unwrap();
    let source = format!("package a:b; interface o {{ f: func() -> {ty}; }} world w {{ export o; }}");
    let (resolve, world) = resolve(&source);
    let (id, _) = resolve.interfaces.iter().find(|(_, it)| it.name.as_deref() == Some("o")).unwrap();
    let signature = granary_wit::Interface::from_resolve(&resolve, id).unwrap().functions["f"].clone();
    let core = format!(
        r#"(module (memory (export "memory") 1) (data (i32.const 1024) "{data}")
             (func (export "a:b/o#f") (result i32) i32.const {pointer}))"#
    );
    let bytes =
        encode_as(&resolve, world, wat::parse_str(core).unwrap(), wit_component::StringEncoding::UTF8);
    let component = Component::new(&engine, &bytes).unwrap();
    let mut store = Store::new(&engine, ());
    store.set_epoch_deadline(1 << 40);
    let instance = Linker::new(&engine).instantiate_async(&mut store, &component).await.unwrap();
    let outer = instance.get_export_index(&mut store, None, "a:b/o").unwrap();
    let index = instance.get_export_index(&mut store, Some(&outer), "f").unwrap();
    let function = instance.get_func(&mut store, index).unwrap();
    (store, function, signature)
}

async fn both(ty: &str, pointer: i64, data: &str) -> (Result<Vec<u8>>, Result<Vec<u8>>) {
    let (mut store, function, signature) = lying(ty, pointer, data).await;
    let call = export(&function, &store, &signature).unwrap();
    let fast = call.call(&mut store, Vec::new()).await;
    let (mut store, function, signature) = lying(ty, pointer, data).await;
    let mut results = [Val::Bool(false)];
    let dynamic = function.call_async(&mut store, &[], &mut results).await;
    let dynamic = dynamic.and_then(|()| Ok(value::encode_result(&signature, results.first(), BYTES_MAX)?));
    (fast, dynamic)
}

#[tokio::test]
async fn lies_about_memory_are_errors_on_both_paths() {
    let lies = [
        // The result's place: beyond the end, across it, at the top of the address space, misaligned.
        ("string", 65_536, ""),
        ("string", 65_532, ""),
        ("string", -8, ""),
        ("string", -4, ""),
        ("string", 1026, ""),
        // A string: beyond, across, longest, no UTF-8.
        ("string", 1024, r"\ff\ff\ff\ff\01\00\00\00"),
        ("string", 1024, r"\fc\ff\00\00\05\00\00\00"),
        ("string", 1024, r"\00\00\00\00\ff\ff\ff\ff"),
        ("string", 1024, r"\08\04\00\00\02\00\00\00\ff\fe"),
        // A list: overflowing, beyond, misaligned.
        ("list<u64>", 1024, r"\00\00\00\00\ff\ff\ff\ff"),
        ("list<u8>", 1024, r"\01\00\00\00\ff\ff\ff\ff"),
        ("list<u64>", 1024, r"\f8\ff\00\00\02\00\00\00"),
        ("list<u32>", 1024, r"\02\00\00\00\01\00\00\00"),
        ("list<u64>", 1024, r"\04\00\00\00\00\00\00\00"),
        ("list<list<string>>", 1024, r"\00\00\00\00\ff\ff\ff\1f"),
        // Cases and characters that do not exist.
        ("option<u32>", 1024, r"\02"),
        ("result<u8, string>", 1024, r"\ff"),
        ("tuple<char, u8>", 1024, r"\00\d8\00\00"),
        ("tuple<char, u8>", 1024, r"\00\00\11\00"),
        ("list<char>", 1024, r"\08\04\00\00\01\00\00\00\ff\ff\ff\ff"),
    ];
    for (ty, pointer, data) in lies {
        let (fast, dynamic) = both(ty, pointer, data).await;
        let (fast, dynamic) = (fast.unwrap_err(), dynamic.unwrap_err());
        assert_eq!(
            fast.root_cause().to_string(),
            dynamic.root_cause().to_string(),
            "{ty} at {pointer}: {data}"
        );
    }
    // Misaligned and beyond the end: the two paths look at different faults first.
    let (fast, dynamic) = both("string", -1, "").await;
    assert!(fast.is_err() && dynamic.is_err());
}

#[tokio::test]
async fn odd_values_become_canonical_on_both_paths() {
    let odd = [
        // Any byte but 0 is true; NaNs have one form; an empty string may lie at the end.
        ("tuple<bool, bool>", r"\ff\02"),
        ("tuple<f32, f32>", r"\01\00\80\7f\00\00\80\7f"),
        ("list<f64>", r"\08\04\00\00\01\00\00\00\01\00\00\00\00\00\f0\ff"),
        ("string", r"\00\00\01\00\00\00\00\00"),
    ];
    for (ty, data) in odd {
        let (fast, dynamic) = both(ty, 1024, data).await;
        assert_eq!(fast.unwrap(), dynamic.unwrap(), "{ty}");
    }
}

#[tokio::test]
async fn a_list_that_repeats_itself_uses_up_the_fuel() {
    // 100 strings, all of them the same 32,639 bytes: 3 MB out of one page. Everything before their end is ASCII.
    let data = format!(r"\08\04\00\00\64\00\00\00{}", r"\00\00\00\00\7f\7f\00\00".repeat(100));
    let (mut store, function, signature) = lying("list<string>", 1024, &data).await;
    let call = export(&function, &store, &signature).unwrap();
    store.set_hostcall_fuel(1 << 22);
    assert_eq!(call.call(&mut store, Vec::new()).await.unwrap().len(), 4 + 100 * (4 + 0x7f7f));
    store.set_hostcall_fuel(100 * 0x7f7f - 1);
    assert!(call.call(&mut store, Vec::new()).await.is_err());
}
