//! Components on wasmtime: engine, compile cache, inspection, linking, instances, values.
