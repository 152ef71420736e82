//! Calls by JSON over HTTP, beside a bare handler and a handler over a plain actor.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::Run;
use crate::measure::{cpu_of, interleaved};
use crate::processes::{Cluster, Connection, Peer, call, load_runtime};
use crate::report::Line;

/// Connections that call at once.
const CONNECTIONS: usize = 32;

/// Grains that are called in the row with many.
const GRAINS: usize = 1_000;

pub(crate) fn measure(run: &Run) -> Result<Vec<Line>> {
    let cluster = Cluster::new(run)?;
    let silo = cluster.start("silo-1")?;
    cluster.deploy(&silo)?;
    let (hyper, actor) = (Peer::start("hyper")?, Peer::start("actor")?);
    let runtime = load_runtime()?;
    let seconds = run.pick(0.4, 1.5);
    let load = |address, pid, grains| Load { runtime: &runtime, address, pid, grains, seconds };
    let (one, many) = (load(silo.gateway, silo.pid(), 1), load(silo.gateway, silo.pid(), GRAINS));
    let (bare, plain) = (load(hyper.address, hyper.pid(), 1), load(actor.address, actor.pid(), 1));
    let [one, many, bare, plain] = interleaved(
        run.pick(5, 15),
        [&mut || one.rate(), &mut || many.rate(), &mut || bare.rate(), &mut || plain.rate()],
    )?;
    let (bare_is, plain_is) = ("bare hyper handler", "hyper handler over a tokio actor");
    let unit = "1/CPU-s";
    Ok(vec![
        Line::new("gateway-1", "JSON call, 32 connections, 1 grain", unit, one.clone())
            .against(bare_is, &bare)
            .note("requests per second of the server's CPU time; the load generator's is not counted"),
        Line::new("gateway-1000", "JSON call, 32 connections, 1 000 grains", unit, many.clone())
            .against(bare_is, &bare),
        Line::new("gateway-1-actor", "JSON call, 32 connections, 1 grain", unit, one)
            .against(plain_is, &plain),
        Line::new("gateway-1000-actor", "JSON call, 32 connections, 1 000 grains", unit, many)
            .against(plain_is, &plain),
    ])
}

/// Connections that call as fast as they are answered.
struct Load<'a> {
    runtime: &'a Runtime,
    address: SocketAddr,
    pid: u32,
    grains: usize,
    seconds: f64,
}

impl Load<'_> {
    /// Requests per second of the server's CPU time.
    fn rate(&self) -> Result<f64> {
        let (before, requests) = (cpu_of(self.pid)?, Arc::new(AtomicU64::new(0)));
        let until = Instant::now() + Duration::from_secs_f64(self.seconds);
        self.runtime.block_on(async {
            let mut connections = JoinSet::new();
            for first in 0..CONNECTIONS {
                let keys = (first..).step_by(CONNECTIONS).take_while(|n| *n < self.grains.max(first + 1));
                let calls: Vec<_> =
                    keys.map(|n| call(&format!("g-{}", n % self.grains), "echo", "[12345]")).collect();
                let (address, requests) = (self.address, Arc::clone(&requests));
                connections.spawn(async move {
                    let mut connection = Connection::open(address).await?;
                    for call in calls.iter().cycle() {
                        if Instant::now() >= until {
                            break;
                        }
                        connection.send(call).await?;
                        requests.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok::<(), anyhow::Error>(())
                });
            }
            while let Some(ended) = connections.join_next().await {
                ended?.context("a connection of the load generator")?;
            }
            Ok::<(), anyhow::Error>(())
        })?;
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let requests = requests.load(Ordering::Relaxed) as f64;
        Ok(requests / (cpu_of(self.pid)? - before).as_secs_f64())
    }
}
