//! The NATS engine against real servers, the system's old one and a newer one: the contract, alone and shared; a server
//! that stands still, goes away and comes back; what is refused at the start; and the seals of renewals.

use std::time::Instant;

use granary_core::membership::table::SiloStatus;
use granary_engines::{Nats, NatsRelease, PASSWORD, USER};

use super::*;
use crate::contract::{self, Adapter};
use crate::tls_files::TlsFiles;
use crate::{Store, StoreUrl};

fn url(text: &str) -> ServerUrl {
    match text.parse() {
        Ok(StoreUrl::Nats(url)) => url,
        other => panic!("{other:?}"),
    }
}

async fn open_with(server: &Nats, cluster: &str, options: NatsOptions) -> NatsStore {
    NatsStore::open(&url(&server.url()), &cluster.parse().unwrap(), options).await.unwrap()
}

async fn open(server: &Nats, cluster: &str) -> Arc<NatsStore> {
    // A machine that runs many tests is slow, and here no limit of time is tested.
    let options = NatsOptions { timeout: Duration::from_secs(30), ..NatsOptions::default() };
    Arc::new(open_with(server, cluster, options).await)
}

/// Two processes' worth on the same streams.
async fn shared(server: &Nats, cluster: &str) -> Arc<Adapter> {
    let stores: Vec<Arc<dyn Store>> = vec![open(server, cluster).await, open(server, cluster).await];
    Arc::new(Adapter::alternating(stores))
}

async fn refusal(url: &ServerUrl, options: NatsOptions) -> StoreError {
    let refused = NatsStore::open(url, &"c".parse().unwrap(), options).await.unwrap_err();
    assert!(!refused.to_string().contains(PASSWORD), "{refused}");
    assert!(!refused.to_string().contains('\n'), "{refused}");
    refused
}

async fn keeps_the_contract(release: NatsRelease) {
    let server = Nats::start(release);
    contract::membership_table(open(&server, "alone").await).await;
    contract::membership_table(shared(&server, "shared").await).await;
    contract::grain_state(open(&server, "alone").await).await;
    contract::grain_state(shared(&server, "shared").await).await;
    contract::deployments(open(&server, "alone").await).await;
    contract::deployments(shared(&server, "shared").await).await;
    contract::quarantine(open(&server, "alone").await).await;
    contract::blobs(open(&server, "alone").await).await;
    contract::blobs(shared(&server, "shared").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_is_kept_alone_and_shared() {
    keeps_the_contract(NatsRelease::Newer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_is_kept_by_an_old_server() {
    keeps_the_contract(NatsRelease::System).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_acknowledgements_and_stale_reads_do_no_harm() {
    let server = Nats::start(NatsRelease::Newer);
    contract::lost_acknowledgements(open(&server, "lost").await).await;
    contract::stale_reads(open(&server, "stale").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_lost_or_doubled_while_the_server_is_paused_killed_and_restarted() {
    let mut server = Nats::start(NatsRelease::Newer);
    let options = NatsOptions { timeout: Duration::from_millis(500), ..NatsOptions::default() };
    let store = Arc::new(open_with(&server, "interrupted", options).await);
    let watched = Arc::clone(&store);
    contract::interrupted(store, async {
        for _ in 0..2 {
            some_writes(&watched).await;
            server.pause();
            tokio::time::sleep(Duration::from_secs(1)).await;
            server.resume();
            some_writes(&watched).await;
            server.restart();
            some_writes(&watched).await;
            server.stop();
            server.restart();
        }
    })
    .await;
}

/// Three servers, each of which is killed and restarted in turn: what two of them have is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_lost_or_doubled_while_the_servers_of_a_cluster_die_in_turn() {
    let mut servers = Nats::start_cluster(NatsRelease::Newer, 3);
    let addresses: Vec<String> = servers.iter().map(Nats::address).collect();
    let url = url(&format!("nats://{USER}:{PASSWORD}@{}", addresses.join(",")));
    let started = Instant::now();
    let store = loop {
        let options = NatsOptions { timeout: Duration::from_secs(5), ..NatsOptions::default() };
        match NatsStore::open(&url, &"c".parse().unwrap(), options).await {
            Ok(store) => break Arc::new(store),
            // JetStream has no leader yet.
            Err(StoreError::Unavailable(_)) if started.elapsed() < Duration::from_secs(60) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert!(store.warnings().is_empty(), "three replicas: {:?}", store.warnings());
    let watched = Arc::clone(&store);
    contract::interrupted(store, async {
        for server in &mut servers {
            some_writes(&watched).await;
            server.kill();
            some_writes(&watched).await;
            server.restart();
        }
    })
    .await;
}

/// The old server may lose a stream when it is killed, so it is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_lost_or_doubled_while_an_old_server_is_paused_and_stopped() {
    let mut server = Nats::start(NatsRelease::System);
    let options = NatsOptions { timeout: Duration::from_millis(500), ..NatsOptions::default() };
    let store = Arc::new(open_with(&server, "interrupted", options).await);
    let watched = Arc::clone(&store);
    contract::interrupted(store, async {
        some_writes(&watched).await;
        server.pause();
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.resume();
        some_writes(&watched).await;
        server.stop();
        server.restart();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_ends_in_time_while_the_server_stands_still() {
    let server = Nats::start(NatsRelease::Newer);
    let limit = Duration::from_millis(400);
    let options = NatsOptions { timeout: limit, blob_timeout: limit, ..NatsOptions::default() };
    let store = open_with(&server, "still", options).await;
    assert!(MembershipTable::read(&store).await.is_ok());
    for _ in 0..2 {
        server.pause();
        let shared = Arc::new(store.clone());
        contract::ends_in_time(shared, Duration::from_secs(2), &server.address(), PASSWORD).await;
        server.resume();
    }
}

#[tokio::test]
async fn a_wrong_address_or_password_is_an_error_that_says_what_and_where() {
    let mut server = Nats::start(NatsRelease::Newer);
    let address = server.address();
    let default = NatsOptions::default;
    let refused = refusal(&url(&server.url().replace(PASSWORD, "wr0ng")), default()).await;
    assert!(matches!(&refused, StoreError::Unusable(_)), "{refused}");
    let why = refused.to_string();
    assert!(why.contains(&format!("nats://{USER}@{address}: authorization violation")), "{why}");
    assert!(!why.contains("wr0ng"), "{why}");
    let refused = refusal(&url(&format!("{}?colour=blue", server.url())), default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("unknown option `colour`")));
    let refused = refusal(&url(&format!("{}?replicas=many", server.url())), default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("replicas is a number")));
    let refused = refusal(&url(&format!("{}?replicas=3", server.url())), default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("replicas")), "{refused}");
    server.stop();
    let refused = refusal(&url(&server.url()), default()).await;
    assert!(
        matches!(&refused, StoreError::Unavailable(why)
            if why.contains(&address) && why.contains("Connection refused")),
        "{refused}"
    );
    server.restart();
    server.pause();
    let short = Duration::from_millis(300);
    let options = NatsOptions { connect_timeout: short, timeout: short, ..default() };
    let refused = refusal(&url(&server.url()), options).await;
    assert!(matches!(&refused, StoreError::Unavailable(why) if why.contains("timeout")), "{refused}");
    server.resume();
}

#[tokio::test]
async fn with_a_ca_the_connection_is_tls_and_the_server_is_who_it_says() {
    let tls = TlsFiles::new("127.0.0.1");
    let server = Nats::start_with_tls(NatsRelease::Newer, &tls.certificate, &tls.key);
    let with = |ca_file| NatsOptions { ca_file: Some(ca_file), ..NatsOptions::default() };
    let store = open_with(&server, "c", with(tls.ca())).await;
    assert!(MembershipTable::read(&store).await.is_ok());
    let refused = refusal(&url(&server.url()), with(TlsFiles::new("127.0.0.1").ca())).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("certificate")), "{refused}");
    let elsewhere = TlsFiles::new("192.0.2.1");
    let server = Nats::start_with_tls(NatsRelease::Newer, &elsewhere.certificate, &elsewhere.key);
    let refused = refusal(&url(&server.url()), with(elsewhere.ca())).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("certificate")), "{refused}");
}

#[tokio::test]
async fn streams_in_memory_or_of_another_layout_are_refused() {
    let server = Nats::start(NatsRelease::Newer);
    let store = open(&server, "c").await;
    let state = &store.inner.state;
    let stream = "KV_granary_c_state";
    let ask = async |what: &str, body: serde_json::Value| {
        let answer = state.link().api::<serde_json::Value>(&format!("STREAM.{what}.{stream}"), &body).await;
        assert!(answer.unwrap().is_ok(), "{what}");
    };
    ask("DELETE", serde_json::json!({})).await;
    let subjects = ["$KV.granary_c_state.>"];
    ask("CREATE", serde_json::json!({ "name": stream, "subjects": subjects, "storage": "memory" })).await;
    let refused = refusal(&url(&server.url()), NatsOptions::default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("kept in memory")), "{refused}");
    ask("DELETE", serde_json::json!({})).await;
    ask("CREATE", serde_json::json!({ "name": stream, "subjects": subjects, "storage": "file" })).await;
    let refused = refusal(&url(&server.url()), NatsOptions::default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("messages of a key")), "{refused}");
    ask("DELETE", serde_json::json!({})).await;

    let layout = Bucket::new(state.shared_link(), &"c".parse().unwrap(), "membership");
    layout.put("layout", br#"{"version":7}"#.to_vec()).await.unwrap();
    let refused = refusal(&url(&server.url()), NatsOptions::default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("have layout 7")), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silos_that_start_together_make_the_streams_once() {
    let server = Nats::start(NatsRelease::Newer);
    let stores = [(); 8].map(|()| open(&server, "together"));
    for store in futures_util::future::join_all(stores).await {
        assert!(MembershipTable::read(&*store).await.is_ok());
        assert_eq!(store.warnings().len(), 1, "one replica");
    }
}

#[tokio::test]
async fn a_damaged_blob_is_absent_and_can_be_put_again() {
    let server = Nats::start(NatsRelease::Newer);
    let store = open(&server, "c").await;
    let bytes: Vec<u8> = (0..700_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let digest = BlobStore::put(&*store, bytes.clone()).await.unwrap();
    let pieces = store.inner.pieces.bucket();
    for round in 0..2 {
        match round {
            0 => pieces.put(&format!("blob.{digest}.1"), b"x".to_vec()).await.map(drop).unwrap(),
            _ => pieces.purge(&format!("blob.{digest}.>"), None).await.unwrap(),
        }
        assert_eq!(store.get(digest).await, Ok(None));
        assert_eq!(BlobStore::put(&*store, bytes.clone()).await, Ok(digest));
        assert_eq!(store.get(digest).await, Ok(Some(bytes.clone())));
    }
}

#[tokio::test]
async fn large_states_leave_no_pieces_behind() {
    for release in [NatsRelease::Newer, NatsRelease::System] {
        large_states(&Nats::start(release)).await;
    }
}

async fn large_states(server: &Nats) {
    let store = open(server, "c").await;
    let grain: GrainId = "account/alice".parse().unwrap();
    let name = || "s".to_owned();
    let stored = async || {
        let info: serde_json::Value = store
            .inner
            .state
            .link()
            .api("STREAM.INFO.KV_granary_c_pieces", &serde_json::json!({}))
            .await
            .unwrap()
            .unwrap();
        info["state"]["messages"].as_u64().unwrap()
    };
    let large = vec![1; 600_000];
    let mut etag = None;
    for _ in 0..3 {
        etag = Some(store.write(grain.clone(), name(), large.clone(), etag, 0).await.unwrap());
        assert_eq!(stored().await, 3, "the pieces of the newest value alone");
    }
    let refused = store.write(grain.clone(), name(), large.clone(), Some("other".to_owned()), 0).await;
    assert!(matches!(refused, Err(StateError::Conflict { .. })), "{refused:?}");
    assert_eq!(stored().await, 3);
    let value = GrainStateStore::read(&*store, grain.clone(), name(), 0).await.unwrap().unwrap();
    assert_eq!((value.value, Some(value.etag)), (large, etag.clone()));
    store.write(grain, name(), b"small".to_vec(), etag, 0).await.unwrap();
    assert_eq!(stored().await, 0);
}

#[tokio::test]
async fn any_character_can_stand_in_keys_and_clusters_are_apart() {
    let server = Nats::start(NatsRelease::Newer);
    let (one, other) = (open(&server, "one").await, open(&server, "other").await);
    let grain: GrainId = "account/a\0\n>*.'\"\\ ä".parse().unwrap();
    let etag = one.write(grain.clone(), "n\n".to_owned(), b"1".to_vec(), None, 0).await.unwrap();
    let value = StateValue { value: b"1".to_vec(), etag };
    assert_eq!(GrainStateStore::read(&*one, grain.clone(), "n\n".to_owned(), 0).await, Ok(Some(value)));
    assert_eq!(GrainStateStore::read(&*other, grain, "n\n".to_owned(), 0).await, Ok(None));
}

/// A silo that was declared dead by a write that then came to nothing renews again; by one that came, never.
#[tokio::test]
async fn a_seal_holds_until_the_death_is_known_to_have_failed() {
    let server = Nats::start(NatsRelease::Newer);
    let store = open(&server, "c").await;
    let table = &store.inner.table;
    let row = contract::some_row();
    let address = row.address;
    assert_eq!(store.insert(row.clone(), 0).await, Ok(CasOutcome::Written { version: 1 }));
    assert_eq!(store.renew(address).await, Ok(true));

    // The killer stops after its seal, and goes on after the silo has renewed.
    let sealed_at = table.seal_for_test(address).await;
    assert_eq!(store.renew(address).await, Ok(true), "the silo lives in the table");
    let snapshot = MembershipTable::read(&*store).await.unwrap();
    assert_eq!((snapshot.version, snapshot.rows[&address].renewal), (1, 2), "breaking a seal is a renewal");
    let dead = MembershipRow { status: SiloStatus::Dead, etag: 1, ..row };
    assert!(!table.kill_at_for_test(dead.clone(), sealed_at).await, "no death rests on the broken seal");
    assert_eq!(store.renew(address).await, Ok(true));

    // In order, the death comes, and nothing brings the silo back.
    assert_eq!(store.update(dead, 1).await, Ok(CasOutcome::Written { version: 2 }));
    assert_eq!(store.renew(address).await, Ok(false));
    let other = open(&server, "c").await;
    assert_eq!(other.renew(address).await, Ok(false));
    assert_eq!(store.remove_dead(vec![address]).await, Ok(()));
    assert_eq!(store.renew(address).await, Ok(false));
}

/// Renewals and deaths race; whenever a renewal succeeds after the death was acknowledged, this fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_renewal_succeeds_after_a_death() {
    let server = Nats::start(NatsRelease::Newer);
    let (silo, killer) = (open(&server, "c").await, open(&server, "c").await);
    for generation in 1..=20 {
        let mut row = contract::some_row();
        row.address.generation = generation;
        let version = MembershipTable::read(&*silo).await.unwrap().version;
        assert!(matches!(silo.insert(row.clone(), version).await, Ok(CasOutcome::Written { .. })));
        let renewing = {
            let silo = Arc::clone(&silo);
            tokio::spawn(async move {
                let mut renewals = 0_u64;
                while silo.renew(row.address).await.unwrap() {
                    renewals += 1;
                    // Far more often than a silo does, and yet not in each moment.
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                renewals
            })
        };
        let killed = loop {
            let snapshot = MembershipTable::read(&*killer).await.unwrap();
            let found = snapshot.rows[&row.address].clone();
            let dead = MembershipRow { status: SiloStatus::Dead, ..found };
            match killer.update(dead, snapshot.version).await.unwrap() {
                CasOutcome::Written { version } => break version,
                CasOutcome::Conflict => {}
            }
        };
        assert_eq!(silo.renew(row.address).await, Ok(false), "after the acknowledgement");
        let renewals = renewing.await.unwrap();
        let snapshot = MembershipTable::read(&*killer).await.unwrap();
        assert_eq!((snapshot.version, snapshot.rows[&row.address].renewal), (killed, renewals));
    }
}

/// Waits until others have written for a while.
async fn some_writes(store: &NatsStore) {
    let read = async || MembershipTable::read(store).await.map_or(0, |snapshot| snapshot.version);
    let before = read().await;
    let started = Instant::now();
    while read().await < before + 20 && started.elapsed() < Duration::from_secs(10) {
        tokio::task::yield_now().await;
    }
}
