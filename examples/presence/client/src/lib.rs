//! A program outside the cluster: players join a game through the gateways of a cluster, score, and hear of each
//! other.

use std::error::Error;
use std::time::Duration;

use granary_client::Client;

granary_client::contract! { wit = "../wit" }

use contract::{Event, GameRef, Member, PlayerRef};

/// How long one-way notifications are waited for.
const HEARD_WITHIN: Duration = Duration::from_secs(20);

/// How often somebody is asked what they heard.
const ASK_PAUSE: Duration = Duration::from_millis(20);

/// What became of a game.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Everybody in the game at its end, in the order in which they came.
    pub members: Vec<Member>,
    /// What the first player heard.
    pub heard: Vec<Event>,
}

/// Plays one game: the players join one after the other, each scores as many points as their place, and the first one
/// hears of it all.
///
/// # Errors
/// Fails when a call does, or when the first player does not hear of everything in time.
pub async fn play(
    client: &Client,
    game: &str,
    players: &[&str],
) -> Result<Summary, Box<dyn Error + Send + Sync>> {
    let game = GameRef::get(client, game);
    for name in players {
        // References are values: the player passes one to itself on, the game gives them all back.
        PlayerRef::get(client, name).join(game.grain_ref(), (*name).to_owned()).await?;
    }
    let members = game.members().await?;
    for (place, member) in (1..).zip(&members) {
        game.score(member.player.clone(), place).await?.ok_or("a member is not in the game")?;
    }
    let first = members.first().ok_or("there is nobody in the game")?;
    let first = PlayerRef::new(client, first.player.clone());
    // Everybody else who came, and everybody's score.
    let heard = hear(&first, players.len().saturating_sub(1) + players.len()).await?;
    Ok(Summary { members: game.members().await?, heard })
}

/// Notifications go one way, so that a call which follows them may be earlier.
async fn hear(player: &PlayerRef, count: usize) -> Result<Vec<Event>, Box<dyn Error + Send + Sync>> {
    let listen = async {
        loop {
            let heard = player.heard().await?;
            if heard.len() >= count {
                return Ok(heard.into_iter().map(|news| news.event).collect());
            }
            tokio::time::sleep(ASK_PAUSE).await;
        }
    };
    tokio::time::timeout(HEARD_WITHIN, listen).await?
}
