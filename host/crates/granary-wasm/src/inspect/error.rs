//! Why a component is not a grain type, in the words of the person who built it.
//!
//! The names in a component are its maker's, as long and as many as they like. A text shows the first
//! [`NAMES_MAX`] of a list, each cut to [`NAME_BYTES_MAX`], so that no error grows with its component.

use granary_wit::{DerivedShapeError, TypeError};

use super::COMPONENT_BYTES_MAX;
use super::declarations::{DECLARATIONS_MAX, NESTING_MAX};
use super::properties::PropertyError;
use crate::text::{MESSAGE_BYTES_MAX, bounded, shortened};

/// How many names an error shows of a list.
const NAMES_MAX: usize = 8;

/// How much an error shows of one name, in bytes; honest ones are shorter.
const NAME_BYTES_MAX: usize = 128;

/// A component that cannot be deployed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// Larger than any component may be.
    #[error("the file has {size_bytes} bytes, a component may have {COMPONENT_BYTES_MAX}")]
    TooLarge { size_bytes: u64 },
    /// Something else than WebAssembly, or WebAssembly of another kind.
    #[error(
        "this is {0}; a grain is a WebAssembly component, as `cargo build --target wasm32-wasip2` or `granary build` makes it"
    )]
    NotAComponent(String),
    /// The bytes are no well-formed binary: truncated or overwritten.
    #[error("the file is damaged at byte {offset} of {size_bytes}: {message}")]
    Malformed { offset: u64, size_bytes: u64, message: String },
    /// Components, modules or types within each other, deeper than any may.
    #[error("the component nests components, modules or types deeper than {NESTING_MAX}, the limit")]
    TooDeep,
    /// More types, imports, exports, aliases, instances and functions than a component may have.
    #[error(
        "the component declares more than {DECLARATIONS_MAX} types, imports, exports and so on, the limit"
    )]
    TooManyDeclarations,
    /// Well-formed, and not valid; or it uses a feature of WebAssembly that is not enabled here.
    #[error("the component is not valid at byte {offset}: {message}")]
    Invalid { offset: u64, message: String },
    /// Valid, and its types cannot be read as WIT.
    #[error("the component's types cannot be read as WIT: {0}")]
    Undecodable(String),
    /// Nothing that clients could call.
    #[error("the component exports no grain interface{}; a grain exports a WIT interface with functions, such as `export acme:bank/account`", list(", only ", .exports))]
    NoGrainInterface { exports: Vec<String> },
    /// Functions outside of any interface.
    #[error("{} exported by the world itself, not in an interface; move {} into an interface, since a method is called by its interface's name", are("function", .functions), if .functions.len() == 1 { "it" } else { "them" })]
    WorldFunctions { functions: Vec<String> },
    /// An interface written inside of the world.
    #[error(
        "the exported interface `{short}` is written inside the world and has no package; declare it in a package, such as `acme:bank/{short}`",
        short = cut(.0)
    )]
    UnnamedInterface(String),
    /// The interface stands twice among the exports.
    #[error(
        "interface {} is exported in two versions; a component implements one version of an interface",
        cut(.0)
    )]
    TwoVersions(String),
    /// An interface holds what grain interfaces may not hold.
    #[error("{}", shortened(&.0.to_string(), MESSAGE_BYTES_MAX))]
    Type(#[from] TypeError),
    /// A derived interface whose functions do not have the shape of one.
    #[error("{}", shortened(&.0.to_string(), MESSAGE_BYTES_MAX))]
    DerivedShape(#[from] DerivedShapeError),
    /// Imports that this host does not offer.
    #[error("{}", problems(.0))]
    Imports(Vec<ImportProblem>),
    /// A function of the platform's own package has another type than this host's.
    #[error(
        "{} does not match this host's contract {}: {}",
        cut(.name),
        granary_wit::GRAIN_VERSION,
        shortened(.mismatch, MESSAGE_BYTES_MAX)
    )]
    Contract { name: String, mismatch: String },
    /// The properties that the component states.
    #[error("{}", shortened(&.0.to_string(), MESSAGE_BYTES_MAX))]
    Property(#[from] PropertyError),
    /// Several grain interfaces, and no name for the type.
    #[error("the component exports several grain interfaces and does not name its grain type; set the property `grain-type`, for example to one of: {}", some(.choices, ", ", |choice| cut(choice)))]
    GrainTypeUnclear { choices: Vec<String> },
    /// It needs more memory to start than it may have.
    #[error(
        "the component starts with {bytes_min} bytes of memory, and its limit is {bytes_max} bytes; set the property `granary.memory-max`"
    )]
    Memory { bytes_min: u64, bytes_max: u64 },
}

/// One import that a component may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportProblem {
    /// Neither the platform's, nor on the fixed WASI list, nor a derived package.
    #[error("import {} is not offered by this host", cut(.0))]
    Unknown(String),
    /// A function or interface of the world without a package.
    #[error("import `{}` has no package, and nothing can provide it", cut(.0))]
    Unnamed(String),
    /// An interface with functions, presumably a grain's.
    #[error(
        "import {} has functions; to call grains, import {} instead (`granary wit refs` writes it), whose functions take a reference",
        cut(.interface),
        cut(.derived)
    )]
    GrainInterface { interface: String, derived: String },
    /// Asynchronous calls from a component that can only wait (decision A4).
    #[error(
        "import {} is asynchronous, and this component exports no `async func` that could await it: import the interface without `-async`, or make the method that calls an `async func`",
        cut(.0)
    )]
    Async(String),
}

fn cut(name: &str) -> String {
    bounded(name, NAME_BYTES_MAX)
}

/// The first of a list, each as `show` writes it, and how many more there are.
fn some<T>(items: &[T], between: &str, show: impl Fn(&T) -> String) -> String {
    let mut text = items.iter().take(NAMES_MAX).map(show).collect::<Vec<_>>().join(between);
    if let Some(more @ 1..) = items.len().checked_sub(NAMES_MAX) {
        text.push_str(&format!("{between}and {more} more"));
    }
    text
}

fn list(before: &str, items: &[String]) -> String {
    if items.is_empty() { String::new() } else { format!("{before}{}", some(items, ", ", |item| cut(item))) }
}

fn are(noun: &str, items: &[String]) -> String {
    let names = some(items, ", ", |item| format!("`{}`", cut(item)));
    if items.len() == 1 { format!("{noun} {names} is") } else { format!("{noun}s {names} are") }
}

fn problems(problems: &[ImportProblem]) -> String {
    some(problems, "; ", ToString::to_string)
}
