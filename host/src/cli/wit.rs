//! `granary wit refs`: writes the derived reference package beside a contract.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use granary_wit::DerivedPackage;
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
    /// account-send and account-async beside it. Rust grains do not need it: the SDK derives it itself.
    Refs {
        /// The folder with the contract's .wit files.
        #[arg(default_value = "wit")]
        folder: PathBuf,
        /// Write here instead of `deps/` in the contract's folder; `-` prints.
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
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
        WitVerb::Refs { folder, out } => {
            let package = derive(folder)?;
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

/// Writes the contract in `folder`, whose types the derived package uses, and its derived package into `deps`.
pub(super) fn write_refs(folder: &Path, deps: &Path) -> Result<(), CliError> {
    let package = derive(folder)?;
    let cannot = |error: std::io::Error| CliError::data(format!("cannot read {}: {error}", folder.display()));
    let name = package.file_name.trim_end_matches("-refs.wit");
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if let (Some("wit"), Some(file)) = (path.extension().and_then(|it| it.to_str()), path.file_name()) {
            let text = std::fs::read_to_string(&path).map_err(cannot)?;
            put(&deps.join(name).join(file), &text)?;
        }
    }
    put(&deps.join(&package.file_name), &package.text)
}

/// Writes the contract package into a folder.
pub(super) fn write_grain(folder: &Path) -> Result<(), CliError> {
    granary_wit::GRAIN_WIT.iter().try_for_each(|(name, text)| put(&folder.join(name), text))
}

/// The derived package of the contract in a folder.
fn derive(folder: &Path) -> Result<DerivedPackage, CliError> {
    if !folder.is_dir() {
        return Err(CliError::data(format!(
            "{} is no folder: name the one with the .wit files",
            folder.display()
        )));
    }
    let named = |error: String| CliError::data(format!("{}: {error}", folder.display()));
    let parse = |with_grain: bool| -> Result<(Resolve, PackageId), String> {
        let mut resolve = Resolve::default();
        if with_grain {
            granary_wit::push_grain_package(&mut resolve).map_err(|error| error.to_string())?;
        }
        let (package, _) = resolve.push_dir(folder).map_err(|error| format!("{error:#}"))?;
        Ok((resolve, package))
    };
    // A contract may carry granary:grain among its dependencies, or leave it to this command.
    let (resolve, package) = parse(true).or_else(|error| parse(false).map_err(|_| error)).map_err(named)?;
    granary_wit::derive_package(&resolve, package)
        .ok_or_else(|| named("the package has no interface that a grain could export".to_owned()))
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
