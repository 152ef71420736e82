//! Rules for the manifests of workspace members: lints, licence and versions come from the root.

use super::Source;

/// What a member takes from the root, section and line.
const INHERITED: [(&str, &str); 5] = [
    ("package", "version.workspace = true"),
    ("package", "edition.workspace = true"),
    ("package", "rust-version.workspace = true"),
    ("package", "license.workspace = true"),
    ("lints", "workspace = true"),
];

/// Checks the manifest of one member.
pub(super) fn check(source: &Source, violations: &mut Vec<String>) {
    let Source { path, text } = source;
    let mut section = String::new();
    let mut seen = [false; INHERITED.len()];
    let mut open_table = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
            && !open_table
        {
            name.clone_into(&mut section);
            continue;
        }
        for ((wanted, text), seen) in INHERITED.iter().zip(&mut seen) {
            *seen |= section == *wanted && line == *text;
        }
        let names_dependency = section.ends_with("dependencies") && !open_table && line.contains('=');
        // A member of ours may be named by its path, to take it without its default features.
        let is_ours = line.contains("workspace = true") || line.contains("path = \"");
        if names_dependency && !line.starts_with('#') && !is_ours {
            violations.push(format!(
                "{path}:{number}: dependencies stand in the root's [workspace.dependencies]; write `NAME.workspace = true`"
            ));
        }
        // An entry may go on over several lines until its list closes.
        if section.ends_with("dependencies") {
            open_table =
                if open_table { !line.contains('}') } else { line.contains('{') && !line.contains('}') };
        }
    }
    for ((section, line), seen) in INHERITED.iter().zip(seen) {
        if !seen {
            violations.push(format!("{path}: [{section}] has no `{line}`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\n\n[dependencies]\nanyhow.workspace = true\n\
        log = { workspace = true, features = [\n    \"std\",\n], optional = true }\n\n[lints]\nworkspace = true\n";

    fn violations(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check(&Source { path: "a/Cargo.toml".to_owned(), text: text.to_owned() }, &mut found);
        found
    }

    #[test]
    fn a_member_that_inherits_everything_is_fine() {
        assert_eq!(violations(GOOD), [] as [String; 0]);
    }

    #[test]
    fn what_is_not_inherited_is_named() {
        assert_eq!(
            violations(&GOOD.replace("[lints]\nworkspace = true\n", "")),
            ["a/Cargo.toml: [lints] has no `workspace = true`"]
        );
        assert_eq!(violations(&GOOD.replace("license.workspace = true", "license = \"MIT\"")).len(), 1);
    }

    #[test]
    fn a_member_may_be_named_by_its_path() {
        let own = "b = { path = \"../b\", default-features = false }";
        assert_eq!(violations(&GOOD.replace("anyhow.workspace = true", own)), [] as [String; 0]);
    }

    #[test]
    fn a_version_of_its_own_is_refused() {
        let found = violations(&GOOD.replace("anyhow.workspace = true", "anyhow = \"1\""));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a/Cargo.toml:9:"), "{found:?}");
    }
}
