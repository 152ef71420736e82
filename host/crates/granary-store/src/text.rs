//! The text forms of a membership row's parts, as the engines with tables keep them.

use std::fmt::Write as _;

use granary_core::membership::table::{SiloStatus, Vote};

pub(crate) fn status_text(status: SiloStatus) -> &'static str {
    match status {
        SiloStatus::Joining => "joining",
        SiloStatus::Active => "active",
        SiloStatus::ShuttingDown => "shutting-down",
        SiloStatus::Dead => "dead",
    }
}

pub(crate) fn parse_status(text: &str) -> Result<SiloStatus, String> {
    match text {
        "joining" => Ok(SiloStatus::Joining),
        "active" => Ok(SiloStatus::Active),
        "shutting-down" => Ok(SiloStatus::ShuttingDown),
        "dead" => Ok(SiloStatus::Dead),
        _ => Err(format!("{text:?} is no status of a silo")),
    }
}

/// One vote a line: the voter and the number of its vote.
pub(crate) fn votes_text(votes: &[Vote]) -> String {
    votes.iter().fold(String::new(), |mut text, vote| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} {}", vote.voter, vote.number);
        text
    })
}

pub(crate) fn parse_votes(text: &str) -> Result<Vec<Vote>, String> {
    let vote = |line: &str| {
        let (voter, number) = line.split_once(' ')?;
        Some(Vote { voter: voter.parse().ok()?, number: number.parse().ok()? })
    };
    text.lines().map(|line| vote(line).ok_or_else(|| format!("{line:?} is no vote"))).collect()
}
