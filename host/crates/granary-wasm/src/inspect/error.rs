//! Why a component is not a grain type, in the words of the person who built it.

use granary_wit::{DerivedShapeError, TypeError};

use super::COMPONENT_BYTES_MAX;
use super::properties::PropertyError;

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
        "the exported interface `{0}` is written inside the world and has no package; declare it in a package, such as `acme:bank/{0}`"
    )]
    UnnamedInterface(String),
    /// The interface stands twice among the exports.
    #[error("interface {0} is exported in two versions; a component implements one version of an interface")]
    TwoVersions(String),
    /// An interface holds what grain interfaces may not hold.
    #[error("{0}")]
    Type(#[from] TypeError),
    /// A derived interface whose functions do not have the shape of one.
    #[error("{0}")]
    DerivedShape(#[from] DerivedShapeError),
    /// Imports that this host does not offer.
    #[error("{}", problems(.0))]
    Imports(Vec<ImportProblem>),
    /// A function of the platform's own package has another type than this host's.
    #[error("{name} does not match this host's contract {}: {mismatch}", granary_wit::GRAIN_VERSION)]
    Contract { name: String, mismatch: String },
    /// The properties that the component states.
    #[error("{0}")]
    Property(#[from] PropertyError),
    /// Several grain interfaces, and no name for the type.
    #[error("the component exports several grain interfaces and does not name its grain type; set the property `grain-type`, for example to one of: {}", .choices.join(", "))]
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
    #[error("import {0} is not offered by this host")]
    Unknown(String),
    /// A function or interface of the world without a package.
    #[error("import `{0}` has no package, and nothing can provide it")]
    Unnamed(String),
    /// An interface with functions, presumably a grain's.
    #[error(
        "import {interface} has functions; to call grains, import {derived} instead (`granary wit refs` writes it), whose functions take a reference"
    )]
    GrainInterface { interface: String, derived: String },
    /// Asynchronous calls from a component that can only wait (decision A4).
    #[error(
        "import {0} is asynchronous, and this component exports no `async func` that could await it: import the interface without `-async`, or make the method that calls an `async func`"
    )]
    Async(String),
}

fn list(before: &str, items: &[String]) -> String {
    if items.is_empty() { String::new() } else { format!("{before}{}", items.join(", ")) }
}

fn are(noun: &str, names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.len() {
        1 => format!("{noun} {} is", names.join(", ")),
        _ => format!("{noun}s {} are", names.join(", ")),
    }
}

fn problems(problems: &[ImportProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
