//! References in arguments and records, one-way notifications, and a typed program outside the cluster.

use granary_client::json::{Place, WitValue as _, parse};
use granary_client::{CallError, Client};
use granary_tests::Cluster;
use presence_client::contract::{Event, GameRef, PlayerRef, Refusal};
use presence_client::play;
use serde_json::Value;

use crate::values::cases;

granary_client::contract! { wit = "../examples/bank/wit", interface = "acme:bank/account", module = "bank" }

granary_client::contract! {
    wit = "guests/values/wit", interface = "granary-tests:values/values", module = "contract"
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn players_join_by_reference_and_hear_of_each_other_while_the_game_moves_between_silos() {
    let cluster = Cluster::new();
    let silos = [cluster.start("silo-1"), cluster.start("silo-2")];
    silos[0].deploy(&["presence-game", "presence-player"]);
    let urls = silos.each_ref().map(|silo| format!("http://{}", silo.gateway));
    runtime().block_on(async {
        let client = Client::connect(&urls).await.unwrap();
        let summary = play(&client, "chess", &["ann", "bob", "carol"]).await.unwrap();
        let scores: Vec<(String, u64)> =
            summary.members.iter().map(|member| (member.player.to_string(), member.score)).collect();
        let expected = [("player/ann", 1), ("player/bob", 2), ("player/carol", 3)];
        assert_eq!(scores, expected.map(|(grain, score)| (grain.to_owned(), score)));
        let entered = |name: &str| Event::Entered(name.to_owned());
        let scored = |name: &str, score| Event::Scored((name.to_owned(), score));
        assert_eq!(
            summary.heard,
            [entered("bob"), entered("carol"), scored("ann", 1), scored("bob", 2), scored("carol", 3)]
        );

        let game = GameRef::get(&client, "chess");
        for round in 0..4 {
            let to = if silos[0].describe("game/chess")["silo"] == "silo-1" { "silo-2" } else { "silo-1" };
            let _ = silos[round % 2].cli(&["migrate", "game/chess", "--to", to]).ok();
            assert_eq!(game.members().await.unwrap(), summary.members);
        }
        let bob = PlayerRef::get(&client, "bob");
        assert_eq!(bob.playing().await, Ok(Some(game.grain_ref())));
        assert_eq!(bob.leave().await, Ok(true));
        assert_eq!(game.score(bob.grain_ref(), 1).await, Ok(None));
        assert_eq!(
            game.enter(bob.grain_ref(), String::new()).await.unwrap_err().grain(),
            Some(Refusal::BadName)
        );
    });
}

#[test]
fn a_program_outside_gets_typed_errors_and_goes_on_when_a_silo_dies() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["account"]);
    let urls = [&two, &one].map(|silo| format!("http://{}", silo.gateway));
    let runtime = runtime();
    runtime.block_on(async {
        let client = Client::connect(&urls).await.unwrap();
        let alice = bank::AccountRef::get(&client, "alice");
        assert_eq!(alice.deposit(5).await, Ok(5));
        let short = bank::Shortage { balance: 5, needed: 6 };
        let error = alice.withdraw(6).await.unwrap_err();
        assert_eq!(error.grain(), Some(bank::AccountError::InsufficientFunds(short)));
        let nobody = bank::AccountRef::new(&client, granary_client::GrainRef::new("acount", "alice"));
        let error = nobody.balance().await.unwrap_err();
        assert!(matches!(&error, CallError::NotFound(what) if what.contains("acount")), "{error:?}");

        two.kill();
        // Calls whose silo is gone may have an unknown outcome; those that did not run are sent again by the client.
        let started = std::time::Instant::now();
        let balance = loop {
            match alice.balance().await {
                Ok(balance) => break balance,
                Err(error) => assert!(started.elapsed().as_secs() < 60, "{error}"),
            }
        };
        assert_eq!(balance, 5);
    });
}

#[test]
fn every_type_of_value_comes_back_to_a_program_outside() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["values"]);
    runtime().block_on(async {
        let client = Client::connect([format!("http://{}", silo.gateway)]).await.unwrap();
        let grain = contract::ValuesRef::get(&client, "v");
        for case in cases() {
            let sent = contract::Everything::from_json(parse(&case.to_string()).unwrap(), &Place::root());
            let back = grain.whole(sent.unwrap()).await.unwrap();
            let back: Value = serde_json::from_str(&back.to_json().to_string()).unwrap();
            assert_eq!(back, case);
        }
        let flat = (u64::MAX, Some('é'), Err(3), contract::Rights::READ | contract::Rights::SHARE);
        assert_eq!(grain.flat(flat.0, flat.1, flat.2, flat.3).await, Ok(flat));
    });
}
