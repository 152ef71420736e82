//! What a guest writes: lines from `logging`, stdout and stderr, bounded in length and rate, escaped, and handed
//! to the activation's host. Also keeps a panic's message, so that the caller of the turn can be told it.

use std::time::{Duration, Instant};

use granary_core::hosting::{ActivationHost, LogLevel};

use crate::text::{LOG_LINE_BYTES_MAX, MESSAGE_BYTES_MAX, bounded};

/// Lines that one activation may write in a second; the rest is counted and dropped.
const LINES_PER_SECOND_MAX: u32 = 1_000;

/// The longest target of a line, in bytes.
const TARGET_BYTES_MAX: usize = 128;

/// Where a byte stream of the guest goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The output of one activation.
#[derive(Debug)]
pub(crate) struct GuestLog {
    /// The begun lines of the two streams.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    panic: Panic,
    /// The second that is being counted, and what happened in it.
    second: Instant,
    lines: u32,
    dropped: u64,
}

/// The message of a Rust panic, as far as it was seen.
#[derive(Debug, Default)]
enum Panic {
    #[default]
    None,
    /// After the line `thread '…' panicked at src/lib.rs:1:2:`, while its message goes on.
    Reading {
        place: String,
        message: String,
    },
    Read {
        place: String,
        message: String,
    },
}

impl GuestLog {
    pub(crate) fn new() -> Self {
        Self {
            stdout: Vec::new(),
            stderr: Vec::new(),
            panic: Panic::None,
            second: Instant::now(),
            lines: 0,
            dropped: 0,
        }
    }

    /// Adds bytes to a stream and passes on the lines that are complete. A line that is too long is cut into
    /// several.
    pub(crate) fn write(&mut self, host: &dyn ActivationHost, stream: Stream, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            for part in piece.chunks(LOG_LINE_BYTES_MAX) {
                let buffer = self.buffer(stream);
                buffer.extend_from_slice(part);
                if part.last() == Some(&b'\n') || buffer.len() >= LOG_LINE_BYTES_MAX {
                    let line = std::mem::take(buffer);
                    self.stream_line(host, stream, &line);
                }
            }
        }
    }

    /// Passes on begun lines; at the end of a turn.
    pub(crate) fn flush(&mut self, host: &dyn ActivationHost) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let line = std::mem::take(self.buffer(stream));
            if !line.is_empty() {
                self.stream_line(host, stream, &line);
            }
        }
    }

    /// One record of the `logging` interface.
    pub(crate) fn record(&mut self, host: &dyn ActivationHost, level: LogLevel, target: &str, message: &str) {
        for line in message.lines() {
            self.watch_for_panic(line);
        }
        self.line(host, level, target, message);
    }

    /// The message of the panic that ended a turn, in one line, if there was one; forgets it.
    pub(crate) fn take_panic(&mut self) -> Option<String> {
        match std::mem::take(&mut self.panic) {
            Panic::None => None,
            Panic::Reading { place, message } | Panic::Read { place, message } => {
                Some(if message.is_empty() { format!("at {place}") } else { message })
            }
        }
    }

    fn buffer(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn stream_line(&mut self, host: &dyn ActivationHost, stream: Stream, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        match stream {
            Stream::Stdout => self.line(host, LogLevel::Info, "stdout", text),
            Stream::Stderr => {
                self.watch_for_panic(text);
                self.line(host, LogLevel::Warn, "stderr", text);
            }
        }
    }

    fn line(&mut self, host: &dyn ActivationHost, level: LogLevel, target: &str, text: &str) {
        if self.second.elapsed() >= Duration::from_secs(1) {
            if self.dropped > 0 {
                let text = format!(
                    "{} lines were dropped: more than {LINES_PER_SECOND_MAX} in a second",
                    self.dropped
                );
                host.log(LogLevel::Warn, "granary", &text);
            }
            self.second = Instant::now();
            self.lines = 0;
            self.dropped = 0;
        }
        if self.lines >= LINES_PER_SECOND_MAX {
            self.dropped += 1;
            return;
        }
        self.lines += 1;
        host.log(level, &bounded(target, TARGET_BYTES_MAX), &bounded(text, LOG_LINE_BYTES_MAX));
    }

    /// Follows what Rust's standard panic hook prints: a line with the place, the message, then notes.
    fn watch_for_panic(&mut self, line: &str) {
        if let Some((_, place)) = line.split_once("panicked at ") {
            let place = bounded(place.trim().trim_end_matches(':'), MESSAGE_BYTES_MAX);
            self.panic = Panic::Reading { place, message: String::new() };
            return;
        }
        let Panic::Reading { place, message } = &mut self.panic else { return };
        let ended = line.is_empty() || line.starts_with("note: ") || line.starts_with("stack backtrace");
        if ended || message.len() >= MESSAGE_BYTES_MAX {
            self.panic = Panic::Read { place: std::mem::take(place), message: std::mem::take(message) };
            return;
        }
        if !message.is_empty() {
            message.push(' ');
        }
        message.push_str(&bounded(line.trim(), MESSAGE_BYTES_MAX));
    }
}
