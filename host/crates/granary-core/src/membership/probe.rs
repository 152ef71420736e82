//! Probing: whom to probe, what an answer and a missing one mean, and proofs of death (spec 7.6, decision B7).

use std::collections::BTreeSet;
use std::time::Duration;

use xxhash_rust::xxh32::xxh32;

use crate::id::{SiloAddress, Time};
use crate::membership::table::{MembershipRow, SiloStatus};
use crate::membership::{Command, DeathProof, Fact, JoinError, Membership, MembershipMessage, Mutant, Phase};

/// While a joiner waits until a silo that answers has seen its row too, it asks so many times faster.
const JOIN_PROBE_SPEEDUP: u32 = 10;

/// Whether the shell was asked to prove a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    NotAsked,
    AskedUntil(Time),
    Proved,
}

/// A silo that this one probes.
#[derive(Debug)]
pub(super) struct Peer {
    /// The last probe sent.
    sequence: u64,
    /// The last probe is neither answered nor counted as missed.
    pending: bool,
    /// A broken connection was counted as a miss since the last probe.
    hinted: bool,
    next_probe: Time,
    /// Consecutive probes without an answer.
    misses: u32,
    /// The newest view that the peer has answered with.
    pub(super) acked_version: Option<u64>,
    proof: Proof,
    /// A proof was tried in vain since the peer last answered.
    unprovable: bool,
    /// The suspicion was reported.
    reported: bool,
}

impl Peer {
    fn new(first_probe: Time) -> Self {
        Self {
            sequence: 0,
            pending: false,
            hinted: false,
            next_probe: first_probe,
            misses: 0,
            acked_version: None,
            proof: Proof::NotAsked,
            unprovable: false,
            reported: false,
        }
    }

    pub(super) fn proved_dead(&self) -> bool {
        self.proof == Proof::Proved
    }

    /// The first proof of this silence is on its way: votes wait for it. Later ones do not hold them up.
    pub(super) fn proof_comes(&self) -> bool {
        matches!(self.proof, Proof::AskedUntil(_)) && !self.unprovable
    }
}

impl Membership {
    /// Whether the silo has missed its probes.
    pub(super) fn silent(&self, silo: SiloAddress) -> bool {
        self.peers.get(&silo).is_some_and(|peer| peer.misses >= self.config.missed_probes)
    }

    /// Whether some probed silo has missed its last probe.
    pub(super) fn anyone_missing(&self) -> bool {
        self.peers.values().any(|peer| peer.misses > 0)
    }

    /// Chooses anew whom to probe; silos that stay keep their state (spec MB-51).
    pub(super) fn choose_peers(&mut self, now: Time) {
        let chosen = match self.phase {
            Phase::Joining { .. } => self.joiners_peers(),
            Phase::Active => self.monitored(),
            _ => BTreeSet::new(),
        };
        self.peers.retain(|silo, _| chosen.contains(silo));
        for silo in chosen {
            if !self.peers.contains_key(&silo) {
                // Joiners are in a hurry; the others spread their probes over the period.
                let joining = matches!(self.phase, Phase::Joining { .. });
                let phase = if joining { Duration::ZERO } else { self.rng.below(self.config.probe_period) };
                self.peers.insert(silo, Peer::new(now.after(phase)));
            }
        }
    }

    /// A joiner must reach every Active silo, and learn whether a silo with its name lives.
    fn joiners_peers(&self) -> BTreeSet<SiloAddress> {
        let wanted = |row: &&MembershipRow| {
            row.status == SiloStatus::Active
                || (row.status != SiloStatus::Dead && row.name == self.config.identity.name)
        };
        let rows = self.table.rows.values().filter(wanted).map(|row| row.address);
        rows.filter(|silo| *silo != self.address()).collect()
    }

    /// Everybody in small clusters. In larger ones the successors on differently shuffled rings (spec MB-50),
    /// and everybody who has a vote against it, so that votes find company.
    fn monitored(&self) -> BTreeSet<SiloAddress> {
        let own = self.address();
        let living: Vec<SiloAddress> = self.view.living().filter(|silo| *silo != own).collect();
        if living.len() <= self.config.probed_silos {
            return living.into_iter().collect();
        }
        let mut chosen = BTreeSet::new();
        for seed in 0..u32::try_from(self.config.probed_silos).unwrap_or(u32::MAX) {
            let place = |silo: SiloAddress| xxh32(silo.to_string().as_bytes(), seed);
            let start = place(own);
            let left = living.iter().filter(|silo| !chosen.contains(*silo));
            let next = left.min_by_key(|silo| (place(**silo).wrapping_sub(start), **silo)).copied();
            chosen.extend(next);
        }
        let accused = |silo: &SiloAddress| {
            let row = self.table.rows.get(silo);
            row.is_some_and(|row| row.votes.iter().any(|vote| self.view.is_active(vote.voter)))
        };
        chosen.extend(living.into_iter().filter(accused));
        chosen
    }

    /// Asks everybody again at once: the joiner's row has appeared, and its acknowledgement is wanted.
    pub(super) fn probe_all_soon(&mut self, now: Time) {
        for peer in self.peers.values_mut().filter(|peer| peer.misses == 0) {
            peer.next_probe = now;
        }
    }

    /// Sends the probes that are due, and counts those that were not answered in their period.
    pub(super) fn probe(&mut self, now: Time, out: &mut Vec<Command>) {
        let due: Vec<SiloAddress> =
            self.peers.iter().filter(|(_, peer)| peer.next_probe <= now).map(|(silo, _)| *silo).collect();
        for silo in due {
            if self.peers.get(&silo).is_some_and(|peer| peer.pending && !peer.hinted) {
                self.missed(now, silo, out);
            }
            let Some(peer) = self.peers.get_mut(&silo) else { continue };
            peer.sequence += 1;
            peer.pending = true;
            peer.hinted = false;
            peer.next_probe = now.after(self.config.probe_period);
            let message = MembershipMessage::Probe {
                to: silo,
                sequence: peer.sequence,
                view_version: self.table.version,
                generation: self.generation,
            };
            out.push(Command::Send { to: silo, message });
        }
    }

    fn missed(&mut self, now: Time, silo: SiloAddress, out: &mut Vec<Command>) {
        let provable = self.table.rows.get(&silo).filter(|row| self.same_boot(row)).cloned();
        let Some(peer) = self.peers.get_mut(&silo) else { return };
        peer.misses = peer.misses.saturating_add(1);
        if let Some(row) = provable
            && peer.proof == Proof::NotAsked
        {
            peer.proof = Proof::AskedUntil(now.after(self.config.proof_timeout));
            out.push(Command::ProveDeath(Box::new(row)));
        }
        self.report_suspicion(now, silo, out);
    }

    /// A file lock says something about this row's process (decision B7).
    pub(super) fn same_boot(&self, row: &MembershipRow) -> bool {
        let own = &self.config.identity;
        row.host_id == own.host_id && row.boot_id == own.boot_id
    }

    /// A broken connection is as good as a missed probe, once for each probe.
    pub(super) fn on_unreachable(&mut self, now: Time, silo: SiloAddress, out: &mut Vec<Command>) {
        if let Some(peer) = self.peers.get_mut(&silo)
            && !peer.hinted
        {
            peer.hinted = true;
            self.missed(now, silo, out);
        }
    }

    /// Takes the shell's answer to [`Command::ProveDeath`].
    pub(super) fn on_proof(&mut self, silo: SiloAddress, proof: DeathProof) {
        let believed = proof == DeathProof::Proved || self.mutant(Mutant::UnknownProofBelieved);
        if let Some(peer) = self.peers.get_mut(&silo)
            && matches!(peer.proof, Proof::AskedUntil(_))
        {
            peer.unprovable = true;
            peer.proof = if believed { Proof::Proved } else { Proof::NotAsked };
        }
    }

    /// Takes proofs as unknown whose time is over.
    pub(super) fn expire_proofs(&mut self, now: Time) {
        for peer in self.peers.values_mut() {
            if matches!(peer.proof, Proof::AskedUntil(until) if until <= now) {
                peer.unprovable = true;
                peer.proof = Proof::NotAsked;
            }
        }
    }

    pub(super) fn on_message(
        &mut self,
        now: Time,
        from: SiloAddress,
        message: MembershipMessage,
        out: &mut Vec<Command>,
    ) {
        match message {
            MembershipMessage::Probe { to, sequence, view_version, generation } => {
                if to != self.address() {
                    return; // For an earlier start at this endpoint: it is gone, and this one must not answer.
                }
                let message = MembershipMessage::ProbeAck {
                    sequence,
                    view_version: self.table.version,
                    generation: self.generation,
                };
                out.push(Command::Send { to: from, message });
                self.heard(from, view_version, generation, out);
            }
            MembershipMessage::ProbeAck { sequence, view_version, generation } => {
                self.heard(from, view_version, generation, out);
                self.on_ack(now, from, sequence, view_version, out);
            }
            MembershipMessage::TableChanged { version } => self.store.want_version(version),
        }
    }

    fn heard(&mut self, from: SiloAddress, view_version: u64, generation: u64, out: &mut Vec<Command>) {
        self.store.want_version(view_version);
        if self.view.status(from).is_some_and(|status| status != SiloStatus::Dead) {
            out.push(Command::PeerGeneration { silo: from, generation });
        }
    }

    /// An answer counts if its probe is one of the last few, so that a slow network is not a dead silo.
    fn on_ack(&mut self, now: Time, from: SiloAddress, sequence: u64, version: u64, out: &mut Vec<Command>) {
        let window = u64::from(self.config.missed_probes.max(1));
        let joining = matches!(self.phase, Phase::Joining { .. });
        let needed = self.join_version;
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if sequence > peer.sequence || sequence.saturating_add(window) <= peer.sequence {
            return;
        }
        peer.pending &= sequence != peer.sequence;
        peer.misses = 0;
        peer.unprovable = false;
        peer.acked_version = peer.acked_version.max(Some(version));
        if joining && needed.is_some_and(|needed| version < needed) {
            peer.next_probe = peer.next_probe.min(now.after(self.config.probe_period / JOIN_PROBE_SPEEDUP));
        }
        self.report_suspicion(now, from, out);
        if joining {
            self.check_name(now, from, out);
        }
    }

    /// A living silo that has this joiner's name: the join has failed. One that is leaving is waited for.
    fn check_name(&mut self, now: Time, from: SiloAddress, out: &mut Vec<Command>) {
        let name = &self.config.identity.name;
        let taken = self.table.rows.get(&from).is_some_and(|row| {
            row.name == *name && row.status < SiloStatus::ShuttingDown && !self.replaces(row)
        });
        if taken {
            let error = JoinError::NameTaken { name: name.clone(), silo: from };
            self.fail_join(now, error, out);
        }
    }

    /// Reports that a suspicion began or ended.
    pub(super) fn report_suspicion(&mut self, now: Time, silo: SiloAddress, out: &mut Vec<Command>) {
        let suspected = self.suspected(now, silo);
        let Some(peer) = self.peers.get_mut(&silo) else { return };
        if peer.reported != suspected {
            peer.reported = suspected;
            let fact = if suspected { Fact::Suspected(silo) } else { Fact::Cleared(silo) };
            out.push(Command::Report(fact));
        }
    }

    /// When the next probe or the end of a proof is due.
    pub(super) fn probe_wake(&self) -> Option<Time> {
        let proof = |peer: &Peer| match peer.proof {
            Proof::AskedUntil(until) => Some(until),
            _ => None,
        };
        self.peers.values().map(|peer| proof(peer).map_or(peer.next_probe, |p| p.min(peer.next_probe))).min()
    }
}
