//! Games with real players.

use granary_guest::testing::{Handle, TestContext};
use presence_player::PlayerGrain;
use presence_player::contract::{Event, Player as _};

use super::contract::Game as _;
use super::*;

fn game() -> (TestContext, Handle<GameGrain>) {
    let ctx = TestContext::new();
    ctx.serve::<PlayerGrain>("player");
    let game = ctx.activate::<GameGrain>("chess").unwrap();
    (ctx, game)
}

fn player(key: &str) -> GrainRef {
    GrainRef::new("player", key)
}

fn enter(game: &Handle<GameGrain>, key: &str) -> Vec<Member> {
    game.call(|game| game.enter(player(key), key.to_owned())).unwrap()
}

#[test]
fn players_hear_of_those_who_come_after_them_and_of_scores() {
    let (ctx, game) = game();
    assert_eq!(enter(&game, "ann").len(), 1);
    assert_eq!(enter(&game, "bob").len(), 2);
    assert_eq!(game.call(|game| game.score(player("bob"), 5)), Some(5));
    let heard = |key: &str| -> Vec<Event> {
        let handle = ctx.activate::<PlayerGrain>(key).unwrap();
        handle.call(PlayerGrain::heard).into_iter().map(|news| news.event).collect()
    };
    let scored = Event::Scored(("bob".to_owned(), 5));
    assert_eq!(heard("ann"), [Event::Entered("bob".to_owned()), scored.clone()]);
    assert_eq!(heard("bob"), [scored]);
}

#[test]
fn a_full_game_and_a_bad_name_are_typed() {
    let (_ctx, game) = game();
    assert_eq!(game.call(|game| game.enter(player("x"), String::new())), Err(Refusal::BadName));
    for number in 0..PLAYERS_MAX {
        let _ = enter(&game, &format!("p{number}"));
    }
    assert_eq!(game.call(|game| game.enter(player("late"), "late".to_owned())), Err(Refusal::Full(100)));
    assert_eq!(enter(&game, "p0").len(), PLAYERS_MAX);
}

#[test]
fn the_members_move_along() {
    let (_ctx, game) = game();
    let _ = enter(&game, "ann");
    game.migrate().unwrap();
    assert!(game.call(|game| game.leave(player("ann"))));
    assert!(!game.call(|game| game.leave(player("ann"))));
    assert!(game.call(GameGrain::members).is_empty());
}
