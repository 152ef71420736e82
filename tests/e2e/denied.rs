//! What a grain cannot do: it has no files, no sockets, no names and no environment (RELIABILITY: P18).

use std::net::{TcpListener, UdpSocket};

use granary_tests::{Answer, Cluster, Silo};
use serde_json::{Value, json};

fn ask(silo: &Silo, method: &str, arguments: &Value) -> Answer {
    silo.gateway().call("denied/d", method, arguments).unwrap()
}

/// The grain must be told no by an ordinary error, and go on.
#[track_caller]
fn is_denied(silo: &Silo, method: &str, argument: &str) {
    let answer = ask(silo, method, &json!([argument])).ok();
    assert!(answer["err"].is_string(), "{method} {argument}: {answer}");
}

#[test]
fn a_grain_reaches_no_file() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["denied"]);
    let inside = cluster.data().join("secret");
    std::fs::write(&inside, "secret").unwrap();
    for path in [inside.to_str().unwrap(), "/etc/hostname", "/proc/self/environ", "secret", "../secret"] {
        is_denied(&silo, "read-file", path);
        is_denied(&silo, "list-folder", path);
    }
    for path in ["/", ".", cluster.data().to_str().unwrap()] {
        is_denied(&silo, "list-folder", path);
    }
    let new = cluster.data().join("written");
    is_denied(&silo, "write-file", new.to_str().unwrap());
    is_denied(&silo, "write-file", "written");
    assert!(!new.exists());
    assert_eq!(std::fs::read_to_string(inside).unwrap(), "secret");
}

#[test]
fn a_grain_reaches_no_network() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["denied"]);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let (tcp_address, udp_address) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    for address in [tcp_address.to_string(), silo.admin.clone(), silo.gateway.clone(), silo.listen.clone()] {
        is_denied(&silo, "connect", &address);
    }
    is_denied(&silo, "listen", "127.0.0.1:0");
    is_denied(&silo, "send", &udp_address.to_string());
    for host in ["localhost", "example.org"] {
        is_denied(&silo, "resolve", host);
    }
    // The calls have ended: a connection or a datagram would be here by now.
    assert!(tcp.accept().is_err(), "a connection came");
    assert!(udp.recv(&mut [0; 64]).is_err(), "a datagram came");
}

#[test]
fn a_grain_sees_no_environment() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["denied"]);
    assert_eq!(ask(&silo, "environment", &json!([])).ok(), json!([]));
}
