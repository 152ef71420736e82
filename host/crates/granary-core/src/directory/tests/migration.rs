//! Migrations and conflicts at barriers (decision B10).

use super::*;

fn frozen(key: u32, activation: u128, at: u16, previous: u128) -> GrainAddress {
    GrainAddress { previous: Some(ActivationId(previous)), ..address(key, activation, at) }
}

/// Three silos; grain `key` is owned by silo 3 and has activation 10 on silo 1 and a frozen target 20 on silo 2.
fn restored() -> (Cluster, u32) {
    let (mut cluster, first) = Cluster::settled(3);
    let key = grain_owned_by(3, &first);
    cluster.register(key, 10, 1);
    let fence = cluster.machines.values().flat_map(Directory::entries).next().unwrap().fence;
    let address = GrainAddress { fence, ..frozen(key, 20, 2, 10) };
    assert_eq!(cluster.run(2, LocalOp::AddFrozen { address }), Outcome::Added);
    (cluster, key)
}

fn thaw(cluster: &mut Cluster, key: u32) -> Outcome {
    cluster.run(2, LocalOp::Thaw { grain: grain(key), activation: ActivationId(20) })
}

fn move_op(key: u32) -> LocalOp {
    LocalOp::Move { from: ActivationId(10), to: address(key, 20, 2) }
}

fn activations(cluster: &Cluster, at: u16) -> Vec<(u128, bool)> {
    let machine = &cluster.machines[&silo(at)];
    machine.activations().map(|it| (it.address.activation.0, it.frozen)).collect()
}

#[test]
fn a_migration_commits_at_the_owner_and_the_target_goes_live_on_reading_it() {
    let (mut cluster, key) = restored();
    assert_eq!(thaw(&mut cluster, key), Outcome::NotYet);
    let Outcome::Moved(entry) = cluster.run(1, move_op(key)) else { panic!() };
    assert_eq!((entry.activation.0, entry.previous), (20, Some(ActivationId(10))));
    assert_eq!(activations(&cluster, 1), vec![]);
    assert_eq!(thaw(&mut cluster, key), Outcome::Registered(entry.clone()));
    assert_eq!(thaw(&mut cluster, key), Outcome::Registered(entry));
    assert_eq!(activations(&cluster, 2), vec![(20, false)]);
}

#[test]
fn a_move_whose_answer_was_lost_is_answered_again() {
    let (mut cluster, key) = restored();
    let op = cluster.start(1, move_op(key));
    let request = cluster.wire.pop_front().unwrap();
    cluster.deliver(request);
    cluster.wire.clear();
    assert_eq!(registered(&thaw(&mut cluster, key)), 20);
    cluster.run(2, LocalOp::Unregister { grain: grain(key), activation: ActivationId(20) });
    cluster.wait(1);
    assert_eq!(cluster.outcomes[&op], Outcome::Lost(None), "the source must not come back");
    assert_eq!(activations(&cluster, 1), vec![]);
}

#[test]
fn a_move_cannot_be_cancelled() {
    let (mut cluster, key) = restored();
    let op = cluster.start(1, move_op(key));
    cluster.handle(1, Event::Cancel(op));
    cluster.pump();
    assert!(matches!(cluster.outcomes[&op], Outcome::Moved(_)));
}

#[test]
fn a_move_to_a_dropped_target_leaves_the_source_running() {
    let (mut cluster, key) = restored();
    let dropped = cluster.run(2, LocalOp::DropFrozen { grain: grain(key), activation: ActivationId(20) });
    assert_eq!(dropped, Outcome::Removed);
    assert_eq!(cluster.run(1, move_op(key)), Outcome::NotMoved);
    assert_eq!(activations(&cluster, 1), vec![(10, false)]);
    assert_eq!(cluster.lookup(key, 3), Some(10));
}

#[test]
fn a_source_does_not_resume_when_its_target_may_have_run_before_it_died() {
    let (mut cluster, key) = restored();
    let op = cluster.start(1, move_op(key));
    let request = cluster.wire.pop_front().unwrap();
    cluster.deliver(request);
    cluster.wire.clear();
    assert_eq!(registered(&thaw(&mut cluster, key)), 20);
    // Owner and target die before the source hears of the commit.
    cluster.machines.remove(&silo(2));
    cluster.machines.remove(&silo(3));
    cluster.install_everywhere(&view(2, &[1], &[]));
    assert_eq!(cluster.outcomes[&op], Outcome::Lost(None));
    assert_eq!(activations(&cluster, 1), vec![]);
    assert_eq!(cluster.lookup(key, 1), None);
}

#[test]
fn a_source_resumes_when_its_target_died_and_nothing_was_committed() {
    let (mut cluster, key) = restored();
    cluster.machines.remove(&silo(2));
    cluster.install_everywhere(&view(2, &[1, 3], &[]));
    assert_eq!(cluster.run(1, move_op(key)), Outcome::NotMoved);
    assert_eq!(activations(&cluster, 1), vec![(10, false)]);
}

#[test]
fn a_frozen_target_is_registered_only_when_no_live_activation_is_left() {
    let (mut cluster, key) = restored();
    cluster.machines.insert(silo(4), Directory::new(silo(4), DirectoryConfig::default()));
    cluster.install_everywhere(&view(2, &[1, 2, 3, 4], &[]));
    assert_eq!(cluster.lookup(key, 4), Some(10));
    assert_eq!(thaw(&mut cluster, key), Outcome::NotYet);

    cluster.machines.remove(&silo(1));
    cluster.install_everywhere(&view(3, &[2, 3, 4], &[]));
    assert_eq!(registered(&thaw(&mut cluster, key)), 20);
    let entry = cluster.machines.values().flat_map(Directory::entries).next().cloned().unwrap();
    assert!(entry.fence >= 3 << 32);
}

#[test]
fn a_target_is_announced_only_when_the_source_has_reported_in_the_view_of_the_target() {
    let (mut cluster, first) = Cluster::settled(3);
    let key = grain_owned_by(3, &first);
    cluster.register(key, 10, 1);
    let second = view(2, &[1, 2], &[3]);
    for at in [2, 3] {
        cluster.install(at, &second);
    }
    let op = cluster.start(2, LocalOp::AddFrozen { address: frozen(key, 20, 2, 10) });
    cluster.pump();
    assert_eq!(cluster.outcomes.get(&op), None, "silo 1 could still commit in the old view");
    cluster.install(1, &second);
    cluster.pump();
    assert_eq!(cluster.outcomes[&op], Outcome::Added);
}

#[test]
fn a_target_of_a_source_that_is_gone_is_not_announced() {
    let (mut cluster, _) = Cluster::settled(2);
    let outcome = cluster.run(2, LocalOp::AddFrozen { address: frozen(1, 20, 2, 10) });
    assert_eq!(outcome, Outcome::Lost(None));
    assert_eq!(activations(&cluster, 2), vec![]);
}

#[test]
fn a_frozen_target_of_a_source_that_ended_is_lost() {
    let (mut cluster, key) = restored();
    cluster.run(1, LocalOp::Unregister { grain: grain(key), activation: ActivationId(10) });
    assert_eq!(thaw(&mut cluster, key), Outcome::Lost(None));
    assert_eq!(activations(&cluster, 2), vec![]);
}

#[test]
fn a_source_in_doubt_loses_to_its_live_target_at_a_barrier() {
    let (mut cluster, key) = restored();
    let op = cluster.start(1, move_op(key));
    let request = cluster.wire.pop_front().unwrap();
    cluster.deliver(request);
    cluster.wire.clear();
    assert_eq!(registered(&thaw(&mut cluster, key)), 20);
    cluster.machines.remove(&silo(3));
    cluster.install_everywhere(&view(2, &[1, 2], &[]));
    assert!(matches!(cluster.outcomes[&op], Outcome::Moved(_)));
    assert_eq!(activations(&cluster, 1), vec![]);
    assert_eq!(cluster.deactivated, vec![], "the source is not a duplicate, it moved");
    assert_eq!(cluster.lookup(key, 1), Some(20));
}

#[test]
fn a_frozen_target_wins_against_an_older_source_that_is_still_in_doubt() {
    // 10 on silo 1 moves to 20 on silo 2, and does not hear of it; 20 moves on to 30 on silo 4, which is frozen when
    // the owner dies.
    let (mut cluster, _) = Cluster::settled(4);
    let key = grain_owned_by(3, &view(1, &[1, 2, 3, 4], &[]));
    cluster.register(key, 10, 1);
    cluster.run(2, LocalOp::AddFrozen { address: frozen(key, 20, 2, 10) });
    let op = cluster.start(1, move_op(key));
    let request = cluster.wire.pop_front().unwrap();
    cluster.deliver(request);
    cluster.wire.clear();
    let Outcome::Registered(second) = thaw(&mut cluster, key) else { panic!() };
    let third = GrainAddress { fence: second.fence, ..frozen(key, 30, 4, 20) };
    assert_eq!(cluster.run(4, LocalOp::AddFrozen { address: third.clone() }), Outcome::Added);
    let moved = cluster.run(2, LocalOp::Move { from: ActivationId(20), to: third });
    assert!(matches!(moved, Outcome::Moved(_)));

    cluster.machines.remove(&silo(3));
    cluster.install_everywhere(&view(2, &[1, 2, 4], &[]));
    assert!(matches!(&cluster.outcomes[&op], Outcome::Lost(Some(entry)) if entry.activation.0 == 30));
    let thawed = cluster.run(4, LocalOp::Thaw { grain: grain(key), activation: ActivationId(30) });
    assert_eq!(registered(&thawed), 30);
}

#[test]
fn the_older_of_two_live_activations_is_evicted_at_a_barrier() {
    let (mut cluster, first) = Cluster::settled(3);
    let key = grain_owned_by(3, &first);
    cluster.register(key, 10, 1);
    // As if silo 1 had been cut off, and the grain had been activated anew.
    let lost = cluster.machines.remove(&silo(1)).unwrap();
    cluster.install_everywhere(&view(2, &[2, 3], &[]));
    assert_eq!(registered(&cluster.register(key, 20, 2)), 20);
    cluster.machines.insert(silo(1), lost);
    cluster.install_everywhere(&view(3, &[1, 2, 3], &[]));
    assert_eq!(cluster.deactivated, vec![(silo(1), ActivationId(10))]);
    assert_eq!(cluster.lookup(key, 1), Some(20));
}

#[test]
fn a_move_needs_a_live_source_and_another_silo() {
    let (mut cluster, key) = restored();
    let refused = |outcome: Outcome, refusal| assert_eq!(outcome, Outcome::Refused(refusal));
    let to_itself = LocalOp::Move { from: ActivationId(10), to: address(key, 20, 1) };
    refused(cluster.run(1, to_itself), Refusal::WrongSilo);
    let unknown = LocalOp::Move { from: ActivationId(11), to: address(key, 20, 2) };
    refused(cluster.run(1, unknown), Refusal::NotLive);
    let of_frozen = LocalOp::Move { from: ActivationId(20), to: address(key, 30, 1) };
    refused(cluster.run(2, of_frozen), Refusal::NotLive);
    let twice = cluster.start(1, move_op(key));
    refused(cluster.run(1, move_op(key)), Refusal::NotLive);
    assert!(matches!(cluster.outcomes[&twice], Outcome::Moved(_)));
}
