//! Framed connections between silos: handshake, requests and responses, limits.
//!
//! [`Network`] owns the listener and one outgoing connection for each peer and [`Lane`]. A silo talks on the
//! connections that it opened and answers on those that others opened, so there is no tie to break when two
//! silos connect at the same time.
//!
//! Invariants:
//! - A frame is at most [`FRAME_BYTES_MAX`] long, and memory grows with the bytes that arrived, never with a
//!   length that was merely claimed.
//! - Nothing is delivered before the handshake has agreed on protocol, cluster and the exact incarnations.
//! - [`NetError::NotDelivered`] is returned only when no byte of the request was handed to a socket.
//! - Every queue is bounded by frames and by bytes; a full queue refuses, it never waits.
//! - A caller or a connection that goes away never cancels a handler that runs.
//! - With [`NetConfig::tls`], no frame is read or written outside TLS, and whoever shows no certificate of the
//!   cluster's CA that names its address is not answered.
//!
//! There is no cluster logic here: who is dead is told from outside ([`Network::peer_dead`]).

mod config;
mod dialer;
mod error;
mod frame;
mod handshake;
mod inbound;
mod link;
mod listener;
mod log_limit;
mod network;
mod secure;
mod stats;
mod transport;

pub use config::{NetConfig, NetLimits};
pub use error::NetError;
pub use frame::{FRAME_BYTES_MAX, Frame, FrameDecoder, FrameError, FrameKind, HANDSHAKE_BYTES_MAX};
pub use handshake::{Lane, PROTOCOL_MAX, PROTOCOL_MIN};
pub use network::{Handler, Network};
pub use secure::TLS_HANDSHAKE_BYTES_MAX;
pub use stats::{NetStats, NetStatsSnapshot};

#[cfg(test)]
mod tests;
