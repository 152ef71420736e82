//! Values at memory speed: the wire encoding of `granary_wit` is lifted and lowered straight between guest memory
//! and bytes, without dynamic values. [`crate::value`] stays as the fallback and as the oracle of the tests, and
//! gives the same bytes.
//!
//! # Safety
//!
//! This is the only module that implements wasmtime's `ComponentType`, `Lift`, `Lower` and `ComponentNamedList` by
//! hand, over the doc-hidden `wasmtime::component::__internal`; hence the pin of wasmtime's version in
//! `Cargo.toml`, which a test checks. Those traits are unsafe because wasmtime trusts four things, which hold so:
//!
//! 1. *The flat values are as many as the function's.* `Lower` is `[ValRaw; N]`. `typecheck` compares `N` with
//!    wasmtime's own count for the whole tuple of parameters or results. Nothing here skips it: exports go through
//!    `Func::typed`, imports through `LinkerInstance::func_wrap_async`. [`InMemory`] stands for results that do not
//!    fit into one flat value; its two values are never read or written, they only choose wasmtime's branch.
//! 2. *All flat values that wasm reads are initialised.* Lowering fills an array that starts as zeros and writes it
//!    as a whole, so that slots that no case of a variant uses are zero too.
//! 3. *Size and alignment.* The constants say 0 and 1, as the real ones are known only from the type. wasmtime uses
//!    them in one place here, to check the pointer of a result in memory; [`InMemory`] checks bounds and alignment
//!    itself, from the type's canonical ABI. Parameters of more than [`FLAT_MAX`] flat values, which wasmtime would
//!    allocate by these constants, are refused by `typecheck`, as no `N` is larger.
//! 4. *Accesses stay within memory.* No raw pointer is ever followed: each read is `get` on the slice of guest
//!    memory, each write `get_mut`, and a failure is an error that ends the turn. Offsets survive a growth of the
//!    memory during `realloc`, since the slice is asked for again at each access.
//!
//! What remains is correctness: UTF-8, `char`, `bool`, cases and unused flags are checked or made canonical, and
//! host-call fuel is spent as for dynamic values, so that a guest cannot make the host allocate more than before.
//! Strings in another encoding than UTF-8 are left to wasmtime's own implementation.
#![expect(unsafe_code, reason = "wasmtime's traits for component values are unsafe; see the argument above")]

mod layout;
mod lift;
mod lower;
#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;
use std::sync::Arc;

use granary_core::hosting::BoxFuture;
use granary_wit::Signature;
use wasmtime::component::__internal::{
    CanonicalAbiInfo, InstanceType, InterfaceType, LiftContext, LowerContext,
};
use wasmtime::component::{ComponentNamedList, ComponentType, Func, Lift, LinkerInstance, Lower, TypedFunc};
use wasmtime::{Result, Store, StoreContextMut, ValRaw, bail};

/// The most flat values that parameters may have here; the canonical ABI passes more of them in memory.
pub(crate) const FLAT_MAX: usize = 16;

/// The most flat values of a result that is not passed in memory.
const FLAT_RESULTS_MAX: usize = 1;

/// All parameters, or all results, of a function as wire bytes: exactly `N` flat values.
pub(crate) struct Wire<const N: usize>(pub(crate) Vec<u8>);

/// The result of a function as wire bytes, passed in memory as it has several flat values.
pub(crate) struct InMemory(pub(crate) Vec<u8>);

const fn abi() -> CanonicalAbiInfo {
    CanonicalAbiInfo { size32: 0, align32: 1, size64: 0, align64: 1, flat_count: None }
}

fn typecheck(
    ty: &InterfaceType,
    types: &InstanceType<'_>,
    fits: impl Fn(Option<usize>) -> bool,
) -> Result<()> {
    let InterfaceType::Tuple(_) = ty else { bail!("a tuple of values is wanted") };
    if !layout::is_supported(types.types, ty) {
        bail!("a type that has no wire encoding");
    }
    if !fits(types.types.canonical_abi(ty).flat_count(FLAT_MAX)) {
        bail!("another number of flat values");
    }
    Ok(())
}

// SAFETY: `Lower` is an array of `ValRaw`; for the rest see the argument at the head, points 1 and 3.
unsafe impl<const N: usize> ComponentType for Wire<N> {
    type Lower = [ValRaw; N];
    const ABI: CanonicalAbiInfo = abi();

    fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> Result<()> {
        typecheck(ty, types, |count| count == Some(N))
    }
}

// SAFETY: `typecheck` accepts tuples only, which is what lists of parameters and results are.
unsafe impl<const N: usize> ComponentNamedList for Wire<N> {}

// SAFETY: as above.
unsafe impl ComponentType for InMemory {
    type Lower = [ValRaw; 2];
    const ABI: CanonicalAbiInfo = abi();

    fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> Result<()> {
        typecheck(ty, types, |count| count.is_none_or(|count| count > FLAT_RESULTS_MAX))
    }
}

// SAFETY: as above.
unsafe impl ComponentNamedList for InMemory {}

// SAFETY: point 4; the value is made from checked reads only.
unsafe impl<const N: usize> Lift for Wire<N> {
    fn linear_lift_from_flat(cx: &mut LiftContext<'_>, ty: InterfaceType, src: &[ValRaw; N]) -> Result<Self> {
        lift::from_flat(cx, &ty, src).map(Self)
    }

    fn linear_lift_from_memory(_: &mut LiftContext<'_>, _: InterfaceType, _: &[u8]) -> Result<Self> {
        bail!("flat values are never passed in memory")
    }
}

// SAFETY: as above. `bytes` is an empty slice that starts where the value does, since `SIZE32` is 0.
unsafe impl Lift for InMemory {
    fn linear_lift_from_flat(_: &mut LiftContext<'_>, _: InterfaceType, _: &[ValRaw; 2]) -> Result<Self> {
        bail!("a value in memory is never passed as flat values")
    }

    fn linear_lift_from_memory(cx: &mut LiftContext<'_>, ty: InterfaceType, bytes: &[u8]) -> Result<Self> {
        let at = bytes.as_ptr().addr().checked_sub(cx.memory().as_ptr().addr());
        let Some(at) = at else { bail!("pointer out of bounds of memory") };
        lift::from_memory(cx, &ty, at).map(Self)
    }
}

// SAFETY: point 2; the whole array is written whenever `Ok` is returned.
unsafe impl<const N: usize> Lower for Wire<N> {
    fn linear_lower_to_flat<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        ty: InterfaceType,
        dst: &mut MaybeUninit<[ValRaw; N]>,
    ) -> Result<()> {
        let mut slots = [ValRaw::u64(0); N];
        lower::to_flat(cx, &ty, &self.0, &mut slots)?;
        dst.write(slots);
        Ok(())
    }

    fn linear_lower_to_memory<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        ty: InterfaceType,
        at: usize,
    ) -> Result<()> {
        lower::to_memory(cx, &ty, &self.0, at)
    }
}

// SAFETY: as above; the place in memory was checked by wasmtime against the type, and each write is checked again.
unsafe impl Lower for InMemory {
    fn linear_lower_to_flat<T>(
        &self,
        _: &mut LowerContext<'_, T>,
        _: InterfaceType,
        _: &mut MaybeUninit<[ValRaw; 2]>,
    ) -> Result<()> {
        bail!("a value in memory is never passed as flat values")
    }

    fn linear_lower_to_memory<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        ty: InterfaceType,
        at: usize,
    ) -> Result<()> {
        lower::to_memory(cx, &ty, &self.0, at)
    }
}

/// An exported function that takes and gives wire bytes.
pub(crate) trait Call<T: 'static>: Send + Sync {
    /// Calls the function. The caller has validated `args` against the function's type.
    fn call<'a>(&'a self, store: &'a mut Store<T>, args: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>>>;
}

/// What a result is lifted as.
trait Bytes: ComponentNamedList + Lift + 'static {
    fn bytes(self) -> Vec<u8>;
}

impl<const N: usize> Bytes for Wire<N> {
    fn bytes(self) -> Vec<u8> {
        self.0
    }
}

impl Bytes for InMemory {
    fn bytes(self) -> Vec<u8> {
        self.0
    }
}

impl<T: Send + 'static, const N: usize, R: Bytes> Call<T> for TypedFunc<Wire<N>, R> {
    fn call<'a>(&'a self, store: &'a mut Store<T>, args: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move { Ok(self.call_async(store, Wire(args)).await?.bytes()) })
    }
}

fn typed<T: Send + 'static, const N: usize>(
    function: &Func,
    store: &Store<T>,
    results: usize,
) -> Option<Arc<dyn Call<T>>> {
    match results {
        0 => Some(Arc::new(function.typed::<Wire<N>, Wire<0>>(store).ok()?)),
        1 => Some(Arc::new(function.typed::<Wire<N>, Wire<1>>(store).ok()?)),
        _ => Some(Arc::new(function.typed::<Wire<N>, InMemory>(store).ok()?)),
    }
}

/// Picks the instance of a generic function for a number of flat values that is known at run time only.
macro_rules! by_count {
    ($count:expr, $call:ident $arguments:tt, $otherwise:expr, $($n:literal)*) => {
        match $count {
            $($n => $call::<T, $n> $arguments,)*
            _ => $otherwise,
        }
    };
}

/// The fast way into an exported function of this type; `None` when only the dynamic one goes there.
pub(crate) fn export<T: Send + 'static>(
    function: &Func,
    store: &Store<T>,
    signature: &Signature,
) -> Option<Arc<dyn Call<T>>> {
    let count = params_count(signature);
    let results = signature.result.as_ref().map_or(0, layout::flat_count);
    by_count!(count, typed(function, store, results), None, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
}

/// What an import that takes and gives wire bytes does.
pub(crate) trait Import<T: 'static>: Send + Sync + 'static {
    /// Takes the encoded parameters and gives the encoded result. The result must be valid: bytes that are not
    /// are an error only after guest code may have run.
    fn run<'a>(&'a self, store: StoreContextMut<'a, T>, params: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>>>;
}

fn wrap<T: Send + 'static, const N: usize>(
    instance: &mut LinkerInstance<'_, T>,
    name: &str,
    import: Arc<dyn Import<T>>,
) -> Result<bool> {
    instance.func_wrap_async(name, move |store, Wire(params): Wire<N>| {
        let import = Arc::clone(&import);
        Box::new(async move { Ok(InMemory(import.run(store, params).await?)) })
    })?;
    Ok(true)
}

/// Defines an import whose parameters are so many flat values, and whose result is more than one; false when it has
/// to be defined the dynamic way.
pub(crate) fn import<T: Send + 'static>(
    instance: &mut LinkerInstance<'_, T>,
    name: &str,
    params: usize,
    import: Arc<dyn Import<T>>,
) -> Result<bool> {
    by_count!(params, wrap(instance, name, import), Ok(false), 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
}

/// How many flat values the parameters of a function are.
pub(crate) fn params_count(signature: &Signature) -> usize {
    signature.params.iter().map(|(_, ty)| layout::flat_count(ty)).sum()
}
