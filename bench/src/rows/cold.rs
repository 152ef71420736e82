//! The first call of a grain, with everything that brings it to life.

use anyhow::{Result, ensure};
use wasmtime::component::Val;

use crate::Run;
use crate::bare::Component;
use crate::measure::{interleaved, thread_cpu};
use crate::report::Line;
use crate::world::{World, runtime};

pub(crate) fn measure(run: &Run) -> Result<Vec<Line>> {
    let grains = run.pick(100_u32, 500);
    let world = World::new(&run.pinger)?;
    let component = Component::new(&run.pinger)?;
    let alone = runtime()?;
    let mut turn = 0;
    let [placed, bare] = interleaved(
        run.pick(7, 15),
        [
            &mut || {
                turn += 1;
                let requests: Vec<_> = (0..grains)
                    .map(|n| world.request(&format!("{turn}-{n}"), "echo", "[1]"))
                    .collect::<Result<_>>()?;
                let before = thread_cpu();
                for request in requests {
                    world.call(request)?;
                }
                Ok((thread_cpu() - before).as_secs_f64() * 1e6 / f64::from(grains))
            },
            &mut || {
                // Kept alive, as the grains are.
                let mut stores = Vec::new();
                let before = thread_cpu();
                for _ in 0..grains {
                    let (mut store, instance) = alone.block_on(component.instantiate())?;
                    let echo = component.function(&mut store, &instance, "echo")?;
                    let mut results = [Val::Bool(false)];
                    alone.block_on(echo.call_async(&mut store, &[Val::U64(1)], &mut results))?;
                    ensure!(results == [Val::U64(1)], "the bare function answered {results:?}");
                    stores.push(store);
                }
                Ok((thread_cpu() - before).as_secs_f64() * 1e6 / f64::from(grains))
            },
        ],
    )?;
    Ok(vec![
        Line::new("cold", "first call of a grain: placed, registered, instantiated", "µs", placed)
            .against("bare instantiate and first call", &bare)
            .note("the directory is a map in memory: its answer costs nothing here"),
    ])
}
