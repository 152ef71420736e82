//! Transitions of the spreading machine, and its repair of loss and reordering.

use super::*;
use crate::membership::Member;
use crate::membership::table::SiloStatus;

fn silo(n: u16) -> SiloAddress {
    format!("10.0.0.{n}:7000@{n}").parse().unwrap()
}

fn manifest(grain: &str) -> GrainManifest {
    GrainManifest::builder().grain(grain, [("type-name", grain)]).build()
}

fn view(version: u64, silos: impl IntoIterator<Item = (u16, SiloStatus)>) -> ManifestEvent {
    let member = |status| Member {
        name: String::new(),
        status,
        gateway: "127.0.0.1:1".parse().unwrap(),
        admin: "127.0.0.1:2".parse().unwrap(),
    };
    let members = silos.into_iter().map(|(n, status)| (silo(n), member(status))).collect();
    ManifestEvent::ViewChanged(Arc::new(MembershipView { version, members }))
}

fn actives(version: u64, silos: impl IntoIterator<Item = u16>) -> ManifestEvent {
    view(version, silos.into_iter().map(|n| (n, SiloStatus::Active)))
}

fn seconds(n: u64) -> Time {
    Time(n * 1_000_000)
}

fn run(machine: &mut ManifestProvider, now: Time, event: ManifestEvent) -> Vec<ManifestCommand> {
    let mut out = Vec::new();
    machine.handle(now, event, &mut out);
    out
}

fn hear(machine: &mut ManifestProvider, from: u16, message: ManifestMessage) -> Vec<ManifestCommand> {
    run(machine, seconds(0), ManifestEvent::Message { from: silo(from), message })
}

fn send(to: u16, message: ManifestMessage) -> ManifestCommand {
    ManifestCommand::Send { to: silo(to), message }
}

fn published(machine: &ManifestProvider) -> ManifestCommand {
    ManifestCommand::Published(Arc::clone(machine.current()))
}

fn hash_of(generation: u64, grain: &str) -> ManifestMessage {
    ManifestMessage::Hash { generation, hash: manifest(grain).hash() }
}

fn body_of(generation: u64, grain: &str) -> ManifestMessage {
    ManifestMessage::Body { generation, manifest: Some(Arc::new(manifest(grain))) }
}

/// The version and the silos with their generations.
fn state(machine: &ManifestProvider) -> (String, Vec<(SiloAddress, u64)>) {
    let current = machine.current();
    let silos = current.silos.iter().map(|(silo, known)| (*silo, known.generation)).collect();
    (current.version.to_string(), silos)
}

/// Silo 1 with manifest `a`, Active beside silo 2, of which it knows nothing yet; version 3.0.
fn beside_2() -> ManifestProvider {
    let mut machine = ManifestProvider::new(silo(1), manifest("a"));
    let out = run(&mut machine, seconds(0), actives(3, [1, 2]));
    let ask = send(2, ManifestMessage::GetHash);
    assert_eq!(out, [published(&machine), ask, ManifestCommand::WakeAt(seconds(1))]);
    machine
}

#[test]
fn publications_follow_the_worked_sequence() {
    use SiloStatus::{Active, Dead, Joining, ShuttingDown};
    let mut machine = ManifestProvider::new(silo(1), manifest("l"));
    assert_eq!(machine.current().version, ManifestVersion::MIN);
    assert!(machine.current().silos.is_empty());
    assert_eq!(machine.current().distinct().len(), 1);
    let expect = |machine: &ManifestProvider, version: &str, silos: &[u16]| {
        let silos: Vec<_> = silos.iter().map(|n| (silo(*n), 1)).collect();
        assert_eq!(state(machine), (version.to_owned(), silos));
    };
    run(&mut machine, seconds(0), view(1, [(1, Joining)]));
    expect(&machine, "1.0", &[]);
    run(&mut machine, seconds(0), actives(2, [1]));
    expect(&machine, "2.0", &[1]);
    run(&mut machine, seconds(0), actives(3, [1, 2, 3]));
    expect(&machine, "3.0", &[1]);
    hear(&mut machine, 2, hash_of(1, "a"));
    hear(&mut machine, 2, body_of(1, "a"));
    expect(&machine, "3.1", &[1, 2]);
    assert_eq!(machine.pending().collect::<Vec<_>>(), [silo(3)]);
    hear(&mut machine, 3, hash_of(1, "a"));
    expect(&machine, "3.2", &[1, 2, 3]);
    assert_eq!(machine.current().distinct().len(), 2, "equal manifests are one");
    run(&mut machine, seconds(9), view(4, [(1, Active), (2, ShuttingDown), (3, Active)]));
    expect(&machine, "4.0", &[1, 3]);
    run(&mut machine, seconds(9), view(5, [(1, Active), (2, Dead), (3, Active)]));
    expect(&machine, "5.0", &[1, 3]);
    run(&mut machine, seconds(9), actives(4, [1, 2, 3]));
    expect(&machine, "5.0", &[1, 3]);
}

#[test]
fn a_new_own_manifest_is_announced_and_published_as_the_next_minor_version() {
    let mut machine = beside_2();
    let out = run(&mut machine, seconds(0), ManifestEvent::OwnManifest(manifest("b")));
    let announce = ManifestMessage::Announce { generation: 2, hash: manifest("b").hash() };
    assert_eq!(out, [ManifestCommand::OwnGeneration(2), send(2, announce), published(&machine)]);
    assert_eq!(state(&machine), ("3.1".into(), vec![(silo(1), 2)]));
    assert_eq!(run(&mut machine, seconds(0), ManifestEvent::OwnManifest(manifest("b"))), []);
}

#[test]
fn a_manifest_of_a_known_hash_is_not_fetched() {
    let mut machine = beside_2();
    let out = hear(&mut machine, 2, hash_of(1, "a"));
    assert_eq!(out, [published(&machine)]);
    let current = machine.current();
    assert!(Arc::ptr_eq(&current.silos[&silo(2)].manifest, &current.silos[&silo(1)].manifest));
}

#[test]
fn an_unknown_hash_is_fetched_and_the_old_manifest_resolves_until_then() {
    let mut machine = beside_2();
    hear(&mut machine, 2, hash_of(1, "a"));
    let announce = ManifestMessage::Announce { generation: 2, hash: manifest("b").hash() };
    let out = hear(&mut machine, 2, announce);
    let get = ManifestMessage::Get { hash: manifest("b").hash() };
    assert_eq!(out, [send(2, get), ManifestCommand::WakeAt(seconds(1))]);
    assert_eq!(state(&machine).1, [(silo(1), 1), (silo(2), 1)]);
    assert_eq!(hear(&mut machine, 2, body_of(2, "b")), [published(&machine)]);
    assert_eq!(state(&machine), ("3.2".into(), vec![(silo(1), 1), (silo(2), 2)]));
    assert_eq!(hear(&mut machine, 2, body_of(2, "b")), [], "a repeated answer changes nothing");
}

#[test]
fn a_generation_in_a_probe_repairs_a_lost_announcement() {
    let mut machine = beside_2();
    hear(&mut machine, 2, hash_of(1, "a"));
    let heard = |generation| ManifestEvent::PeerGeneration { silo: silo(2), generation };
    assert_eq!(run(&mut machine, seconds(4), heard(1)), []);
    let out = run(&mut machine, seconds(4), heard(2));
    assert_eq!(out, [send(2, ManifestMessage::GetHash), ManifestCommand::WakeAt(seconds(5))]);
    assert_eq!(run(&mut machine, seconds(4), heard(2)), [], "it is asked once");
}

#[test]
fn questions_are_repeated_after_1_2_4_and_5_seconds() {
    let mut machine = beside_2();
    for (at, next) in [(1, 3), (3, 7), (7, 12), (12, 17)] {
        let out = run(&mut machine, seconds(at), ManifestEvent::Tick);
        assert_eq!(out, [send(2, ManifestMessage::GetHash), ManifestCommand::WakeAt(seconds(next))]);
    }
    let get = ManifestMessage::Get { hash: manifest("b").hash() };
    let message = hash_of(1, "b");
    let out = run(&mut machine, seconds(13), ManifestEvent::Message { from: silo(2), message });
    assert_eq!(out, [send(2, get.clone()), ManifestCommand::WakeAt(seconds(14))]);
    let out = run(&mut machine, seconds(14), ManifestEvent::Tick);
    assert_eq!(out, [send(2, get), ManifestCommand::WakeAt(seconds(16))]);
}

#[test]
fn content_of_another_hash_is_not_taken() {
    let mut machine = beside_2();
    hear(&mut machine, 2, hash_of(1, "b"));
    assert_eq!(hear(&mut machine, 2, body_of(1, "forged")), []);
    assert_eq!(state(&machine).1, [(silo(1), 1)]);
}

#[test]
fn an_overtaken_hash_or_body_never_replaces_a_newer_generation() {
    let mut machine = beside_2();
    hear(&mut machine, 2, hash_of(3, "c"));
    hear(&mut machine, 2, body_of(3, "c"));
    assert_eq!(hear(&mut machine, 2, hash_of(2, "a")), [], "the hash is known, the generation is old");
    assert_eq!(hear(&mut machine, 2, body_of(2, "b")), []);
    assert_eq!(state(&machine), ("3.1".into(), vec![(silo(1), 1), (silo(2), 3)]));
}

#[test]
fn the_last_two_own_manifests_are_served_and_older_ones_are_not() {
    let mut machine = beside_2();
    for grain in ["b", "c"] {
        run(&mut machine, seconds(0), ManifestEvent::OwnManifest(manifest(grain)));
    }
    assert_eq!(hear(&mut machine, 2, ManifestMessage::GetHash), [send(2, hash_of(3, "c"))]);
    let get = |grain| ManifestMessage::Get { hash: manifest(grain).hash() };
    for grain in ["b", "c"] {
        assert_eq!(hear(&mut machine, 2, get(grain)), [send(2, body_of(3, grain))]);
    }
    let gone = ManifestMessage::Body { generation: 3, manifest: None };
    assert_eq!(hear(&mut machine, 2, get("a")), [send(2, gone)]);
}

#[test]
fn an_answer_that_the_manifest_is_gone_leads_to_the_newer_one() {
    let mut machine = beside_2();
    hear(&mut machine, 2, hash_of(1, "b"));
    let gone = ManifestMessage::Body { generation: 3, manifest: None };
    let out = hear(&mut machine, 2, gone);
    assert_eq!(out, [send(2, ManifestMessage::GetHash)]);
    hear(&mut machine, 2, hash_of(3, "d"));
    hear(&mut machine, 2, body_of(3, "d"));
    assert_eq!(state(&machine).1, [(silo(1), 1), (silo(2), 3)]);
}

#[test]
fn silos_that_are_not_active_are_neither_asked_nor_heard() {
    let mut machine = beside_2();
    let out = run(&mut machine, seconds(0), view(4, [(1, SiloStatus::Active), (2, SiloStatus::Joining)]));
    assert_eq!(out, [published(&machine)]);
    assert_eq!(hear(&mut machine, 2, hash_of(1, "a")), []);
    assert_eq!(hear(&mut machine, 9, hash_of(1, "a")), []);
    let heard = ManifestEvent::PeerGeneration { silo: silo(9), generation: 7 };
    assert_eq!(run(&mut machine, seconds(0), heard), []);
    assert_eq!(state(&machine), ("4.0".into(), vec![(silo(1), 1)]));
}

#[test]
fn messages_survive_the_wire_with_lone_surrogates() {
    let lone = crate::manifest::Text::new(vec![0xd800]);
    let properties = BTreeMap::from([("k".into(), Some(lone)), ("n".into(), None)]);
    let grains = BTreeMap::from([(crate::manifest::Identifier::NULL, properties)]);
    let manifest = Arc::new(GrainManifest::new(grains, BTreeMap::new()));
    let message = ManifestMessage::Body { generation: 5, manifest: Some(Arc::clone(&manifest)) };
    let bytes = postcard::to_stdvec(&message).unwrap();
    let back: ManifestMessage = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(back, message);
    let ManifestMessage::Body { manifest: Some(copy), .. } = back else { panic!("no body") };
    assert_eq!(copy.hash(), manifest.hash());
}

/// Silos that deploy at random over a network that loses, repeats and reorders; then the faults end, only
/// probes bring generations, and everybody must know everything.
#[test]
fn after_loss_repetition_and_reordering_everybody_knows_the_newest_of_everybody() {
    const SILOS: u16 = 4;
    for seed in 0..200_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        let mut silos: BTreeMap<SiloAddress, ManifestProvider> =
            (1..=SILOS).map(|n| (silo(n), ManifestProvider::new(silo(n), manifest("a")))).collect();
        let mut wire: Vec<(SiloAddress, ManifestEvent)> =
            silos.keys().map(|silo| (*silo, actives(1, 1..=SILOS))).collect();
        for step in 0..3000_u64 {
            let (now, faulty) = (seconds(step / 20), step < 1000);
            let any = silo(u16::try_from(next(u64::from(SILOS))).unwrap() + 1);
            let peer = silo(u16::try_from(next(u64::from(SILOS))).unwrap() + 1);
            let (to, event) = match next(10) {
                0 if faulty => {
                    (any, ManifestEvent::OwnManifest(manifest(["a", "b", "c", "d"][next(4) as usize])))
                }
                1 => {
                    (any, ManifestEvent::PeerGeneration { silo: peer, generation: silos[&peer].generation() })
                }
                2 => (any, ManifestEvent::Tick),
                _ if wire.is_empty() => continue,
                _ => {
                    let at = next(wire.len() as u64) as usize;
                    match next(4) {
                        0 if faulty && !matches!(wire[at].1, ManifestEvent::ViewChanged(_)) => {
                            wire.swap_remove(at);
                            continue;
                        }
                        1 if faulty => wire[at].clone(),
                        _ => wire.swap_remove(at),
                    }
                }
            };
            let before = silos[&to].current().version;
            for command in run(silos.get_mut(&to).unwrap(), now, event) {
                match command {
                    ManifestCommand::Send { to: other, message } => {
                        wire.push((other, ManifestEvent::Message { from: to, message }));
                    }
                    ManifestCommand::Published(current) => assert!(current.version > before, "seed {seed}"),
                    _ => {}
                }
            }
        }
        for machine in silos.values() {
            for (silo, known) in &machine.current().silos {
                let truth = &silos[silo];
                assert_eq!(known.generation, truth.generation(), "seed {seed}");
                assert_eq!(known.manifest, truth.own.manifest, "seed {seed}");
            }
            assert_eq!(machine.current().silos.len(), usize::from(SILOS), "seed {seed}");
        }
    }
}
