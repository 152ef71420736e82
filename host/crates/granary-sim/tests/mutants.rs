//! The tests of the tests: machines with a planted fault must break a promise within a bounded number of schedules,
//! and the machines without it must keep all promises in the very schedule that kills the mutant.

use granary_sim::Mutant;

/// Schedules after which a mutant counts as alive.
const SEEDS_MAX: u64 = 3_000;

/// Looks from seed `first` on, where the mutant is known to die soon.
#[expect(clippy::print_stdout, reason = "tells how the mutant died")]
fn killed(mutant: Mutant, first: u64) {
    let found = (first..first + SEEDS_MAX).find_map(|seed| granary_sim::run(seed, Some(mutant)).err());
    assert!(found.is_some(), "{mutant:?} survived {SEEDS_MAX} schedules");
    if let Some(failure) = found {
        println!("{mutant:?}: seed {}, {}", failure.seed, failure.what);
        assert_eq!(granary_sim::run(failure.seed, None).err(), None, "the machines themselves fail there");
    }
}

/// One test for each mutant.
macro_rules! mutants {
    ($($name:ident: $machine:ident $mutant:ident from $first:literal,)*) => {
        mod mutants_are_killed {
            use granary_sim::Mutant;

            $(#[test]
            fn $name() {
                super::killed(mutants!(@ $machine $mutant), $first);
            })*
        }
    };
    (@ Directory $mutant:ident) => { Mutant::Directory(granary_core::directory::Mutant::$mutant) };
    (@ Membership $mutant:ident) => { Mutant::Membership(granary_core::membership::Mutant::$mutant) };
}

// Not in the list: `OlderViewAccepted` of membership. A machine has one store operation at a time and the store never
// reads stale, so no older view can arrive; the machine's own tests kill it.
mutants! {
    an_owner_that_does_not_wait_for_the_barrier: Directory NoBarrier from 0,
    a_removal_of_any_activation: Directory UnregisterAnyActivation from 0,
    an_owner_that_serves_an_older_view: Directory StaleViewAccepted from 0,
    a_silo_that_believes_an_old_answer: Directory OldAnswerBelieved from 230,
    a_frozen_target_that_beats_a_live_activation: Directory FrozenBeatsLive from 40,
    an_owner_that_keeps_dead_entries: Directory DeadEntriesKept from 0,
    a_source_that_reports_on_after_its_move: Directory MovedSourceKept from 0,
    a_report_that_is_asked_for_once: Directory ReportsNotRepeated from 0,
    a_registration_that_comes_back: Directory EndedForgotten from 1030,
    a_move_without_compare: Directory MoveWithoutCompare from 350,
    a_source_that_resumes_in_doubt: Directory DoubtfulSourceResumed from 60,
    a_target_that_is_not_announced: Directory TargetNotAnnounced from 180,
    one_vote_that_kills: Membership OneVoteKills from 0,
    a_silo_that_ignores_its_death: Membership OwnDeathIgnored from 0,
    a_join_without_probing: Membership JoinWithoutProbing from 0,
    a_conflict_that_is_overwritten: Membership ConflictOverwritten from 0,
    votes_of_dead_silos_that_count: Membership DeadVotersCount from 30,
    an_unknown_proof_that_is_believed: Membership UnknownProofBelieved from 0,
    a_vote_that_is_not_retracted: Membership VoteNotRetracted from 0,
    a_renewal_that_is_not_watched: Membership RenewalNotWatched from 0,
}
