use std::path::Path;

use super::*;
use crate::engine::EngineConfig;
use crate::testing;

const WIT: &str = "package acme:t; interface t { f: func(); } world w { export t; }";

const SYNC: EngineVariant = EngineVariant::PLAIN;
const ASYNC: EngineVariant = EngineVariant { asynchronous: true, memory: crate::MemoryLayout::Compact };

/// Not a test: the compiling program of the tests below, which is this test binary called once more.
#[test]
fn child_process() {
    if std::env::var_os(child::ENV_OUTPUT).is_some() {
        std::process::exit(i32::from(child::compile()));
    }
}

fn command() -> CompileCommand {
    CompileCommand {
        program: std::env::current_exe().unwrap(),
        args: ["artifact::tests::child_process", "--exact", "--test-threads=1"].map(OsString::from).into(),
    }
}

fn compiler(dir: &Path, command: CompileCommand) -> Compiler {
    let config = CompilerConfig { cache_dir: dir.join("cache"), key_file: dir.join("host.key"), command };
    Compiler::open(&WasmEngine::new(&EngineConfig::default()).unwrap(), &config).unwrap()
}

fn no_program() -> CompileCommand {
    CompileCommand { program: "/nowhere/at/all".into(), args: vec![] }
}

#[tokio::test]
async fn a_component_is_compiled_once_and_then_found() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = testing::dummy(WIT);
    compiler(dir.path(), command()).compile(&bytes, SYNC).await.unwrap();
    // A compiler that cannot compile finds it, with the key that is there.
    compiler(dir.path(), no_program()).compile(&bytes, SYNC).await.unwrap();
    let names: Vec<_> = std::fs::read_dir(dir.path().join("cache"))
        .unwrap()
        .map(|entry| entry.unwrap().path().extension().unwrap().to_owned())
        .collect();
    assert!(names.iter().all(|name| name == "cwasm" || name == "lock"), "{names:?}");
}

#[tokio::test]
async fn changed_code_is_never_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = testing::dummy(WIT);
    let compiler = compiler(dir.path(), command());
    compiler.compile(&bytes, SYNC).await.unwrap();
    let path = compiler.target(SYNC).cache.artifact_path(Digest::of(&bytes));
    let good = std::fs::read(&path).unwrap();
    for position in [0, 20, 60, 85, 100, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[position] ^= 1;
        std::fs::write(&path, bad).unwrap();
        assert!(compiler.target(SYNC).cache.load(Digest::of(&bytes)).is_err(), "byte {position}");
    }
    std::fs::write(&path, &good[..50]).unwrap();
    assert!(compiler.target(SYNC).cache.load(Digest::of(&bytes)).is_err());
    // An entry made with another host's key.
    let other = tempfile::tempdir().unwrap();
    let foreign = self::compiler(other.path(), command());
    foreign.target(SYNC).cache.store(Digest::of(&bytes), b"native code of somebody").unwrap();
    std::fs::copy(foreign.target(SYNC).cache.artifact_path(Digest::of(&bytes)), &path).unwrap();
    assert!(compiler.target(SYNC).cache.load(Digest::of(&bytes)).unwrap_err().contains("authentication"));
    // It is made again, and then sound.
    compiler.compile(&bytes, SYNC).await.unwrap();
    assert!(compiler.target(SYNC).cache.load(Digest::of(&bytes)).unwrap().is_some());
}

#[tokio::test]
async fn a_refused_component_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let compiler = compiler(dir.path(), command());
    let error = compiler.compile(b"\0asm\x0d\0\x01\0garbage", SYNC).await.unwrap_err();
    assert!(matches!(error, CompileError::Refused(_)), "{error}");
    let error = self::compiler(dir.path(), no_program()).compile(b"x", SYNC).await.unwrap_err();
    assert!(matches!(error, CompileError::Start { .. }), "{error}");
}

#[tokio::test]
async fn a_compiler_that_hangs_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let command = CompileCommand { program: "/bin/sleep".into(), args: vec!["1000".into()] };
    let error = process::compile(&command, b"x", SYNC, &dir.path().join("o"), Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(matches!(error, CompileError::GivenUp(_)), "{error}");
}

#[test]
fn only_the_user_can_read_the_key_and_all_silos_share_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("host.key");
    HostKey::load_or_create(&path).unwrap();
    let first = std::fs::read(&path).unwrap();
    HostKey::load_or_create(&path).unwrap();
    assert_eq!(first, std::fs::read(&path).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&path, b"short").unwrap();
    assert!(HostKey::load_or_create(&path).is_err());
}

#[tokio::test]
async fn code_for_one_engine_is_never_taken_for_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = testing::dummy(WIT);
    compiler(dir.path(), command()).compile(&bytes, SYNC).await.unwrap();
    let blind = compiler(dir.path(), no_program());
    assert!(blind.compile(&bytes, ASYNC).await.is_err(), "the cache has other code only");
    compiler(dir.path(), command()).compile(&bytes, ASYNC).await.unwrap();
    // The child compiled for the engine that was named, else this would be a `Foreign` error.
    blind.compile(&bytes, ASYNC).await.unwrap();
    blind.compile(&bytes, SYNC).await.unwrap();
}
