//! The fast path against the dynamic one as its oracle, and against guests that lie.

use std::fmt::Write as _;
use std::time::Instant;

use granary_wit::{Encoder, Type, WireError};
use wasmtime::component::{Component, Linker, Val};
use wasmtime::{Engine, Store};
use wit_parser::abi::{AbiVariant, WasmType};

use super::*;
use crate::engine::{EngineConfig, EngineVariant, compiling_engine};
use crate::testing::{encode_as, resolve};
use crate::value;

mod generate;
mod hostile;
mod measure;

const BYTES_MAX: usize = 1 << 20;
const TYPES: u64 = 260;
const VALUES: usize = 500;

/// WIT text of a type; what needs a name is declared before.
fn wit(ty: &Type, declared: &mut String, count: &mut usize) -> String {
    let mut declare = |declared: &mut String, keyword: &str, body: String| {
        *count += 1;
        let name = format!("t{count}");
        writeln!(declared, "{keyword} {name} {{ {body} }}").unwrap();
        name
    };
    match ty {
        Type::List(item) => format!("list<{}>", wit(item, declared, count)),
        Type::Option(some) => format!("option<{}>", wit(some, declared, count)),
        Type::Result { ok, err } => {
            let ok = ok.as_ref().map_or_else(|| "_".to_owned(), |ty| wit(ty, declared, count));
            match err {
                Some(err) => format!("result<{ok}, {}>", wit(err, declared, count)),
                None if ok == "_" => "result".to_owned(),
                None => format!("result<{ok}>"),
            }
        }
        Type::Tuple(items) => {
            let items: Vec<String> = items.iter().map(|item| wit(item, declared, count)).collect();
            format!("tuple<{}>", items.join(", "))
        }
        Type::Record(fields) => {
            let mut body = String::new();
            for field in fields.iter() {
                let ty = wit(&field.ty, declared, count);
                write!(body, "%{}: {ty}, ", field.name).unwrap();
            }
            *count += 1;
            writeln!(declared, "record t{count} {{ {body} }}").unwrap();
            format!("t{count}")
        }
        Type::Variant(cases) => {
            let mut body = String::new();
            for case in cases.iter() {
                let payload = case.ty.as_ref().map(|ty| format!("({})", wit(ty, declared, count)));
                write!(body, "%{}{}, ", case.name, payload.unwrap_or_default()).unwrap();
            }
            *count += 1;
            writeln!(declared, "variant t{count} {{ {body} }}").unwrap();
            format!("t{count}")
        }
        Type::Enum(names) => {
            let body = names.iter().map(|name| format!("%{name}, ")).collect();
            declare(declared, "enum", body)
        }
        Type::Flags(names) => {
            let body = names.iter().map(|name| format!("%{name}, ")).collect();
            declare(declared, "flags", body)
        }
        plain => plain.to_string(),
    }
}

/// A guest that hands its parameter to an import and the import's result back.
pub(super) struct Echo {
    pub(super) store: Store<()>,
    pub(super) function: Func,
    pub(super) signature: Signature,
}

/// What the host's side of the import does with the bytes: nothing.
struct Same;

impl Import<()> for Same {
    fn run<'a>(&'a self, _: StoreContextMut<'a, ()>, params: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move { Ok(params) })
    }
}

fn core_type(ty: &WasmType) -> &'static str {
    match ty {
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        WasmType::F32 => "f32",
        WasmType::F64 => "f64",
        _ => "i32",
    }
}

/// The component text and core module; the result carries a second value so that it always lies in memory.
fn echo_component(ty: &Type, encoding: wit_component::StringEncoding) -> Vec<u8> {
    let (mut declared, mut count) = (String::new(), 0);
    let text = wit(ty, &mut declared, &mut count);
    let interface = |name: &str| format!("interface {name} {{ {declared}\n f: func(p: {text}) -> {text}; }}");
    let source =
        format!("package a:b; {} {} world w {{ import i; export o; }}", interface("i"), interface("o"));
    let (resolve, world) = resolve(&source);
    let function = resolve.interfaces.iter().find(|(_, it)| it.name.as_deref() == Some("i"));
    let sig = resolve.wasm_signature(AbiVariant::GuestImport, &function.unwrap().1.functions["f"]);
    let imported: Vec<&str> = sig.params.iter().map(core_type).collect();
    let results: Vec<&str> = sig.results.iter().map(core_type).collect();
    let own = if sig.retptr { &imported[..imported.len() - 1] } else { &imported[..] };
    let arguments: String = (0..own.len()).map(|at| format!("local.get {at} ")).collect();
    let (pointer, result) =
        if sig.retptr { ("i32.const 1024", "i32") } else { ("", results.first().copied().unwrap_or("")) };
    let back = if sig.retptr { "i32.const 1024" } else { "" };
    let core = format!(
        r#"(module
  (import "a:b/i" "f" (func $f (param {}) (result {})))
  (memory (export "memory") 40)
  (global $top (mut i32) (i32.const 65536))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (if (i32.eqz (local.get 0)) (then) (else (return (local.get 0))))
    (global.set $top (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
    global.get $top (global.set $top (i32.add (global.get $top) (local.get 3))))
  (func (export "cabi_post_a:b/o#f") {} (global.set $top (i32.const 65536)))
  (func (export "a:b/o#f") (param {}) (result {result}) {arguments} {pointer} call $f {back}))"#,
        imported.join(" "),
        results.join(" "),
        if result.is_empty() { String::new() } else { format!("(param {result})") },
        own.join(" "),
    );
    encode_as(&resolve, world, wat::parse_str(core).unwrap(), encoding)
}

impl Echo {
    pub(super) async fn new(engine: &Engine, ty: &Type, bytes: &[u8], fast_import: bool) -> Self {
        let component = Component::new(engine, bytes).unwrap();
        let mut linker = Linker::new(engine);
        let signature = Signature {
            params: vec![("p".to_owned(), ty.clone())],
            result: Some(ty.clone()),
            is_async: false,
        };
        let mut instance = linker.instance("a:b/i").unwrap();
        let in_memory = layout::flat_count(ty) > FLAT_RESULTS_MAX;
        if !(fast_import
            && in_memory
            && import(&mut instance, "f", params_count(&signature), Arc::new(Same)).unwrap())
        {
            instance
                .func_new_async("f", |_, _, params, results| {
                    Box::new(async move {
                        results.clone_from_slice(params);
                        Ok(())
                    })
                })
                .unwrap();
        }
        let mut store = Store::new(engine, ());
        store.set_epoch_deadline(1 << 40);
        let instance = linker.instantiate_async(&mut store, &component).await.unwrap();
        let outer = instance.get_export_index(&mut store, None, "a:b/o").unwrap();
        let index = instance.get_export_index(&mut store, Some(&outer), "f").unwrap();
        let function = instance.get_func(&mut store, index).unwrap();
        Self { store, function, signature }
    }

    pub(super) async fn dynamic(&mut self, args: &[u8]) -> Result<Vec<u8>> {
        let params = value::decode_params(&self.signature, args)?;
        let mut results = [Val::Bool(false)];
        self.function.call_async(&mut self.store, &params, &mut results).await?;
        Ok(value::encode_result(&self.signature, results.first(), BYTES_MAX)?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_and_dynamic_give_the_same_bytes_for_a_hundred_thousand_values() {
    let engine = compiling_engine(&EngineConfig::default(), EngineVariant::PLAIN).unwrap();
    let (mut cases, mut fast_types) = (0_usize, 0_usize);
    for seed in 0..TYPES {
        let mut random = generate::Random(seed);
        let ty = random.ty(4);
        let component = echo_component(&ty, wit_component::StringEncoding::UTF8);
        let mut echo = Echo::new(&engine, &ty, &component, true).await;
        let Some(call) = export(&echo.function, &echo.store, &echo.signature) else {
            assert!(params_count(&echo.signature) > FLAT_MAX, "seed {seed}: {ty} has no fast path");
            continue;
        };
        fast_types += 1;
        let mut oracle = Echo::new(&engine, &ty, &component, false).await;
        for index in 0..VALUES {
            let mut encoder = Encoder::new(BYTES_MAX);
            random.value(&ty, &mut encoder);
            let bytes = encoder.finish();
            let fast = call.call(&mut echo.store, bytes.clone()).await;
            let fast = fast.unwrap_or_else(|error| panic!("seed {seed}, value {index}, {ty}: {error:?}"));
            assert_eq!(fast, bytes, "seed {seed}, value {index}, {ty}");
            if index % 4 == 0 {
                assert_eq!(oracle.dynamic(&bytes).await.unwrap(), bytes, "seed {seed}, value {index}, {ty}");
            }
            cases += 1;
        }
    }
    println!("{cases} values of {fast_types} types");
    assert!(cases >= 100_000, "{cases} values only");
}

#[tokio::test]
async fn strings_in_utf_16_are_the_same_bytes() {
    let engine = compiling_engine(&EngineConfig::default(), EngineVariant::PLAIN).unwrap();
    let ty = Type::Tuple([Type::String, Type::List(Arc::new(Type::String))].into());
    for encoding in [wit_component::StringEncoding::UTF16, wit_component::StringEncoding::CompactUTF16] {
        let component = echo_component(&ty, encoding);
        let mut echo = Echo::new(&engine, &ty, &component, true).await;
        let call = export(&echo.function, &echo.store, &echo.signature).unwrap();
        let mut encoder = Encoder::new(BYTES_MAX);
        encoder.string("grün 🌾").unwrap();
        encoder.count(2).unwrap();
        encoder.string("é").unwrap();
        encoder.string("").unwrap();
        let bytes = encoder.finish();
        assert_eq!(call.call(&mut echo.store, bytes.clone()).await.unwrap(), bytes);
        assert_eq!(echo.dynamic(&bytes).await.unwrap(), bytes);
    }
}

#[test]
fn wasmtime_is_the_version_that_the_safety_argument_was_made_for() {
    let lock = include_str!("../../../../../Cargo.lock");
    let at = lock.find("name = \"wasmtime\"\n").unwrap();
    let version = lock[at..].lines().nth(1).unwrap();
    assert!(version.starts_with("version = \"48."), "{version}: read src/fast.rs again, against its sources");
}

#[test]
fn bad_bytes_are_the_same_error_on_both_paths() {
    let ty = Type::Tuple([Type::Bool, Type::String, Type::Char].into());
    let signature = Signature { params: vec![("p".to_owned(), ty)], result: None, is_async: false };
    let cases: [&[u8]; 5] =
        [&[2], &[1, 9, 0, 0, 0], &[1, 1, 0, 0, 0, 0xff, 0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0xd8, 0, 0], &[]];
    for bytes in cases {
        let fast = granary_wit::validate_args(&signature, bytes, BYTES_MAX).unwrap_err();
        assert_eq!(value::decode_params(&signature, bytes).unwrap_err(), value::ValueError::Wire(fast));
        assert!(!matches!(fast, WireError::TooLarge { .. }));
    }
}
