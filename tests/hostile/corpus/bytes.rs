//! Writing and cutting the binary format: lengths, sections, pseudo-random bytes.

use granary_tests::input::Random;

/// The preamble of a component.
pub(super) const PREAMBLE: &[u8] = b"\0asm\x0d\0\x01\0";

/// An unsigned number as LEB128.
pub(super) fn leb(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(byte);
            return out;
        }
        out.push(byte | 0x80);
    }
}

/// A section with its id and length.
pub(super) fn section(id: u8, body: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(body.len()), body].concat()
}

/// The sections of a well-formed binary, each with its header.
pub(super) fn sections(component: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &component[PREAMBLE.len()..];
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (mut length, mut shift, mut header) = (0_usize, 0, 1);
        loop {
            let byte = rest[header];
            header += 1;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (section, after) = rest.split_at(header + length);
        out.push(section.to_vec());
        rest = after;
    }
    out
}

/// A component of these sections.
pub(super) fn join(sections: &[Vec<u8>]) -> Vec<u8> {
    [PREAMBLE, &sections.concat()].concat()
}

/// That many pseudo-random bytes.
pub(super) fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    std::iter::repeat_with(|| random.next().to_le_bytes()).flatten().take(len).collect()
}
