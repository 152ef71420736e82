//! Which servers are used, and what is said about them.

use super::link::{Connector, Link};
use crate::StoreError;

/// The oldest server that is used.
const VERSION_MIN: (u64, u64, u64) = (2, 9, 0);

/// From here on a stream survives the death of the server's process.
const VERSION_KEEPS_STREAMS: (u64, u64, u64) = (2, 10, 23);

/// From here on no warning is given.
const VERSION_GOOD: (u64, u64, u64) = (2, 12, 0);

/// The least size of a message that the server must take, in bytes: a piece and what goes with it.
const PAYLOAD_BYTES_MIN: usize = 512 * 1024;

/// In a cluster of servers, how many keep each stream unless the address says otherwise.
const REPLICAS_IN_CLUSTER: u64 = 3;

/// Checks the server; returns how many replicas new streams get, and what is to be warned of.
pub(super) async fn check(link: &Link, connector: &Connector) -> Result<(u64, Vec<String>), StoreError> {
    let info = link.client().await?.server_info();
    judge(
        &Server {
            version: &info.version,
            jetstream: info.jetstream,
            max_payload: info.max_payload,
            is_clustered: info.cluster.is_some(),
        },
        connector.replicas,
    )
    .map_err(|why| link.unusable(&why))
}

struct Server<'a> {
    version: &'a str,
    jetstream: bool,
    max_payload: usize,
    is_clustered: bool,
}

fn judge(server: &Server<'_>, replicas: Option<u64>) -> Result<(u64, Vec<String>), String> {
    let text = server.version;
    let version = parse(text).ok_or_else(|| format!("{text:?} is no version of a NATS server"))?;
    if version < VERSION_MIN {
        return Err(format!("NATS {text} is too old: 2.9 or newer is needed"));
    }
    if !server.jetstream {
        return Err("JetStream is off at this server: set `jetstream {}` in its configuration".to_owned());
    }
    if server.max_payload < PAYLOAD_BYTES_MIN {
        return Err(format!(
            "the server takes messages of at most {} bytes, {PAYLOAD_BYTES_MIN} are needed: raise max_payload",
            server.max_payload
        ));
    }
    let mut warnings = Vec::new();
    if version < VERSION_KEEPS_STREAMS {
        warnings.push(format!(
            "NATS {text} can lose a whole stream when its process is killed: use 2.12 or newer"
        ));
    } else if version < VERSION_GOOD {
        warnings.push(format!("NATS {text} can lose acknowledged writes: use 2.12 or newer"));
    }
    let replicas = replicas.unwrap_or(if server.is_clustered { REPLICAS_IN_CLUSTER } else { 1 });
    if replicas == 1 {
        warnings.push(
            "one server keeps the streams (replicas=1): what it acknowledged is lost with its disk, and with its \
             power unless it runs with sync_interval: always"
                .to_owned(),
        );
    }
    Ok((replicas, warnings))
}

/// `2.10.27`, or `2.12.0-RC.1`.
fn parse(text: &str) -> Option<(u64, u64, u64)> {
    let mut numbers = text.split(['.', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(version: &str) -> Server<'_> {
        Server { version, jetstream: true, max_payload: 1 << 20, is_clustered: true }
    }

    #[test]
    fn servers_that_cannot_serve_are_refused() {
        let refused = |server: &Server<'_>| judge(server, None).unwrap_err();
        assert!(refused(&server("2.8.4")).contains("2.8.4 is too old"));
        assert!(refused(&server("new")).contains("no version"));
        assert!(refused(&Server { jetstream: false, ..server("2.12.0") }).contains("JetStream is off"));
        assert!(refused(&Server { max_payload: 65_536, ..server("2.12.0") }).contains("raise max_payload"));
    }

    #[test]
    fn old_servers_and_single_replicas_are_warned_of() {
        let judged = |version, replicas| judge(&server(version), replicas).unwrap();
        assert_eq!(judged("2.15.1", None), (3, vec![]));
        assert_eq!(judged("2.12.0-RC.1", Some(5)), (5, vec![]));
        assert!(judged("2.9.10", None).1[0].contains("can lose a whole stream"));
        assert!(judged("2.10.27", None).1[0].contains("can lose acknowledged writes"));
        assert!(judged("2.12.1", Some(1)).1[0].contains("replicas=1"));
        let alone = judge(&Server { is_clustered: false, ..server("2.12.1") }, None).unwrap();
        assert_eq!((alone.0, alone.1.len()), (1, 1));
    }
}
