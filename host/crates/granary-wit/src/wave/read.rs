//! WAVE to bytes, by type.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use wasm_wave::ast::Node;
use wasm_wave::parser::ParserError;
use wasm_wave::untyped::UntypedFuncCall;

use crate::path::{Path, shown};
use crate::types::{Brief, Case, Field, Signature, Type};
use crate::value::{Encoder, ValueError, WireError};

/// How many bytes of WAVE are read: 1 MiB. Its syntax tree takes some thirty times as much memory.
pub const WAVE_BYTES_MAX: usize = 1 << 20;

/// What is put before the arguments to make a call of them, which is what the parser reads.
const CALL: &str = "f(";

/// Encodes comma-separated WAVE arguments, without parentheses around them. As WAVE has it, options at the
/// end may be left out. The encoded arguments may take `bytes_max` bytes.
///
/// # Errors
/// [`ValueError`] with the path of the first value that does not fit, the type expected there and what was
/// found; also for arguments too few or too many, for text that is not WAVE, and for more than
/// [`WAVE_BYTES_MAX`] bytes of it.
pub fn args_from_wave(signature: &Signature, text: &str, bytes_max: usize) -> Result<Vec<u8>, ValueError> {
    let path = Path::default();
    if text.len() > WAVE_BYTES_MAX {
        return Err(path.error(format!("more than {WAVE_BYTES_MAX} bytes of WAVE, the limit; use JSON")));
    }
    // A line break ends a comment, which must not hide the closing parenthesis.
    let source = format!("{CALL}{text}\n)");
    let call = UntypedFuncCall::parse(&source).map_err(|error| syntax(&path, text, &error))?;
    let arguments: Vec<&Node> = match call.params_node() {
        Some(node) => node.as_tuple().map_err(|error| syntax(&path, text, &error))?.collect(),
        None => Vec::new(),
    };
    let mut reader = Reader { source: &source, out: Encoder::new(bytes_max), path };
    for (index, (_, ty)) in signature.params.iter().enumerate() {
        reader.path.index(index);
        match arguments.get(index) {
            Some(node) => reader.value(ty, node)?,
            None if is_optional_from(signature, index) => reader.case(0)?,
            None => return Err(reader.path.missing_argument(signature, index)),
        }
        reader.path.pop();
    }
    if arguments.len() > signature.params.len() {
        reader.path.index(signature.params.len());
        return Err(reader.path.surplus_argument(signature));
    }
    Ok(reader.out.finish())
}

fn is_optional_from(signature: &Signature, index: usize) -> bool {
    signature.params.iter().skip(index).all(|(_, ty)| matches!(ty, Type::Option(_)))
}

fn syntax(path: &Path<'_>, text: &str, error: &ParserError) -> ValueError {
    let at = error.span().start.saturating_sub(CALL.len());
    let before = text.get(..text.floor_char_boundary(at)).unwrap_or_default();
    if at >= text.len() {
        // What the parser complains of is the parenthesis that stands after the caller's text.
        let end = before.chars().count() + 1;
        return path.error(format!("not WAVE at character {end}: the text ends within a value"));
    }
    let detail = error.detail().map(|detail| format!(" ({})", shown(detail))).unwrap_or_default();
    path.error(format!("not WAVE at character {}: {}{detail}", before.chars().count() + 1, error.kind()))
}

struct Reader<'a> {
    source: &'a str,
    out: Encoder,
    path: Path<'a>,
}

impl<'a> Reader<'a> {
    fn wrote(&self, written: Result<(), WireError>) -> Result<(), ValueError> {
        written.map_err(|error| self.path.error(error.to_string()))
    }

    fn mismatch(&self, ty: &Type, node: &Node) -> ValueError {
        let found = self.source.get(node.span()).unwrap_or_default();
        self.path.mismatch(ty, format_args!("`{}`", shown(found)))
    }

    fn case(&mut self, index: usize) -> Result<(), ValueError> {
        let written = self.out.case(index);
        self.wrote(written)
    }

    /// What the parser makes of a leaf, or the error that says which type it should have had.
    fn leaf<T>(&self, ty: &Type, node: &Node, value: Result<T, ParserError>) -> Result<T, ValueError> {
        value.map_err(|_| self.mismatch(ty, node))
    }

    /// One value. The recursion is as deep as the type, which is bounded.
    fn value(&mut self, ty: &'a Type, node: &Node) -> Result<(), ValueError> {
        let written = match ty {
            Type::Bool => self.out.bool(self.leaf(ty, node, node.as_bool())?),
            Type::U8 => self.out.u8(self.number(ty, node)?),
            Type::U16 => self.out.u16(self.number(ty, node)?),
            Type::U32 => self.out.u32(self.number(ty, node)?),
            Type::U64 => self.out.u64(self.number(ty, node)?),
            Type::S8 => self.out.s8(self.number(ty, node)?),
            Type::S16 => self.out.s16(self.number(ty, node)?),
            Type::S32 => self.out.s32(self.number(ty, node)?),
            Type::S64 => self.out.s64(self.number(ty, node)?),
            Type::F32 => self.out.f32(self.float(ty, node, |value: f32| value.is_infinite())?),
            Type::F64 => self.out.f64(self.float(ty, node, |value: f64| value.is_infinite())?),
            Type::Char => self.out.char(self.leaf(ty, node, node.as_char(self.source))?),
            Type::String => {
                let value = self.leaf(ty, node, node.as_str(self.source))?;
                self.out.string(&value)
            }
            Type::List(item) => return self.list(ty, item, node),
            Type::Option(some) => return self.option(ty, some, node),
            Type::Result { ok, err } => return self.result(ty, ok.as_deref(), err.as_deref(), node),
            Type::Tuple(items) => return self.tuple(ty, items, node),
            Type::Record(fields) => return self.record(ty, fields, node),
            Type::Variant(cases) => return self.variant(ty, cases, node),
            Type::Enum(names) => {
                let name = self.leaf(ty, node, node.as_enum(self.source))?;
                let index = names.iter().position(|known| **known == *name);
                self.out.case(index.ok_or_else(|| self.unknown_case(ty, name))?)
            }
            Type::Flags(names) => return self.flags(ty, names, node),
        };
        self.wrote(written)
    }

    fn number<T: FromStr>(&self, ty: &Type, node: &Node) -> Result<T, ValueError> {
        self.leaf(ty, node, node.as_number(self.source))
    }

    fn float<T: FromStr + Copy>(
        &self,
        ty: &Type,
        node: &Node,
        is_infinite: fn(T) -> bool,
    ) -> Result<T, ValueError> {
        let value = self.number(ty, node)?;
        let named = self.source.get(node.span()).is_some_and(|text| text.ends_with("inf"));
        // A number beyond the type's range reads as infinity.
        if is_infinite(value) && !named { Err(self.mismatch(ty, node)) } else { Ok(value) }
    }

    fn list(&mut self, ty: &Type, item: &'a Type, node: &Node) -> Result<(), ValueError> {
        let items = self.leaf(ty, node, node.as_list())?;
        let written = self.out.count(items.len());
        self.wrote(written)?;
        for (index, node) in items.enumerate() {
            self.path.index(index);
            self.value(item, node)?;
            self.path.pop();
        }
        Ok(())
    }

    fn tuple(&mut self, ty: &Type, items: &'a [Type], node: &Node) -> Result<(), ValueError> {
        let nodes = self.leaf(ty, node, node.as_tuple())?;
        if nodes.len() != items.len() {
            let count = nodes.len();
            return Err(self.path.error(format!(
                "expected {} with {} items, found {count}",
                Brief(ty),
                items.len()
            )));
        }
        for (index, (item, node)) in items.iter().zip(nodes).enumerate() {
            self.path.index(index);
            self.value(item, node)?;
            self.path.pop();
        }
        Ok(())
    }

    /// `some(x)`, `none`, or `x` alone where that cannot be mistaken.
    fn option(&mut self, ty: &Type, some: &'a Type, node: &Node) -> Result<(), ValueError> {
        match node.as_option() {
            Ok(None) => self.case(0),
            Ok(Some(payload)) => {
                self.case(1)?;
                self.value(some, payload)
            }
            Err(_) if is_plain(some) => {
                self.case(1)?;
                self.value(some, node)
            }
            Err(_) => Err(self.mismatch(ty, node)),
        }
    }

    /// `ok(x)`, `err(x)`, or `x` alone for ok where that cannot be mistaken.
    fn result(
        &mut self,
        ty: &Type,
        ok: Option<&'a Type>,
        err: Option<&'a Type>,
        node: &Node,
    ) -> Result<(), ValueError> {
        match (node.as_result(), ok) {
            (Ok(Ok(payload)), _) => self.payload(ty, 0, "ok", ok, payload, node),
            (Ok(Err(payload)), _) => self.payload(ty, 1, "err", err, payload, node),
            (Err(_), Some(ok)) if is_plain(ok) => {
                self.case(0)?;
                self.value(ok, node)
            }
            _ => Err(self.mismatch(ty, node)),
        }
    }

    fn payload(
        &mut self,
        ty: &Type,
        index: usize,
        name: &'a str,
        payload: Option<&'a Type>,
        found: Option<&Node>,
        node: &Node,
    ) -> Result<(), ValueError> {
        self.case(index)?;
        match (payload, found) {
            (None, None) => Ok(()),
            (Some(payload), Some(found)) => {
                self.path.name(name);
                self.value(payload, found)?;
                self.path.pop();
                Ok(())
            }
            (Some(payload), None) => {
                let advice = format!("write {name}(…) with a payload of {}", Brief(payload));
                Err(self.path.error(format!("`{name}` of {} has a payload: {advice}", Brief(ty))))
            }
            (None, Some(_)) => {
                let found = self.source.get(node.span()).unwrap_or_default();
                Err(self.path.error(format!(
                    "`{name}` of {} has no payload, found `{}`",
                    Brief(ty),
                    shown(found)
                )))
            }
        }
    }

    fn record(&mut self, ty: &Type, fields: &'a [Field], node: &Node) -> Result<(), ValueError> {
        let found = self.leaf(ty, node, node.as_record(self.source))?;
        let mut found: BTreeMap<&str, &Node> = found.collect();
        for field in fields {
            self.path.name(&field.name);
            match (found.remove(&*field.name), &field.ty) {
                (Some(node), ty) => self.value(ty, node)?,
                (None, Type::Option(_)) => self.case(0)?,
                (None, ty) => return Err(self.path.error(format!("missing; expected {}", Brief(ty)))),
            }
            self.path.pop();
        }
        match found.keys().next() {
            Some(name) => Err(self.path.error(format!("unknown field `{}` of {}", shown(name), Brief(ty)))),
            None => Ok(()),
        }
    }

    fn unknown_case(&self, ty: &Type, name: &str) -> ValueError {
        self.path.error(format!("unknown case `{}` of {}", shown(name), Brief(ty)))
    }

    fn variant(&mut self, ty: &Type, cases: &'a [Case], node: &Node) -> Result<(), ValueError> {
        let (name, payload) = self.leaf(ty, node, node.as_variant(self.source))?;
        let case = cases.iter().enumerate().find(|(_, case)| *case.name == *name);
        let (index, case) = case.ok_or_else(|| self.unknown_case(ty, name))?;
        self.payload(ty, index, &case.name, case.ty.as_ref(), payload, node)
    }

    fn flags(&mut self, ty: &Type, names: &[Arc<str>], node: &Node) -> Result<(), ValueError> {
        let mut set = Vec::new();
        for name in self.leaf(ty, node, node.as_flags(self.source))? {
            let name = name.strip_prefix('%').unwrap_or(name);
            let index = names.iter().position(|known| **known == *name);
            set.push(index.ok_or_else(|| {
                self.path.error(format!("unknown flag `{}` of {}", shown(name), Brief(ty)))
            })?);
        }
        let written = self.out.flags(names.len(), set);
        self.wrote(written)
    }
}

/// Whether a value of this type is never written as `some`, `none`, `ok` or `err`.
fn is_plain(ty: &Type) -> bool {
    !matches!(ty, Type::Option(_) | Type::Result { .. })
}
