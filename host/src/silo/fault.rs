//! The last words of a silo that dies of a fault: which component's turn ran on the thread that failed.
//!
//! While a thread polls a turn, a thread-local points at the [`Mark`] of the turn's component. Handlers of the signals
//! that faults and aborts raise write that mark into a file that was opened when the silo started, and pass the signal
//! on. A turn that waits, and turns of other threads, are not marked; neither is a silo that is killed from outside
//! (SIGKILL, an operator's signal, the kernel's lack of memory): nobody is blamed for those.
//!
//! The file is `silos/NAME/fault` in the data directory, empty unless that silo's last run ended so. It has one line:
//! generation, digest, signal.
//!
//! # Safety
//!
//! 1. *The handler does only what a handler may.* It reads a thread-local that is initialised by a constant and has no
//!    destructor, reads memory that [`inside`] keeps borrowed, swaps an atomic, and makes two system calls (`getpid`,
//!    `pwrite`). It allocates nothing and takes no lock.
//! 2. *The thread-local's pointer is valid.* It is set and reset by [`inside`] alone, on its own thread, and the mark
//!    is borrowed in between; a nested call restores the outer one.
//! 3. *Who had the signal before gets it.* The previous handler is called as it was installed; where there was none,
//!    the default action is restored and the signal raised again. wasmtime installs its handlers later, so that they
//!    come first and only what is no trap of a guest arrives here.
#![expect(unsafe_code, reason = "handlers of signals are unsafe; see the argument above")]

use std::cell::Cell;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::UNIX_EPOCH;

use granary_core::id::Digest;
use granary_core::quarantine::Death;
use libc::{c_int, siginfo_t};

use super::home;

/// The longest file that is read, in bytes; a line has less than half of it.
const FILE_BYTES_MAX: u64 = 256;

/// The signals of faults and aborts.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGSEGV, "SIGSEGV"),
];

/// What had each signal before.
static PREVIOUS: [OnceLock<libc::sigaction>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];

/// The first fault is the one to report: another may follow from it.
static WRITTEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The mark of the turn that this thread polls.
    static INSIDE: Cell<*const Mark> = const { Cell::new(ptr::null()) };
}

/// What is written should a turn of this component end the process.
#[derive(Debug)]
pub(super) struct Mark {
    file: Arc<File>,
    /// A line for each of [`SIGNALS`].
    lines: [Box<[u8]>; SIGNALS.len()],
}

impl Mark {
    pub(super) fn new(file: &Arc<File>, generation: i32, digest: &Digest) -> Self {
        let line = |(_, name)| format!("{generation} {digest} {name}\n").into_bytes().into_boxed_slice();
        Self { file: Arc::clone(file), lines: SIGNALS.map(line) }
    }
}

/// Runs `run`, which may be ended by a fault of the mark's component.
pub(super) fn inside<T>(mark: &Mark, run: impl FnOnce() -> T) -> T {
    struct Outer(*const Mark);
    impl Drop for Outer {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _outer = Outer(INSIDE.replace(ptr::from_ref(mark)));
    run()
}

/// Installs the handlers, once for the process; before the first engine of wasmtime is made.
pub(super) fn install() -> io::Result<()> {
    static ONCE: Once = Once::new();
    let mut installed = Ok(());
    ONCE.call_once(|| {
        installed = SIGNALS.iter().zip(&PREVIOUS).try_for_each(|((signal, _), previous)| {
            let found = take_over(*signal)?;
            let _ = previous.set(found);
            Ok(())
        });
    });
    installed
}

/// Makes [`on_fault`] the handler of a signal; returns what it was before.
fn take_over(signal: c_int) -> io::Result<libc::sigaction> {
    let mut previous = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: all zeros is a valid `sigaction`, both pointers are valid for the call, and the handler has the signature
    // that SA_SIGINFO asks for. The kernel has filled `previous` when it says that it succeeded.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
        // On the alternate stack, which the runtime gives each thread: the fault may be that the stack is full.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(signal, &raw const action, previous.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(previous.assume_init())
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(position) = SIGNALS.iter().position(|(number, _)| *number == signal) else { return };
    let mark = INSIDE.get();
    // SAFETY: the kernel's `info` is valid for the handler (point 1); the mark is borrowed as long as the pointer is
    // set (point 2).
    unsafe {
        // A fault, or the process's own abort; not a signal that somebody else sent.
        let own = (*info).si_code > 0 || (*info).si_pid() == libc::getpid();
        if own
            && let Some(mark) = mark.as_ref()
            && !WRITTEN.swap(true, Ordering::Relaxed)
            && let Some(line) = mark.lines.get(position)
        {
            let _ = rustix::io::pwrite(&*mark.file, line, 0);
        }
    }
    pass_on(signal, position, info, context);
}

/// Gives the signal to who had it before.
fn pass_on(signal: c_int, position: usize, info: *mut siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get(position).and_then(OnceLock::get);
    let handler = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    if handler == libc::SIG_IGN {
        return;
    }
    // SAFETY: what stands in `sa_sigaction` is one of the two constants, or a handler with the signature that its
    // flags say (point 3). `signal` and `raise` are among what a handler may call.
    unsafe {
        if handler == libc::SIG_DFL {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        } else if previous.is_some_and(|previous| previous.sa_flags & libc::SA_SIGINFO != 0) {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}

fn path(data: &Path, silo: &str) -> PathBuf {
    data.join("silos").join(silo).join("fault")
}

/// Opens the silo's file, empty: what its last run left is gone.
pub(super) fn open(data: &Path, silo: &str) -> io::Result<Arc<File>> {
    File::create(path(data, silo)).map(Arc::new)
}

/// The death that a silo of this data directory left; `None` also when its file is not here or says nothing.
pub(super) fn last(data: &Path, silo: &str) -> Option<Death> {
    if !home::is_name(silo) {
        return None;
    }
    let path = path(data, silo);
    let meta = std::fs::metadata(&path).ok()?;
    if meta.len() > FILE_BYTES_MAX {
        return None;
    }
    let text = std::fs::read_to_string(&path).ok()?;
    let at_s = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let mut words = text.strip_suffix('\n')?.split(' ');
    let (generation, digest, cause) = (words.next()?, words.next()?, words.next()?);
    let (_, cause) = SIGNALS.iter().find(|(_, name)| *name == cause)?;
    Some(Death {
        digest: digest.parse().ok()?,
        silo: silo.to_owned(),
        generation: generation.parse().ok()?,
        cause: (*cause).to_owned(),
        at_s,
        forgiven: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_as_a_death_and_an_empty_file_as_none() {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(data.path().join("silos/a")).unwrap();
        assert_eq!(last(data.path(), "a"), None);
        let file = open(data.path(), "a").unwrap();
        assert_eq!(last(data.path(), "a"), None);
        let digest = Digest::of(b"component");
        let mark = Mark::new(&file, 7, &digest);
        for (line, (_, name)) in mark.lines.iter().zip(SIGNALS) {
            std::fs::write(path(data.path(), "a"), line).unwrap();
            let death = last(data.path(), "a").unwrap();
            assert_eq!((death.digest, death.generation, death.cause.as_str()), (digest, 7, name));
        }
        for torn in ["7", "7 sha256:00 SIGSEGV\n", "x\n", &"7 ".repeat(200)] {
            std::fs::write(path(data.path(), "a"), torn).unwrap();
            assert_eq!(last(data.path(), "a"), None, "{torn:?}");
        }
        assert_eq!(last(&data.path().join("silos/a"), "../.."), None, "a name that is a path");
        drop(open(data.path(), "a").unwrap());
        assert_eq!(last(data.path(), "a"), None);
    }

    /// Says to the test below that it is the process that dies, and of what.
    const DIES: &str = "GRANARY_TEST_DIES";

    #[test]
    fn a_fault_inside_a_turn_leaves_its_component_and_ends_the_process_by_its_signal() {
        use std::os::unix::process::ExitStatusExt as _;

        if let Ok(how) = std::env::var(DIES) {
            die(&how);
        }
        for (how, signal, left) in [
            ("segv", libc::SIGSEGV, Some("SIGSEGV")),
            ("abort", libc::SIGABRT, Some("SIGABRT")),
            ("ill", libc::SIGILL, Some("SIGILL")),
            ("segv outside", libc::SIGSEGV, None),
            ("kill", libc::SIGKILL, None),
        ] {
            let data = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(data.path().join("silos/a")).unwrap();
            let name = std::thread::current().name().unwrap().to_owned();
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &name, "--nocapture"])
                .env(DIES, how)
                .env("DATA", data.path())
                .output()
                .unwrap();
            assert_eq!(child.status.signal(), Some(signal), "{how}: {child:?}");
            let death = last(data.path(), "a");
            assert_eq!(death.as_ref().map(|it| it.cause.as_str()), left, "{how}: {death:?}");
            assert!(death.is_none_or(|it| it.digest == Digest::of(b"bad") && it.generation == 3), "{how}");
        }
    }

    /// Ends the process as a silo would end: with wasmtime's handlers before ours.
    fn die(how: &str) {
        install().unwrap();
        let _engine = granary_wasm::WasmEngine::new(&granary_wasm::EngineConfig::default()).unwrap();
        let file = open(Path::new(&std::env::var("DATA").unwrap()), "a").unwrap();
        let mark = Mark::new(&file, 3, &Digest::of(b"bad"));
        // SAFETY: nothing lies at that address, which is what the process is to die of.
        let fault = || unsafe { ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
        match how {
            "segv" => inside(&mark, fault),
            "abort" => inside(&mark, || std::process::abort()),
            // SAFETY: the instruction has no effect but the fault.
            "ill" => inside(&mark, || unsafe { std::arch::asm!("ud2") }),
            "kill" => inside(&mark, || {
                let me = rustix::process::getpid();
                rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
            }),
            _ => fault(),
        }
        unreachable!("the process lives on");
    }

    #[test]
    fn the_innermost_turn_is_marked_and_the_outer_one_after_it() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let [outer, inner] = [b"outer", b"inner"].map(|bytes| Mark::new(&file, 1, &Digest::of(bytes)));
        inside(&outer, || {
            assert_eq!(INSIDE.get(), ptr::from_ref(&outer));
            let panicked = std::panic::catch_unwind(|| inside(&inner, || panic!("a test's panic")));
            assert!(panicked.is_err());
            assert_eq!(INSIDE.get(), ptr::from_ref(&outer));
            inside(&inner, || assert_eq!(INSIDE.get(), ptr::from_ref(&inner)));
        });
        assert!(INSIDE.get().is_null());
    }
}
