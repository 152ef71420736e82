//! The contract of the membership table (spec MB-10 to MB-16).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use granary_core::id::SiloAddress;
use granary_core::membership::table::{CasOutcome, MembershipRow, SiloStatus, TableSnapshot, Vote};

use super::fail;
use crate::MembershipTable;

type Table = Arc<dyn MembershipTable>;

/// The membership table, on an empty store.
///
/// # Panics
/// When the store breaks the contract.
pub async fn membership_table(table: Table) {
    assert_eq!(read(&table).await, TableSnapshot::default(), "a new table is empty, at version 0");
    rows_come_back_complete(&table).await;
    existing_rows_are_not_inserted(&table).await;
    stale_writes_are_refused(&table).await;
    renewals_disturb_nothing(&table).await;
    only_the_dead_are_removed(&table).await;
    concurrent_updaters_get_unique_versions(&table).await;
    one_of_a_hundred_writers_wins(&table).await;
    reads_are_snapshots(&table).await;
}

pub(super) fn row(port: u16) -> MembershipRow {
    MembershipRow {
        address: SiloAddress { ip: [127, 0, 0, 1].into(), port, generation: 100 },
        name: format!("silo-{port} \"ä\""),
        status: SiloStatus::Joining,
        gateway: ([127, 0, 0, 1], port + 1).into(),
        admin: ([0, 0, 0, 0, 0, 0, 0, 1], port + 2).into(),
        host_id: "host".to_owned(),
        boot_id: "boot".to_owned(),
        process_id: u32::MAX,
        votes: vec![],
        etag: 0,
        renewal: 0,
    }
}

async fn read(table: &Table) -> TableSnapshot {
    match table.read().await {
        Ok(snapshot) => snapshot,
        Err(err) => fail(&format!("reading the table failed: {err}")),
    }
}

async fn stored(table: &Table, port: u16) -> (u64, MembershipRow) {
    let mut snapshot = read(table).await;
    match snapshot.rows.remove(&row(port).address) {
        Some(found) => (snapshot.version, found),
        None => fail(&format!("the row of port {port} is not in the table")),
    }
}

async fn rows_come_back_complete(table: &Table) {
    assert_eq!(table.insert(row(1), 0).await, Ok(CasOutcome::Written { version: 1 }));
    let (version, found) = stored(table, 1).await;
    assert_eq!(version, 1);
    assert_eq!(found, MembershipRow { etag: found.etag, ..row(1) }, "all fields are kept");

    let voter = SiloAddress { ip: [0xfe80, 0, 0, 0, 0, 0, 0, 1].into(), port: 65535, generation: i32::MAX };
    let votes = vec![Vote { voter, number: 7 }, Vote { voter: row(1).address, number: u64::MAX }];
    let changed = MembershipRow { status: SiloStatus::Active, votes, ..found.clone() };
    assert_eq!(table.update(changed.clone(), 1).await, Ok(CasOutcome::Written { version: 2 }));
    let (_, again) = stored(table, 1).await;
    assert_ne!(again.etag, found.etag, "the etag changes with the row");
    assert_eq!(again, MembershipRow { etag: again.etag, ..changed });
}

async fn existing_rows_are_not_inserted(table: &Table) {
    let before = read(table).await;
    assert_eq!(table.insert(row(1), before.version).await, Ok(CasOutcome::Conflict));
    assert_eq!(read(table).await, before, "a conflict changes nothing");
}

async fn stale_writes_are_refused(table: &Table) {
    let (version, old) = stored(table, 1).await;
    assert_eq!(table.insert(row(2), version - 1).await, Ok(CasOutcome::Conflict), "insert, stale version");
    assert_eq!(table.insert(row(2), version + 1).await, Ok(CasOutcome::Conflict), "insert, future version");
    assert_eq!(table.insert(row(2), version).await, Ok(CasOutcome::Written { version: version + 1 }));
    assert_eq!(
        table.update(old.clone(), version).await,
        Ok(CasOutcome::Conflict),
        "stale version, fresh etag"
    );
    let written = CasOutcome::Written { version: version + 2 };
    assert_eq!(
        table.update(old.clone(), version + 1).await,
        Ok(written),
        "another row's write is no conflict"
    );
    assert_eq!(table.update(old, version + 2).await, Ok(CasOutcome::Conflict), "stale etag, fresh version");
    assert_eq!(table.update(row(99), version + 2).await, Ok(CasOutcome::Conflict), "no such row");
    assert_eq!(read(table).await.version, version + 2);
}

async fn renewals_disturb_nothing(table: &Table) {
    let (version, before) = stored(table, 1).await;
    assert_eq!(table.renew(before.address).await, Ok(true));
    assert_eq!(table.renew(before.address).await, Ok(true));
    let (same_version, renewed) = stored(table, 1).await;
    assert_eq!(same_version, version, "a renewal does not change the version");
    assert_eq!(renewed, MembershipRow { renewal: before.renewal + 2, ..before.clone() });
    let written = CasOutcome::Written { version: version + 1 };
    assert_eq!(table.update(before, version).await, Ok(written), "a renewal between read and update");
    assert_eq!(stored(table, 1).await.1.renewal, renewed.renewal, "an update keeps the stored renewal");
    assert_eq!(table.renew(row(99).address).await, Ok(false), "no such row");
}

async fn only_the_dead_are_removed(table: &Table) {
    let (version, found) = stored(table, 2).await;
    let dead = MembershipRow { status: SiloStatus::Dead, ..found };
    assert_eq!(table.update(dead, version).await, Ok(CasOutcome::Written { version: version + 1 }));
    assert_eq!(table.renew(row(2).address).await, Ok(false), "the dead do not renew");
    let all = vec![row(1).address, row(2).address, row(99).address];
    assert_eq!(table.remove_dead(all).await, Ok(()));
    let snapshot = read(table).await;
    assert_eq!(snapshot.version, version + 1, "a removal does not change the version");
    assert_eq!(snapshot.rows.keys().copied().collect::<Vec<_>>(), [row(1).address]);
}

async fn concurrent_updaters_get_unique_versions(table: &Table) {
    let updaters: Vec<_> = (0..20_u32)
        .map(|updater| {
            let table = Arc::clone(table);
            tokio::spawn(async move {
                let mut versions = Vec::new();
                while versions.len() < 5 {
                    let (version, found) = stored(&table, 1).await;
                    let changed = MembershipRow { process_id: updater, ..found };
                    match table.update(changed, version).await {
                        Ok(CasOutcome::Written { version }) => versions.push(version),
                        Ok(CasOutcome::Conflict) => tokio::task::yield_now().await,
                        Err(err) => fail(&format!("an update failed: {err}")),
                    }
                }
                versions
            })
        })
        .collect();
    let before = 100;
    let mut versions = BTreeSet::new();
    for updater in updaters {
        versions.extend(updater.await.unwrap_or_default());
    }
    assert_eq!(versions.len(), before, "20 updaters with 5 successes each got 100 different versions");
}

async fn one_of_a_hundred_writers_wins(table: &Table) {
    for _ in 0..5 {
        let (version, found) = stored(table, 1).await;
        let writers: Vec<_> = (0..100_u32)
            .map(|writer| {
                let (table, row) = (Arc::clone(table), MembershipRow { process_id: writer, ..found.clone() });
                tokio::spawn(async move { (writer, table.update(row, version).await) })
            })
            .collect();
        let mut winners = Vec::new();
        for writer in writers {
            match writer.await {
                Ok((writer, Ok(CasOutcome::Written { .. }))) => winners.push(writer),
                Ok((_, Ok(CasOutcome::Conflict))) => {}
                other => fail(&format!("a writer failed: {other:?}")),
            }
        }
        let (after, found) = stored(table, 1).await;
        assert_eq!(after, version + 1);
        assert_eq!(winners, [found.process_id], "the only winner's row is the one stored");
    }
}

/// Two rows are changed in turn, so that in each version the two are equal or differ by one, in a known order.
async fn reads_are_snapshots(table: &Table) {
    let version = read(table).await.version;
    let start = MembershipRow { process_id: 0, ..row(3) };
    assert_eq!(table.insert(start, version).await, Ok(CasOutcome::Written { version: version + 1 }));
    let (mut version, mut first) = stored(table, 1).await;
    first.process_id = 0;
    assert_eq!(table.update(first, version).await, Ok(CasOutcome::Written { version: version + 1 }));
    version += 1;
    let base = version;

    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (table, done) = (Arc::clone(table), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::Acquire) {
                    let snapshot = read(&table).await;
                    let written = snapshot.version - base;
                    let process = |port| snapshot.rows.get(&row(port).address).map(|row| row.process_id);
                    let expected = |rank: u64| u32::try_from((written + rank) / 2).ok();
                    let seen = (process(1), process(3));
                    assert_eq!(seen, (expected(1), expected(0)), "rows and version are of one moment");
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for step in 0..40 {
        let (seen, mut changed) = stored(table, if step % 2 == 0 { 1 } else { 3 }).await;
        changed.process_id += 1;
        assert_eq!(table.update(changed, seen).await, Ok(CasOutcome::Written { version: seen + 1 }));
    }
    done.store(true, Ordering::Release);
    for reader in readers {
        assert!(reader.await.is_ok(), "a reader saw a mixture");
    }
}
