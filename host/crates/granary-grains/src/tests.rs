//! Promises of the grains on a silo, shown on clusters in one process: real `Grains`, a shared directory, links and
//! grain classes that fail on command.

mod calls;
mod cycles;
mod drain;
mod harness;
mod inline;
mod life;
mod migration;
mod overlap;
