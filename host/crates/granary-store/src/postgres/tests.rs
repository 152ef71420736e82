//! The PostgreSQL engine against a real server: the contract, alone and shared; a server that stands still, goes away
//! and comes back; and what is refused at the start.

use std::time::Instant;

use granary_engines::{PASSWORD, Postgres, USER};

use super::*;
use crate::contract::{self, Adapter};
use crate::tls_files::TlsFiles;
use crate::{Store, StoreUrl};

fn url(text: &str) -> ServerUrl {
    match text.parse() {
        Ok(StoreUrl::Postgres(url)) => url,
        other => panic!("{other:?}"),
    }
}

async fn open_with(server: &Postgres, cluster: &str, options: PostgresOptions) -> PostgresStore {
    PostgresStore::open(&url(&server.url()), &cluster.parse().unwrap(), options).await.unwrap()
}

async fn open(server: &Postgres, cluster: &str) -> Arc<PostgresStore> {
    // A machine that runs many tests is slow, and here no limit of time is tested.
    let options = PostgresOptions { timeout: Duration::from_secs(30), ..PostgresOptions::default() };
    Arc::new(open_with(server, cluster, options).await)
}

/// Two processes' worth on one schema.
async fn shared(server: &Postgres, cluster: &str) -> Arc<Adapter> {
    let stores: Vec<Arc<dyn Store>> = vec![open(server, cluster).await, open(server, cluster).await];
    Arc::new(Adapter::alternating(stores))
}

async fn refusal(url: &ServerUrl, options: PostgresOptions) -> StoreError {
    let refused = PostgresStore::open(url, &"c".parse().unwrap(), options).await.unwrap_err();
    assert!(!refused.to_string().contains(PASSWORD), "{refused}");
    assert!(!refused.to_string().contains('\n'), "{refused}");
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_is_kept_alone_and_shared() {
    let server = Postgres::start();
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
async fn lost_acknowledgements_and_stale_reads_do_no_harm() {
    let server = Postgres::start();
    contract::lost_acknowledgements(open(&server, "lost").await).await;
    contract::stale_reads(open(&server, "stale").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_lost_or_doubled_while_the_server_is_paused_killed_and_restarted() {
    let mut server = Postgres::start();
    let options = PostgresOptions { timeout: Duration::from_millis(500), ..PostgresOptions::default() };
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_ends_in_time_while_the_server_stands_still() {
    let server = Postgres::start();
    let options = PostgresOptions {
        timeout: Duration::from_millis(400),
        blob_timeout: Duration::from_millis(400),
        ..PostgresOptions::default()
    };
    let store = open_with(&server, "still", options).await;
    for opened in [false, true] {
        if opened {
            assert!(MembershipTable::read(&store).await.is_ok());
            assert!(DeploymentStore::read(&store).await.is_ok());
        }
        server.pause();
        let shared = Arc::new(store.clone());
        contract::ends_in_time(shared, Duration::from_secs(2), &server.address(), PASSWORD).await;
        server.resume();
    }
}

#[tokio::test]
async fn a_wrong_address_password_or_database_is_an_error_that_says_what_and_where() {
    let mut server = Postgres::start();
    let address = server.address();
    let default = PostgresOptions::default;
    let refused = refusal(&url(&server.url().replace(PASSWORD, "wr0ng")), default()).await;
    assert!(matches!(&refused, StoreError::Unusable(_)), "{refused}");
    let why = refused.to_string();
    assert!(why.contains(&format!("postgres://{USER}@{address}/postgres: password authentication failed")));
    assert!(!why.contains("wr0ng"), "{why}");
    let refused = refusal(&url(&format!("{}x", server.url())), default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("\"postgresx\" does not exist")));
    let refused = refusal(&url(&format!("{}?colour=blue", server.url())), default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("unknown option `colour`")));
    let refused = refusal(&url(&format!("{}?sslmode=require", server.url())), default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("--store-ca-file")));
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
    let options = PostgresOptions { connect_timeout: short, timeout: short, ..default() };
    let refused = refusal(&url(&server.url()), options).await;
    assert!(matches!(&refused, StoreError::Unavailable(why) if why.contains("timeout")), "{refused}");
    server.resume();
}

#[tokio::test]
async fn with_a_ca_the_connection_is_tls_and_the_server_is_who_it_says() {
    let tls = TlsFiles::new("127.0.0.1");
    let server = Postgres::start_with_tls(&tls.certificate, &tls.key);
    let with = |ca_file| PostgresOptions { ca_file: Some(ca_file), ..PostgresOptions::default() };
    let store = open_with(&server, "c", with(tls.ca())).await;
    assert!(MembershipTable::read(&store).await.is_ok());
    server.execute(
        "DO 'BEGIN ASSERT (SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name = ''granary''); END'",
    );
    let refused = refusal(&url(&server.url()), with(TlsFiles::new("127.0.0.1").ca())).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("certificate")), "{refused}");
    let elsewhere = TlsFiles::new("192.0.2.1");
    let server = Postgres::start_with_tls(&elsewhere.certificate, &elsewhere.key);
    let refused = refusal(&url(&server.url()), with(elsewhere.ca())).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("certificate")), "{refused}");
    let plain = Postgres::start();
    let refused = refusal(&url(&plain.url()), with(tls.ca())).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("TLS")), "{refused}");
}

#[tokio::test]
async fn servers_that_would_lose_acknowledged_writes_are_refused() {
    for (setting, advice) in [
        ("fsync=off", "set fsync = on"),
        ("synchronous_commit=off", "synchronous_commit = on"),
        ("default_transaction_read_only=on", "default_transaction_read_only"),
    ] {
        let server = Postgres::start_with(&[setting]);
        let refused = refusal(&url(&server.url()), PostgresOptions::default()).await;
        assert!(matches!(&refused, StoreError::Unusable(why) if why.contains(advice)), "{refused}");
    }
    let server = Postgres::start_with(&["full_page_writes=off"]);
    assert_eq!(open(&server, "c").await.warnings().len(), 1);
}

#[tokio::test]
async fn a_server_that_turns_read_only_is_unavailable_until_it_is_back() {
    let server = Postgres::start();
    let store = open(&server, "c").await;
    assert_eq!(MembershipTable::read(&*store).await, Ok(TableSnapshot::default()));
    server.execute("ALTER ROLE granary SET default_transaction_read_only = on");
    // Sessions from before keep their defaults; a failover ends them.
    server
        .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'granary'");
    let row = contract::some_row();
    let refused = [store.insert(row.clone(), 0).await, store.insert(row.clone(), 0).await];
    assert!(matches!(&refused[0], Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(
        matches!(&refused[1], Err(StoreError::Unavailable(why)) if why.contains("read-only")),
        "{refused:?}"
    );
    server.execute("BEGIN READ WRITE; ALTER ROLE granary RESET default_transaction_read_only; COMMIT");
    assert_eq!(store.insert(row, 0).await, Ok(CasOutcome::Written { version: 1 }));
}

/// On one thread, which is busy while the server restarts: the connection is not known to be broken when the read is
/// sent.
#[tokio::test]
async fn a_read_on_a_connection_that_broke_meanwhile_is_sent_once_more() {
    let mut server = Postgres::start();
    let store = open(&server, "c").await;
    assert_eq!(MembershipTable::read(&*store).await, Ok(TableSnapshot::default()));
    server.restart();
    assert_eq!(MembershipTable::read(&*store).await, Ok(TableSnapshot::default()));
    server.restart();
    // A write is not: it might be applied twice.
    let row = contract::some_row();
    let refused = store.insert(row.clone(), 0).await;
    assert!(matches!(&refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert_eq!(store.insert(row, 0).await, Ok(CasOutcome::Written { version: 1 }));
}

#[tokio::test]
async fn a_newer_layout_and_a_foreign_schema_are_refused() {
    let server = Postgres::start();
    drop(open(&server, "c").await);
    drop(open(&server, "c").await);
    server.execute("UPDATE granary_c.layout SET version = 7");
    let refused = refusal(&url(&server.url()), PostgresOptions::default()).await;
    let StoreError::Unusable(why) = refused else { panic!("{refused}") };
    assert!(
        why.contains(r#"the schema "granary_c" has layout 7, this version of granary supports 1"#),
        "{why}"
    );
    server.execute(
        "DROP SCHEMA granary_c CASCADE; CREATE SCHEMA granary_c; CREATE TABLE granary_c.silos (x INT)",
    );
    let refused = refusal(&url(&server.url()), PostgresOptions::default()).await;
    assert!(matches!(&refused, StoreError::Unusable(why) if why.contains("already exists")), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silos_that_start_together_make_one_schema() {
    let server = Postgres::start();
    let stores = [(); 8].map(|()| open(&server, "together"));
    for store in futures_util::future::join_all(stores).await {
        assert!(MembershipTable::read(&*store).await.is_ok());
    }
}

#[tokio::test]
async fn a_damaged_blob_is_absent_and_can_be_put_again() {
    let server = Postgres::start();
    let store = open(&server, "c").await;
    let bytes: Vec<u8> = (0..1_200_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let digest = BlobStore::put(&*store, bytes.clone()).await.unwrap();
    for damage in ["UPDATE blob_pieces SET content = 'x' WHERE number = 1", "DELETE FROM blob_pieces"] {
        server.execute(&format!("SET search_path TO granary_c; {damage}"));
        assert_eq!(store.get(digest).await, Ok(None), "{damage}");
        assert_eq!(BlobStore::put(&*store, bytes.clone()).await, Ok(digest));
        assert_eq!(store.get(digest).await, Ok(Some(bytes.clone())));
    }
}

#[tokio::test]
async fn more_operations_than_may_wait_are_refused_at_once() {
    let server = Postgres::start();
    let options = PostgresOptions { queue_operations_max: 2, ..PostgresOptions::default() };
    let store = open_with(&server, "c", options).await;
    server.pause();
    let reads = [(); 5].map(|()| MembershipTable::read(&store));
    let full = |outcome: &Result<TableSnapshot, StoreError>| matches!(outcome, Err(StoreError::Unavailable(why)) if why.contains("2 operations wait already"));
    let refused = futures_util::future::join_all(reads).await.iter().filter(|&it| full(it)).count();
    assert_eq!(refused, 3);
    server.resume();
}

#[tokio::test]
async fn any_character_can_stand_in_keys_and_clusters_are_apart() {
    let server = Postgres::start();
    let (one, other) = (open(&server, "one").await, open(&server, "other").await);
    let grain: GrainId = "account/a\0'\"\\\u{1f}ä".parse().unwrap();
    let etag = one.write(grain.clone(), "n\0".to_owned(), b"1".to_vec(), None, 0).await.unwrap();
    let value = StateValue { value: b"1".to_vec(), etag };
    assert_eq!(GrainStateStore::read(&*one, grain.clone(), "n\0".to_owned(), 0).await, Ok(Some(value)));
    assert_eq!(GrainStateStore::read(&*other, grain, "n\0".to_owned(), 0).await, Ok(None));
}

/// Waits until others have written for a while.
async fn some_writes(store: &PostgresStore) {
    let read = async || MembershipTable::read(store).await.map_or(0, |snapshot| snapshot.version);
    let before = read().await;
    let started = Instant::now();
    while read().await < before + 20 && started.elapsed() < Duration::from_secs(10) {
        tokio::task::yield_now().await;
    }
}
