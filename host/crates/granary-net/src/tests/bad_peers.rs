//! Peers that are no silos, the wrong silos, or silos gone mad.

use super::*;

/// Handshakes must not be what closes a connection in the tests that say "at once".
pub(super) fn patient() -> NetLimits {
    NetLimits { handshake_timeout: PATIENCE * 2, ..NetLimits::default() }
}

pub(super) fn hasty() -> NetLimits {
    NetLimits { handshake_timeout: Duration::from_millis(100), ..NetLimits::default() }
}

#[tokio::test]
async fn a_frame_that_claims_4_gib_is_closed_at_once() {
    let silo = Silo::start_with("c", patient()).await;
    let mut peer = RawPeer::connect(silo.me).await;
    peer.write(&[0xff; 4]).await;
    assert_eq!(peer.next().await, None);
    let mut greeted = RawPeer::greeted(silo.me).await;
    greeted.write(&[0xff; 4]).await;
    assert_eq!(greeted.next().await.unwrap().kind, FrameKind::Goodbye);
    assert_eq!(greeted.next().await, None, "after the handshake too");
}

#[tokio::test]
async fn random_bytes_are_closed_at_once_and_harm_nobody() {
    let silo = Silo::start_with("c", patient()).await;
    let mut seed = 1_u64;
    for _ in 0..20 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed.to_be_bytes()[0]
        })
        .take(64 * 1024)
        .collect();
        let mut peer = RawPeer::connect(silo.me).await;
        // The silo may close while this is still being written.
        let _ = peer.socket.write_all(&bytes).await;
        assert_eq!(peer.next().await, None);
    }
    until("all are counted", || silo.network.stats().snapshot().connections_refused == 20).await;
    assert_eq!(silo.ask(silo.me, Lane::System, "echo").await, answer(b"body"));
}

#[tokio::test]
async fn a_half_open_connection_is_closed_in_time() {
    let silo = Silo::start_with("c", hasty()).await;
    let mut silent = RawPeer::connect(silo.me).await;
    let mut started = RawPeer::connect(silo.me).await;
    started.write(&[100, 0, 0, 0, 0x11, b'G']).await;
    assert_eq!(silent.next().await, None);
    assert_eq!(started.next().await, None);
}

#[tokio::test]
async fn connections_without_a_hello_are_limited_and_do_not_lock_silos_out_for_long() {
    let limits = NetLimits { inbound_handshakes_max: 4, ..hasty() };
    let (a, b) = (Silo::start().await, Silo::start_with("c", limits).await);
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(RawPeer::connect(b.me).await);
    }
    for mut peer in idle {
        assert_eq!(peer.next().await, None);
    }
    let start = Instant::now();
    while a.ask(b.me, Lane::System, "echo").await != answer(b"body") {
        assert!(start.elapsed() < PATIENCE, "a silo is locked out");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn connections_are_limited_in_all() {
    let limits = NetLimits { inbound_connections_max: 2, ..NetLimits::default() };
    let silo = Silo::start_with("c", limits).await;
    let (_first, second) = (RawPeer::greeted(silo.me).await, RawPeer::greeted(silo.me).await);
    let mut third = RawPeer::connect(silo.me).await;
    assert_eq!(third.next().await, None);
    drop(second);
    until("there is room again", || silo.handler.disconnects.load(Ordering::SeqCst) == 1).await;
    let start = Instant::now();
    while silo.ask(silo.me, Lane::System, "echo").await != answer(b"body") {
        assert!(start.elapsed() < PATIENCE, "the place is not given back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_silo_of_another_cluster_is_refused_by_name() {
    let (a, b) = (Silo::start().await, Silo::start_with("d", NetLimits::default()).await);
    let refused = a.ask(b.me, Lane::Application, "echo").await;
    let Err(NetError::NotDelivered(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains(r#"wrong cluster: the silo belongs to cluster "d", not to "c""#), "{why}");
    assert_eq!(b.handler.started.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn another_incarnation_is_refused_by_name() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    let earlier = SiloAddress { generation: b.me.generation - 1, ..b.me };
    let refused = a.ask(earlier, Lane::Application, "echo").await;
    let Err(NetError::NotDelivered(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains(&format!("{} answers, {earlier} was meant", b.me)), "{why}");
}

#[tokio::test]
async fn a_peer_that_breaks_the_protocol_is_told_and_closed() {
    let silo = Silo::start().await;
    let bad_body = encode(FrameKind::OneWay, &"no message of ours").unwrap();
    let bad_kind = encode(FrameKind::Response, &0_u8).unwrap();
    let second_hello = encode(FrameKind::Hello, &0_u8).unwrap();
    let short_request = encode(FrameKind::Request, &0_u8).unwrap();
    for bytes in [bad_body, bad_kind, second_hello, short_request, vec![0; 5], vec![1, 0, 0, 0, 0xff]] {
        let mut peer = RawPeer::greeted(silo.me).await;
        peer.write(&bytes).await;
        assert_eq!(peer.next().await.unwrap().kind, FrameKind::Goodbye);
        assert_eq!(peer.next().await, None);
    }
    assert_eq!(silo.ask(silo.me, Lane::System, "echo").await, answer(b"body"));
}

#[tokio::test]
async fn an_answer_to_a_call_never_made_is_ignored() {
    let a = Silo::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asked = a.start_asking(address(&listener), "echo", PATIENCE);
    let (mut peer, _) = RawPeer::accept(&listener).await;
    let mut request = peer.next().await.unwrap();
    let id = request.take_id().unwrap();
    let response = answer(b"right").unwrap();
    for id in [id + 1, u64::MAX, id] {
        peer.write(&crate::frame::encode_with_id(FrameKind::Response, id, &response).unwrap()).await;
    }
    assert_eq!(asked.await.unwrap(), answer(b"right"));
}
