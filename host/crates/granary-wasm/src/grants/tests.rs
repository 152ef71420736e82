use std::net::IpAddr;

use super::address::{Special, special};
use super::*;

fn grants(env: &[(&str, &str)], http: &[&str]) -> Result<Grants, GrantError> {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let http: Vec<HttpGrant> = http.iter().map(|host| host.parse()).collect::<Result<_, _>>()?;
    Grants::new(env, http, false)
}

fn allows(grants: &Grants, authority: &str, default_port: u16) -> bool {
    Target::parse(authority, default_port).is_ok_and(|target| grants.allows(&target))
}

#[test]
fn a_host_is_granted_by_its_exact_name_and_port() {
    let granted =
        grants(&[], &["api.example.org", "Other.example.org:8080", "192.0.2.1", "[2001:db8::1]:81"]).unwrap();
    for (authority, default_port) in [
        ("api.example.org", 80),
        ("API.example.org", 443),
        ("api.example.org:80", 80),
        ("other.example.org:8080", 443),
        ("192.0.2.1", 80),
        ("[2001:DB8:0::1]:81", 80),
    ] {
        assert!(allows(&granted, authority, default_port), "{authority}");
    }
    for authority in [
        "example.org",
        "x.api.example.org",
        "api.example.org.",
        "api.example.org:81",
        "api.example.org:443",
        "other.example.org",
        "user@api.example.org",
        "api.example.org@other.example.org",
        "api.example.org:80:80",
        "192.0.2.1:8080",
        "192.0.2.2",
        "3221225985",
        "[2001:db8::1]",
        "",
    ] {
        assert!(!allows(&granted, authority, 80), "{authority}");
    }
}

#[test]
fn what_is_no_host_cannot_be_granted() {
    for text in [
        "",
        "http://example.org",
        "example.org/path",
        "*.example.org",
        "example.org:",
        "example.org:0",
        "example.org:65536",
        "example.org:+80",
        "exa mple.org",
        "-x.org",
        "x..org",
        "example.org.",
        "user@example.org",
        "::1",
        "[::1",
        "[example.org]",
        "[::1]80",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "example.0x7f",
        "0.0.0.0",
        "224.0.0.1:80",
        "[::]",
        "[ff02::1]",
    ] {
        assert!(text.parse::<HttpGrant>().is_err(), "{text}");
    }
    assert!(HttpGrant::try_from("a".repeat(64)).is_err());
    let error = "http://x".parse::<HttpGrant>().unwrap_err().to_string();
    assert!(error.contains("HOST:PORT"), "{error}");
}

#[test]
fn a_granted_name_may_stand_for_public_addresses_only() {
    let name = Host::Name("example.org".to_owned());
    let public = [
        "93.184.216.34",
        "1.1.1.1",
        "172.32.0.1",
        "100.128.0.1",
        "2606:2800::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
    ];
    for address in public {
        assert_eq!(may_connect(address.parse().unwrap(), &name, false), Ok(()), "{address}");
    }
    for (address, kind, with_private) in [
        ("127.0.0.1", Special::Loopback, true),
        ("127.255.255.254", Special::Loopback, true),
        ("::1", Special::Loopback, true),
        ("::ffff:127.0.0.1", Special::Loopback, true),
        ("::127.0.0.1", Special::Loopback, true),
        ("64:ff9b::7f00:1", Special::Loopback, true),
        ("2002:7f00:1::1", Special::Loopback, true),
        ("10.0.0.1", Special::Private, true),
        ("172.16.0.1", Special::Private, true),
        ("172.31.255.255", Special::Private, true),
        ("192.168.1.1", Special::Private, true),
        ("::ffff:192.168.1.1", Special::Private, true),
        ("fd00::1", Special::Private, true),
        ("fec0::1", Special::Private, true),
        ("100.64.0.1", Special::Shared, true),
        ("169.254.169.254", Special::LinkLocal, false),
        ("::ffff:169.254.169.254", Special::LinkLocal, false),
        ("fe80::1", Special::LinkLocal, false),
        ("224.0.0.1", Special::Multicast, false),
        ("255.255.255.255", Special::Multicast, false),
        ("ff02::1", Special::Multicast, false),
        ("0.0.0.0", Special::Unspecified, false),
        ("::", Special::Unspecified, false),
        ("::ffff:0.0.0.0", Special::Unspecified, false),
        ("0.1.2.3", Special::Reserved, false),
        ("240.0.0.1", Special::Reserved, false),
        ("198.18.0.1", Special::Reserved, false),
        ("2001:db8::1", Special::Reserved, false),
        ("2001::1", Special::Reserved, false),
        ("64:ff9b:1::1", Special::Reserved, false),
        ("4000::1", Special::Reserved, false),
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(special(address), Some(kind), "{address}");
        assert_eq!(may_connect(address, &name, false), Err(kind), "{address}");
        assert_eq!(may_connect(address, &name, true).is_ok(), with_private, "{address}");
    }
}

#[test]
fn a_literal_address_is_granted_as_what_it_is() {
    for text in ["127.0.0.1", "10.1.2.3", "169.254.169.254"] {
        let literal: IpAddr = text.parse().unwrap();
        assert_eq!(may_connect(literal, &Host::Address(literal), false), Ok(()), "{text}");
        let mapped: IpAddr = format!("::ffff:{text}").parse().unwrap();
        assert_eq!(may_connect(mapped, &Host::Address(literal), false), Ok(()), "{text}");
        let other: IpAddr = "127.0.0.2".parse().unwrap();
        assert_eq!(may_connect(other, &Host::Address(literal), false), Err(Special::Loopback), "{text}");
    }
}

#[test]
fn environment_names_and_sizes_are_checked() {
    assert!(grants(&[("_A1", "x=y"), ("b", "")], &[]).is_ok());
    for name in ["", "1A", "A-B", "A=B", "A B", "Ä", &"A".repeat(129)] {
        assert!(matches!(grants(&[(name, "x")], &[]), Err(GrantError::EnvName(_))), "{name}");
    }
    assert_eq!(grants(&[("A", "a\0b")], &[]), Err(GrantError::EnvValue("A".to_owned())));
    assert_eq!(grants(&[("A", "1"), ("A", "2")], &[]), Err(GrantError::EnvTwice("A".to_owned())));
    let long = "x".repeat(ENV_BYTES_MAX);
    assert!(matches!(grants(&[("A", &long)], &[]), Err(GrantError::EnvTooLarge { .. })));
    let many: Vec<String> = (0..=ENV_VALUES_MAX).map(|n| format!("N{n}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
    assert!(matches!(grants(&many, &[]), Err(GrantError::EnvTooLarge { .. })));
    let hosts: Vec<String> = (0..=HTTP_HOSTS_MAX).map(|n| format!("h{n}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    assert_eq!(grants(&[], &hosts), Err(GrantError::HostsTooMany(HTTP_HOSTS_MAX + 1)));
    assert_eq!(Grants::new([], [], true), Err(GrantError::PrivateAlone));
}

#[test]
fn the_record_gives_back_what_was_granted() {
    let granted = grants(&[("A", "secret\n\"")], &["b.example", "[::1]:8080"]).unwrap();
    assert_eq!(Grants::from_record(&granted.to_record()), Ok(granted.clone()));
    assert_eq!(Grants::default().to_record(), "");
    assert_eq!(Grants::from_record(""), Ok(Grants::default()));
    assert!(!format!("{granted:?}").contains("secret"));
    for broken in ["1", r#"{"env":{"1":"x"}}"#, r#"{"http":["*"]}"#, r#"{"files":["/"]}"#] {
        assert!(matches!(Grants::from_record(broken), Err(GrantError::Record(_))), "{broken}");
    }
}
