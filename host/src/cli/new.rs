//! `granary new NAME`: a grain project that builds without this repository.
//!
//! The binary carries the SDK's sources and puts them into `vendor/granary` of the new project, so that the
//! project builds with the SDK that fits the silo.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::{CliError, output};

/// Path and text of each vendored file.
const VENDORED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/vendored.rs"));

/// Make a new grain project.
///
///     granary new counter && cd counter
///     cargo test                      # the grain's unit tests, natively
///     granary build                   # the component
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NewArgs {
    /// The grain's name, in kebab-case; also the name of the folder.
    name: String,
    /// Make the project here instead of in ./NAME.
    #[arg(long, value_name = "FOLDER")]
    path: Option<PathBuf>,
    /// The language of the grain.
    #[arg(long, value_enum, default_value_t)]
    template: Template,
}

/// A language that `granary new` has a project for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Template {
    #[default]
    Rust,
    /// JavaScript, built with componentize-js from npm.
    Js,
    /// Python, built with componentize-py from PyPI.
    Python,
}

pub(crate) fn run(args: &NewArgs) -> Result<(), CliError> {
    check_name(&args.name)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(CliError::data(format!(
            "{} is not empty: choose another name, or another folder with --path",
            folder.display()
        )));
    }
    let (files, next) = match args.template {
        Template::Rust => (&RUST[..], "cargo test && granary build"),
        Template::Js => (&JS[..], "granary build"),
        Template::Python => (&PYTHON[..], "granary build"),
    };
    for (path, text) in files {
        write(&folder.join(fill(path, &args.name)), &fill(text, &args.name))?;
    }
    if args.template == Template::Rust {
        for (path, text) in vendored()? {
            write(&folder.join("vendor/granary").join(path), &text)?;
        }
    }
    let folder = folder.display();
    output::note(&format!("made {folder}"));
    output::note(&format!("next: cd {folder} && {next}"));
    Ok(())
}

/// WIT identifiers are words of lower-case letters and digits, joined by single dashes; a Rust keyword or a
/// word of WIT would be a puzzle later on.
fn check_name(name: &str) -> Result<(), CliError> {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if name.len() > 64 || !name.split('-').all(word) {
        return Err(CliError::data(format!(
            "a grain's name is kebab-case, such as shopping-cart, with at most 64 letters; this is {name:?}"
        )));
    }
    if RESERVED.contains(&name) {
        return Err(CliError::data(format!("{name} is a word of WIT or Rust: choose another name")));
    }
    Ok(())
}

/// Names that cannot be a package, an interface or a crate.
const RESERVED: [&str; 52] = [
    "abstract",
    "as",
    "async",
    "await",
    "become",
    "bool",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "dyn",
    "else",
    "enum",
    "export",
    "extern",
    "false",
    "flags",
    "fn",
    "for",
    "from",
    "func",
    "granary",
    "if",
    "impl",
    "import",
    "in",
    "include",
    "interface",
    "let",
    "list",
    "loop",
    "macro",
    "match",
    "mod",
    "option",
    "package",
    "pub",
    "record",
    "ref",
    "resource",
    "result",
    "return",
    "self",
    "static",
    "std",
    "test",
    "tuple",
    "type",
    "use",
    "world",
];

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let cannot = |error: std::io::Error| CliError::data(format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    std::fs::write(path, text).map_err(cannot)
}

/// The vendored files; the workspace's manifest is cut down to the members that are there.
fn vendored() -> Result<Vec<(&'static str, String)>, CliError> {
    VENDORED
        .iter()
        .map(|(path, text)| {
            let text = if *path == "Cargo.toml" { workspace_manifest(text)? } else { (*text).to_owned() };
            Ok((*path, text))
        })
        .collect()
}

fn workspace_manifest(text: &str) -> Result<String, CliError> {
    let defect = |what: &str| {
        CliError::new(crate::exit_code::INTERNAL, format!("the embedded workspace manifest {what}"))
    };
    let whole: toml::Table =
        toml::from_str(text).map_err(|error| defect(&format!("does not parse: {error}")))?;
    let workspace =
        whole.get("workspace").and_then(toml::Value::as_table).ok_or_else(|| defect("has no [workspace]"))?;
    let mut cut = toml::Table::new();
    for (key, value) in workspace {
        match key.as_str() {
            "members" => {
                let members = ["guest-sdk", "guest-sdk/macros", "host/crates/granary-wit"];
                cut.insert(key.clone(), toml::Value::from(members.map(str::to_owned).to_vec()));
            }
            "default-members" => {}
            _ => {
                cut.insert(key.clone(), value.clone());
            }
        }
    }
    let whole = toml::Table::from_iter([("workspace".to_owned(), toml::Value::Table(cut))]);
    toml::to_string(&whole).map_err(|error| defect(&format!("cannot be written: {error}")))
}

/// Puts the name into a template: `{{name}}` in kebab-case, `{{snake}}` for crates, `{{Camel}}` for types,
/// `{{camel}}` for JavaScript's names.
fn fill(text: &str, name: &str) -> String {
    let camel: String = name
        .split('-')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
        })
        .collect();
    let mut letters = camel.chars();
    let lower: String =
        letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect();
    text.replace("{{name}}", name)
        .replace("{{snake}}", &name.replace('-', "_"))
        .replace("{{Camel}}", &camel)
        .replace("{{camel}}", &lower)
}

/// Path and text of each file of a new JavaScript project.
const JS: [(&str, &str); 8] = [
    ("package.json", include_str!("new/js/package.json.template")),
    ("granary.toml", GRANARY_TOML),
    (".npmrc", include_str!("new/js/npmrc.template")),
    (".gitignore", "/node_modules\n/*.wasm\n"),
    ("README.md", include_str!("new/js/README.md.template")),
    ("wit/world.wit", include_str!("new/world.wit.template")),
    ("wit/deps/{{name}}/{{name}}.wit", include_str!("new/contract.wit.template")),
    ("grain.js", include_str!("new/js/grain.js.template")),
];

/// The project file of a language without an SDK.
const GRANARY_TOML: &str = include_str!("new/granary.toml.template");

/// Path and text of each file of a new Python project.
const PYTHON: [(&str, &str); 7] = [
    ("requirements.txt", "componentize-py==0.25.1\n"),
    ("granary.toml", GRANARY_TOML),
    (".gitignore", "/.venv\n/*.wasm\n__pycache__\n"),
    ("README.md", include_str!("new/python/README.md.template")),
    ("wit/world.wit", include_str!("new/world.wit.template")),
    ("wit/deps/{{name}}/{{name}}.wit", include_str!("new/contract.wit.template")),
    ("grain.py", include_str!("new/python/grain.py.template")),
];

/// Path and text of each file of a new Rust project.
const RUST: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("new/Cargo.toml.template")),
    (".cargo/config.toml", include_str!("new/config.toml.template")),
    (".gitignore", "/target\n"),
    ("README.md", include_str!("new/README.md.template")),
    ("wit/{{name}}.wit", include_str!("new/contract.wit.template")),
    ("src/lib.rs", include_str!("new/lib.rs.template")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_not_compile_are_refused() {
        for name in ["Counter", "a--b", "-a", "a_b", "", "1a", "type", "a/b", "ä"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        check_name("shopping-cart2").unwrap();
    }

    #[test]
    fn templates_are_filled() {
        assert_eq!(
            fill("{{name}} {{snake}} {{Camel}} {{camel}}", "shopping-cart"),
            "shopping-cart shopping_cart ShoppingCart shoppingCart"
        );
    }

    #[test]
    fn a_folder_with_something_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), "").unwrap();
        let args = NewArgs {
            name: "a-b".to_owned(),
            path: Some(folder.path().to_owned()),
            template: Template::Rust,
        };
        assert!(run(&args).unwrap_err().message.contains("not empty"));
    }

    #[test]
    fn a_new_project_carries_the_sdk_and_a_workspace_that_has_its_members() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        run(&NewArgs { name: "a-b".to_owned(), path: Some(path.clone()), template: Template::Rust }).unwrap();
        for file in ["wit/a-b.wit", "vendor/granary/guest-sdk/src/lib.rs", "vendor/granary/wit/types.wit"] {
            assert!(path.join(file).is_file(), "{file}");
        }
        let manifest = std::fs::read_to_string(path.join("vendor/granary/Cargo.toml")).unwrap();
        assert!(manifest.contains("granary-wit") && !manifest.contains("\"xtask\""), "{manifest}");
    }
}
