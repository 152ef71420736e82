//! Activations that live in one process, and what each costs.

use anyhow::Result;

use crate::Run;
use crate::measure::{Series, rss_of};
use crate::processes::{Cluster, Connection, call, load_runtime};
use crate::report::Line;

pub(crate) fn measure(run: &Run) -> Result<Vec<Line>> {
    let wanted = run.pick(4_000_u32, 110_000);
    let cluster = Cluster::new(run)?;
    let silo = cluster.start("silo-1")?;
    cluster.deploy(&silo)?;
    load_runtime()?.block_on(async {
        let mut connection = Connection::open(silo.gateway).await?;
        // What a silo allocates once is not the price of an activation.
        for n in 0..100 {
            connection.send(&call(&format!("first-{n}"), "echo", "[1]")).await?;
        }
        let before = rss_of(silo.pid())?;
        let mut live = 0;
        let mut end = String::new();
        for n in 0..wanted {
            match connection.send(&call(&n.to_string(), "echo", "[1]")).await {
                Ok(_) => live += 1,
                Err(error) => {
                    end = format!("the next one failed: {error}");
                    break;
                }
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let kib = rss_of(silo.pid())?.saturating_sub(before) as f64 / 1024.0 / f64::from(live.max(1));
        let mut lines = vec![Line::new(
            "live-memory",
            format!("resident memory of an activation, with {live} live"),
            "KiB",
            Series::exact(kib),
        )];
        if run.quick {
            end = "the quick form does not look for the most".to_owned();
        } else {
            let count = Series::exact(f64::from(live));
            lines.push(Line::new("live-count", "live activations in one process", "", count));
        }
        if let Some(last) = lines.pop() {
            lines.push(last.note(end));
        }
        Ok(lines)
    })
}
