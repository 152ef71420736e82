//! The process's exit codes: documented constants, in `docs/cli.md` and tested.

/// All went well.
pub const OK: u8 = 0;
/// Something failed that has no code of its own: a grain trapped, an outcome is unknown.
pub const FAILED: u8 = 1;
/// The command line was wrong (clap's own).
pub const USAGE: u8 = 2;
/// A setting was wrong: a port in use, a data directory that cannot be used, a name that is taken.
pub const CONFIG: u8 = 64;
/// The input was wrong: a bad component, ill-typed arguments, a type, method or silo that does not exist.
pub const DATA: u8 = 65;
/// The silo cannot be reached.
pub const UNAVAILABLE: u8 = 69;
/// A defect of ours.
pub const INTERNAL: u8 = 70;
/// It may work later: overload, a silo that is joining or leaving.
pub const TEMPORARY: u8 = 75;
/// Not permitted.
pub const NOT_PERMITTED: u8 = 77;
/// A second signal stopped the process at once.
pub const TERMINATED: u8 = 143;
