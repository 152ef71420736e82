//! Moves of a grain between two silos while it is called.
//!
//! Calls start at fixed times, whether or not earlier ones have been answered, and each is timed from when it was due:
//! a pause is felt by all calls that fall into it, and so it is by the figures.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::Run;
use crate::measure::{Series, percentile};
use crate::processes::{Cluster, Connection, call, load_runtime, post};
use crate::report::Line;

/// What the grain carries, in bytes.
const BALLAST: u32 = 100_000;

/// Connections that call, half of them at each silo.
const CONNECTIONS: u32 = 16;

/// Time between two calls of one connection.
const PERIOD: Duration = Duration::from_millis(20);

/// Time between two moves.
const REST: Duration = Duration::from_millis(50);

/// One call of the load.
#[derive(Debug, Clone, Copy)]
struct Called {
    due: Instant,
    ended: Instant,
    ok: bool,
}

/// One move.
#[derive(Debug, Clone, Copy)]
struct Moved {
    began: Instant,
    ended: Instant,
    pause_ms: f64,
}

pub(crate) fn measure(run: &Run) -> Result<Vec<Line>> {
    let cluster = Cluster::new(run)?;
    let silos = [cluster.start("silo-1")?, cluster.start("silo-2")?];
    cluster.deploy(&silos[0])?;
    let moves_wanted = run.pick(60, 400);
    let [gateways, admins] =
        [silos.each_ref().map(|silo| silo.gateway), silos.each_ref().map(|silo| silo.admin)];
    let (calls, moves, count) = load_runtime()?.block_on(async {
        let mut connection = Connection::open(gateways[0]).await?;
        connection.send(&call("moved", "fill", &format!("[{BALLAST}]"))).await?;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let mut load = JoinSet::new();
        for n in 0..CONNECTIONS {
            let gateway = if n % 2 == 0 { gateways[0] } else { gateways[1] };
            load.spawn(caller(gateway, Instant::now() + PERIOD * n / CONNECTIONS, stopped.clone()));
        }
        let moves = move_to_and_fro(admins[0], moves_wanted).await;
        stop.send(true)?;
        let mut calls = Vec::new();
        while let Some(ended) = load.join_next().await {
            calls.extend(ended??);
        }
        // One more, whose answer tells how many ran before it.
        let mut connection = Connection::open(gateways[0]).await?;
        let last: u64 = serde_json::from_slice(&connection.send(&call("moved", "count", "[]")).await?)?;
        Ok::<_, anyhow::Error>((calls, moves?, last - 1))
    })?;
    Ok(lines(&calls, &moves, count))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn lines(calls: &[Called], moves: &[Moved], count: u64) -> Vec<Line> {
    let answered = calls.iter().filter(|call| call.ok).count() as f64;
    let failed = calls.len() as f64 - answered;
    let pauses: Vec<f64> = moves.iter().map(|it| it.pause_ms).collect();
    let slowest: Vec<f64> = moves
        .iter()
        .map(|moved| {
            let during = calls.iter().filter(|call| call.ended >= moved.began && call.due <= moved.ended);
            during.map(|call| (call.ended - call.due).as_secs_f64() * 1e3).fold(0.0, f64::max)
        })
        .collect();
    let what = format!("of {} moves with 100 KB under {} calls", moves.len(), calls.len());
    let at = |values: &[f64], percent| Series::exact(percentile(values, percent));
    vec![
        Line::new("migration-pause-p50", format!("pause, p50 {what}"), "ms", at(&pauses, 50.0)),
        Line::new("migration-pause-p99", "pause, p99", "ms", at(&pauses, 99.0))
            .note("the pause is from the last turn at the source to the first possible one at the target"),
        Line::new("migration-slowest-p50", "slowest call during a move, p50", "ms", at(&slowest, 50.0)),
        Line::new("migration-slowest-p99", "slowest call during a move, p99", "ms", at(&slowest, 99.0))
            .note("through the gateways, timed from when each call was due"),
        Line::new("migration-failed", "failed calls", "", Series::exact(failed)),
        Line::new(
            "migration-doubled",
            "calls that ran twice",
            "",
            Series::exact((count as f64 - answered - failed).max(0.0)),
        )
        .note(format!("{answered} calls were answered, the grain counted {count}")),
    ]
}

/// Calls at fixed times until it is told to stop; a call that is late is due when it was due.
async fn caller(
    gateway: SocketAddr,
    first: Instant,
    stopped: tokio::sync::watch::Receiver<bool>,
) -> Result<Vec<Called>> {
    let mut connection = Connection::open(gateway).await?;
    let request = call("moved", "count", "[]");
    let (mut due, mut calls) = (first, Vec::new());
    while !*stopped.borrow() {
        sleep_until(due.into()).await;
        let ok = connection.send(&request).await.is_ok();
        calls.push(Called { due, ended: Instant::now(), ok });
        due += PERIOD;
    }
    Ok(calls)
}

async fn move_to_and_fro(admin: SocketAddr, wanted: usize) -> Result<Vec<Moved>> {
    let mut connection = Connection::open(admin).await?;
    let mut moves = Vec::new();
    for target in ["silo-2", "silo-1"].into_iter().cycle().take(wanted) {
        sleep_until((Instant::now() + REST).into()).await;
        let request = post(&format!("/v1/activations/pinger/moved/migrate?to={target}"), "");
        let began = Instant::now();
        let report: Value = serde_json::from_slice(&connection.send(&request).await?)?;
        let pause_ms =
            report.get("pause_ms").and_then(Value::as_f64).context("a report without its pause")?;
        moves.push(Moved { began, ended: Instant::now(), pause_ms });
    }
    Ok(moves)
}
