//! The tests of the tests: machines with a planted fault must break a promise within a bounded number of schedules,
//! and the machines without it must keep all promises in the very schedule that kills the mutant.

use granary_core::{directory, membership};
use granary_sim::Mutant;

/// Schedules after which a mutant counts as alive.
const SEEDS_MAX: u64 = 3_000;

fn killed(mutant: Mutant) {
    let found = (0..SEEDS_MAX).find_map(|seed| granary_sim::run(seed, Some(mutant)).err());
    let Some(failure) = found else { panic!("{mutant:?} survived {SEEDS_MAX} schedules") };
    println!("{mutant:?}: seed {}, {}", failure.seed, failure.what);
    assert_eq!(granary_sim::run(failure.seed, None).err(), None, "the machines themselves fail there");
}

macro_rules! mutants_are_killed {
    ($($name:ident: $machine:ident $mutant:ident,)*) => {$(
        #[test]
        fn $name() {
            mutants_are_killed!(@ $machine $mutant);
        }
    )*};
    (@ Directory $mutant:ident) => { killed(Mutant::Directory(directory::Mutant::$mutant)) };
    (@ Membership $mutant:ident) => { killed(Mutant::Membership(membership::Mutant::$mutant)) };
}

// Not in the list: `OlderViewAccepted` of membership. A machine has one store operation at a time and the store never
// reads stale, so no older view can arrive; the machine's own tests kill it.
mutants_are_killed! {
    an_owner_that_does_not_wait_for_the_barrier_is_killed: Directory NoBarrier,
    a_removal_of_any_activation_is_killed: Directory UnregisterAnyActivation,
    an_owner_that_serves_an_older_view_is_killed: Directory StaleViewAccepted,
    a_silo_that_believes_an_old_answer_is_killed: Directory OldAnswerBelieved,
    a_frozen_target_that_beats_a_live_activation_is_killed: Directory FrozenBeatsLive,
    an_owner_that_keeps_dead_entries_is_killed: Directory DeadEntriesKept,
    a_source_that_reports_on_after_its_move_is_killed: Directory MovedSourceKept,
    a_report_that_is_asked_for_once_is_killed: Directory ReportsNotRepeated,
    a_registration_that_comes_back_is_killed: Directory EndedForgotten,
    a_move_without_compare_is_killed: Directory MoveWithoutCompare,
    a_source_that_resumes_in_doubt_is_killed: Directory DoubtfulSourceResumed,
    a_target_that_is_not_announced_is_killed: Directory TargetNotAnnounced,
    one_vote_that_kills_is_killed: Membership OneVoteKills,
    a_silo_that_ignores_its_death_is_killed: Membership OwnDeathIgnored,
    a_join_without_probing_is_killed: Membership JoinWithoutProbing,
    a_conflict_that_is_overwritten_is_killed: Membership ConflictOverwritten,
    votes_of_dead_silos_that_count_are_killed: Membership DeadVotersCount,
    an_unknown_proof_that_is_believed_is_killed: Membership UnknownProofBelieved,
    a_vote_that_is_not_retracted_is_killed: Membership VoteNotRetracted,
    a_renewal_that_is_not_watched_is_killed: Membership RenewalNotWatched,
}
