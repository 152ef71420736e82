//! What needs no component: cached lookups, the hash of a manifest, the simulator.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use granary_core::id::GrainId;
use granary_core::manifest::GrainManifest;
use sha2::{Digest as _, Sha256};

use crate::Run;
use crate::measure::{Series, interleaved, thread_cpu};
use crate::report::Line;
use crate::world::{World, grain};

/// Grains whose places are known: more than fit into a core's cache.
const KNOWN_GRAINS: u32 = 10_000;

pub(crate) fn lookup(run: &Run) -> Result<Vec<Line>> {
    let grains: Vec<GrainId> =
        (0..KNOWN_GRAINS).map(|n| grain(&format!("far-{n}"))).collect::<Result<_>>()?;
    let (one, hundred) = (World::new(&run.pinger)?, World::new(&run.pinger)?);
    one.learn(1, &grains)?;
    hundred.learn(100, &grains)?;
    let rounds = run.pick(10, 100);
    let look = |world: &World| {
        let before = thread_cpu();
        for _ in 0..rounds {
            for grain in &grains {
                ensure!(black_box(world.grains.cached_location(grain)).is_some(), "{grain} is not known");
            }
        }
        let looked = f64::from(KNOWN_GRAINS) * f64::from(rounds);
        Ok((thread_cpu() - before).as_secs_f64() * 1e9 / looked)
    };
    let [one, hundred] = interleaved(run.pick(7, 21), [&mut || look(&one), &mut || look(&hundred)])?;
    Ok(vec![
        Line::new("lookup-1", "cached directory lookup, 10 000 grains on 1 silo", "ns", one.clone()),
        Line::new("lookup-100", "cached directory lookup, 10 000 grains on 100 silos", "ns", hundred)
            .against("the lookup with 1 silo", &one),
    ])
}

/// A manifest of a silo with many types.
fn manifest(types: u32) -> GrainManifest {
    let mut builder = GrainManifest::builder();
    for n in 0..types {
        let (grain_type, interface) = (format!("type-{n}"), format!("acme:package-{n}/interface-{n}"));
        let digest = format!("sha256:{n:064}");
        let properties = [
            ("component", digest.as_str()),
            ("interface.0", interface.as_str()),
            ("placement-strategy", "prefer-local"),
            ("idle-duration", "15m"),
        ];
        builder = builder.grain(&grain_type, properties).interface(&interface, [("version", "1.0.0")]);
    }
    builder.build()
}

/// As many bytes as the canonical layout of a manifest has.
fn canonical_bytes(manifest: &GrainManifest) -> usize {
    // A length or a version.
    const NUMBER: usize = 4;
    let entries = manifest.grains().iter().chain(manifest.interfaces());
    let sizes = entries.map(|(id, properties)| {
        let of_properties = properties.iter().map(|(key, value)| {
            let units = key.units().len() + value.as_ref().map_or(0, |value| value.units().len());
            2 * NUMBER + 2 * units
        });
        2 * NUMBER + id.bytes().map_or(0, <[u8]>::len) + of_properties.sum::<usize>()
    });
    3 * NUMBER + sizes.sum::<usize>()
}

pub(crate) fn manifest_row(run: &Run) -> Result<Vec<Line>> {
    let manifest = manifest(run.pick(500, 2_000));
    let bytes = vec![0x5a_u8; canonical_bytes(&manifest)];
    let rate = |took: Duration| bytes.len() as f64 / took.as_secs_f64() / 1e6;
    let [hashes, bare] = interleaved(
        run.pick(9, 31),
        [
            &mut || {
                // A copy has not been hashed yet.
                let fresh = GrainManifest::new(manifest.grains().clone(), manifest.interfaces().clone());
                let before = thread_cpu();
                black_box(fresh.hash());
                Ok(rate(thread_cpu() - before))
            },
            &mut || {
                let before = thread_cpu();
                black_box(Sha256::digest(black_box(&bytes)));
                Ok(rate(thread_cpu() - before))
            },
        ],
    )?;
    Ok(vec![
        Line::new("manifest", "hash of a manifest", "MB/s", hashes)
            .against("bare SHA-256 of as many bytes", &bare),
    ])
}

pub(crate) fn simulator(run: &Run) -> Result<Vec<Line>> {
    let mut seed = 1;
    let schedules = run.pick(5_u32, 40);
    let mut rates = Vec::new();
    for _ in 0..run.pick(5, 11) {
        let before = thread_cpu();
        for _ in 0..schedules {
            granary_sim::run(seed, None).map_err(|failure| anyhow!("{failure}"))?;
            seed += 1;
        }
        rates.push(f64::from(schedules) / (thread_cpu() - before).as_secs_f64());
    }
    Ok(vec![Line::new("simulator", "schedules of the simulator per CPU-second", "1/s", Series::new(rates))])
}
