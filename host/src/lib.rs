//! Granary: virtual actors as WebAssembly components. The silo, the command line, and the parts put together.
