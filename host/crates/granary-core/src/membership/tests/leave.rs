//! Leaving (spec 7.10).

use super::*;

#[test]
fn a_leave_is_told_drained_and_recorded() {
    let mut rig = Rig::active([2]);
    rig.event(Event::Leave);
    let leaving = row(silo(1), SiloStatus::ShuttingDown);
    let update = StoreRequest::Update { row: leaving.clone(), expected_version: 2 };
    assert_eq!(rig.telling(), [Command::Store { op: 4, request: update }]);
    rig.event(Event::Store { op: 4, reply: StoreReply::Written(Ok(CasOutcome::Written { version: 3 })) });
    let gossip =
        |version| Command::Send { to: silo(2), message: MembershipMessage::TableChanged { version } };
    assert_eq!(rig.telling(), [gossip(3)]);
    let rows = [leaving.clone(), row(silo(2), SiloStatus::Active)];
    rig.event(Event::Store { op: 5, reply: StoreReply::Read(Ok(table(3, rows))) });
    let view = Arc::clone(rig.machine.view());
    assert_eq!(rig.telling(), [Command::ViewChanged(view), Command::ShuttingDown { recorded: true }]);
    rig.event(Event::Finish);
    let dead = MembershipRow { status: SiloStatus::Dead, ..leaving };
    let update = StoreRequest::Update { row: dead, expected_version: 3 };
    assert_eq!(rig.telling(), [Command::Store { op: 6, request: update }]);
    rig.event(Event::Store { op: 6, reply: StoreReply::Written(Ok(CasOutcome::Written { version: 4 })) });
    assert_eq!(rig.telling(), [gossip(4), Command::Left { recorded: true }]);
    assert!(rig.machine.is_over());
}

#[test]
fn a_leave_without_a_store_goes_on_at_its_deadlines() {
    let mut rig = Rig::active([]);
    rig.event(Event::Leave);
    rig.run(ms(5000), |_| None);
    assert!(rig.telling().contains(&Command::ShuttingDown { recorded: false }));
    rig.event(Event::Finish);
    rig.run(ms(10_000), |_| None);
    assert_eq!(rig.telling().last(), Some(&Command::Left { recorded: false }));
}

#[test]
fn a_silo_that_is_declared_dead_while_it_drains_stops_at_once() {
    let mut rig = Rig::active([2]);
    rig.event(Event::Leave);
    rig.answer(StoreReply::Written(Ok(CasOutcome::Conflict)));
    rig.answer(StoreReply::Read(Ok(table(3, [row(silo(1), SiloStatus::Dead)]))));
    let fatal = Command::Fatal(FatalReason::DeclaredDead { version: 3 });
    assert_eq!(rig.telling().last(), Some(&fatal));
}

#[test]
fn a_finish_that_was_written_but_not_answered_is_recognised() {
    let mut rig = Rig::active([]);
    rig.event(Event::Finish);
    rig.answer(StoreReply::Written(Err(StoreFailure::Unavailable("reset".into()))));
    rig.run(ms(1000), store_with(table(3, [row(silo(1), SiloStatus::Dead)])));
    assert_eq!(rig.telling().last(), Some(&Command::Left { recorded: true }));
}

#[test]
fn a_silo_that_never_joined_leaves_without_a_write() {
    let mut rig = Rig::new(MembershipConfig::new(identity(silo(1))));
    rig.event(Event::Start);
    rig.event(Event::Leave);
    rig.event(Event::Finish);
    let read = Command::Store { op: 1, request: StoreRequest::Read };
    let told = Command::ShuttingDown { recorded: false };
    assert_eq!(rig.take(), [read, told, Command::Left { recorded: true }]);
}
