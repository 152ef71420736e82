//! The frame format: frozen by snapshots, and safe against any bytes.

use proptest::prelude::*;

use super::*;
use crate::frame::{encode_empty, encode_id, encode_request, encode_with_id, set_remaining};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn silo(port: u16, generation: i32) -> SiloAddress {
    SiloAddress { ip: [10, 0, 0, 1].into(), port, generation }
}

/// One frame of each kind, with its frozen bytes.
fn frames() -> Vec<(Vec<u8>, &'static str)> {
    let hello = Hello::new("c", silo(7000, 5), "one", silo(7001, 6), Lane::Bulk);
    let wrong = crate::handshake::Refusal::WrongCluster { of: "c".into(), meant: "d".into() };
    let mut request = encode_request(0x0102_0304, &admin("p", b"xy")).unwrap();
    set_remaining(&mut request, Duration::from_millis(30_000));
    let response = answer(b"z").unwrap();
    vec![
        (
            encode(FrameKind::Hello, &hello).unwrap(),
            "1e0000001147524e5901010163000a000001d8360a036f6e65000a000001d9360c02",
        ),
        (encode(FrameKind::HelloAck, &HelloAck::new(Ok(1))).unwrap(), "070000001247524e590001"),
        (encode(FrameKind::HelloAck, &HelloAck::new(Err(wrong))).unwrap(), "0b0000001247524e59010201630164"),
        (
            encode(FrameKind::OneWay, &OneWay::DeploymentsChanged { version: 300 }).unwrap(),
            "040000001303ac02",
        ),
        (request, "1300000014040302010000000030750000030170027879"),
        (encode_with_id(FrameKind::Response, 9, &response).unwrap(), "0e00000015090000000000000003c801017a"),
        (encode_id(FrameKind::Cancel, 9), "09000000160900000000000000"),
        (encode_empty(FrameKind::Ping), "0100000017"),
        (encode_empty(FrameKind::Pong), "0100000018"),
        (encode(FrameKind::Goodbye, &"bye").unwrap(), "050000001903627965"),
        (encode_with_id(FrameKind::Lost, 9, &"why").unwrap(), "0d0000001a090000000000000003776879"),
    ]
}

#[test]
fn the_frame_format_is_frozen() {
    let (now, frozen): (Vec<_>, Vec<_>) =
        frames().into_iter().map(|(bytes, frozen)| (hex(&bytes), frozen)).unzip();
    assert_eq!(now, frozen);
}

#[test]
fn a_claimed_length_reserves_no_memory() {
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    let mut source = BytesMut::new();
    source.extend_from_slice(&u32::try_from(FRAME_BYTES_MAX).unwrap().to_le_bytes());
    source.extend_from_slice(&[0x13; 100]);
    assert!(decoder.decode(&mut source).unwrap().is_none());
    assert!(source.capacity() <= 64 * 1024, "{} bytes for 104 that arrived", source.capacity());
    source.extend_from_slice(&vec![0; 1 << 20]);
    assert!(decoder.decode(&mut source).unwrap().is_none());
    assert!(source.capacity() <= 4 << 20, "{} bytes for 1 MiB that arrived", source.capacity());
}

#[test]
fn a_large_frame_does_not_pin_its_buffer() {
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    let mut source = BytesMut::from(&encode(FrameKind::Goodbye, &"x".repeat(1 << 20)).unwrap()[..]);
    source.extend_from_slice(&[1, 0]);
    assert!(decoder.decode(&mut source).unwrap().is_some());
    assert_eq!(&source[..], [1, 0]);
    assert!(source.capacity() < 1024, "{}", source.capacity());
}

#[test]
fn lengths_beyond_the_limits_are_refused() {
    let mut decode = |length: u32| {
        let mut source = BytesMut::from(&length.to_le_bytes()[..]);
        source.extend_from_slice(&[0x17]);
        FrameDecoder::new(FRAME_BYTES_MAX).decode(&mut source).is_ok()
    };
    let max = u32::try_from(FRAME_BYTES_MAX).unwrap();
    assert_eq!([0, 1, max, max + 1, u32::MAX].map(&mut decode), [false, true, true, false, false]);
}

/// All frames of a stream that arrives in pieces, up to the first error.
fn decode_in_pieces(bytes: &[u8], piece: usize) -> (Vec<Frame>, bool) {
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    let (mut source, mut frames) = (BytesMut::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        source.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut source) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, false),
            }
        }
    }
    (frames, true)
}

/// Decodes a frame's body as whatever its kind says; must not panic.
fn decode_body(mut frame: Frame) {
    match frame.kind {
        FrameKind::Hello => drop(frame.decode_start::<Hello>()),
        FrameKind::HelloAck => drop(frame.decode_start::<HelloAck>()),
        FrameKind::OneWay => drop(frame.decode::<OneWay>()),
        FrameKind::Goodbye => drop(frame.decode::<String>()),
        FrameKind::Request => {
            let _ = (frame.take_id(), frame.take_remaining_ms(), frame.decode::<Request>());
        }
        FrameKind::Response => drop((frame.take_id(), frame.decode::<Response>())),
        FrameKind::Lost => drop((frame.take_id(), frame.decode::<String>())),
        FrameKind::Cancel | FrameKind::Ping | FrameKind::Pong => drop(frame.take_id()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic_and_pieces_do_not_matter(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        piece in 1_usize..50,
    ) {
        let whole = decode_in_pieces(&bytes, usize::MAX);
        prop_assert_eq!(&decode_in_pieces(&bytes, piece), &whole);
        whole.0.into_iter().for_each(decode_body);
    }

    #[test]
    fn cut_and_changed_frames_never_panic(
        which in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        piece in 1_usize..50,
    ) {
        let mut bytes: Vec<u8> = frames().into_iter().flat_map(|(bytes, _)| bytes).collect();
        let single = frames();
        bytes.extend(&single[which.index(single.len())].0);
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let whole = decode_in_pieces(&bytes, usize::MAX);
        prop_assert_eq!(&decode_in_pieces(&bytes, piece), &whole);
        whole.0.into_iter().for_each(decode_body);
    }
}
