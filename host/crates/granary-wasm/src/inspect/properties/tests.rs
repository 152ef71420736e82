use super::*;

fn limits(name: &str, value: &str) -> Result<Limits, PropertyError> {
    let mut limits = Limits::default();
    apply_properties(&BTreeMap::from([(name.to_owned(), value.to_owned())]), &mut limits).map(|_| limits)
}

#[test]
fn limits_come_from_properties() {
    assert_eq!(limits("granary.memory-max", "16MiB").unwrap().memory_bytes_max, 16 << 20);
    assert_eq!(limits("granary.memory-max", "65536").unwrap().memory_bytes_max, 65_536);
    assert_eq!(limits("granary.turn-cpu-max", "250ms").unwrap().turn_cpu_max, Duration::from_millis(250));
    assert_eq!(limits("granary.value-max", "1 MiB").unwrap().value_bytes_max, 1 << 20);
    assert_eq!(limits("granary.mailbox-max", "7").unwrap().mailbox_max, 7);
    assert_eq!(limits("idle-duration", "2h").unwrap().idle_age, Some(Duration::from_secs(7_200)));
    assert_eq!(limits("idle-duration", "indefinite").unwrap().idle_age, None);
    assert_eq!(limits("keep-alive", "true").unwrap().idle_age, None);
}

#[test]
fn a_bad_value_is_an_error_that_names_its_property() {
    for (name, value) in [
        ("granary.memory-max", "5GiB"),
        ("granary.memory-max", "1"),
        ("granary.memory-max", "99999999999999999999GiB"),
        ("granary.turn-cpu-max", "0s"),
        ("granary.value-max", "1GiB"),
        ("granary.mailbox-max", "0"),
        ("idle-duration", "1ms"),
        ("grain-type", "a b"),
        ("reentrant", "yes"),
        ("immovable", "256"),
        ("directory-policy", ""),
        ("placement-strategy", "RandomPlacement"),
    ] {
        let error = limits(name, value).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}`")), "{error}");
    }
}

#[test]
fn unknown_names_are_carried_and_only_ours_are_remarked() {
    let properties = BTreeMap::from([
        ("granary.memory-mx".to_owned(), "1".to_owned()),
        ("team".to_owned(), "a".to_owned()),
    ]);
    let notes = apply_properties(&properties, &mut Limits::default()).unwrap();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("granary.memory-mx"));
}

#[test]
fn the_rules_are_in_order() {
    assert!(RULES.is_sorted_by(|(one, _), (next, _)| one < next));
}
