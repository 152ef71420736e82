//! What two networks promise each other.

use super::*;

#[tokio::test]
async fn requests_are_answered_on_every_lane() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    for lane in [Lane::System, Lane::Application, Lane::Bulk] {
        assert_eq!(a.ask(b.me, lane, "echo").await, answer(b"body"));
        assert_eq!(b.ask(a.me, lane, "echo").await, answer(b"body"));
    }
    assert_eq!(a.ask(a.me, Lane::Application, "echo").await, answer(b"body"), "oneself too");
    let remaining = b.handler.remaining_ms.load(Ordering::SeqCst);
    let patience = u64::try_from(PATIENCE.as_millis()).unwrap();
    assert!((patience / 2..=patience).contains(&remaining), "the remaining time travels: {remaining} ms");
    assert_eq!(b.network.stats().snapshot().connections_accepted, 3);
}

#[tokio::test]
async fn many_requests_at_once_each_get_their_own_answer() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    let asked: Vec<_> = (0..500_u32)
        .map(|n| {
            let (network, to) = (Arc::clone(&a.network), b.me);
            tokio::spawn(async move {
                let request = admin("echo", &n.to_le_bytes());
                (n, network.request(to, Lane::Application, request, PATIENCE).await)
            })
        })
        .collect();
    for asked in asked {
        let (n, response) = asked.await.unwrap();
        assert_eq!(response, answer(&n.to_le_bytes()));
    }
}

#[tokio::test]
async fn messages_arrive_in_order() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    for version in 0..1000 {
        a.network.send(b.me, Lane::System, OneWay::DeploymentsChanged { version });
    }
    until("1000 messages", || b.handler.versions.lock().unwrap().len() == 1000).await;
    assert!(b.handler.versions.lock().unwrap().iter().copied().eq(0..1000));
}

#[tokio::test]
async fn a_full_queue_drops_messages_and_refuses_requests_at_once() {
    let limits = NetLimits { queue_frames_max: 2, ..NetLimits::default() };
    let a = Silo::start_with("c", limits).await;
    // Accepts into its backlog, and never says hello.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for version in 0..10 {
        a.network.send(address(&mute), Lane::Application, OneWay::DeploymentsChanged { version });
    }
    let refused = a.ask(address(&mute), Lane::Application, "echo").await;
    assert!(matches!(&refused, Err(NetError::NotDelivered(why)) if why.contains("is full")), "{refused:?}");
    let stats = a.network.stats().snapshot();
    assert!(stats.one_ways_dropped >= 7 && stats.requests_not_queued == 1, "{stats:?}");
}

#[tokio::test]
async fn a_refused_connect_is_not_delivered_and_heals() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (to, endpoint) = (address(&listener), listener.local_addr().unwrap());
    drop(listener);
    let limits = NetLimits { retry_delay_min: PATIENCE, retry_delay_max: PATIENCE, ..NetLimits::default() };
    let slow = Silo::start_with("c", limits).await;
    for _ in 0..2 {
        let refused = slow.ask(to, Lane::Application, "echo").await;
        assert!(
            matches!(&refused, Err(NetError::NotDelivered(why)) if why.contains("failed")),
            "{refused:?}"
        );
    }
    assert_eq!(slow.network.stats().snapshot().connects_failed, 1, "the second failed without a connect");

    let a = Silo::start().await;
    assert!(matches!(a.ask(to, Lane::Application, "echo").await, Err(NetError::NotDelivered(_))));
    let listener = TcpListener::bind(endpoint).await.unwrap();
    let handler = TestHandler::new();
    let config =
        NetConfig { cluster: "c".into(), me: to, name: "b".into(), tls: None, limits: NetLimits::default() };
    let _b = Network::start(config, listener, handler, a.tracker.clone(), a.cancel.clone());
    let start = Instant::now();
    while a.ask(to, Lane::Application, "echo").await != answer(b"body") {
        assert!(start.elapsed() < PATIENCE, "the link does not heal");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_cut_after_the_request_was_sent_is_an_unknown_outcome() {
    let a = Silo::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asked = a.start_asking(address(&listener), "echo", PATIENCE);
    let (mut peer, _) = RawPeer::accept(&listener).await;
    assert_eq!(peer.next().await.unwrap().kind, FrameKind::Request);
    drop(peer);
    let outcome = asked.await.unwrap();
    assert!(
        matches!(&outcome, Err(NetError::UnknownOutcome(why)) if why.contains("was lost")),
        "{outcome:?}"
    );
    assert_eq!(a.handler.disconnects.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_time_limit_tells_written_from_waiting() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    let short = Duration::from_millis(100);
    let written = a.network.request(b.me, Lane::Application, admin("wait", b""), short).await;
    assert_eq!(written, Err(NetError::TimedOut));
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let waiting = a.network.request(address(&mute), Lane::Application, admin("echo", b""), short).await;
    assert!(matches!(&waiting, Err(NetError::NotDelivered(_))), "{waiting:?}");
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_stop_the_handler() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    let asked = a.start_asking(b.me, "wait", PATIENCE);
    until("the handler runs", || b.handler.started.load(Ordering::SeqCst) == 1).await;
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    let second = a.start_asking(b.me, "wait", PATIENCE);
    until("the next one runs", || b.handler.started.load(Ordering::SeqCst) == 2).await;
    a.cancel.cancel();
    until("the connection is gone", || b.handler.disconnects.load(Ordering::SeqCst) == 1).await;
    assert!(matches!(second.await.unwrap(), Err(NetError::UnknownOutcome(_))));
    b.handler.gate.add_permits(2);
    until("both handlers end", || b.handler.finished.load(Ordering::SeqCst) == 2).await;
}

#[tokio::test]
async fn too_many_requests_of_one_connection_are_refused() {
    let limits = NetLimits { requests_per_connection_max: 2, ..NetLimits::default() };
    let (a, b) = (Silo::start().await, Silo::start_with("c", limits).await);
    let running = [a.start_asking(b.me, "wait", PATIENCE), a.start_asking(b.me, "wait", PATIENCE)];
    until("two run", || b.handler.started.load(Ordering::SeqCst) == 2).await;
    let refused = a.ask(b.me, Lane::Application, "echo").await;
    assert!(matches!(&refused, Ok(Response::Refused(why)) if why.starts_with("overloaded")), "{refused:?}");
    b.handler.gate.add_permits(2);
    for running in running {
        assert_eq!(running.await.unwrap(), answer(b"body"));
    }
    assert_eq!(a.ask(b.me, Lane::Application, "echo").await, answer(b"body"), "and then there is room again");
}

#[tokio::test]
async fn a_dead_peer_fails_at_once_and_is_not_let_in_again() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    let asked = a.start_asking(b.me, "wait", PATIENCE);
    until("the handler runs", || b.handler.started.load(Ordering::SeqCst) == 1).await;
    assert_eq!(b.ask(a.me, Lane::System, "echo").await, answer(b"body"));
    a.network.peer_dead(b.me);
    let outcome = asked.await.unwrap();
    assert_eq!(outcome, Err(NetError::UnknownOutcome(format!("silo {} is dead", b.me))));
    let refused = a.ask(b.me, Lane::Application, "echo").await;
    assert_eq!(refused, Err(NetError::NotDelivered(format!("silo {} is dead", b.me))));
    until("its own connection is closed", || b.handler.disconnects.load(Ordering::SeqCst) >= 1).await;
    let start = Instant::now();
    loop {
        let refused = b.ask(a.me, Lane::System, "echo").await;
        match &refused {
            Err(NetError::NotDelivered(why)) if why.contains("is dead in the membership") => break,
            // The close may come after the request was written.
            Err(NetError::UnknownOutcome(_) | NetError::NotDelivered(_)) => {}
            _ => panic!("a dead silo is heard: {refused:?}"),
        }
        assert!(start.elapsed() < PATIENCE, "{refused:?}");
    }
}

#[tokio::test]
async fn messages_beyond_a_frame_are_refused_by_size() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    let request = Request::Admin { path: String::new(), body: vec![0; FRAME_BYTES_MAX] };
    let refused = a.network.request(b.me, Lane::Bulk, request, PATIENCE).await;
    assert!(
        matches!(refused, Err(NetError::TooLarge { bytes, max: FRAME_BYTES_MAX }) if bytes > FRAME_BYTES_MAX)
    );
    let lost = a.ask(b.me, Lane::Bulk, "huge").await;
    assert!(matches!(&lost, Err(NetError::UnknownOutcome(why)) if why.contains("bytes")), "{lost:?}");
    let almost = vec![7; FRAME_BYTES_MAX - 100];
    let largest = a.network.request(b.me, Lane::Bulk, admin("echo", &almost), PATIENCE).await;
    assert!(largest == answer(&almost), "the largest frame goes through");
}

#[tokio::test]
async fn a_handler_that_panics_is_an_unknown_outcome_at_once() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    let outcome = a.ask(b.me, Lane::Application, "panic").await;
    assert!(matches!(&outcome, Err(NetError::UnknownOutcome(why)) if why.contains("without an answer")));
    assert_eq!(a.ask(b.me, Lane::Application, "echo").await, answer(b"body"));
}

#[tokio::test]
async fn an_idle_connection_is_kept_alive_and_a_silent_one_closed() {
    let limits = NetLimits {
        ping_interval: Duration::from_millis(20),
        silence_max: Duration::from_millis(400),
        ..NetLimits::default()
    };
    let (a, b) = (Silo::start_with("c", limits.clone()).await, Silo::start_with("c", limits).await);
    assert_eq!(a.ask(b.me, Lane::Application, "echo").await, answer(b"body"));
    let start = Instant::now();
    until("three times the limit has passed", || start.elapsed() > Duration::from_millis(1200)).await;
    assert_eq!(a.ask(b.me, Lane::Application, "echo").await, answer(b"body"));
    assert_eq!(b.network.stats().snapshot().connections_accepted, 1, "it was one connection all the time");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asked = a.start_asking(address(&listener), "echo", PATIENCE);
    let (_silent, _) = RawPeer::accept(&listener).await;
    let outcome = asked.await.unwrap();
    assert!(
        matches!(&outcome, Err(NetError::UnknownOutcome(why)) if why.contains("nothing came")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_peer_that_takes_no_bulk_does_not_delay_the_system_lane() {
    let a = Silo::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = address(&listener);
    let network = Arc::clone(&a.network);
    let bulk = tokio::spawn(async move {
        network.request(to, Lane::Bulk, admin("blob", &vec![7; 15 << 20]), PATIENCE).await
    });
    // Greeted, and then nothing is read: megabytes are stuck in this connection.
    let (stuck, Lane::Bulk) = RawPeer::accept(&listener).await else { panic!("the bulk lane first") };
    for version in 0..100 {
        a.network.send(to, Lane::System, OneWay::DeploymentsChanged { version });
    }
    let (mut system, Lane::System) = RawPeer::accept(&listener).await else { panic!("a lane of its own") };
    for version in 0..100 {
        let message: OneWay = system.next().await.unwrap().decode().unwrap();
        assert_eq!(message, OneWay::DeploymentsChanged { version });
    }
    assert!(!bulk.is_finished());
    drop(stuck);
    assert!(matches!(bulk.await.unwrap(), Err(NetError::UnknownOutcome(_))));
}

#[tokio::test]
async fn what_was_queued_before_the_end_still_goes_out_and_all_tasks_end() {
    let (a, b) = (Silo::start().await, Silo::start().await);
    assert_eq!(a.ask(b.me, Lane::System, "echo").await, answer(b"body"));
    for version in 0..200 {
        a.network.send(b.me, Lane::System, OneWay::DeploymentsChanged { version });
    }
    a.cancel.cancel();
    until("200 messages", || b.handler.versions.lock().unwrap().len() == 200).await;
    a.tracker.close();
    tokio::time::timeout(PATIENCE, a.tracker.wait()).await.expect("tasks of a stopped network still run");
    assert!(matches!(a.ask(b.me, Lane::System, "echo").await, Err(NetError::NotDelivered(_))));
}

#[test]
fn sending_needs_no_runtime_on_the_sending_thread() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (a, b) = runtime.block_on(async { (Silo::start().await, Silo::start().await) });
    a.network.send(b.me, Lane::System, OneWay::DeploymentsChanged { version: 1 });
    runtime.block_on(until("the message", || b.handler.versions.lock().unwrap().len() == 1));
}
