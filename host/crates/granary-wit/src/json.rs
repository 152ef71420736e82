//! Values as JSON (decision A11). The mapping is a table in `docs/json.md`, whose examples are tested.
//!
//! Text is read straight into the wire encoding and written straight from it, by the type; there is no tree
//! of values in between, and hence no plan to build for each function: the type is the plan. What is accepted is
//! strict: unknown, missing and repeated members are errors with a path, so that a misspelt name never passes as
//! an absent option.

mod cursor;
mod read;
mod write;

pub use read::{args_from_json, value_from_json};
pub use write::{args_to_json, result_to_json, value_to_json};

#[cfg(test)]
mod tests;
