//! A measurement, not a gate: `cargo test --release -p granary-wasm -- --ignored --nocapture nanoseconds`.

use granary_wit::Field;

use super::*;

#[tokio::test]
#[ignore = "a measurement, run by hand in a release build"]
async fn nanoseconds_for_each_call_of_an_echo() {
    let engine = compiling_engine(&EngineConfig::default(), EngineVariant::PLAIN).unwrap();
    let field = |name: &str, ty| Field { name: name.into(), ty };
    let record = Type::Record(
        [
            field("id", Type::U64),
            field("name", Type::String),
            field("score", Type::F64),
            field("alive", Type::Bool),
            field("tag", Type::Option(Arc::new(Type::U32))),
        ]
        .into(),
    );
    let mut encoder = Encoder::new(BYTES_MAX);
    encoder.u64(7).unwrap();
    encoder.string("alice").unwrap();
    encoder.f64(1.5).unwrap();
    encoder.bool(true).unwrap();
    encoder.case(1).unwrap();
    encoder.u32(9).unwrap();
    let sized = |length: u32| {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.resize(4 + length as usize, b'a');
        bytes
    };
    let shapes = [
        ("u64", Type::U64, vec![1; 8]),
        ("string of 100 B", Type::String, sized(100)),
        ("list<u8> of 1 KiB", Type::List(Arc::new(Type::U8)), sized(1024)),
        ("record of 5", record, encoder.finish()),
    ];
    for (name, ty, bytes) in shapes {
        let component = echo_component(&ty, wit_component::StringEncoding::UTF8);
        let mut fast = Echo::new(&engine, &ty, &component, true).await;
        let call = export(&fast.function, &fast.store, &fast.signature).unwrap();
        let rounds = 20_000_u32;
        let start = Instant::now();
        for _ in 0..rounds {
            granary_wit::validate_args(&fast.signature, &bytes, BYTES_MAX).unwrap();
            call.call(&mut fast.store, bytes.clone()).await.unwrap();
        }
        let quick = start.elapsed() / rounds;
        let mut dynamic = Echo::new(&engine, &ty, &component, false).await;
        let start = Instant::now();
        for _ in 0..rounds {
            dynamic.dynamic(&bytes).await.unwrap();
        }
        println!(
            "{name}: fast {} ns, dynamic {} ns",
            quick.as_nanos(),
            (start.elapsed() / rounds).as_nanos()
        );
    }
}
