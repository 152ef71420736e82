//! The game of the presence example: who is in it, in memory that moves along. It tells its players what happens by
//! one-way calls, so that a player who is slow, or gone, holds up nobody.

use granary_guest::prelude::*;
use serde::{Deserialize, Serialize};

use contract::{Event, Member, News, PlayerRef, Refusal};

/// How many players a game takes.
const PLAYERS_MAX: usize = 100;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 40;

/// One game; its key is the game's name.
#[grain(interface = "demo:presence/game", refs = ["demo:presence/player"], wit = "../wit", migration)]
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct GameGrain {
    members: Vec<Member>,
}

impl contract::Game for GameGrain {
    fn enter(&mut self, player: GrainRef, name: String) -> Result<Vec<Member>, Refusal> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Refusal::BadName);
        }
        if let Some(member) = self.members.iter_mut().find(|member| member.player == player) {
            member.name = name;
            return Ok(self.members.clone());
        }
        if self.members.len() >= PLAYERS_MAX {
            return Err(Refusal::Full(u32::try_from(PLAYERS_MAX).unwrap_or(u32::MAX)));
        }
        self.tell(&Event::Entered(name.clone()));
        self.members.push(Member { player, name, score: 0 });
        Ok(self.members.clone())
    }

    fn leave(&mut self, player: GrainRef) -> bool {
        let Some(at) = self.members.iter().position(|member| member.player == player) else { return false };
        let gone = self.members.remove(at);
        self.tell(&Event::Left(gone.name));
        true
    }

    fn score(&mut self, player: GrainRef, points: u32) -> Option<u64> {
        let member = self.members.iter_mut().find(|member| member.player == player)?;
        member.score = member.score.saturating_add(u64::from(points));
        let (name, score) = (member.name.clone(), member.score);
        self.tell(&Event::Scored((name, score)));
        Some(score)
    }

    fn members(&mut self) -> Vec<Member> {
        self.members.clone()
    }
}

impl GameGrain {
    /// Tells everybody in the game. A player who cannot be told is left to find out.
    fn tell(&self, event: &Event) {
        let game = context::self_ref();
        for member in &self.members {
            let news = News { game: game.clone(), event: event.clone() };
            if let Err(error) = PlayerRef::from(member.player.clone()).send().notify(&news) {
                log::warn!("{} was not told: {error}", member.player);
            }
        }
    }
}

#[cfg(test)]
mod tests;
