//! The rows: what can be measured, in the order of the table.

mod cold;
mod core;
mod gateway;
mod live;
mod local;
mod migration;
mod remote;
mod start;

use anyhow::Result;

use crate::Run;
use crate::report::Line;

/// A row: one measurement, which gives one line or some that belong together.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) measure: fn(&Run) -> Result<Vec<Line>>,
}

/// Every row.
pub(crate) const ROWS: &[Row] = &[
    Row { name: "local", measure: local::measure },
    Row { name: "cold", measure: cold::measure },
    Row { name: "lookup", measure: core::lookup },
    Row { name: "manifest", measure: core::manifest_row },
    Row { name: "simulator", measure: core::simulator },
    Row { name: "remote", measure: remote::measure },
    Row { name: "gateway", measure: gateway::measure },
    Row { name: "migration", measure: migration::measure },
    Row { name: "live", measure: live::measure },
    Row { name: "start", measure: start::measure },
];
