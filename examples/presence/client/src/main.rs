//! Plays a game: `presence-client GATEWAY… [-- PLAYER…]`.
#![allow(clippy::print_stdout, reason = "the program's purpose is its output")]

use std::error::Error;

use granary_client::Client;
use presence_client::play;

/// Who plays when nobody is named.
const PLAYERS: [&str; 3] = ["ann", "bob", "carol"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut parts = words.split(|word| word == "--");
    let gateways = parts.next().filter(|gateways| !gateways.is_empty());
    let gateways = gateways.ok_or("name a gateway: presence-client http://127.0.0.1:11110")?;
    let named: Vec<&str> = parts.next().unwrap_or_default().iter().map(String::as_str).collect();
    let players = if named.is_empty() { PLAYERS.to_vec() } else { named };

    let client = Client::connect(gateways).await?;
    let summary = play(&client, "chess", &players).await?;
    for member in &summary.members {
        println!("{} ({}) has {} points", member.name, member.player, member.score);
    }
    println!("{} heard: {:?}", players.first().copied().unwrap_or_default(), summary.heard);
    Ok(())
}
