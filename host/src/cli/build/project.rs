//! `granary.toml`: what a project whose tools know nothing of grains says about its grain.
//!
//! `name` is the component's file name, `implements` are folders of contracts that are copied into `wit/deps`,
//! `calls` those whose derived packages are written there, and `[properties]` become the component's section `granary-manifest`. Everything else is refused.
//! Values of properties are checked by the inspection of the component.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use wasm_encoder::{ComponentSection as _, CustomSection};

use super::super::{CliError, output, wit};
use crate::exit_code;

/// The file's name.
pub(super) const FILE: &str = "granary.toml";

/// The custom section that the host reads properties from.
const SECTION: &str = "granary-manifest";

/// What the file says.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Project {
    /// The component's name, in kebab-case.
    pub(super) name: String,
    /// Folders of contracts that the grain implements and that are not its own, relative to the project.
    #[serde(default)]
    implements: Vec<PathBuf>,
    /// Folders of contracts that the grain calls, relative to the project.
    #[serde(default)]
    calls: Vec<PathBuf>,
    /// Properties of the grain type.
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

impl Project {
    /// Reads the file of a project.
    pub(super) fn read(folder: &Path) -> Result<Self, CliError> {
        let path = folder.join(FILE);
        let refuse = |what: String| CliError::data(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(&path)
            .map_err(|error| refuse(format!("{error}; it holds at least the line name = \"my-grain\"")))?;
        let project: Self = toml::from_str(&text).map_err(|error| refuse(error.to_string()))?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let name = &project.name;
        if name.is_empty() || name.starts_with('-') || !name.bytes().all(plain) {
            return Err(refuse(format!("the name {name:?} is not kebab-case, such as shopping-cart")));
        }
        if project.properties.contains_key("v") {
            return Err(refuse("no property is called v: the section has its version there".to_owned()));
        }
        Ok(project)
    }

    /// The component's file name.
    pub(super) fn component(&self) -> String {
        format!("{}.wasm", self.name)
    }

    /// Writes the contracts that the grain implements, the derived packages of those that it calls, and the package
    /// that these use.
    pub(super) fn write_packages(&self, folder: &Path) -> Result<(), CliError> {
        let deps = folder.join("wit/deps");
        for contract in &self.implements {
            wit::copy_contract(&folder.join(contract), &deps)?;
        }
        if self.calls.is_empty() {
            return Ok(());
        }
        wit::write_grain(&deps.join("granary-grain"))?;
        for contract in &self.calls {
            wit::write_refs(&folder.join(contract), &deps)?;
        }
        Ok(())
    }

    /// Puts the properties into a component that has none yet.
    pub(super) fn state_properties(&self, component: &Path) -> Result<(), CliError> {
        if self.properties.is_empty() {
            return Ok(());
        }
        let cannot = |error: std::io::Error| CliError::data(format!("{}: {error}", component.display()));
        let mut values: BTreeMap<&str, serde_json::Value> =
            self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str().into())).collect();
        values.insert("v", 1.into());
        let text = serde_json::to_vec(&values)
            .map_err(|error| CliError::new(exit_code::INTERNAL, format!("the properties: {error}")))?;
        let mut bytes = std::fs::read(component).map_err(cannot)?;
        CustomSection { name: SECTION.into(), data: text.into() }.append_to_component(&mut bytes);
        std::fs::write(component, bytes).map_err(cannot)
    }
}

/// Runs a tool in the project's folder, with its command shown; what it prints goes to standard error.
pub(super) fn run(folder: &Path, program: &str, arguments: &[&str], advice: &str) -> Result<(), CliError> {
    output::note(&format!("running {program} {}", arguments.join(" ")));
    let result = Command::new(program)
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::null())
        // Standard output is for the path of the component alone.
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .status();
    match result {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CliError::data(format!("{program} {} failed: {status}", arguments.join(" ")))),
        Err(error) => {
            Err(CliError::new(exit_code::CONFIG, format!("cannot run {program}: {error}\n{advice}")))
        }
    }
}

/// Installs what the files name, unless that was done for the same texts: `stamp` remembers them.
pub(super) fn install_once(
    folder: &Path,
    files: &[&str],
    stamp: &str,
    install: impl FnOnce() -> Result<(), CliError>,
) -> Result<(), CliError> {
    let text = || -> String {
        files.iter().map(|file| std::fs::read_to_string(folder.join(file)).unwrap_or_default()).collect()
    };
    let stamp = folder.join(stamp);
    if std::fs::read_to_string(&stamp).is_ok_and(|done| done == text()) {
        return Ok(());
    }
    install()?;
    std::fs::write(&stamp, text())
        .map_err(|error| CliError::data(format!("cannot write {}: {error}", stamp.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Project, CliError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        Project::read(folder.path())
    }

    #[test]
    fn what_is_not_understood_in_the_project_file_is_named() {
        for (text, part) in [
            ("name = \"../x\"", "kebab-case"),
            ("name = \"-x\"", "kebab-case"),
            ("", "name"),
            ("[", "granary.toml"),
            ("name = \"a\"\nnmae = 1", "nmae"),
            ("name = \"a\"\n[properties]\nx = 1", "string"),
            ("name = \"a\"\n[properties]\nv = \"2\"", "version"),
        ] {
            let message = read(text).unwrap_err().message;
            assert!(message.contains(part), "{text:?}: {message}");
        }
        assert_eq!(read("name = \"shopping-cart\"").unwrap().component(), "shopping-cart.wasm");
        let folder = tempfile::tempdir().unwrap();
        assert!(Project::read(folder.path()).unwrap_err().message.contains("name = "));
    }

    #[test]
    fn properties_are_read_back_by_the_parser_of_components() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"\0asm\x0d\0\x01\0").unwrap();
        let long = "x".repeat(300);
        let project =
            read(&format!("name = \"a\"\n[properties]\n\"acme.note\" = \"{long}\"\ngrain-type = \"b\""))
                .unwrap();
        project.state_properties(file.path()).unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        // Two bytes of length for a section of more than 127 bytes.
        let text = format!(r#"granary-manifest{{"acme.note":"{long}","grain-type":"b","v":1}}"#);
        let size = text.len() + 1;
        assert_eq!(bytes[8..12], [0, (size & 0x7f) as u8 | 0x80, (size >> 7) as u8, 16]);
        assert_eq!(&bytes[12..], text.as_bytes());
    }

    #[test]
    fn an_installation_is_done_again_only_for_other_texts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("list"), text).unwrap();
        let install = || {
            let mut done = false;
            install_once(folder.path(), &["list", "missing"], "stamp", || {
                done = true;
                Ok(())
            })
            .unwrap();
            done
        };
        write("a");
        assert!(install() && !install());
        write("b");
        assert!(install() && !install());
        let failed = install_once(folder.path(), &["other"], "stamp", || Err(CliError::data("no")));
        assert!(failed.is_err() && !install());
    }
}
