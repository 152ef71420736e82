//! The barrier: at each change of the silos an owner asks everybody for the activations whose entries it owns now,
//! and resolves conflicts before it serves anybody.
//!
//! Whether the silos changed is decided by each owner for itself, between the views that it installs one after the
//! other. An owner that skipped a view in which another silo came, and is gone again, missed nothing: in that view
//! nobody could settle without its report.
//!
//! A report stays right until the owner has settled, because the owner holds every request of the reporting silo
//! until then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Command, Cursor, Directory, DirectoryConfig, DirectoryMessage, GrainAddress, LocalActivation};
use super::{Mutant, Pace};
use crate::id::{ActivationId, GrainId, SiloAddress, Time};

/// Owners whose early question is kept until its view arrives.
const EARLY_MAX: usize = 1_024;

/// How far another silo's report has come.
#[derive(Debug)]
struct Inbox {
    after: Option<Cursor>,
    pace: Pace,
}

/// A page of another silo's report.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) view: u64,
    pub(super) after: Option<Cursor>,
    pub(super) entries: Vec<LocalActivation>,
    pub(super) more: bool,
}

/// An eviction that the loser's silo has not acknowledged.
#[derive(Debug)]
struct Unseen {
    winner: GrainAddress,
    pace: Pace,
}

/// The owner's side of the barrier, and questions of owners that are ahead of this silo.
#[derive(Debug, Default)]
pub(super) struct Barrier {
    /// The first view with the current silos, as this silo saw it.
    since: u64,
    /// Silos whose report is incomplete; empty when settled.
    awaited: BTreeMap<SiloAddress, Inbox>,
    candidates: BTreeMap<GrainId, Vec<LocalActivation>>,
    evictions: BTreeMap<(SiloAddress, GrainId, ActivationId), Unseen>,
    /// The newest question of each owner in a view that is not installed yet.
    early: BTreeMap<SiloAddress, (u64, Option<Cursor>)>,
}

impl Barrier {
    pub(super) fn is_settled(&self) -> bool {
        self.awaited.is_empty()
    }

    /// The first view with the current silos, as this silo saw it.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    pub(super) fn due_at(&self) -> Option<Time> {
        let inboxes = self.awaited.values().map(|inbox| inbox.pace.due_at);
        inboxes.chain(self.evictions.values().map(|unseen| unseen.pace.due_at)).min()
    }

    pub(super) fn eviction_seen(&mut self, from: SiloAddress, grain: GrainId, activation: ActivationId) {
        self.evictions.remove(&(from, grain, activation));
    }

    /// Forgets all and waits for these silos.
    fn start(&mut self, now: Time, version: u64, awaited: &BTreeSet<SiloAddress>, first: Duration) {
        let pace = Pace::start(now, first);
        self.since = version;
        self.awaited = awaited.iter().map(|silo| (*silo, Inbox { after: None, pace })).collect();
        self.candidates.clear();
        self.evictions.clear();
    }

    /// Makes everything due now: a new view gives it a new stamp, and the receivers may know the view already.
    fn restart_repetition(&mut self, now: Time, config: &DirectoryConfig) {
        let pace = Pace::start(now, config.report_repeat_min);
        self.awaited.values_mut().for_each(|inbox| inbox.pace = pace);
        self.evictions.values_mut().for_each(|unseen| unseen.pace = pace);
    }
}

impl Directory {
    /// After a view was installed: starts a new barrier if the silos changed, else goes on with the old one.
    pub(super) fn renew_barrier(&mut self, now: Time, changed: bool, out: &mut Vec<Command>) {
        if changed {
            if !self.is(Mutant::DeadEntriesKept) {
                self.owner.clear();
            }
            let nobody = BTreeSet::new();
            let owns = self.ring.contains(&self.me);
            let awaited = if owns { &self.view.hosting } else { &nobody };
            self.barrier.start(now, self.view.version, awaited, self.config.report_repeat_min);
        } else {
            self.barrier.restart_repetition(now, &self.config);
        }
        self.repeat_reports(now, out);
        for (owner, (view, after)) in std::mem::take(&mut self.barrier.early) {
            self.report(now, owner, view, after, out);
        }
    }

    /// Sends the questions and evictions that are due.
    pub(super) fn repeat_reports(&mut self, now: Time, out: &mut Vec<Command>) {
        let view = self.view.version;
        let wait_max = self.config.report_repeat_max;
        let once = self.is(Mutant::ReportsNotRepeated);
        let mut messages = Vec::new();
        for (silo, inbox) in &mut self.barrier.awaited {
            if inbox.pace.due_at <= now {
                inbox.pace.sent(now, wait_max);
                if once {
                    inbox.pace.due_at = now.after(Duration::from_hours(1));
                }
                messages.push((*silo, DirectoryMessage::AskReport { view, after: inbox.after.clone() }));
            }
        }
        for ((silo, grain, activation), unseen) in &mut self.barrier.evictions {
            if unseen.pace.due_at <= now {
                unseen.pace.sent(now, wait_max);
                let (grain, activation) = (grain.clone(), *activation);
                let winner = unseen.winner.clone();
                messages.push((*silo, DirectoryMessage::Evict { view, grain, activation, winner }));
            }
        }
        for (to, message) in messages {
            self.send(to, message, out);
        }
    }

    /// An owner wants to know which activations of this silo have entries there in its view.
    pub(super) fn report(
        &mut self,
        now: Time,
        owner: SiloAddress,
        view: u64,
        after: Option<Cursor>,
        out: &mut Vec<Command>,
    ) {
        let version = self.view.version;
        if view > version {
            self.refresh(now, view, out);
            let early = &mut self.barrier.early;
            let newer = early.get(&owner).is_none_or(|(known, _)| *known <= view);
            if newer && (early.len() < EARLY_MAX || early.contains_key(&owner)) {
                early.insert(owner, (view, after));
            }
            return;
        }
        if view < version {
            self.send(owner, DirectoryMessage::StaleView { version }, out);
            return;
        }
        if !self.view.hosting.contains(&self.me) {
            return;
        }
        let page = self.config.report_page_max.max(1);
        let mut entries: Vec<LocalActivation> = (self.local.activations_after(after.as_ref()))
            .filter(|activation| self.ring.owner_of(&activation.address.grain) == Some(owner))
            .take(page + 1)
            .cloned()
            .collect();
        let more = entries.len() > page;
        entries.truncate(page);
        self.send(owner, DirectoryMessage::Report { view, after, entries, more }, out);
    }

    /// Takes a page of a report, when it is the next one of a silo that is waited for.
    pub(super) fn take_report(&mut self, now: Time, from: SiloAddress, page: Page, out: &mut Vec<Command>) {
        // A page from any view since the silos last changed is as good as one from now.
        if !(self.barrier.since..=self.view.version).contains(&page.view) {
            return;
        }
        let Some(inbox) = self.barrier.awaited.get_mut(&from) else { return };
        if inbox.after != page.after {
            return;
        }
        let last = page
            .entries
            .last()
            .map(|entry| Cursor { grain: entry.address.grain.clone(), activation: entry.address.activation });
        let candidates = &mut self.barrier.candidates;
        for entry in page.entries.into_iter().filter(|entry| entry.address.silo == from) {
            candidates.entry(entry.address.grain.clone()).or_default().push(entry);
        }
        if page.more && last.is_some() {
            inbox.after = last;
            inbox.pace = Pace::start(now, self.config.report_repeat_min);
            self.repeat_reports(now, out);
            return;
        }
        self.barrier.awaited.remove(&from);
        if self.barrier.is_settled() {
            self.settle(now, out);
        }
    }

    /// The last report is here: makes the entries, evicts the losers, and serves those who waited.
    fn settle(&mut self, now: Time, out: &mut Vec<Command>) {
        let candidates = std::mem::take(&mut self.barrier.candidates);
        let losers = self.owner.rebuild(self.view.version, candidates, self.config.mutant);
        for loser in losers {
            let key = (loser.address.silo, loser.address.grain, loser.address.activation);
            let pace = Pace::start(now, self.config.report_repeat_min);
            self.barrier.evictions.insert(key, Unseen { winner: loser.winner, pace });
        }
        self.repeat_reports(now, out);
        self.serve_held(now, out);
    }
}
