//! `granary demo`: two silos on this machine, a live migration and a crash, in about a screen of output.
//!
//! The demo drives this very binary as a user would: silo processes, client verbs, HTTP calls. Every number that it
//! prints was measured, and whatever does not hold ends it with an error. It leaves no process and no file.

mod client;
mod load;
mod process;
mod silo;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use self::client::Client;
use self::load::Load;
use self::silo::{Scratch, Silo};
use super::{CliError, output};

/// Components that are deployed.
const COMPONENTS: [&str; 3] = ["counter", "account", "transfer"];
/// The counter that is called and moved.
const COUNTER: &str = "counter/alice";
/// The accounts of the bank.
const ANN: &str = "account/ann";
const BOB: &str = "account/bob";
/// The grain that moves money between them.
const TRANSFER: &str = "transfer/till";
/// Accounts that are opened until one is on the silo that dies; where a grain starts is left to chance.
const MORE_ACCOUNTS: [&str; 14] = [
    "account/carol",
    "account/dave",
    "account/erin",
    "account/frank",
    "account/grace",
    "account/heidi",
    "account/ivan",
    "account/judy",
    "account/karl",
    "account/liam",
    "account/mona",
    "account/nina",
    "account/olga",
    "account/paul",
];
/// What is paid into each of those.
const OPENING_DEPOSIT: u64 = 50;
/// How often the counter moves to the other silo.
const MOVES: usize = 4;
/// Clients at each gateway while it moves.
const CLIENTS_PER_GATEWAY: usize = 2;
/// Calls between two moves, as time.
const BETWEEN_MOVES: Duration = Duration::from_millis(250);
/// The longest wait until calls go on after a crash.
const RECOVERY_LIMIT: Duration = Duration::from_secs(30);
/// The pause between two attempts meanwhile.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Whether somebody pressed Ctrl-C or asked the demo to end.
#[derive(Debug, Clone)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(super) fn listen() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    /// Whether a signal came.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails once a signal came.
    fn check(&self) -> Result<()> {
        if self.is_set() {
            bail!("interrupted; everything was stopped");
        }
        Ok(())
    }
}

/// Two silos, a counter and a bank: calls, live migrations, a crash; in half a minute.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The folder with counter.wasm, account.wasm and transfer.wasm.
    #[arg(long, value_name = "FOLDER", default_value = "target/guests")]
    components: PathBuf,
}

pub(crate) fn run(args: &DemoArgs) -> std::result::Result<(), CliError> {
    for name in COMPONENTS {
        let path = args.components.join(format!("{name}.wasm"));
        if !path.is_file() {
            return Err(CliError::data(format!(
                "{} is missing: build the examples with `cargo xtask guests`, or name their folder with --components",
                path.display()
            )));
        }
    }
    let binary = std::env::current_exe()?;
    let interrupt = Interrupt::listen()?;
    let scratch = Scratch::new()?;
    show(&binary, &args.components, scratch.path(), &interrupt)?;
    Ok(())
}

/// Prints one line of the demo.
fn say(text: &str) {
    // A reader that went away ends the story, not the demo's clean-up.
    let _ = output::data(text);
}

fn show(binary: &Path, components: &Path, folder: &Path, interrupt: &Interrupt) -> Result<()> {
    let started = Instant::now();
    say("\nGranary: two silos, a counter and a bank\n");
    let (one, two) = start_silos(binary, folder, interrupt)?;
    deploy(&one, components)?;
    let count = call_grains(&one, &two)?;
    interrupt.check()?;
    move_while_called(&one, &two, count, interrupt)?;
    interrupt.check()?;
    crash(&one, two, interrupt)?;
    let stopped_in = one.stop()?;
    say(&format!("\n6. The last silo stops on SIGTERM: exit code 0 after {}", millis(stopped_in)));
    say(&format!("\nEverything held, in {}. No process and no file is left.", seconds(started.elapsed())));
    Ok(())
}

fn start_silos(binary: &Path, folder: &Path, interrupt: &Interrupt) -> Result<(Silo, Silo)> {
    say("1. Two silos start: two processes, one cluster, the embedded store");
    let one = Silo::start(binary, folder, "silo-1", interrupt)?;
    let two = Silo::start(binary, folder, "silo-2", interrupt)?;
    for silo in [&one, &two] {
        say(&format!(
            "   {}  pid {}  gateway {}  ready after {}",
            silo.name,
            silo.pid(),
            silo.gateway,
            millis(silo.started_in)
        ));
    }
    Ok((one, two))
}

fn deploy(silo: &Silo, components: &Path) -> Result<()> {
    say("\n2. Grains are deployed to the running cluster");
    for name in COMPONENTS {
        let path = components.join(format!("{name}.wasm"));
        let kib = std::fs::metadata(&path)?.len().div_ceil(1024);
        let started = Instant::now();
        silo.verb(&["deploy", &path.to_string_lossy()])?;
        say(&format!("   {name}.wasm, {kib} KiB: served by both silos after {}", millis(started.elapsed())));
    }
    Ok(())
}

/// Calls by name through both silos; returns the counter's value.
fn call_grains(one: &Silo, two: &Silo) -> Result<u64> {
    say("\n3. Grains are called by name, through any silo; the first call creates them");
    for (silo, expected) in [(one, "5"), (two, "10")] {
        let printed = silo.verb(&["call", COUNTER, "increment", "5"])?;
        expect(&format!("{COUNTER} increment 5"), &printed.as_str(), &expected)?;
        say(&format!("   {COUNTER} increment 5 -> {printed}   (through {})", silo.name));
    }
    let (mut through_one, mut through_two) = (Client::new(one.gateway), Client::new(two.gateway));
    expect("ann's balance", &number(&through_one.call(ANN, "deposit", &json!([100]))?)?, &100)?;
    through_two.call(TRANSFER, "transfer", &json!(["ann", "bob", 30]))?;
    let balances = (balance(&mut through_two, ANN)?, balance(&mut through_one, BOB)?);
    expect("the balances after a transfer", &balances, &(70, 30))?;
    say(
        "   ann deposits 100; a transfer grain moves 30 to bob -> ann 70, bob 30 (each written to the store)",
    );
    Ok(10)
}

fn move_while_called(one: &Silo, two: &Silo, before: u64, interrupt: &Interrupt) -> Result<()> {
    let gateways = [one.gateway, two.gateway].repeat(CLIENTS_PER_GATEWAY);
    say(&format!(
        "\n4. The live counter moves to and fro while {} clients call it through both silos",
        gateways.len()
    ));
    let load = Load::start(COUNTER, &gateways);
    thread::sleep(BETWEEN_MOVES);
    for _ in 0..MOVES {
        interrupt.check()?;
        let from = one.whereabouts(COUNTER)?;
        let to = if from == one.name { &two.name } else { &one.name };
        let started = Instant::now();
        one.verb(&["migrate", COUNTER, "--to", to])?;
        let took = started.elapsed();
        expect("the counter's silo", &&one.whereabouts(COUNTER)?, &to)?;
        say(&format!("   {from} -> {to}  in {} (the command as a whole)", millis(took)));
        thread::sleep(BETWEEN_MOVES);
    }
    let mut answers = load.finish()?;
    let calls = answers.check_consecutive(before)?;
    say(&format!(
        "   {calls} calls meanwhile: none failed, no number skipped or repeated; the slowest took {}",
        millis(answers.slowest)
    ));
    Ok(())
}

fn crash(one: &Silo, two: Silo, interrupt: &Interrupt) -> Result<()> {
    if one.whereabouts(COUNTER)? != two.name {
        one.verb(&["migrate", COUNTER, "--to", &two.name])?;
    }
    let mut client = Client::new(one.gateway);
    let (account, persisted) = account_on(one, &two, &mut client)?;
    let count = number(&client.call(COUNTER, "get", &json!([]))?)?;
    let name = two.name.clone();
    say(&format!(
        "\n5. {name} is killed (SIGKILL) while {account} (balance {persisted}) and {COUNTER} ({count}) run there"
    ));
    two.kill()?;
    let killed = Instant::now();
    let (found, refused) = answer_after_crash(&mut client, account, interrupt)?;
    say(&format!(
        "   calls to {account} went on after {}, through {} ({refused} attempts failed meanwhile)",
        seconds(killed.elapsed()),
        one.name
    ));
    expect("the balance after the crash", &found, &persisted)?;
    say(&format!("   {account}: balance {found}   (it is persisted, and survived)"));
    let fresh = number(&client.call(COUNTER, "get", &json!([]))?)?;
    expect("the counter after the crash", &fresh, &0)?;
    say(&format!("   {COUNTER}: {fresh}   (it lives in memory only, and began anew)"));
    Ok(())
}

/// An account that is active on `wanted`, with its balance; accounts are opened until there is one.
fn account_on(one: &Silo, wanted: &Silo, client: &mut Client) -> Result<(&'static str, u64)> {
    for account in [ANN, BOB] {
        if one.whereabouts(account)? == wanted.name {
            return Ok((account, balance(client, account)?));
        }
    }
    for account in MORE_ACCOUNTS {
        let balance = number(&client.call(account, "deposit", &json!([OPENING_DEPOSIT]))?)?;
        if one.whereabouts(account)? == wanted.name {
            return Ok((account, balance));
        }
    }
    bail!("of {} accounts none was placed on {}", MORE_ACCOUNTS.len() + 2, wanted.name)
}

/// Asks for a balance until there is an answer; returns it, and how many attempts failed before.
fn answer_after_crash(client: &mut Client, account: &str, interrupt: &Interrupt) -> Result<(u64, u32)> {
    let started = Instant::now();
    let mut failed = 0;
    loop {
        interrupt.check()?;
        match balance(client, account) {
            Ok(balance) => return Ok((balance, failed)),
            Err(error) if started.elapsed() >= RECOVERY_LIMIT => {
                let seconds = RECOVERY_LIMIT.as_secs();
                return Err(error.context(format!("{account} does not answer {seconds} s after the crash")));
            }
            Err(_) => failed += 1,
        }
        thread::sleep(RETRY_PAUSE);
    }
}

fn balance(client: &mut Client, account: &str) -> Result<u64> {
    number(&client.call(account, "balance", &json!([]))?)
}

/// The number in a result: the value itself, or that of `{"ok": …}`.
fn number(value: &Value) -> Result<u64> {
    value.get("ok").unwrap_or(value).as_u64().with_context(|| format!("expected a number, found {value}"))
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<()> {
    anyhow::ensure!(found == expected, "{what}: expected {expected:?}, found {found:?}");
    Ok(())
}

fn millis(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis().max(1))
    } else {
        seconds(duration)
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_bare_and_in_results() {
        assert_eq!(number(&json!(5)).unwrap(), 5);
        assert_eq!(number(&json!({"ok": 70})).unwrap(), 70);
        assert!(
            number(&json!({"err": "insufficient-funds"})).unwrap_err().to_string().contains("insufficient")
        );
    }

    #[test]
    fn an_expectation_that_fails_shows_both_sides() {
        let error = expect("the sum", &3, &4).unwrap_err().to_string();
        assert_eq!(error, "the sum: expected 4, found 3");
    }
}
