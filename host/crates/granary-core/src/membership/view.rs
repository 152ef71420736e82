//! The cluster as one silo sees it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::id::SiloAddress;
use crate::membership::table::{SiloStatus, TableSnapshot};

/// One silo in a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The silo's name.
    pub name: String,
    /// Its status.
    pub status: SiloStatus,
    /// Where its gateway listens.
    pub gateway: SocketAddr,
    /// Where its admin API listens.
    pub admin: SocketAddr,
}

/// The members at one version of the table. The same version has the same living members everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MembershipView {
    /// The table's version.
    pub version: u64,
    /// All known incarnations, the Dead among them until they are cleaned away.
    pub members: BTreeMap<SiloAddress, Member>,
}

impl MembershipView {
    /// The silo's status, if the view knows it.
    #[must_use]
    pub fn status(&self, silo: SiloAddress) -> Option<SiloStatus> {
        self.members.get(&silo).map(|member| member.status)
    }

    /// The Active silos, in the order of their addresses.
    pub fn active(&self) -> impl Iterator<Item = SiloAddress> + '_ {
        self.with(|status| status == SiloStatus::Active)
    }

    /// The silos that are not Dead, in the order of their addresses.
    pub fn living(&self) -> impl Iterator<Item = SiloAddress> + '_ {
        self.with(|status| status != SiloStatus::Dead)
    }

    /// Whether the silo is Active.
    #[must_use]
    pub fn is_active(&self, silo: SiloAddress) -> bool {
        self.status(silo) == Some(SiloStatus::Active)
    }

    /// Whether the silo is certainly dead: its row says so, or a later start has its endpoint. A silo that the
    /// view does not know otherwise may be newer than the view.
    #[must_use]
    pub fn is_dead(&self, silo: SiloAddress) -> bool {
        match self.status(silo) {
            Some(status) => status == SiloStatus::Dead,
            None => self
                .members
                .keys()
                .any(|known| known.endpoint() == silo.endpoint() && known.generation > silo.generation),
        }
    }

    /// The living silo of this name; the Active one if several incarnations are seen.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<SiloAddress> {
        let named = || self.living().filter(|silo| self.members.get(silo).is_some_and(|m| m.name == name));
        named().find(|silo| self.is_active(*silo)).or_else(|| named().last())
    }

    fn with<'a>(
        &'a self,
        wanted: impl Fn(SiloStatus) -> bool + 'a,
    ) -> impl Iterator<Item = SiloAddress> + 'a {
        self.members.iter().filter(move |(_, member)| wanted(member.status)).map(|(address, _)| *address)
    }
}

impl From<&TableSnapshot> for MembershipView {
    fn from(table: &TableSnapshot) -> Self {
        let members = table.rows.iter().map(|(address, row)| {
            let member =
                Member { name: row.name.clone(), status: row.status, gateway: row.gateway, admin: row.admin };
            (*address, member)
        });
        Self { version: table.version, members: members.collect() }
    }
}
