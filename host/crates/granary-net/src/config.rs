//! What a network is started with, and every bound of it.

use std::sync::Arc;
use std::time::Duration;

use granary_core::id::SiloAddress;
use granary_tls::LinkTls;

/// Who this silo is on the network.
#[derive(Debug, Clone)]
pub struct NetConfig {
    /// The cluster's id; silos of other clusters are refused. At most 256 bytes.
    pub cluster: String,
    /// This silo's address with the port that is really bound.
    pub me: SiloAddress,
    /// This silo's name, for the other side's log. At most 256 bytes.
    pub name: String,
    /// Mutual TLS on all connections, both ways; `None`: plain TCP.
    pub tls: Option<Arc<LinkTls>>,
    pub limits: NetLimits,
}

/// The bounds of a network. The defaults suit a cluster in one place.
#[derive(Debug, Clone)]
pub struct NetLimits {
    /// How long a new connection may take for its handshake, TLS included. Below 5 s, so that a silent one is gone by then.
    pub handshake_timeout: Duration,
    /// How long the TCP connect to a peer may take.
    pub connect_timeout: Duration,
    /// The pause after the first failed connect; it doubles up to `retry_delay_max`. Sends fail at once meanwhile.
    pub retry_delay_min: Duration,
    /// The longest pause between two connects.
    pub retry_delay_max: Duration,
    /// A connection that was idle in one direction for this long is pinged.
    pub ping_interval: Duration,
    /// A connection that brought no byte, or took none, for this long is closed.
    pub silence_max: Duration,
    /// An outgoing link without connection and traffic for this long is forgotten.
    pub link_idle_max: Duration,
    /// The most connections that others may hold to this silo.
    pub inbound_connections_max: usize,
    /// The most of them that have not finished their handshake.
    pub inbound_handshakes_max: usize,
    /// The most requests that run at once for one inbound connection; more are refused.
    pub requests_per_connection_max: usize,
    /// The most bytes of answers that wait for one inbound connection's socket.
    pub answer_bytes_max: usize,
    /// The most bytes that wait in one outgoing link. A single larger frame is taken when the queue is empty.
    pub queue_bytes_max: usize,
    /// The most frames that wait in one outgoing link.
    pub queue_frames_max: usize,
    /// The most outgoing links (one for each peer and lane).
    pub links_max: usize,
}

impl Default for NetLimits {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(2),
            retry_delay_min: Duration::from_millis(50),
            retry_delay_max: Duration::from_secs(1),
            ping_interval: Duration::from_secs(10),
            silence_max: Duration::from_secs(30),
            link_idle_max: Duration::from_secs(300),
            inbound_connections_max: 1024,
            inbound_handshakes_max: 512,
            requests_per_connection_max: 4096,
            answer_bytes_max: 32 * 1024 * 1024,
            queue_bytes_max: 8 * 1024 * 1024,
            queue_frames_max: 4096,
            links_max: 3072,
        }
    }
}
