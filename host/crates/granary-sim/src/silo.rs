//! One silo's process: the membership and the directory machine, glued as a shell glues them, and a small model of
//! grains on top.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use granary_core::directory::{self, Directory, DirectoryConfig, DirectoryView, OpId, Outcome};
use granary_core::id::{ActivationId, SiloAddress, Time};
use granary_core::membership::table::{MembershipRow, SiloStatus};
use granary_core::membership::{self, Membership, MembershipConfig, MembershipMessage, MembershipView};
use granary_core::membership::{SiloIdentity, StoreRequest};

use crate::Mutant;
use crate::calls::Call;
use crate::faults::{MS, Plan, SECOND};
use crate::grains::{Activation, Names, Purpose};
use crate::net::{Packet, Wire};
use crate::rng::{Rng, mix};

/// How long a leaving silo waits for its last operations.
const DRAIN_MAX: u64 = 4 * SECOND;

/// What a process asks of the world.
#[derive(Debug)]
pub(crate) enum Effect {
    Send { to: SiloAddress, wire: Wire },
    Store { op: u64, request: StoreRequest },
    Prove(Box<MembershipRow>),
    Wake { machine: Machine, at: Time },
    Timer { after: u64, timer: Timer },
    Fact(Fact),
    Exit,
}

/// Which of the two machines wants to wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    Membership,
    Directory,
}

/// A delay of the shell itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The operation took too long.
    Operation(OpId),
    /// The attempt of a call took too long.
    Attempt { call: u64, attempt: u32 },
    /// Try a call again.
    Again { call: u64 },
    /// The target of a migration did not answer.
    Restore { grain: u32, source: ActivationId, target: ActivationId },
    /// A frozen target asks where it stands.
    Poll { grain: u32, target: ActivationId },
    /// Is everything drained?
    Drained { until: u64 },
}

/// What the checkers want to know.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    View(Arc<MembershipView>),
    /// The activation may run turns from now on.
    Runs {
        grain: u32,
        activation: ActivationId,
        restored_from: Option<ActivationId>,
    },
    Turn {
        grain: u32,
        activation: ActivationId,
        value: u64,
    },
    /// The activation ended, and its memory with it.
    Ended(ActivationId),
    Moved {
        from: ActivationId,
        to: ActivationId,
        host: SiloAddress,
    },
    CallDone(u64),
    /// The directory has confirmed in this view that it forgot the activation.
    Forgotten {
        activation: ActivationId,
        view: u64,
    },
    /// The directory named the activation in this view, to somebody who asked at that time.
    Named {
        activation: ActivationId,
        asked_at: u64,
        view: u64,
    },
    Evicted,
}

/// Where the process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Joining,
    Active,
    Draining,
    Finishing,
}

/// One running process.
#[derive(Debug)]
pub(crate) struct Silo {
    pub(crate) address: SiloAddress,
    pub(crate) life: Life,
    pub(crate) membership: Membership,
    pub(crate) directory: Directory,
    /// When each machine wants its next tick, in world time.
    pub(crate) wakes: [Option<u64>; 2],
    pub(crate) rng: Rng,
    pub(crate) view: Arc<MembershipView>,
    pub(crate) names: Arc<Names>,
    pub(crate) activations: BTreeMap<(u32, ActivationId), Activation>,
    pub(crate) operations: BTreeMap<OpId, Purpose>,
    /// The migration targets that were ever restored here.
    pub(crate) restored_here: BTreeSet<ActivationId>,
    pub(crate) calls: BTreeMap<u64, Call>,
    pub(crate) operation_timeout: u64,
    last_operation: u64,
    last_activation: u64,
    started: u64,
    /// The clock's error in millionths.
    drift: i64,
}

impl Silo {
    pub(crate) fn new(
        now: u64,
        address: SiloAddress,
        plan: &Plan,
        names: &Arc<Names>,
        mutant: Option<Mutant>,
        rng: &mut Rng,
    ) -> Self {
        let host = if plan.same_host { 0 } else { address.port };
        let identity = SiloIdentity {
            address,
            name: format!("silo-{}", address.port),
            gateway: address.endpoint(),
            admin: address.endpoint(),
            host_id: format!("host-{host}"),
            boot_id: "boot".to_owned(),
            process_id: address.generation.unsigned_abs(),
        };
        let mut config = MembershipConfig::new(identity);
        config.holds_name_lock = plan.same_host;
        let mut directory = DirectoryConfig { report_page_max: 2, ..DirectoryConfig::default() };
        match mutant {
            Some(Mutant::Membership(mutant)) => config.mutant = Some(mutant),
            Some(Mutant::Directory(mutant)) => directory.mutant = Some(mutant),
            None => {}
        }
        let drift = if plan.drift { rng.below(20_001).cast_signed() - 10_000 } else { 0 };
        Self {
            address,
            life: Life::Joining,
            membership: Membership::new(config, rng.next_u64()),
            directory: Directory::new(address, directory),
            wakes: [None; 2],
            rng: Rng::new(rng.next_u64()),
            view: Arc::default(),
            names: Arc::clone(names),
            activations: BTreeMap::new(),
            operations: BTreeMap::new(),
            restored_here: BTreeSet::new(),
            calls: BTreeMap::new(),
            operation_timeout: plan.operation_timeout,
            last_operation: 0,
            last_activation: 0,
            started: now,
            drift,
        }
    }

    /// The silo's own monotonic time.
    pub(crate) fn local(&self, now: u64) -> Time {
        let elapsed = i128::from(now - self.started);
        let own = elapsed * (1_000_000 + i128::from(self.drift)) / 1_000_000;
        Time(SECOND + u64::try_from(own).unwrap_or(0))
    }

    /// The first world time at which the own clock shows `at` or more.
    pub(crate) fn world(&self, at: Time) -> u64 {
        let own = i128::from(at.0) - i128::from(SECOND);
        let rate = 1_000_000 + i128::from(self.drift);
        let elapsed = (own * 1_000_000).div_euclid(rate) + 1;
        self.started.saturating_add(u64::try_from(elapsed).unwrap_or(0))
    }

    pub(crate) fn membership(&mut self, now: u64, event: membership::Event, fx: &mut Vec<Effect>) {
        let mut out = Vec::new();
        self.membership.handle(self.local(now), event, &mut out);
        for command in out {
            match command {
                membership::Command::Store { op, request } => fx.push(Effect::Store { op, request }),
                membership::Command::Send { to, message } => {
                    fx.push(Effect::Send { to, wire: Wire::Membership(message) });
                }
                membership::Command::ProveDeath(row) => fx.push(Effect::Prove(row)),
                membership::Command::WakeAt(at) => {
                    fx.push(Effect::Wake { machine: Machine::Membership, at });
                }
                membership::Command::ViewChanged(view) => self.view_changed(now, view, fx),
                membership::Command::Joined => self.life = Life::Active,
                membership::Command::ShuttingDown { .. } => self.drain(now, fx),
                membership::Command::JoinFailed(_)
                | membership::Command::Left { .. }
                | membership::Command::Fatal(_) => fx.push(Effect::Exit),
                membership::Command::PeerGeneration { .. } | membership::Command::Report(_) => {}
            }
        }
    }

    fn view_changed(&mut self, now: u64, view: Arc<MembershipView>, fx: &mut Vec<Effect>) {
        self.view = Arc::clone(&view);
        let with = |wanted: &[SiloStatus]| {
            let matching = view.members.iter().filter(|(_, member)| wanted.contains(&member.status));
            matching.map(|(silo, _)| *silo).collect()
        };
        let for_directory = DirectoryView {
            version: view.version,
            active: with(&[SiloStatus::Active]),
            hosting: with(&[SiloStatus::Active, SiloStatus::ShuttingDown]),
        };
        fx.push(Effect::Fact(Fact::View(Arc::clone(&view))));
        self.directory(now, directory::Event::View(Arc::new(for_directory)), fx);
    }

    pub(crate) fn directory(&mut self, now: u64, event: directory::Event, fx: &mut Vec<Effect>) {
        let mut out = Vec::new();
        self.directory.handle(self.local(now), event, &mut out);
        for command in out {
            match command {
                directory::Command::Send { to, message } => {
                    fx.push(Effect::Send { to, wire: Wire::Directory(message) });
                }
                directory::Command::Complete { op, outcome } => self.completed(now, op, outcome, fx),
                directory::Command::Deactivate { grain, activation, winner } => {
                    self.evicted(now, &grain, activation, winner.silo, fx);
                }
                directory::Command::RefreshMembership { version } => {
                    let message = MembershipMessage::TableChanged { version };
                    let from = self.address;
                    self.membership(now, membership::Event::Message { from, message }, fx);
                }
                directory::Command::WakeAt(at) => {
                    fx.push(Effect::Wake { machine: Machine::Directory, at });
                }
            }
        }
    }

    pub(crate) fn deliver(&mut self, now: u64, packet: Packet, fx: &mut Vec<Effect>) {
        let from = packet.from;
        match packet.wire {
            Wire::Membership(message) => {
                self.membership(now, membership::Event::Message { from, message }, fx);
            }
            Wire::Directory(message) => {
                self.directory(now, directory::Event::Message { from, message }, fx);
            }
            Wire::Grain(message) => self.grain_message(now, from, message, fx),
        }
    }

    pub(crate) fn timer(&mut self, now: u64, timer: Timer, fx: &mut Vec<Effect>) {
        match timer {
            Timer::Operation(op) => self.operation_timed_out(now, op, fx),
            Timer::Attempt { call, attempt } => self.attempt_timed_out(now, call, attempt, fx),
            Timer::Again { call } => self.route(now, call, fx),
            Timer::Restore { grain, source, target } => {
                self.restore_timed_out(now, grain, source, target, fx);
            }
            Timer::Poll { grain, target } => self.poll(now, grain, target, fx),
            Timer::Drained { until } => self.check_drained(now, until, fx),
        }
    }

    /// Starts an operation of the directory, with a time limit.
    pub(crate) fn operate(
        &mut self,
        now: u64,
        request: directory::LocalOp,
        purpose: Purpose,
        fx: &mut Vec<Effect>,
    ) -> OpId {
        self.last_operation += 1;
        let op = OpId(self.last_operation);
        self.operations.insert(op, purpose);
        fx.push(Effect::Timer { after: self.operation_timeout, timer: Timer::Operation(op) });
        self.directory(now, directory::Event::Local { op, request }, fx);
        op
    }

    fn operation_timed_out(&mut self, now: u64, op: OpId, fx: &mut Vec<Effect>) {
        // A move cannot be given up.
        if matches!(self.operations.get(&op), None | Some(Purpose::Move { .. })) {
            return;
        }
        let Some(purpose) = self.operations.remove(&op) else { return };
        self.directory(now, directory::Event::Cancel(op), fx);
        self.given_up(now, purpose, fx);
    }

    fn completed(&mut self, now: u64, op: OpId, outcome: Outcome, fx: &mut Vec<Effect>) {
        if let Some(purpose) = self.operations.remove(&op) {
            self.operation_done(now, purpose, outcome, fx);
        }
    }

    /// An activation id that no other process makes.
    pub(crate) fn new_activation(&mut self) -> ActivationId {
        self.last_activation += 1;
        let low = mix(self.last_activation ^ (u64::from(self.address.port) << 32));
        let high = mix(low ^ u64::from(self.address.generation.unsigned_abs()));
        ActivationId((u128::from(high) << 64) | u128::from(low))
    }

    pub(crate) fn leave(&mut self, now: u64, fx: &mut Vec<Effect>) {
        self.membership(now, membership::Event::Leave, fx);
    }

    /// Ends the activations that run, and waits for those that are on the way.
    fn drain(&mut self, now: u64, fx: &mut Vec<Effect>) {
        self.life = Life::Draining;
        self.check_drained(now, now + DRAIN_MAX, fx);
    }

    fn check_drained(&mut self, now: u64, until: u64, fx: &mut Vec<Effect>) {
        if self.life != Life::Draining {
            return;
        }
        for (grain, activation) in self.running() {
            self.deactivate(now, grain, activation, fx);
        }
        if (self.activations.is_empty() && self.operations.is_empty()) || now >= until {
            self.life = Life::Finishing;
            self.membership(now, membership::Event::Finish, fx);
        } else {
            fx.push(Effect::Timer { after: 100 * MS, timer: Timer::Drained { until } });
        }
    }

    /// The activations that may run turns.
    pub(crate) fn running(&self) -> Vec<(u32, ActivationId)> {
        let running = self.activations.iter().filter(|(_, activation)| activation.is_running());
        running.map(|(key, _)| *key).collect()
    }

    /// The Active silos of the view.
    pub(crate) fn peers(&self) -> Vec<SiloAddress> {
        self.view.active().collect()
    }

    /// The activations of one grain that may run turns.
    pub(crate) fn running_of(&self, grain: u32) -> impl Iterator<Item = ActivationId> + '_ {
        let own = self.activations.range((grain, ActivationId(0))..=(grain, ActivationId(u128::MAX)));
        own.filter(|(_, activation)| activation.is_running()).map(|((_, id), _)| *id)
    }

    fn wake_of(&mut self, machine: Machine) -> &mut Option<u64> {
        let [membership, directory] = &mut self.wakes;
        match machine {
            Machine::Membership => membership,
            Machine::Directory => directory,
        }
    }

    pub(crate) fn set_wake(&mut self, machine: Machine, at: u64) {
        *self.wake_of(machine) = Some(at);
    }

    /// Ticks a machine, unless it asked for another time since.
    pub(crate) fn wake(&mut self, now: u64, machine: Machine, fx: &mut Vec<Effect>) {
        if self.wake_of(machine).is_none_or(|at| at > now) {
            return;
        }
        *self.wake_of(machine) = None;
        match machine {
            Machine::Membership => self.membership(now, membership::Event::Tick, fx),
            Machine::Directory => self.directory(now, directory::Event::Tick, fx),
        }
    }
}
