//! `granary wit refs`: writes the derived reference package beside a contract.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use granary_wit::{ContractTypes, DerivedPackage};
use wit_parser::{PackageId, Resolve};

use super::{CliError, output};

#[derive(Debug, Args)]
pub(crate) struct WitArgs {
    #[command(subcommand)]
    verb: WitVerb,
}

#[derive(Debug, Subcommand)]
enum WitVerb {
    /// Write the package through which other grains call a contract's grain interfaces, into FOLDER/deps.
    ///
    /// For acme:bank/account it is acme:bank-refs/account, with the target as first parameter, and
    /// account-send and account-async beside it. It has copies of the contract's types, so that it needs
    /// granary:grain alone. Rust grains do not need it: the SDK derives it itself.
    Refs {
        /// The folder with the contract's .wit files.
        #[arg(default_value = "wit")]
        folder: PathBuf,
        /// Write here instead of `deps/` in the contract's folder; `-` prints.
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
        /// Use the contract's own types instead of copies, for tools that leave the contract's functions out of the
        /// component's imports.
        #[arg(long)]
        use_types: bool,
    },
    /// Write Granary's own contract package, `granary:grain`, into a folder.
    Grain {
        /// The folder to write to; `-` prints.
        #[arg(default_value = "wit/deps/granary-grain")]
        out: PathBuf,
    },
}

pub(crate) fn run(args: &WitArgs) -> Result<(), CliError> {
    match &args.verb {
        WitVerb::Refs { folder, out, use_types } => {
            let types = if *use_types { ContractTypes::Used } else { ContractTypes::Copied };
            let package = derive(folder, types)?;
            for (interface, reason) in &package.skipped {
                output::note(&format!("{interface} is no grain interface: {reason}"));
            }
            let target = match out {
                Some(out) if out.as_os_str() == "-" => None,
                Some(out) => Some(out.join(&package.file_name)),
                None => Some(folder.join("deps").join(&package.file_name)),
            };
            write(target, &package.text)
        }
        WitVerb::Grain { out } => {
            for (name, text) in granary_wit::GRAIN_WIT {
                let target = (out.as_os_str() != "-").then(|| out.join(name));
                write(target, text)?;
            }
            Ok(())
        }
    }
}

/// Writes the derived package of the contract in `folder` into `deps`.
pub(super) fn write_refs(folder: &Path, deps: &Path) -> Result<(), CliError> {
    let package = derive(folder, ContractTypes::Copied)?;
    put(&deps.join(&package.file_name), &package.text)
}

/// Copies the contract in `folder` into `deps`.
pub(super) fn copy_contract(folder: &Path, deps: &Path) -> Result<(), CliError> {
    let (resolve, package) = read(folder)?;
    let name = resolve.packages.get(package).map(|it| format!("{}-{}", it.name.namespace, it.name.name));
    let name = name.unwrap_or_else(|| "contract".to_owned());
    let cannot = |error: std::io::Error| CliError::data(format!("cannot read {}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if let (Some("wit"), Some(file)) = (path.extension().and_then(|it| it.to_str()), path.file_name()) {
            let text = std::fs::read_to_string(&path).map_err(cannot)?;
            put(&deps.join(&name).join(file), &text)?;
        }
    }
    Ok(())
}

/// Writes the contract package into a folder.
pub(super) fn write_grain(folder: &Path) -> Result<(), CliError> {
    granary_wit::GRAIN_WIT.iter().try_for_each(|(name, text)| put(&folder.join(name), text))
}

/// The derived package of the contract in a folder.
fn derive(folder: &Path, types: ContractTypes) -> Result<DerivedPackage, CliError> {
    let (resolve, package) = read(folder)?;
    granary_wit::derive_package(&resolve, package, types).ok_or_else(|| {
        CliError::data(format!(
            "{}: the package has no interface that a grain could export",
            folder.display()
        ))
    })
}

/// Reads a contract, which may carry `granary:grain` among its dependencies or leave it to this command.
fn read(folder: &Path) -> Result<(Resolve, PackageId), CliError> {
    if !folder.is_dir() {
        return Err(CliError::data(format!(
            "{} is no folder: name the one with the .wit files",
            folder.display()
        )));
    }
    let parse = |with_grain: bool| -> Result<(Resolve, PackageId), String> {
        let mut resolve = Resolve::default();
        if with_grain {
            granary_wit::push_grain_package(&mut resolve).map_err(|error| error.to_string())?;
        }
        let (package, _) = resolve.push_dir(folder).map_err(|error| format!("{error:#}"))?;
        Ok((resolve, package))
    };
    parse(true)
        .or_else(|error| parse(false).map_err(|_| error))
        .map_err(|error| CliError::data(format!("{}: {error}", folder.display())))
}

fn write(target: Option<PathBuf>, text: &str) -> Result<(), CliError> {
    let Some(target) = target else { return output::data(text.trim_end()) };
    put(&target, text)?;
    output::data(&target.display().to_string())
}

/// Writes a file, and the folders on the way to it.
fn put(target: &Path, text: &str) -> Result<(), CliError> {
    let cannot =
        |error: std::io::Error| CliError::data(format!("cannot write {}: {error}", target.display()));
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    std::fs::write(target, text).map_err(cannot)
}
