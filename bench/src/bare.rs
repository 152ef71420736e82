//! The test component on wasmtime alone: the engine of a silo, no silo.

use std::path::Path;

use anyhow::{Context as _, Result};
use wasmtime::component::{Func, Instance, InstancePre, Linker};
use wasmtime::{Config, Engine, OptLevel, Store};

/// The interface of the test grain, as the component exports it.
const INTERFACE: &str = "granary-tests:pinger/pinger@1.0.0";

/// A compiled component whose imports trap; those that are measured call none.
pub(crate) struct Component {
    component: wasmtime::component::Component,
    pre: InstancePre<()>,
}

impl Component {
    pub(crate) fn new(file: &Path) -> Result<Self> {
        // As `granary_wasm::engine` has it.
        let mut config = Config::new();
        config
            .concurrency_support(false)
            .epoch_interruption(true)
            .cranelift_opt_level(OptLevel::Speed)
            .guard_before_linear_memory(false)
            .memory_init_cow(false);
        let engine = Engine::new(&config)?;
        let component = wasmtime::component::Component::from_file(&engine, file)?;
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&component)?;
        let pre = linker.instantiate_pre(&component)?;
        Ok(Self { component, pre })
    }

    /// A new instance in a store of its own.
    pub(crate) async fn instantiate(&self) -> Result<(Store<()>, Instance)> {
        let mut store = Store::new(self.component.engine(), ());
        store.set_epoch_deadline(u64::MAX / 2);
        let instance = self.pre.instantiate_async(&mut store).await?;
        Ok((store, instance))
    }

    /// A method of the grain.
    pub(crate) fn function(&self, store: &mut Store<()>, instance: &Instance, name: &str) -> Result<Func> {
        let interface =
            self.component.get_export_index(None, INTERFACE).context("the component is no pinger")?;
        let export =
            self.component.get_export_index(Some(&interface), name).context("a method is missing")?;
        instance.get_func(store, export).context("a method is no function")
    }
}
