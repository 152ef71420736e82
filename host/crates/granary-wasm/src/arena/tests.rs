//! Memories keep what they hold and give nothing away; stacks are guarded while that is cheap.

use std::sync::Arc;

use wasmtime::{
    Config, Engine, Instance, LinearMemory, MemoryCreator, MemoryType, Module, StackCreator, Store,
};

use super::*;

fn memory(arena: &MemoryArena, bytes: usize) -> Box<dyn LinearMemory> {
    arena.new_memory(MemoryType::new(0, None), bytes, None, Some(0), 0).unwrap()
}

#[expect(clippy::mut_from_ref, reason = "a memory hands out its bytes; the tests take one slice at a time")]
fn bytes(memory: &dyn LinearMemory) -> &mut [u8] {
    // SAFETY: the memory is at least that long, and the tests have one slice of it at a time.
    unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), memory.byte_size()) }
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn a_memory_keeps_its_content_as_it_grows_and_what_it_gains_is_zero() {
    let arena = MemoryArena::default();
    let mut memory = memory(&arena, 64 << 10);
    let mut length = 0;
    for size in [64 << 10, 256 << 10, 257 << 10, 2 << 20, 3 << 20, 5 << 20, 16 << 20, 17 << 20] {
        memory.grow_to(size).unwrap();
        assert!(memory.byte_capacity() >= size);
        let all = bytes(memory.as_ref());
        assert_eq!(all.len(), size);
        assert!(all[..length].iter().all(|byte| *byte == 7), "content is lost at {size}");
        assert!(all[length..].iter().all(|byte| *byte == 0), "dirty pages at {size}");
        all.fill(7);
        length = size;
    }
}

#[test]
fn what_one_memory_held_no_other_one_sees() {
    let arena = MemoryArena::default();
    for round in 0..3 {
        let all: Vec<_> = (0..20).map(|_| memory(&arena, 192 << 10)).collect();
        for one in &all {
            let content = bytes(one.as_ref());
            assert!(content.iter().all(|byte| *byte == 0), "round {round}");
            content.fill(1);
        }
    }
}

#[test]
fn a_thousand_memories_need_a_handful_of_mappings() {
    let (arena, before) = (MemoryArena::default(), mappings());
    let all: Vec<_> = (0..1_000).map(|_| memory(&arena, 1 << 20)).collect();
    all.iter().for_each(|one| bytes(one.as_ref())[0] = 1);
    // Other tests run beside this one, so the bound leaves room.
    assert!(mappings() < before + 200, "{before} mappings before, {} after", mappings());
}

#[test]
fn a_reservation_or_a_guard_is_refused() {
    let arena = MemoryArena::default();
    for (reserved, guard) in [(Some(4 << 30), 0), (Some(0), 4096)] {
        assert!(arena.new_memory(MemoryType::new(0, None), 0, None, reserved, guard).is_err());
    }
}

#[test]
fn stacks_are_aligned_writable_reused_and_guarded() {
    let arena = StackArena::new(100_000);
    let first = arena.new_stack(100_000, false).unwrap();
    let range = first.range();
    assert_eq!(range.start % PAGE_BYTES, 0);
    assert_eq!(range.end, first.top().addr());
    assert!(range.len() >= 100_000);
    assert_eq!(first.guard_range().end.addr(), range.start);
    assert_eq!(first.guard_range().start.addr() + PAGE_BYTES, range.start);
    // SAFETY: the top byte belongs to the stack.
    unsafe { first.top().sub(1).write(9) };
    drop(first);
    let again = arena.new_stack(100_000, true).unwrap();
    assert_eq!(again.range(), range);
    // SAFETY: as above.
    assert_eq!(unsafe { again.top().sub(1).read() }, 0);
    assert!(arena.new_stack(200_000, false).is_err());
}

#[test]
fn guards_end_before_mappings_do() {
    let arena = StackArena::new(PAGE_BYTES);
    let all: Vec<_> =
        (0..GUARDED_STACKS_MAX + 100).map(|_| arena.new_stack(PAGE_BYTES, false).unwrap()).collect();
    let guarded = all.iter().filter(|stack| !stack.guard_range().is_empty()).count();
    assert_eq!(guarded, GUARDED_STACKS_MAX);
}

/// Grows its memory page by page, and writes to the first and the last byte of each page.
const GROWS: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "run") (param $pages i32) (result i32)
        (local $at i32)
        (loop $more
            (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (return (i32.const -1))))
            (local.set $at (i32.mul (i32.sub (memory.size) (i32.const 1)) (i32.const 65536)))
            (i32.store8 (local.get $at) (memory.size))
            (i32.store8 (i32.add (local.get $at) (i32.const 65535)) (memory.size))
            (br_if $more (i32.lt_u (memory.size) (local.get $pages))))
        (memory.size))
    (func (export "beyond") (result i32)
        (i32.load8_u (i32.mul (memory.size) (i32.const 65536)))))"#;

#[tokio::test]
async fn compiled_code_stays_inside_a_memory_that_moves() {
    let mut config = Config::new();
    config
        .memory_reservation(0)
        .memory_reservation_for_growth(0)
        .memory_guard_size(0)
        .guard_before_linear_memory(false)
        .memory_init_cow(false)
        .with_host_memory(Arc::new(MemoryArena::default()))
        .with_host_stack(Arc::new(StackArena::new(2 << 20)));
    let engine = Engine::new(&config).unwrap();
    let module = Module::new(&engine, wat::parse_str(GROWS).unwrap()).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = Instance::new_async(&mut store, &module, &[]).await.unwrap();
    let run = instance.get_typed_func::<u32, u32>(&mut store, "run").unwrap();
    assert_eq!(run.call_async(&mut store, 100).await.unwrap(), 100);
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    for page in 1..100_u8 {
        let at = usize::from(page) << 16;
        let data = memory.data(&store);
        assert_eq!((data[at], data[at + 65_535]), (page + 1, page + 1));
    }
    let beyond = instance.get_typed_func::<(), u32>(&mut store, "beyond").unwrap();
    let trap = beyond.call_async(&mut store, ()).await.unwrap_err();
    assert_eq!(trap.downcast_ref::<wasmtime::Trap>(), Some(&wasmtime::Trap::MemoryOutOfBounds));
}
