//! A port that stays one server's own while the server is down.

use std::fs::File;
use std::net::TcpListener;

/// Below the range that the system gives to outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..28_000;

/// A port of the loopback address, held by a lock on a file against other tests, also those of other processes.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

impl Port {
    pub(crate) fn take() -> Self {
        let folder = std::env::temp_dir().join("granary-engines-ports");
        std::fs::create_dir_all(&folder).unwrap();
        let count = PORTS.end - PORTS.start;
        // Tests that start together begin their search at different places.
        let first = u16::try_from(std::process::id() % u32::from(count / 8)).unwrap() * 8;
        for step in 0..count {
            let number = PORTS.start + (first + step) % count;
            let lock = File::create(folder.join(number.to_string())).unwrap();
            let address = ("127.0.0.1", number);
            if lock.try_lock().is_ok() && TcpListener::bind(address).is_ok() {
                return Self { number, _lock: lock };
            }
        }
        panic!("no port from {} to {} is free", PORTS.start, PORTS.end);
    }
}
