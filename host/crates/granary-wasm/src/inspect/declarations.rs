//! Bounds on a component's declarations, from the raw sections: how deep things nest, and how many there are.
//!
//! This runs before any library builds something of them, as a precaution. Libraries read types within types by
//! recursion, whose depth an attacker would choose, and what they build may take more than linear time in the number
//! of declarations. Here types are walked with a stack of our own.

use wasmparser::{
    BinaryReader, ComponentAlias, ComponentDefinedType, ComponentExternName, ComponentImport, ComponentType,
    ComponentTypeRef, CoreType, InstanceTypeDeclaration, Payload, Result,
};

/// How deep components, modules and types may nest. Tools nest a component's types by 2, composed components by a few
/// more.
pub const NESTING_MAX: usize = 32;

/// How many declarations a component may have, nested ones included: types with their members, imports, exports,
/// aliases, instances, functions. The standard library of a guest language brings about 1 000.
pub const DECLARATIONS_MAX: usize = 20_000;

/// Which bound a component is beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beyond {
    Nesting,
    Declarations,
}

/// What has been seen so far.
#[derive(Debug, Default)]
pub(super) struct Declarations {
    depth: usize,
    count: usize,
}

impl Declarations {
    /// Takes the next part of the component into account; `bytes` is the whole component.
    pub(super) fn visit(&mut self, payload: &Payload<'_>, bytes: &[u8]) -> Result<Option<Beyond>> {
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.depth += 1;
                self.count += 1;
            }
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::ComponentTypeSection(section) => {
                let range = section.range();
                let offset = range.start;
                let body = bytes.get(range).unwrap_or_default();
                return self.types(BinaryReader::new(body, offset));
            }
            Payload::CoreTypeSection(section) => self.add(section.count()),
            Payload::InstanceSection(section) => self.add(section.count()),
            Payload::ComponentInstanceSection(section) => self.add(section.count()),
            Payload::ComponentAliasSection(section) => self.add(section.count()),
            Payload::ComponentCanonicalSection(section) => self.add(section.count()),
            Payload::ComponentImportSection(section) => self.add(section.count()),
            Payload::ComponentExportSection(section) => self.add(section.count()),
            _ => {}
        }
        Ok(self.beyond(0))
    }

    fn add(&mut self, count: u32) {
        self.count = self.count.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
    }

    fn beyond(&self, types_deep: usize) -> Option<Beyond> {
        if self.depth + types_deep > NESTING_MAX {
            Some(Beyond::Nesting)
        } else if self.count > DECLARATIONS_MAX {
            Some(Beyond::Declarations)
        } else {
            None
        }
    }

    /// Walks a section of types.
    fn types(&mut self, mut reader: BinaryReader<'_>) -> Result<Option<Beyond>> {
        // What is left to read of each component or instance type that is open; the first is the section.
        let mut open = vec![reader.read_var_u32()?];
        while let Some(left) = open.last_mut() {
            let Some(rest) = left.checked_sub(1) else {
                open.pop();
                continue;
            };
            *left = rest;
            self.add(1);
            let is_type = open.len() == 1 || declares_type(&mut reader)?;
            if is_type && let Some(declarations) = self.one_type(&mut reader)? {
                open.push(declarations);
            }
            if let Some(beyond) = self.beyond(open.len() - 1) {
                return Ok(Some(beyond));
            }
        }
        Ok(None)
    }

    /// Reads a type, or, of a component or instance type, the number of its declarations.
    fn one_type(&mut self, reader: &mut BinaryReader<'_>) -> Result<Option<u32>> {
        if matches!(reader.clone().read_u8()?, 0x41 | 0x42) {
            reader.read_u8()?;
            return reader.read_var_u32().map(Some);
        }
        let members = match reader.read::<ComponentType<'_>>()? {
            ComponentType::Func(function) => function.params.len(),
            ComponentType::Defined(defined) => match defined {
                ComponentDefinedType::Record(fields) => fields.len(),
                ComponentDefinedType::Variant(cases) => cases.len(),
                ComponentDefinedType::Tuple(items) => items.len(),
                ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names) => names.len(),
                _ => 0,
            },
            _ => 0,
        };
        self.count = self.count.saturating_add(members);
        Ok(None)
    }
}

/// Reads one declaration of a component or instance type; of a type only that it is one, which is `true`.
fn declares_type(reader: &mut BinaryReader<'_>) -> Result<bool> {
    let mut ahead = reader.clone();
    match ahead.read_u8()? {
        0x00 => {
            ahead.read::<CoreType<'_>>()?;
        }
        0x01 => {
            *reader = ahead;
            return Ok(true);
        }
        0x02 => {
            ahead.read::<ComponentAlias<'_>>()?;
        }
        0x03 => {
            ahead.read::<ComponentImport<'_>>()?;
        }
        0x04 => {
            ahead.read::<ComponentExternName<'_>>()?;
            ahead.read::<ComponentTypeRef>()?;
        }
        // No declaration begins so, and the library says it.
        _ => return reader.read::<InstanceTypeDeclaration<'_>>().map(|_| false),
    }
    *reader = ahead;
    Ok(false)
}
