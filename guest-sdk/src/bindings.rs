//! Generated bindings for what the host offers. Only the modules of this crate that wrap them use them, and
//! only when compiled to WebAssembly.
#![allow(unsafe_code, reason = "generated bindings pass values through linear memory")]
#![allow(
    unreachable_pub,
    unused_qualifications,
    missing_debug_implementations,
    dead_code,
    clippy::all,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::str_to_string,
    clippy::too_many_lines,
    reason = "generated code"
)]

wit_bindgen::generate!({
    path: "../wit",
    inline: "
        package granary:guest-sdk;

        world imports {
            import granary:grain/context@0.1.0;
            import granary:grain/calls@0.1.0;
            import granary:grain/state@0.1.0;
            import granary:grain/logging@0.1.0;
        }
    ",
    world: "granary:guest-sdk/imports",
    with: { "granary:grain/types@0.1.0": crate::types },
    generate_all,
});

pub(crate) use self::granary::grain::state;
#[cfg(target_family = "wasm")]
pub(crate) use self::granary::grain::{calls, context, logging};
