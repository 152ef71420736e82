//! The vectors of spec A6.10 and the properties of spec A6.11.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn bytes(manifest: &GrainManifest, version: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(manifest, version, &mut |piece| bytes.extend_from_slice(piece));
    bytes
}

type Entry = (Identifier, Vec<(Text, Option<Text>)>);

fn manifest(grains: Vec<Entry>, interfaces: Vec<Entry>) -> GrainManifest {
    let section = |entries: Vec<Entry>| {
        entries.into_iter().map(|(id, properties)| (id, properties.into_iter().collect())).collect()
    };
    GrainManifest::new(section(grains), section(interfaces))
}

fn pair(key: &str, value: &str) -> (Text, Option<Text>) {
    (key.into(), Some(value.into()))
}

fn lone() -> Text {
    Text::new(vec![0xd800])
}

#[track_caller]
fn check(manifest: &GrainManifest, layout: &str, hash: &str) {
    assert_eq!(bytes(manifest, ENCODING_VERSION), hex(layout));
    assert_eq!(manifest.hash().to_string(), hash);
}

#[test]
fn v1_the_empty_manifest() {
    let hash = "163E7F66D58036CCB1D0B0058D8F46E7CD639816F570E5EB32853EA73634E4CD";
    check(&GrainManifest::default(), "00000002 00000000 00000000", hash);
}

#[test]
fn v2_one_grain_with_two_properties() {
    let layout = "00000002 00000001 00000007 636F756E746572 00000002
        00000012 0070006C006100630065006D0065006E0074002D00730074007200610074006500670079
        0000000F 00520061006E0064006F006D0050006C006100630065006D0065006E0074
        00000009 0074007900700065002D006E0061006D0065
        0000000C 0043006F0075006E0074006500720047007200610069006E 00000000";
    let properties = vec![pair("type-name", "CounterGrain"), pair("placement-strategy", "RandomPlacement")];
    let hash = "A08E36A5E1E2FFD894F70C1BBF26BEF9B93DA2D5A03B3CA4D4FBBC9080F8AE77";
    check(&manifest(vec![("counter".into(), properties)], vec![]), layout, hash);
}

#[test]
fn v3_null_identifier_empty_null_and_lone_surrogate() {
    let properties = vec![pair("a", ""), ("b".into(), None), ("c".into(), Some(lone()))];
    let layout = "00000002 00000001 FFFFFFFF 00000003 00000001 0061 00000000 00000001 0062 FFFFFFFF
        00000001 0063 00000001 D800 00000000";
    let hash = "C1461666C6AEA9BD99C3BF81BB703919E16918C7892885B6774B5A222D0838D5";
    check(&manifest(vec![(Identifier::NULL, properties)], vec![]), layout, hash);
}

#[test]
fn v_gold_and_the_version_is_part_of_the_input() {
    let gold = manifest(vec![(Identifier::new([0x80, 0]), vec![("k".into(), Some(lone()))])], vec![]);
    let layout = "00000002 00000001 00000002 8000 00000001 00000001 006B 00000001 D800 00000000";
    let hash = "DD34377AD1C69045F2B55D6DCAB099A7A36C0A6B6909DC2C54D5B6AC1FA9EBF9";
    check(&gold, layout, hash);
    let third = ManifestHash(Sha256::digest(bytes(&gold, 3)).into());
    assert_eq!(third.to_string(), "C2CF5517ABADEF216C52FEDB4D9C4F36681DA429457CA8848EF921083C532A83");
}

#[test]
fn v4_null_and_empty_identifier_are_two_grains() {
    let both = manifest(vec![(Identifier::new(""), vec![]), (Identifier::NULL, vec![])], vec![]);
    let layout = "0000000200000002 FFFFFFFF00000000 0000000000000000 00000000";
    check(&both, layout, "F2588DFA7BEA09BEB8B2B230D22084726E9F193A38E19820475EFFE8CAC7CEF8");
}

#[test]
fn v5_and_v6_the_sections_are_not_interchangeable() {
    let entry = || vec![("icounter".into(), vec![pair("version", "0")])];
    let layout = "00000002 00000000 00000001 00000008 69636F756E746572 00000001
        00000007 00760065007200730069006F006E 00000001 0030";
    let hash = "E81BFD25E27D744C4D118A45690E9433B832EDF67ED4A7F717719A4517399E93";
    check(&manifest(vec![], entry()), layout, hash);
    let layout = "00000002 00000001 00000008 69636F756E746572 00000001
        00000007 00760065007200730069006F006E 00000001 0030 00000000";
    let hash = "ECEFD3DDBF97B520375AFFAF1D3692C726ED46A643F5D65E417905282CCF68BA";
    check(&manifest(entry(), vec![]), layout, hash);
}

#[test]
fn v7_keys_are_ordered_by_code_units() {
    let properties = vec![pair("\u{e000}", "p"), pair("\u{10000}", "s")];
    let layout = "00000002 00000001 00000001 67 00000002 00000002 D800DC00 00000001 0073
        00000001 E000 00000001 0070 00000000";
    let hash = "ABC2D372DE1F93C1F798EBF57EF499ED05BB8AF46487986A1D76B5D09FE05731";
    check(&manifest(vec![("g".into(), properties)], vec![]), layout, hash);
}

#[test]
fn v8_and_v9_key_and_value_are_kept_apart() {
    let with = |key, value| manifest(vec![("g".into(), vec![pair(key, value)])], vec![]);
    let layout = "00000002 00000001 00000001 67 00000001 00000002 00610062 00000001 0063 00000000";
    check(&with("ab", "c"), layout, "6A849D6DC63D662DD9B1321FB3BB7E9C38953DE50F75388C4802B91D96A15E9A");
    let layout = "00000002 00000001 00000001 67 00000001 00000001 0061 00000002 00620063 00000000";
    check(&with("a", "bc"), layout, "B97D0912D49A8E660E3BBD0F31302B4D44CDFE3D1652BC0A51D9447F9368DD9F");
}

#[test]
fn v10_and_v11_empty_and_null_value_differ() {
    let with = |value| manifest(vec![("g".into(), vec![("k".into(), value)])], vec![]);
    let layout = "00000002 00000001 00000001 67 00000001 00000001 006B 00000000 00000000";
    let hash = "F51D30DF670AEBB36BFF8814D063F605851B46E8321C1CB3359D07C914E4FB63";
    check(&with(Some("".into())), layout, hash);
    let layout = "00000002 00000001 00000001 67 00000001 00000001 006B FFFFFFFF 00000000";
    check(&with(None), layout, "4787D109994ED0B3F265F2428B7367168E96727E67143139BA4A1A2931A5F872");
}

#[test]
fn v12_entries_are_emitted_in_order_whatever_the_order_of_insertion() {
    let layout = "00000002 00000003 0000000161 00000000 000000026162 00000000 0000000162 00000000 00000000";
    let hash = "7DB93DF674DCF7EF04055DA2D058547DB097ADF48F8FFE8515FDA6AE2ACF82E9";
    let orders = [["b", "a", "ab"], ["a", "ab", "b"], ["ab", "b", "a"]];
    for order in orders {
        check(&manifest(order.map(|id| (id.into(), vec![])).to_vec(), vec![]), layout, hash);
    }
}

#[test]
fn raw_bytes_that_are_no_text_are_told_apart() {
    let with = |byte| manifest(vec![(Identifier::new([byte]), vec![])], vec![]).hash();
    assert_ne!(with(0x80), with(0x81));
}

#[test]
fn a_hash_reads_back_from_its_text_and_only_from_that() {
    let hash = GrainManifest::default().hash();
    let text = hash.to_string();
    assert_eq!(text.parse(), Ok(hash));
    for wrong in [text.to_lowercase(), text[1..].to_owned(), format!("{text}0"), text.replace('1', "g")] {
        assert!(wrong.parse::<ManifestHash>().is_err(), "{wrong}");
    }
}
