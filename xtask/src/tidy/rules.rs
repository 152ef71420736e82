//! Rules for single files: length, names, headers, and texts that may not stand anywhere.
//!
//! Forbidden texts are written in two pieces here, so that this file does not break its own rules.

use super::Source;

/// The most lines that a Rust file may have.
const LINES_MAX: usize = 800;
/// A file that says so in its first lines was written by a program.
const GENERATED_MARK: &str = concat!("@", "generated");
/// In how many of the first lines that mark counts.
const GENERATED_LINES: usize = 3;
/// The folders whose modules begin with a header.
const HEADER_FOLDERS: [&str; 6] = ["bench/", "client/", "guest-sdk/", "host/", "tests/", "xtask/"];
/// Words that mark unfinished work.
const UNFINISHED_WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
/// Macros that mark unfinished work.
const UNFINISHED_MACROS: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];
/// Folders of one machine.
const MACHINE_FOLDERS: [&str; 4] =
    [concat!("/wo", "rk"), concat!("/ro", "ot"), concat!("/ho", "me"), concat!("/tmp/", "brief")];
/// Hosts of package registries: which one is used is the business of the machine's configuration.
const REGISTRY_HOSTS: [&str; 7] = [
    concat!("crates", ".io"),
    concat!("deb.", "debian.org"),
    concat!("static.", "rust-lang.org"),
    concat!("get.", "nexte.st"),
    concat!("registry.", "npmjs.org"),
    concat!("proxy.", "golang.org"),
    concat!("pypi", ".org"),
];
/// Files that a package manager writes; registry names belong there.
const LOCK_FILES: [&str; 2] = ["Cargo.lock", "package-lock.json"];

/// Checks one file.
pub(super) fn check(source: &Source, violations: &mut Vec<String>) {
    if source.path.ends_with(".rs") {
        check_rust(source, violations);
    }
    let name = source.path.rsplit('/').next().unwrap_or_default();
    if LOCK_FILES.contains(&name) {
        return;
    }
    for (number, line) in (1..).zip(source.text.lines()) {
        for problem in problems(line) {
            violations.push(format!("{}:{number}: {problem}", source.path));
        }
    }
}

fn check_rust(source: &Source, violations: &mut Vec<String>) {
    let Source { path, text } = source;
    let generated = text.lines().take(GENERATED_LINES).any(|line| line.contains(GENERATED_MARK));
    let lines = text.lines().count();
    if lines > LINES_MAX && !generated {
        violations.push(format!("{path}: {lines} lines; at most {LINES_MAX}: divide it into modules"));
    }
    if path.ends_with("/mod.rs") {
        violations.push(format!("{path}: modules are named `foo.rs` + `foo/bar.rs`, never `mod.rs`"));
    }
    if needs_header(path) && !has_header(text) {
        violations.push(format!("{path}: a module begins with a header (`//!`) that says its purpose"));
    }
}

/// Sources of crates, and the roots of integration tests and benches; not the fixtures that those read, nor the unit
/// tests of a module, which stand beside it under the name `tests.rs`.
fn needs_header(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    if name == "tests.rs" {
        return false;
    }
    let root = folder.rsplit('/').next().unwrap_or_default();
    HEADER_FOLDERS.iter().any(|prefix| path.starts_with(prefix))
        && (path.contains("/src/") || ["benches", "e2e", "tests"].contains(&root))
}

fn has_header(text: &str) -> bool {
    text.lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!["))
        .is_some_and(|line| line.starts_with("//!"))
}

/// What is wrong with a line of text.
fn problems(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in UNFINISHED_WORDS {
        if contains_word(line, word) {
            found.push(format!("`{word}`: finish it, or file it"));
        }
    }
    for call in UNFINISHED_MACROS {
        if line.contains(call) {
            found.push(format!("`{}`: unfinished code", call.trim_end_matches('(')));
        }
    }
    for folder in MACHINE_FOLDERS {
        if contains_absolute(line, folder) {
            found.push(format!("`{folder}` is a path of one machine"));
        }
    }
    for host in REGISTRY_HOSTS {
        if line.contains(host) {
            found.push(format!("`{host}`: hosts of package registries are not written down"));
        }
    }
    found
}

/// Whether a word stands in a line with nothing that continues it on either side.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !continues(before(line, at)) && !continues(after(line, at, word)))
}

/// Whether an absolute path stands in a line: not as the end of a longer path, nor as the start of a longer name.
fn contains_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let starts = !before(line, at).is_some_and(|c| c.is_alphanumeric() || "_-./}>)*~".contains(c));
        starts && !continues(after(line, at, path))
    })
}

fn continues(neighbour: Option<char>) -> bool {
    neighbour.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

fn before(line: &str, at: usize) -> Option<char> {
    line.get(..at)?.chars().next_back()
}

fn after(line: &str, at: usize, found: &str) -> Option<char> {
    line.get(at + found.len()..)?.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check(&Source { path: path.to_owned(), text: text.to_owned() }, &mut found);
        found
    }

    #[test]
    fn a_long_file_is_refused_unless_generated() {
        let long = format!("//! Header.\n{}", "// x\n".repeat(LINES_MAX));
        assert_eq!(violations("host/src/a.rs", &long).len(), 1);
        assert!(violations("host/src/a.rs", &format!("//! {GENERATED_MARK} by a tool.\n{long}")).is_empty());
    }

    #[test]
    fn mod_rs_is_refused() {
        assert_eq!(violations("host/src/a/mod.rs", "//! Header.\n").len(), 1);
        assert!(violations("host/src/a/remod.rs", "//! Header.\n").is_empty());
    }

    #[test]
    fn modules_need_a_header_and_fixtures_do_not() {
        assert_eq!(violations("host/src/a.rs", "use std::fs;\n").len(), 1);
        assert_eq!(violations("guest-sdk/tests/compile.rs", "fn main() {}\n").len(), 1);
        assert!(violations("guest-sdk/tests/fail/no_interface.rs", "fn main() {}\n").is_empty());
        assert!(violations("examples/counter/src/lib.rs", "use std::fs;\n").is_empty());
        assert!(violations("host/src/a/tests.rs", "use super::*;\n").is_empty());
        assert!(violations("host/src/a.rs", "#![no_std]\n\n//! Header.\n").is_empty());
    }

    #[test]
    fn unfinished_work_is_found_as_a_word() {
        let word = UNFINISHED_WORDS[0];
        assert_eq!(
            violations("docs/a.md", &format!("fine\nsee {word}: x\n")),
            [format!("docs/a.md:2: `{word}`: finish it, or file it")]
        );
        assert!(violations("docs/a.md", &format!("A{word}S\n")).is_empty());
        assert_eq!(violations("examples/a.rs", &format!("{})\n", UNFINISHED_MACROS[0])).len(), 1);
    }

    #[test]
    fn absolute_paths_of_a_machine_are_found_and_relative_ones_are_not() {
        let folder = MACHINE_FOLDERS[0];
        assert_eq!(violations("a.md", &format!("see `{folder}/main`")).len(), 1);
        assert_eq!(violations("a.md", folder).len(), 1);
        assert!(violations("a.md", &format!("target{folder}/x")).is_empty());
        assert!(violations("a.md", &format!("{folder}er")).is_empty());
    }

    #[test]
    fn registry_hosts_are_found_outside_lock_files() {
        let text = format!("source = \"https://{}/x\"", REGISTRY_HOSTS[0]);
        assert_eq!(violations("a.toml", &text).len(), 1);
        assert!(violations("Cargo.lock", &text).is_empty());
    }
}
