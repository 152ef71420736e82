//! Which components are not run any more because silos died of them: the table, and the rule that fills it.
//!
//! A silo that dies of a fault says which component's turn ran on the thread that failed. The second such death of
//! another run of a silo within [`DEATHS_WITHIN_S`] puts the component into quarantine, until somebody releases it or
//! deploys another component for its type. Pure: times are arguments, in seconds of Unix time.

use serde::{Deserialize, Serialize};

use crate::id::Digest;

/// Two deaths of one component count together when they lie at most this far apart, in seconds.
pub const DEATHS_WITHIN_S: u64 = 10 * 60;

/// How long a death is remembered, in seconds: who reports it late must not report it as news.
pub const DEATHS_KEPT_S: u64 = 60 * 60;

/// Deaths that are remembered; the oldest go.
pub const DEATHS_MAX: usize = 1_000;

/// Components in quarantine; the oldest go.
pub const QUARANTINED_MAX: usize = 1_000;

/// The end of one run of a silo inside a turn of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// The component whose turn it was.
    pub digest: Digest,
    /// The silo's name.
    pub silo: String,
    /// The run of the silo.
    pub generation: i32,
    /// What ended it: `SIGSEGV`.
    pub cause: String,
    /// When.
    pub at_s: u64,
    /// The component was released since: this death counts no more.
    pub forgiven: bool,
}

/// A component that no silo runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The component.
    pub digest: Digest,
    /// Since when.
    pub since_s: u64,
    /// Which silos died of it, for people.
    pub reason: String,
}

/// All deaths that are remembered, and what follows from them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineTable {
    /// Oldest report first.
    pub deaths: Vec<Death>,
    /// Oldest first.
    pub quarantined: Vec<Quarantined>,
}

impl QuarantineTable {
    /// Why the component may not run; `None` when it may.
    #[must_use]
    pub fn find(&self, digest: &Digest) -> Option<&Quarantined> {
        self.quarantined.iter().find(|entry| entry.digest == *digest)
    }

    /// Takes a death into account; false when nothing changed, since it is known already, or too old.
    pub fn report(&mut self, death: Death, now_s: u64) -> bool {
        let known = self.deaths.iter().any(|it| {
            it.digest == death.digest && it.silo == death.silo && it.generation == death.generation
        });
        if known || now_s.saturating_sub(death.at_s) > DEATHS_KEPT_S {
            return false;
        }
        self.deaths.retain(|it| now_s.saturating_sub(it.at_s) <= DEATHS_KEPT_S);
        let together: Vec<&Death> = self
            .deaths
            .iter()
            .filter(|it| it.digest == death.digest && !it.forgiven)
            .filter(|it| it.at_s.abs_diff(death.at_s) <= DEATHS_WITHIN_S)
            .collect();
        if let Some(earlier) = together.last()
            && self.find(&death.digest).is_none()
        {
            let reason = format!(
                "silo {} ended by {} and silo {} by {} in its turns",
                earlier.silo, earlier.cause, death.silo, death.cause
            );
            let entry = Quarantined { digest: death.digest, since_s: now_s, reason };
            self.quarantined.push(entry);
            drop_oldest(&mut self.quarantined, QUARANTINED_MAX);
        }
        self.deaths.push(death);
        drop_oldest(&mut self.deaths, DEATHS_MAX);
        true
    }

    /// Lets the component run again and forgives its deaths so far; false when it was not in quarantine.
    pub fn release(&mut self, digest: &Digest) -> bool {
        let before = self.quarantined.len();
        self.quarantined.retain(|entry| entry.digest != *digest);
        for death in self.deaths.iter_mut().filter(|death| death.digest == *digest) {
            death.forgiven = true;
        }
        self.quarantined.len() < before
    }
}

fn drop_oldest<T>(entries: &mut Vec<T>, kept_max: usize) {
    let surplus = entries.len().saturating_sub(kept_max);
    entries.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn death(component: &str, silo: &str, generation: i32, at_s: u64) -> Death {
        Death {
            digest: Digest::of(component.as_bytes()),
            silo: silo.to_owned(),
            generation,
            cause: "SIGSEGV".to_owned(),
            at_s,
            forgiven: false,
        }
    }

    fn held(table: &QuarantineTable, component: &str) -> bool {
        table.find(&Digest::of(component.as_bytes())).is_some()
    }

    #[test]
    fn the_second_death_within_ten_minutes_is_the_last() {
        let mut table = QuarantineTable::default();
        assert!(table.report(death("bad", "silo-1", 1, NOW), NOW));
        assert!(!held(&table, "bad"));
        assert!(table.report(death("bad", "silo-2", 1, NOW + 600), NOW + 601));
        assert!(held(&table, "bad"));
        let entry = table.find(&Digest::of(b"bad")).unwrap();
        assert_eq!(entry.reason, "silo silo-1 ended by SIGSEGV and silo silo-2 by SIGSEGV in its turns");
        assert_eq!(entry.since_s, NOW + 601);
    }

    #[test]
    fn two_runs_of_one_silo_are_two_deaths_and_one_run_reported_twice_is_one() {
        let mut table = QuarantineTable::default();
        assert!(table.report(death("bad", "silo-1", 1, NOW), NOW));
        assert!(!table.report(death("bad", "silo-1", 1, NOW + 5), NOW + 5));
        assert!(!held(&table, "bad"));
        assert!(table.report(death("bad", "silo-1", 2, NOW + 5), NOW + 5));
        assert!(held(&table, "bad"));
    }

    #[test]
    fn deaths_far_apart_or_of_different_components_do_not_add_up() {
        let mut table = QuarantineTable::default();
        assert!(table.report(death("bad", "silo-1", 1, NOW), NOW));
        assert!(table.report(death("other", "silo-2", 1, NOW), NOW));
        assert!(table.report(death("bad", "silo-3", 1, NOW + 601), NOW + 601));
        assert!(table.quarantined.is_empty());
        assert!(!table.report(death("bad", "silo-4", 1, NOW), NOW + DEATHS_KEPT_S + 1), "it is too old");
    }

    #[test]
    fn a_release_forgives_deaths_also_when_they_are_reported_again() {
        let mut table = QuarantineTable::default();
        for silo in ["silo-1", "silo-2"] {
            table.report(death("bad", silo, 1, NOW), NOW);
        }
        assert!(table.release(&Digest::of(b"bad")));
        assert!(!table.release(&Digest::of(b"bad")), "it is released already");
        for silo in ["silo-1", "silo-2"] {
            assert!(!table.report(death("bad", silo, 1, NOW), NOW));
        }
        assert!(table.report(death("bad", "silo-3", 1, NOW + 1), NOW + 1));
        assert!(!held(&table, "bad"), "the first death since the release");
        assert!(table.report(death("bad", "silo-4", 1, NOW + 2), NOW + 2));
        assert!(held(&table, "bad"));
    }

    #[test]
    fn the_table_stays_bounded() {
        let mut table = QuarantineTable::default();
        for number in 0..1_200 {
            let component = number.to_string();
            table.report(death(&component, "silo-1", number, NOW), NOW);
            table.report(death(&component, "silo-2", number, NOW), NOW);
        }
        assert_eq!((table.deaths.len(), table.quarantined.len()), (DEATHS_MAX, QUARANTINED_MAX));
        assert!(held(&table, "1199") && !held(&table, "0"));
    }
}
