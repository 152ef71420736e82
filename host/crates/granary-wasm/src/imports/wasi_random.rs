//! `wasi:random`: all three interfaces from the system's generator.

use wasmtime::bail;

use super::Instance;

/// How many random bytes a guest gets at once.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// Defines one function of `wasi:random/{random,insecure,insecure-seed}`; false when it is none of theirs.
pub(crate) fn link(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "get-random-bytes" | "get-insecure-random-bytes" => {
            instance.func_wrap(name, |_, (length,): (u64,)| {
                if length > RANDOM_BYTES_MAX {
                    bail!("at most {RANDOM_BYTES_MAX} random bytes are given at once, not {length}");
                }
                let mut bytes = vec![0; usize::try_from(length)?];
                fill(&mut bytes)?;
                Ok((bytes,))
            })?;
        }
        "get-random-u64" | "get-insecure-random-u64" => {
            instance.func_wrap(name, |_, ()| Ok((random_u64()?,)))?;
        }
        "insecure-seed" => instance.func_wrap(name, |_, ()| Ok(((random_u64()?, random_u64()?),)))?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn fill(bytes: &mut [u8]) -> wasmtime::Result<()> {
    getrandom::fill(bytes).map_err(|error| wasmtime::Error::msg(format!("no randomness: {error}")))
}

fn random_u64() -> wasmtime::Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
