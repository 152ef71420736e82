//! Joining (spec 7.4, fencing rule 6, decision B7).

use super::*;

fn start(config: MembershipConfig) -> Rig {
    let mut rig = Rig::new(config);
    rig.event(Event::Start);
    rig
}

fn written(version: u64) -> StoreReply {
    StoreReply::Written(Ok(CasOutcome::Written { version }))
}

fn read(table: TableSnapshot) -> StoreReply {
    StoreReply::Read(Ok(table))
}

fn last_write(rig: &Rig) -> Option<(StoreRequest, u64)> {
    rig.out.iter().rev().find_map(|command| match command {
        Command::Store {
            request: request @ (StoreRequest::Insert { .. } | StoreRequest::Update { .. }),
            op,
        } => Some((request.clone(), *op)),
        _ => None,
    })
}

#[test]
fn a_lone_silo_joins_with_two_writes_and_no_wait() {
    let mut rig = start(MembershipConfig::new(identity(silo(1))));
    assert_eq!(rig.take(), [Command::Store { op: 1, request: StoreRequest::Read }]);
    rig.event(Event::Store { op: 1, reply: read(table(0, [])) });
    let own = MembershipRow { etag: 0, ..row(silo(1), SiloStatus::Joining) };
    let insert = StoreRequest::Insert { row: own, expected_version: 0 };
    assert_eq!(rig.take(), [Command::Store { op: 2, request: insert }]);
    rig.event(Event::Store { op: 2, reply: written(1) });
    assert_eq!(rig.take(), [Command::Store { op: 3, request: StoreRequest::Read }]);
    let own = row(silo(1), SiloStatus::Joining);
    rig.event(Event::Store { op: 3, reply: read(table(1, [own.clone()])) });
    let view = Arc::clone(rig.machine.view());
    let update = StoreRequest::Update {
        row: MembershipRow { status: SiloStatus::Active, ..own },
        expected_version: 1,
    };
    assert_eq!(rig.take(), [Command::ViewChanged(view), Command::Store { op: 4, request: update }]);
    rig.event(Event::Store { op: 4, reply: written(2) });
    rig.take();
    rig.event(Event::Store { op: 5, reply: read(table(2, [row(silo(1), SiloStatus::Active)])) });
    let view = Arc::clone(rig.machine.view());
    assert_eq!(rig.take(), [Command::ViewChanged(view), Command::Joined]);
    assert_eq!(rig.now, ms(0));
}

#[test]
fn an_earlier_start_at_the_same_endpoint_is_declared_dead_at_once() {
    let old = MembershipRow { host_id: "other".into(), ..row(silo(1), SiloStatus::Active) };
    let mut new = identity("10.0.0.1:7000@5".parse().unwrap());
    new.name = "new".into();
    let mut rig = start(MembershipConfig::new(new));
    rig.answer(read(table(4, [old.clone()])));
    let dead = MembershipRow { status: SiloStatus::Dead, ..old };
    assert_eq!(last_write(&rig).unwrap().0, StoreRequest::Update { row: dead, expected_version: 4 });
}

#[test]
fn a_loopback_endpoint_of_another_host_is_not_replaced() {
    let old =
        MembershipRow { address: "127.0.0.1:7000@1".parse().unwrap(), ..row(silo(2), SiloStatus::Active) };
    let mut rig = start(MembershipConfig::new(identity("127.0.0.1:7000@5".parse().unwrap())));
    rig.answer(read(table(4, [old])));
    assert!(matches!(last_write(&rig), Some((StoreRequest::Insert { .. }, _))));
}

#[test]
fn the_name_lock_proves_the_older_silo_of_the_name_dead() {
    let old = MembershipRow { address: silo(9), ..row(silo(1), SiloStatus::Active) };
    for (lock, boot, replaced) in [(true, "boot", true), (false, "boot", false), (true, "other boot", false)]
    {
        let mut config = MembershipConfig::new(identity("10.0.0.1:7000@50".parse().unwrap()));
        config.holds_name_lock = lock;
        config.identity.boot_id = boot.into();
        let mut rig = start(config);
        rig.answer(read(table(4, [old.clone()])));
        let dead = MembershipRow { status: SiloStatus::Dead, ..old.clone() };
        let expected = StoreRequest::Update { row: dead, expected_version: 4 };
        assert_eq!(last_write(&rig).map(|it| it.0), replaced.then_some(expected), "{lock} {boot}");
    }
}

#[test]
fn a_living_silo_of_the_same_name_fails_the_join_and_is_named() {
    let mut other = row(silo(2), SiloStatus::Active);
    other.name = identity(silo(1)).name;
    let mut rig = start(MembershipConfig::new(identity(silo(1))));
    rig.answer(read(table(4, [other])));
    rig.ack(silo(2), 4);
    let error = JoinError::NameTaken { name: "silo-10.0.0.1".into(), silo: silo(2) };
    assert_eq!(
        error.to_string(),
        "a silo named silo-10.0.0.1 is already running at 10.0.0.2:7000@2: choose another name, or stop that silo first"
    );
    assert_eq!(rig.telling().last(), Some(&Command::JoinFailed(error)));
}

#[test]
fn a_later_start_at_the_same_endpoint_fails_the_join() {
    for status in [SiloStatus::Active, SiloStatus::Dead] {
        let later = MembershipRow { address: "10.0.0.1:7000@8".parse().unwrap(), ..row(silo(1), status) };
        let mut rig = start(MembershipConfig::new(identity(silo(1))));
        rig.answer(read(table(4, [later.clone()])));
        let error = JoinError::LaterGeneration { silo: later.address };
        assert_eq!(
            rig.telling(),
            [Command::ViewChanged(Arc::clone(rig.machine.view())), Command::JoinFailed(error)]
        );
    }
}

#[test]
fn the_own_generation_taken_by_somebody_else_fails_the_join() {
    let mut taken = row(silo(1), SiloStatus::Dead);
    taken.process_id = 1234;
    let mut rig = start(MembershipConfig::new(identity(silo(1))));
    rig.answer(read(table(4, [taken])));
    let error = JoinError::LaterGeneration { silo: silo(1) };
    assert_eq!(rig.telling().last(), Some(&Command::JoinFailed(error)));
}

/// Silo 1 has inserted its row (version 5) beside the Active silo 2.
fn joining_beside_silo_2() -> Rig {
    let mut rig = start(MembershipConfig::new(identity(silo(1))));
    rig.answer(read(table(4, [row(silo(2), SiloStatus::Active)])));
    rig.answer(written(5));
    let rows = [row(silo(1), SiloStatus::Joining), row(silo(2), SiloStatus::Active)];
    rig.answer(read(table(5, rows)));
    rig
}

#[test]
fn a_join_waits_until_every_active_silo_acknowledges_a_view_with_the_joiner() {
    let mut rig = joining_beside_silo_2();
    let gossip = Command::Send { to: silo(2), message: MembershipMessage::TableChanged { version: 5 } };
    assert!(rig.out.contains(&gossip));
    let insert = last_write(&rig);
    rig.ack(silo(2), 4);
    assert_eq!(last_write(&rig), insert);
    // The silo that answers with its old view is asked again soon.
    rig.run(ms(60), |_| None);
    rig.ack(silo(2), 5);
    let active = row(silo(1), SiloStatus::Active);
    assert_eq!(last_write(&rig).unwrap().0, StoreRequest::Update { row: active, expected_version: 5 });
}

#[test]
fn a_join_that_cannot_reach_an_active_silo_fails_at_its_deadline_and_takes_its_row_back() {
    let mut rig = joining_beside_silo_2();
    let mut rows = [row(silo(1), SiloStatus::Joining), row(silo(2), SiloStatus::Active)];
    let mut dead = false;
    rig.run(ms(70_000), |request| match request {
        StoreRequest::Read => {
            rows[1].renewal += 1; // Silo 2 lives, but cannot be reached.
            Some(read(table(5, rows.clone())))
        }
        StoreRequest::Renew(_) => Some(StoreReply::Renewed(Ok(true))),
        StoreRequest::Update { row, expected_version: 5 } if row.status == SiloStatus::Dead => {
            assert_eq!(row.address, silo(1));
            dead = true;
            Some(written(6))
        }
        other => panic!("{other:?}"),
    });
    assert!(dead);
    let error = JoinError::Unreachable { silos: vec![silo(2)] };
    assert_eq!(rig.telling().last(), Some(&Command::JoinFailed(error)));
}

#[test]
fn an_insert_whose_answer_was_lost_is_recognised() {
    let mut rig = start(MembershipConfig::new(identity(silo(1))));
    rig.answer(read(table(0, [])));
    rig.answer(StoreReply::Written(Err(StoreFailure::Unavailable("reset".into()))));
    rig.run(ms(100), |request| {
        let read_it = *request == StoreRequest::Read;
        read_it.then(|| read(table(1, [row(silo(1), SiloStatus::Joining)])))
    });
    let active = row(silo(1), SiloStatus::Active);
    assert_eq!(last_write(&rig).unwrap().0, StoreRequest::Update { row: active, expected_version: 1 });
}

#[test]
fn a_lost_race_is_read_again_before_the_next_write() {
    let mut rig = start(MembershipConfig::new(identity(silo(1))));
    rig.answer(read(table(0, [])));
    rig.answer(StoreReply::Written(Ok(CasOutcome::Conflict)));
    assert_eq!(rig.take().pop(), Some(Command::Store { op: 3, request: StoreRequest::Read }));
    rig.event(Event::Store { op: 3, reply: read(table(7, [row(silo(2), SiloStatus::Dead)])) });
    rig.run(ms(20), |_| None);
    let Some((StoreRequest::Insert { expected_version, .. }, _)) = last_write(&rig) else {
        panic!("no insert: {:?}", rig.out);
    };
    assert_eq!(expected_version, 7);
}

#[test]
fn an_unusable_store_fails_the_join_at_once() {
    let mut rig = start(MembershipConfig::new(identity(silo(1))));
    let failure = StoreFailure::Unusable("a newer format".into());
    rig.answer(StoreReply::Read(Err(failure.clone())));
    assert_eq!(rig.telling().last(), Some(&Command::JoinFailed(JoinError::Store(failure))));
}

#[test]
fn after_a_crash_of_the_whole_cluster_a_joiner_waits_for_the_renewals_and_goes_on() {
    let mut rig = start(MembershipConfig::new(identity(silo(1))));
    let mut rows = table(9, [2, 3, 4].map(|n| row(silo(n), SiloStatus::Active)));
    let mut deaths = Vec::new();
    rig.run(ms(8000), |request| match request {
        StoreRequest::Read => Some(read(rows.clone())),
        StoreRequest::Renew(_) => Some(StoreReply::Renewed(Ok(true))),
        StoreRequest::Insert { row, expected_version } | StoreRequest::Update { row, expected_version } => {
            assert_eq!(*expected_version, rows.version);
            rows.version += 1;
            rows.rows.insert(row.address, row.clone());
            deaths.extend((row.status == SiloStatus::Dead).then_some(row.address));
            Some(written(rows.version))
        }
        StoreRequest::RemoveDead(_) => None,
    });
    assert_eq!(deaths, [2, 3, 4].map(silo));
    assert!(rig.machine.is_active());
}
