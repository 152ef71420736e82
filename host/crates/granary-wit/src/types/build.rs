//! From `wit-parser`'s arena of type definitions to types of our own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use wit_parser::{Function, FunctionKind, InterfaceId, Resolve, TypeDefKind, TypeId};

use super::{Case, FUNCTIONS_MAX, Field, Interface, Signature, TYPE_DEPTH_MAX, TYPE_NODES_MAX, Type};

/// Why an interface cannot be a grain interface (decision A7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// The interface is written inside a world and has no name.
    #[error("an interface without a name cannot be a grain interface; give it one in a package")]
    Unnamed,
    /// The interface defines a resource, or brings one in with `use`.
    #[error("{interface}: `{name}` is a resource, and a grain interface may hold only values")]
    Resource {
        /// The interface's id.
        interface: String,
        /// The resource's name.
        name: String,
    },
    /// A function uses a type that cannot leave the component.
    #[error("{interface}: function `{function}`: {place}: `{kind}` is not allowed in a grain interface")]
    Unsupported {
        /// The interface's id.
        interface: String,
        /// The function's name.
        function: String,
        /// The parameter or result, and the way from there to the type.
        place: String,
        /// The kind of type, as WIT names it.
        kind: &'static str,
    },
    /// A type without members, which no component may hold.
    #[error("{interface}: function `{function}`: {place}: a `{kind}` without members is not allowed")]
    Empty {
        /// The interface's id.
        interface: String,
        /// The function's name.
        function: String,
        /// The parameter or result, and the way from there to the type.
        place: String,
        /// The kind of type, as WIT names it.
        kind: &'static str,
    },
    /// Types nest deeper than [`TYPE_DEPTH_MAX`].
    #[error(
        "{interface}: function `{function}`: {place}: types nest deeper than {TYPE_DEPTH_MAX}, the limit"
    )]
    TooDeep {
        /// The interface's id.
        interface: String,
        /// The function's name.
        function: String,
        /// The parameter or result.
        place: String,
    },
    /// The signature has more than [`TYPE_NODES_MAX`] nodes.
    #[error(
        "{interface}: function `{function}`: its types, written out, have more than {TYPE_NODES_MAX} parts, \
         the limit"
    )]
    TooLarge {
        /// The interface's id.
        interface: String,
        /// The function's name.
        function: String,
    },
    /// The interface has more than [`FUNCTIONS_MAX`] functions.
    #[error("{interface}: {count} functions are more than {FUNCTIONS_MAX}, the limit")]
    TooManyFunctions {
        /// The interface's id.
        interface: String,
        /// How many there are.
        count: usize,
    },
}

impl Interface {
    /// Reads a named interface.
    ///
    /// # Errors
    /// [`TypeError`] when the interface holds what a grain interface may not hold, or is beyond a limit.
    pub fn from_resolve(resolve: &Resolve, id: InterfaceId) -> Result<Self, TypeError> {
        let (name, version) = interface_name(resolve, id).ok_or(TypeError::Unnamed)?;
        let interface = resolve.interfaces.get(id).ok_or(TypeError::Unnamed)?;
        for (type_name, type_id) in &interface.types {
            if is_resource(resolve, *type_id) {
                return Err(TypeError::Resource { interface: name, name: type_name.clone() });
            }
        }
        if interface.functions.len() > FUNCTIONS_MAX {
            return Err(TypeError::TooManyFunctions { interface: name, count: interface.functions.len() });
        }
        let mut builder = Builder::new(resolve, &name);
        let functions = interface
            .functions
            .iter()
            .map(|(function_name, function)| Ok((function_name.clone(), builder.signature(function)?)))
            .collect::<Result<BTreeMap<_, _>, TypeError>>()?;
        Ok(Self { id: name, version, functions })
    }
}

impl Signature {
    /// Reads one function; `interface` names where it stands, for messages.
    ///
    /// # Errors
    /// [`TypeError`] when the function uses types that a grain interface may not hold, or is beyond a limit.
    pub fn from_function(resolve: &Resolve, interface: &str, function: &Function) -> Result<Self, TypeError> {
        Builder::new(resolve, interface).signature(function)
    }
}

/// An interface's id without version, and its package's version as text; `None` when it has no name.
pub(crate) fn interface_name(resolve: &Resolve, id: InterfaceId) -> Option<(String, String)> {
    let interface = resolve.interfaces.get(id)?;
    let package = &resolve.packages.get(interface.package?)?.name;
    let name = format!("{}:{}/{}", package.namespace, package.name, interface.name.as_ref()?);
    let version = package.version.as_ref().map_or_else(|| "0.0.0".to_owned(), ToString::to_string);
    Some((name, version))
}

/// Follows `type a = b` and `use` to the type that has a structure.
fn follow_aliases(resolve: &Resolve, mut id: TypeId) -> Option<wit_parser::Type> {
    // An alias names a type that was declared before it, so the chain is no longer than the arena.
    for _ in 0..=resolve.types.len() {
        match &resolve.types.get(id)?.kind {
            TypeDefKind::Type(wit_parser::Type::Id(next)) => id = *next,
            TypeDefKind::Type(plain) => return Some(*plain),
            _ => return Some(wit_parser::Type::Id(id)),
        }
    }
    None
}

fn is_resource(resolve: &Resolve, id: TypeId) -> bool {
    match follow_aliases(resolve, id) {
        Some(wit_parser::Type::Id(id)) => {
            resolve.types.get(id).is_some_and(|def| matches!(def.kind, TypeDefKind::Resource))
        }
        _ => false,
    }
}

/// A type, and how much of the limits it takes.
#[derive(Clone)]
struct Built {
    ty: Type,
    depth: usize,
    nodes: usize,
}

/// Why a type could not be built, before it is known where it stands.
enum Refusal {
    Unsupported(&'static str),
    Empty(&'static str),
    TooDeep,
    TooLarge,
}

struct Builder<'a> {
    resolve: &'a Resolve,
    interface: &'a str,
    /// Each definition is built once, and shared from then on.
    done: HashMap<TypeId, Built>,
    /// Where the type that is being built stands.
    place: Vec<String>,
}

impl<'a> Builder<'a> {
    fn new(resolve: &'a Resolve, interface: &'a str) -> Self {
        Self { resolve, interface, done: HashMap::new(), place: Vec::new() }
    }

    fn signature(&mut self, function: &Function) -> Result<Signature, TypeError> {
        let is_async = match function.kind {
            FunctionKind::Freestanding => false,
            FunctionKind::AsyncFreestanding => true,
            FunctionKind::Method(_)
            | FunctionKind::AsyncMethod(_)
            | FunctionKind::Static(_)
            | FunctionKind::AsyncStatic(_)
            | FunctionKind::Constructor(_) => {
                return Err(TypeError::Resource {
                    interface: self.interface.to_owned(),
                    name: function.name.clone(),
                });
            }
        };
        let mut nodes = 0;
        let mut params = Vec::with_capacity(function.params.len());
        for (index, param) in function.params.iter().enumerate() {
            let start = format!("parameter {} (`{}`)", index + 1, param.name);
            params.push((param.name.clone(), self.top(function, start, &param.ty, &mut nodes)?));
        }
        let result = match &function.result {
            Some(ty) => Some(self.top(function, "result".to_owned(), ty, &mut nodes)?),
            None => None,
        };
        Ok(Signature { params, result, is_async })
    }

    fn top(
        &mut self,
        function: &Function,
        start: String,
        ty: &wit_parser::Type,
        nodes: &mut usize,
    ) -> Result<Type, TypeError> {
        self.place.clear();
        self.place.push(start);
        let built = self.build(ty, 1).and_then(|built| {
            *nodes = nodes.saturating_add(built.nodes);
            if *nodes > TYPE_NODES_MAX { Err(Refusal::TooLarge) } else { Ok(built.ty) }
        });
        built.map_err(|refusal| self.explain(function, refusal))
    }

    fn explain(&self, function: &Function, refusal: Refusal) -> TypeError {
        let (interface, function) = (self.interface.to_owned(), function.name.clone());
        let place = self.place.join(", ");
        match refusal {
            Refusal::Unsupported(kind) => TypeError::Unsupported { interface, function, place, kind },
            Refusal::Empty(kind) => TypeError::Empty { interface, function, place, kind },
            Refusal::TooDeep => {
                let place = self.place.first().cloned().unwrap_or_default();
                TypeError::TooDeep { interface, function, place }
            }
            Refusal::TooLarge => TypeError::TooLarge { interface, function },
        }
    }

    /// Builds `ty` at nesting `level`, 1 being the outermost.
    fn build(&mut self, ty: &wit_parser::Type, level: usize) -> Result<Built, Refusal> {
        let plain = match ty {
            wit_parser::Type::Bool => Type::Bool,
            wit_parser::Type::U8 => Type::U8,
            wit_parser::Type::U16 => Type::U16,
            wit_parser::Type::U32 => Type::U32,
            wit_parser::Type::U64 => Type::U64,
            wit_parser::Type::S8 => Type::S8,
            wit_parser::Type::S16 => Type::S16,
            wit_parser::Type::S32 => Type::S32,
            wit_parser::Type::S64 => Type::S64,
            wit_parser::Type::F32 => Type::F32,
            wit_parser::Type::F64 => Type::F64,
            wit_parser::Type::Char => Type::Char,
            wit_parser::Type::String => Type::String,
            wit_parser::Type::ErrorContext => return Err(Refusal::Unsupported("error-context")),
            wit_parser::Type::Id(id) => return self.build_id(*id, level),
        };
        if level > TYPE_DEPTH_MAX {
            return Err(Refusal::TooDeep);
        }
        Ok(Built { ty: plain, depth: 1, nodes: 1 })
    }

    fn build_id(&mut self, id: TypeId, level: usize) -> Result<Built, Refusal> {
        let id = match follow_aliases(self.resolve, id) {
            Some(wit_parser::Type::Id(id)) => id,
            Some(plain) => return self.build(&plain, level),
            None => return Err(Refusal::Unsupported("unknown")),
        };
        // Checked on the way down too, so that the recursion itself is bounded.
        if level > TYPE_DEPTH_MAX {
            return Err(Refusal::TooDeep);
        }
        if let Some(built) = self.done.get(&id) {
            let deepest = level - 1 + built.depth;
            return if deepest > TYPE_DEPTH_MAX { Err(Refusal::TooDeep) } else { Ok(built.clone()) };
        }
        let mut size = Size { depth: 0, nodes: 0 };
        let ty = self.build_kind(id, level + 1, &mut size)?;
        let built = Built { ty, depth: size.depth + 1, nodes: size.nodes.saturating_add(1) };
        if built.nodes > TYPE_NODES_MAX {
            return Err(Refusal::TooLarge);
        }
        self.done.insert(id, built.clone());
        Ok(built)
    }

    fn build_kind(&mut self, id: TypeId, level: usize, size: &mut Size) -> Result<Type, Refusal> {
        let resolve = self.resolve;
        let Some(definition) = resolve.types.get(id) else { return Err(Refusal::Unsupported("unknown")) };
        Ok(match &definition.kind {
            TypeDefKind::List(item) => Type::List(Arc::new(self.part(item, level, size, "item")?)),
            TypeDefKind::Option(some) => Type::Option(Arc::new(self.part(some, level, size, "some")?)),
            TypeDefKind::Result(result) => Type::Result {
                ok: self.optional(result.ok.as_ref(), level, size, "ok")?.map(Arc::new),
                err: self.optional(result.err.as_ref(), level, size, "err")?.map(Arc::new),
            },
            TypeDefKind::Tuple(tuple) => {
                not_empty("tuple", tuple.types.len())?;
                let mut items = Vec::with_capacity(tuple.types.len());
                for (index, ty) in tuple.types.iter().enumerate() {
                    items.push(self.part(ty, level, size, &format!("item {index}"))?);
                }
                Type::Tuple(items.into())
            }
            TypeDefKind::Record(record) => {
                not_empty("record", record.fields.len())?;
                let mut fields = Vec::with_capacity(record.fields.len());
                for field in &record.fields {
                    let ty = self.part(&field.ty, level, size, &format!("field `{}`", field.name))?;
                    fields.push(Field { name: field.name.as_str().into(), ty });
                }
                Type::Record(fields.into())
            }
            TypeDefKind::Variant(variant) => {
                not_empty("variant", variant.cases.len())?;
                let mut cases = Vec::with_capacity(variant.cases.len());
                for case in &variant.cases {
                    let step = format!("case `{}`", case.name);
                    let ty = self.optional(case.ty.as_ref(), level, size, &step)?;
                    // A name without a payload counts as well: it takes room in texts and hashes.
                    size.add_name_if(ty.is_none());
                    cases.push(Case { name: case.name.as_str().into(), ty });
                }
                Type::Variant(cases.into())
            }
            TypeDefKind::Enum(cases) => {
                size.names("enum", cases.cases.iter().map(|case| case.name.as_str())).map(Type::Enum)?
            }
            TypeDefKind::Flags(flags) => {
                size.names("flags", flags.flags.iter().map(|flag| flag.name.as_str())).map(Type::Flags)?
            }
            other => return Err(Refusal::Unsupported(other.as_str())),
        })
    }

    fn part(
        &mut self,
        ty: &wit_parser::Type,
        level: usize,
        size: &mut Size,
        step: &str,
    ) -> Result<Type, Refusal> {
        self.place.push(step.to_owned());
        // Left as it is on failure: it says where the type stands that is refused.
        let built = self.build(ty, level)?;
        self.place.pop();
        size.depth = size.depth.max(built.depth);
        size.nodes = size.nodes.saturating_add(built.nodes);
        Ok(built.ty)
    }

    fn optional(
        &mut self,
        ty: Option<&wit_parser::Type>,
        level: usize,
        size: &mut Size,
        step: &str,
    ) -> Result<Option<Type>, Refusal> {
        ty.map(|ty| self.part(ty, level, size, step)).transpose()
    }
}

/// The size of the members of a type.
struct Size {
    depth: usize,
    nodes: usize,
}

impl Size {
    fn add_name_if(&mut self, add: bool) {
        self.nodes = self.nodes.saturating_add(usize::from(add));
    }

    fn names<'n>(
        &mut self,
        kind: &'static str,
        names: impl ExactSizeIterator<Item = &'n str>,
    ) -> Result<Arc<[Arc<str>]>, Refusal> {
        not_empty(kind, names.len())?;
        self.nodes = self.nodes.saturating_add(names.len());
        Ok(names.map(Arc::from).collect())
    }
}

fn not_empty(kind: &'static str, members: usize) -> Result<(), Refusal> {
    if members == 0 { Err(Refusal::Empty(kind)) } else { Ok(()) }
}
