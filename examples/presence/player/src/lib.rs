//! The player of the presence example: passes a reference to itself to the game that it joins, and keeps what it
//! hears. All of it is in memory that moves along.

use granary_guest::prelude::*;
use serde::{Deserialize, Serialize};

use contract::{GameRef, JoinError, Member, News};

/// How much is remembered; the oldest goes first.
const HEARD_MAX: usize = 100;

/// One player; the key says who.
#[grain(interface = "demo:presence/player", refs = ["demo:presence/game"], wit = "../wit", migration)]
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PlayerGrain {
    playing: Option<GrainRef>,
    heard: Vec<News>,
}

impl contract::Player for PlayerGrain {
    fn join(&mut self, game: GrainRef, name: String) -> Result<Vec<Member>, JoinError> {
        if self.playing.as_ref().is_some_and(|playing| *playing != game) {
            self.go();
        }
        // The game answers before it tells anybody, and never waits for a player: no call goes in a circle.
        let members = GameRef::from(game.clone()).enter(&context::self_ref(), &name).map_err(|error| {
            error.either(JoinError::Refused, |failed| JoinError::Unreachable(failed.to_string()))
        })?;
        self.playing = Some(game);
        Ok(members)
    }

    fn leave(&mut self) -> bool {
        self.go()
    }

    fn playing(&mut self) -> Option<GrainRef> {
        self.playing.clone()
    }

    fn notify(&mut self, news: News) {
        self.heard.push(news);
        let extra = self.heard.len().saturating_sub(HEARD_MAX);
        self.heard.drain(..extra);
    }

    fn heard(&mut self) -> Vec<News> {
        self.heard.clone()
    }
}

impl PlayerGrain {
    /// Out of the game, if there is one.
    fn go(&mut self) -> bool {
        let Some(game) = self.playing.take() else { return false };
        if let Err(error) = GameRef::from(game.clone()).leave(&context::self_ref()) {
            log::warn!("{game} could not be told: {error}");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use granary_guest::testing::TestContext;

    use super::contract::{Event, Player as _};
    use super::*;

    fn news(number: u64) -> News {
        News { game: GrainRef::new("game", "chess"), event: Event::Scored(("ann".to_owned(), number)) }
    }

    #[test]
    fn the_last_hundred_are_remembered_and_move_along() {
        let ctx = TestContext::new();
        let ann = ctx.activate::<PlayerGrain>("ann").unwrap();
        for number in 0..150 {
            ann.call(|player| player.notify(news(number)));
        }
        ann.migrate().unwrap();
        let heard = ann.call(PlayerGrain::heard);
        assert_eq!((heard.len(), heard.first()), (HEARD_MAX, Some(&news(50))));
    }

    #[test]
    fn a_game_that_is_not_there_is_a_value_and_changes_nothing() {
        let ctx = TestContext::new();
        let ann = ctx.activate::<PlayerGrain>("ann").unwrap();
        let game = GrainRef::new("game", "chess");
        let joined = ann.call(|player| player.join(game, "Ann".to_owned()));
        assert!(matches!(joined, Err(JoinError::Unreachable(_))), "{joined:?}");
        assert_eq!(ann.call(PlayerGrain::playing), None);
        assert!(!ann.call(PlayerGrain::leave));
    }
}
