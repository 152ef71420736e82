//! One walk over the whole binary, nested modules and components included: sections and sizes.

use wasmparser::{BinaryReaderError, Parser, Payload};

use super::declarations::{Beyond, Declarations};
use super::properties::{MANIFEST_BYTES_MAX, MANIFEST_SECTION, PropertyError};
use super::{InspectError, Resources};

/// The size of a page of linear memory, in bytes.
const PAGE_BYTES: u64 = 64 << 10;

/// What the walk found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The distinct contents of the manifest sections.
    pub(super) manifests: Vec<Vec<u8>>,
    pub(super) resources: Resources,
}

/// Walks a component.
pub(super) fn scan(bytes: &[u8]) -> Result<Scan, InspectError> {
    let mut scan = Scan::default();
    let mut declarations = Declarations::default();
    let malformed = |error: BinaryReaderError| InspectError::Malformed {
        offset: u64::try_from(error.offset()).unwrap_or(u64::MAX),
        size_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        message: crate::text::first_line(error.message()),
    };
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(malformed)?;
        match declarations.visit(&payload, bytes).map_err(malformed)? {
            Some(Beyond::Nesting) => return Err(InspectError::TooDeep),
            Some(Beyond::Declarations) => return Err(InspectError::TooManyDeclarations),
            None => {}
        }
        scan.visit(&payload).map_err(malformed)?;
        if scan.manifests.iter().any(|manifest| manifest.len() > MANIFEST_BYTES_MAX) {
            return Err(PropertyError::SectionTooLarge.into());
        }
    }
    Ok(scan)
}

impl Scan {
    fn visit(&mut self, payload: &Payload<'_>) -> wasmparser::Result<()> {
        let resources = &mut self.resources;
        match payload {
            // The same section nested and at the top level is one statement.
            Payload::CustomSection(section)
                if section.name() == MANIFEST_SECTION
                    && !self.manifests.iter().any(|known| known == section.data()) =>
            {
                self.manifests.push(section.data().to_vec());
            }
            Payload::ModuleSection { .. } => resources.modules += 1,
            Payload::CodeSectionStart { size, .. } => resources.code_bytes += u64::from(*size),
            Payload::MemorySection(memories) => {
                for memory in memories.clone() {
                    let bytes = memory?.initial.saturating_mul(PAGE_BYTES);
                    resources.memory_bytes_min = resources.memory_bytes_min.max(bytes);
                }
            }
            Payload::TableSection(tables) => {
                for table in tables.clone() {
                    resources.table_elements_min = resources.table_elements_min.max(table?.ty.initial);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
