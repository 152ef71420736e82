//! A grain that tries to reach files, the network and the environment of its host by the ordinary means of std.

use std::fmt::Display;
use std::fs;
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket};

use granary_guest::prelude::*;

/// The grain. It keeps nothing.
#[grain(interface = "granary-tests:denied/denied")]
#[derive(Debug, Default)]
pub struct DeniedGrain;

fn text(error: impl Display) -> String {
    error.to_string()
}

impl contract::Denied for DeniedGrain {
    fn read_file(&mut self, path: String) -> Result<u64, String> {
        fs::read(path).map(|bytes| bytes.len() as u64).map_err(text)
    }

    fn write_file(&mut self, path: String) -> Result<(), String> {
        fs::write(path, b"a grain was here").map_err(text)
    }

    fn list_folder(&mut self, path: String) -> Result<u64, String> {
        fs::read_dir(path).map(|entries| entries.count() as u64).map_err(text)
    }

    fn connect(&mut self, address: String) -> Result<(), String> {
        TcpStream::connect(address).map(drop).map_err(text)
    }

    fn listen(&mut self, address: String) -> Result<(), String> {
        TcpListener::bind(address).map(drop).map_err(text)
    }

    fn send(&mut self, address: String) -> Result<(), String> {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(text)?;
        socket.send_to(b"a grain was here", address).map(drop).map_err(text)
    }

    fn resolve(&mut self, host: String) -> Result<u64, String> {
        (host.as_str(), 80).to_socket_addrs().map(|addresses| addresses.count() as u64).map_err(text)
    }

    fn environment(&mut self) -> Vec<String> {
        let variables = std::env::vars_os().map(|(name, value)| format!("{name:?}={value:?}"));
        variables.chain(std::env::args_os().map(|argument| format!("{argument:?}"))).collect()
    }
}
