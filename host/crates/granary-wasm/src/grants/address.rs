//! Which addresses a granted host may turn out to have: public ones, unless the deployment says otherwise.
//!
//! An IPv4 address counts as itself in whatever IPv6 form it comes: mapped, compatible, NAT64, 6to4.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Host;

/// An address that is not one of the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    Loopback,
    /// RFC 1918, RFC 4193, site-local.
    Private,
    /// Carrier-grade NAT.
    Shared,
    /// Where, among others, the credentials of cloud machines are to be had.
    LinkLocal,
    Multicast,
    Unspecified,
    Reserved,
}

impl Special {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Shared => "an address behind a carrier's NAT",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast or broadcast address",
            Self::Unspecified => "the unspecified address",
            Self::Reserved => "a reserved address",
        }
    }
}

/// Whether a connection to `address` may be made for a request to the granted `host`. A literal address is granted
/// as what it is; a name may stand for public addresses, and with `private` for those of this machine and its
/// networks, but for link-local ones never.
pub(crate) fn may_connect(address: IpAddr, host: &Host, private: bool) -> Result<(), Special> {
    let Some(kind) = special(address) else { return Ok(()) };
    let literal = matches!(host, Host::Address(granted) if *granted == address.to_canonical());
    let allowed = match kind {
        Special::Multicast | Special::Unspecified => false,
        Special::Loopback | Special::Private | Special::Shared => literal || private,
        Special::LinkLocal | Special::Reserved => literal,
    };
    if allowed { Ok(()) } else { Err(kind) }
}

/// What is special about an address; `None` for a public one.
pub(super) fn special(address: IpAddr) -> Option<Special> {
    match address.to_canonical() {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<Special> {
    match address.octets() {
        [0, 0, 0, 0] => Some(Special::Unspecified),
        [127, ..] => Some(Special::Loopback),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some(Special::Private),
        [100, 64..=127, ..] => Some(Special::Shared),
        [169, 254, ..] => Some(Special::LinkLocal),
        [224..=239, ..] | [255, 255, 255, 255] => Some(Special::Multicast),
        // This network, protocol assignments, documentation, the old relay, benchmarks, class E.
        [0 | 240..=255, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Some(Special::Reserved),
        _ => None,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<Special> {
    if address.is_unspecified() {
        return Some(Special::Unspecified);
    }
    if address.is_loopback() {
        return Some(Special::Loopback);
    }
    match address.segments() {
        [0xff00..=0xffff, ..] => Some(Special::Multicast),
        [0xfe80..=0xfebf, ..] => Some(Special::LinkLocal),
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Some(Special::Private),
        // IPv4-compatible, and NAT64 by its well-known prefix.
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // 6to4.
        [0x2002, high, low, ..] => embedded(high, low),
        // What is left of the global range is public but for protocol assignments (Teredo is one) and documentation.
        [0x2001, 0x0000..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0x0000..=0x0fff, ..] => {
            Some(Special::Reserved)
        }
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Special::Reserved),
    }
}

/// What is special about the IPv4 address that these two segments are.
fn embedded(high: u16, low: u16) -> Option<Special> {
    special_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}
