use std::net::IpAddr;

use super::connect::allowed;
use super::*;
use crate::grants::Target;

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn only_the_public_addresses_of_a_name_are_connected_to() {
    let target = Target::parse("api.example.org", 80).unwrap();
    let mixed = addresses(&["10.0.0.1", "93.184.216.34", "::1", "2606:2800::1"]);
    assert_eq!(allowed(&mixed, &target, false).unwrap(), addresses(&["93.184.216.34", "2606:2800::1"]));
    let private = addresses(&["10.0.0.1", "::ffff:127.0.0.1"]);
    let error = allowed(&private, &target, false).unwrap_err();
    assert_eq!(error.code, ErrorCode::DestinationIpProhibited);
    assert!(error.text.contains("--allow-http-private"), "{}", error.text);
    assert_eq!(allowed(&private, &target, true).unwrap(), private);
    assert!(allowed(&[], &target, true).unwrap().is_empty());
}

#[test]
fn a_request_body_is_bounded_and_gives_its_quota_back() {
    let requests = Requests::new(Arc::default());
    let body = requests.body();
    let chunk = vec![0; 1 << 20];
    for _ in 0..4 {
        assert!(body.write(&chunk));
    }
    assert_eq!(body.room(), 0);
    assert!(!body.write(b"x"), "beyond the bound of one body");
    let second = requests.body();
    for _ in 0..4 {
        assert!(second.write(&chunk));
    }
    let third = requests.body();
    assert_eq!(third.room(), 0, "the activation's quota is used up");
    assert!(!third.write(b"x"));
    drop(body);
    assert_eq!(third.room(), REQUEST_BODY_BYTES_MAX);
    assert!(third.write(&chunk));
    third.finish();
    assert!(!third.write(b"x"), "after the end");
}
