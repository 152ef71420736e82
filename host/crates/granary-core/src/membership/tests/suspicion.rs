//! Probing, voting and declaring dead (spec 7.6 and 7.7, fencing rule 4, decision B7).

use super::*;
use crate::membership::table::Vote;

fn actives(version: u64, silos: impl IntoIterator<Item = u16>) -> TableSnapshot {
    table(version, silos.into_iter().map(|n| row(silo(n), SiloStatus::Active)))
}

/// The rows that the machine wanted to write since the last look.
fn updates(rig: &mut Rig) -> Vec<(MembershipRow, u64)> {
    let update = |command| match command {
        Command::Store { request: StoreRequest::Update { row, expected_version }, .. } => {
            Some((row, expected_version))
        }
        _ => None,
    };
    rig.take().into_iter().filter_map(update).collect()
}

fn vote(voter: u16, number: u64) -> Vote {
    Vote { voter: silo(voter), number }
}

fn with_votes(target: u16, votes: impl IntoIterator<Item = Vote>) -> MembershipRow {
    MembershipRow { votes: votes.into_iter().collect(), ..row(silo(target), SiloStatus::Active) }
}

/// All silos answer every probe but the silent ones.
fn run_with_acks(rig: &mut Rig, until: Time, answering: &[u16], table: &TableSnapshot) {
    while rig.now < until {
        let before = rig.out.len();
        rig.run(after(rig.now, 50), store_with(table.clone()));
        let probes: Vec<(SiloAddress, u64)> = rig.out[before..]
            .iter()
            .filter_map(|command| match command {
                Command::Send { to, message: MembershipMessage::Probe { sequence, .. } } => {
                    Some((*to, *sequence))
                }
                _ => None,
            })
            .collect();
        for (to, sequence) in probes {
            if answering.iter().any(|n| silo(*n) == to) {
                let ack =
                    MembershipMessage::ProbeAck { sequence, view_version: table.version, generation: 0 };
                rig.message(to, ack);
            }
        }
    }
}

#[test]
fn three_missed_probes_make_a_vote_in_a_view_of_three() {
    let mut rig = Rig::active([2, 3]);
    run_with_acks(&mut rig, ms(1400), &[3], &actives(2, [1, 2, 3]));
    assert_eq!(updates(&mut rig), []);
    run_with_acks(&mut rig, ms(2100), &[3], &actives(2, [1, 2, 3]));
    assert!(rig.out.contains(&Command::Report(Fact::Suspected(silo(2)))));
    assert_eq!(updates(&mut rig), [(with_votes(2, [vote(1, 1)]), 2)]);
}

#[test]
fn an_answer_to_a_recent_probe_clears_the_misses_and_an_old_one_does_not() {
    let mut rig = Rig::active([2, 3]);
    run_with_acks(&mut rig, ms(1400), &[3], &actives(2, [1, 2, 3]));
    let last = rig.last_probe(silo(2));
    let ack = |sequence| MembershipMessage::ProbeAck { sequence, view_version: 2, generation: 0 };
    rig.message(silo(2), ack(last.saturating_sub(3)));
    rig.message(silo(2), ack(last + 1));
    assert!(rig.machine.anyone_missing());
    rig.message(silo(2), ack(last - 1));
    assert!(!rig.machine.anyone_missing());
}

#[test]
fn the_vote_that_makes_a_majority_declares_the_silo_dead() {
    let mut rig = Rig::active([2, 3]);
    let mut table = actives(3, [1, 2, 3]);
    table.rows.insert(silo(2), with_votes(2, [vote(3, 4)]));
    run_with_acks(&mut rig, ms(2100), &[3], &table);
    let dead = MembershipRow { status: SiloStatus::Dead, ..with_votes(2, [vote(3, 4), vote(1, 1)]) };
    assert_eq!(updates(&mut rig), [(dead, 3)]);
}

#[test]
fn votes_of_silos_that_are_dead_or_gone_do_not_count() {
    let mut rig = Rig::active([2, 3]);
    let mut table = actives(3, [1, 2, 3]);
    table.rows.insert(silo(4), row(silo(4), SiloStatus::Dead));
    table.rows.insert(silo(2), with_votes(2, [vote(4, 1), vote(5, 1)]));
    rig.message(silo(3), MembershipMessage::TableChanged { version: 3 });
    run_with_acks(&mut rig, ms(2600), &[3], &table);
    assert_eq!(updates(&mut rig), [(with_votes(2, [vote(1, 1)]), 3)]);
}

#[test]
fn in_a_view_of_two_one_vote_waits_until_the_renewal_has_expired() {
    let mut rig = Rig::active([2]);
    let mut table = actives(2, [1, 2]);
    rig.run(ms(3000), |request| Some(apply(&mut table, request)));
    assert_eq!(table.rows[&silo(2)].votes, [vote(1, 1)]);
    // A renewal starts the watch anew, at the next read.
    table.rows.get_mut(&silo(2)).unwrap().renewal += 1;
    rig.run(ms(7100), |request| Some(apply(&mut table, request)));
    assert_eq!(table.rows[&silo(2)].status, SiloStatus::Active, "4.12 s of one renewal are needed");
    rig.run(ms(8200), |request| Some(apply(&mut table, request)));
    assert_eq!(table.rows[&silo(2)].status, SiloStatus::Dead);
}

#[test]
fn a_vote_is_taken_back_when_the_target_answers_and_the_next_one_has_a_higher_number() {
    let mut rig = Rig::active([2, 3]);
    let mut table = actives(3, [1, 2, 3]);
    table.rows.insert(silo(2), with_votes(2, [vote(3, 1), vote(1, 6)]));
    rig.message(silo(3), MembershipMessage::TableChanged { version: 3 });
    run_with_acks(&mut rig, ms(600), &[2, 3], &table);
    assert_eq!(updates(&mut rig), [(with_votes(2, [vote(3, 1)]), 3)]);
    rig.answer_last(StoreReply::Written(Ok(CasOutcome::Written { version: 4 })));
    let table = actives(4, [1, 2, 3]);
    run_with_acks(&mut rig, ms(3000), &[3], &table);
    assert_eq!(updates(&mut rig), [(with_votes(2, [vote(1, 7)]), 4)]);
}

/// Silo 1 beside silo 2 on the same host.
fn same_host() -> (Rig, MembershipRow) {
    let mut rig = Rig::active([]);
    let mut other = row(silo(2), SiloStatus::Active);
    other.host_id = identity(silo(1)).host_id;
    rig.message(silo(2), MembershipMessage::TableChanged { version: 3 });
    rig.answer_last(StoreReply::Read(Ok(table(3, [row(silo(1), SiloStatus::Active), other.clone()]))));
    rig.take();
    (rig, other)
}

#[test]
fn a_free_file_lock_on_the_same_host_is_a_death_at_once() {
    let (mut rig, other) = same_host();
    rig.event(Event::PeerUnreachable(silo(2)));
    assert_eq!(rig.telling(), [Command::ProveDeath(Box::new(other.clone()))]);
    rig.event(Event::DeathProof { silo: silo(2), proof: DeathProof::Proved });
    let dead = MembershipRow { status: SiloStatus::Dead, ..other };
    assert_eq!(updates(&mut rig), [(dead, 3)]);
    assert_eq!(rig.now, ms(0));
}

#[test]
fn a_lock_that_says_nothing_leaves_it_to_the_votes() {
    let (mut rig, other) = same_host();
    rig.event(Event::PeerUnreachable(silo(2)));
    rig.event(Event::PeerUnreachable(silo(2)));
    rig.event(Event::PeerUnreachable(silo(2)));
    rig.event(Event::DeathProof { silo: silo(2), proof: DeathProof::Unknown });
    assert_eq!(
        rig.telling(),
        [Command::ProveDeath(Box::new(other.clone()))],
        "one hint counts for each probe"
    );
    let rows = table(3, [row(silo(1), SiloStatus::Active), other.clone()]);
    run_with_acks(&mut rig, ms(3500), &[], &rows);
    let accused = (MembershipRow { votes: vec![vote(1, 1)], ..other }, 3);
    assert_eq!(updates(&mut rig).first(), Some(&accused));
}

#[test]
fn a_silo_on_another_host_is_never_asked_for_by_its_lock() {
    let mut rig = Rig::active([2]);
    rig.event(Event::PeerUnreachable(silo(2)));
    rig.run(ms(3000), store_with(actives(2, [1, 2])));
    assert!(rig.take().iter().all(|command| !matches!(command, Command::ProveDeath(_))));
}

#[test]
fn a_joiner_that_answers_but_never_finishes_is_voted_out() {
    let mut rig = Rig::active([2]);
    let mut table = actives(3, [1, 2]);
    table.rows.insert(silo(3), row(silo(3), SiloStatus::Joining));
    rig.message(silo(2), MembershipMessage::TableChanged { version: 3 });
    run_with_acks(&mut rig, ms(89_000), &[2, 3], &table);
    assert_eq!(updates(&mut rig), []);
    run_with_acks(&mut rig, ms(92_500), &[2, 3], &table);
    let accused = MembershipRow { votes: vec![vote(1, 1)], ..row(silo(3), SiloStatus::Joining) };
    let first = updates(&mut rig).first().cloned();
    assert!(
        matches!(&first, Some((row, 3)) if row.votes == accused.votes && row.address == silo(3)),
        "{first:?}"
    );
}

impl Rig {
    /// Answers the newest operation, even if its command was taken away.
    fn answer_last(&mut self, reply: StoreReply) {
        let op = self.machine.store.last_op();
        self.event(Event::Store { op, reply });
    }
}
