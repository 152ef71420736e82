//! Writes the definitions of a contract's types into a derived package that has copies of them.

use std::fmt::Write as _;

use wit_parser::{TypeDefKind, TypeId};

use super::generate::{Writer, escaped, parts as unnamed_parts};

impl Writer<'_> {
    /// Appends a type's definition under a local name; `None` when it is of a kind that no grain method takes.
    pub(super) fn write_definition(&self, text: &mut String, id: TypeId, local: &str) -> Option<()> {
        let definition = self.resolve.types.get(id)?;
        let local = escaped(local);
        let (keyword, lines): (&str, Vec<String>) = match &definition.kind {
            TypeDefKind::Record(record) => {
                let field = |field: &wit_parser::Field| {
                    Some(format!("{}: {}", escaped(&field.name), self.type_text(&field.ty, 1)?))
                };
                ("record", record.fields.iter().map(field).collect::<Option<_>>()?)
            }
            TypeDefKind::Variant(variant) => {
                let case = |case: &wit_parser::Case| {
                    let name = escaped(&case.name);
                    Some(match &case.ty {
                        Some(ty) => format!("{name}({})", self.type_text(ty, 1)?),
                        None => name,
                    })
                };
                ("variant", variant.cases.iter().map(case).collect::<Option<_>>()?)
            }
            TypeDefKind::Enum(cases) => {
                ("enum", cases.cases.iter().map(|case| escaped(&case.name)).collect())
            }
            TypeDefKind::Flags(flags) => {
                ("flags", flags.flags.iter().map(|flag| escaped(&flag.name)).collect())
            }
            TypeDefKind::Type(ty) => {
                let _ = writeln!(text, "    type {local} = {};", self.type_text(ty, 1)?);
                return Some(());
            }
            kind => {
                let _ = writeln!(text, "    type {local} = {};", self.kind_text(kind, 1)?);
                return Some(());
            }
        };
        for line in definition.docs.contents.as_deref().unwrap_or_default().lines() {
            let _ = writeln!(text, "    {}", format!("/// {line}").trim_end());
        }
        let _ = writeln!(text, "    {keyword} {local} {{");
        for line in lines {
            let _ = writeln!(text, "        {line},");
        }
        text.push_str("    }\n");
        Some(())
    }
}

/// The types that a named type's definition is made of; `None` for kinds that no grain method takes.
pub(super) fn parts(kind: &TypeDefKind) -> Option<Vec<&wit_parser::Type>> {
    Some(match kind {
        TypeDefKind::Record(record) => record.fields.iter().map(|field| &field.ty).collect(),
        TypeDefKind::Variant(variant) => variant.cases.iter().filter_map(|case| case.ty.as_ref()).collect(),
        TypeDefKind::Enum(_) | TypeDefKind::Flags(_) => Vec::new(),
        TypeDefKind::Type(ty) => vec![ty],
        kind => unnamed_parts(kind)?,
    })
}
