//! How long a silo takes to be ready.

use anyhow::Result;

use crate::Run;
use crate::measure::Series;
use crate::processes::Cluster;
use crate::report::Line;

pub(crate) fn measure(run: &Run) -> Result<Vec<Line>> {
    let mut seconds = Vec::new();
    for _ in 0..run.pick(5, 15) {
        seconds.push(Cluster::new(run)?.start("silo-1")?.ready_after.as_secs_f64());
    }
    Ok(vec![
        Line::new(
            "start",
            "silo start to ready, embedded store, empty data directory",
            "s",
            Series::new(seconds),
        )
        .note("wall time from the start of the process"),
    ])
}
