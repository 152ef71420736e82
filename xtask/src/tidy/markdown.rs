//! Rules for Markdown: a link to a file of the repository leads somewhere.

use super::Source;

/// Checks the links of one page. `exists` takes a path relative to the root.
pub(super) fn check(source: &Source, exists: &dyn Fn(&str) -> bool, violations: &mut Vec<String>) {
    let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut in_code = false;
    for (number, line) in (1..).zip(source.text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(line) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains(':') {
                // A heading of this page, or a URL.
                continue;
            }
            let resolved = resolve(folder, file);
            if !resolved.as_deref().is_some_and(exists) {
                violations.push(format!("{}:{number}: the link to `{target}` leads nowhere", source.path));
            }
        }
    }
}

/// The targets of the links in a line: `[text](target)`, outside of inline code.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (index, piece) in line.split('`').enumerate() {
        // Text after an odd number of backticks is code, but `](…)` may follow code that is a link's text.
        if index % 2 == 1 {
            continue;
        }
        for rest in piece.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                found.push(target.split_whitespace().next().unwrap_or_default());
            }
        }
    }
    found
}

/// The path of `file` as seen from `folder`, relative to the root; none when it leads out of the repository.
fn resolve(folder: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = if file.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    parts.retain(|part| !part.is_empty());
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let exists = |path: &str| ["README.md", "docs/CLI.md", "docs"].contains(&path);
        check(&Source { path: path.to_owned(), text: text.to_owned() }, &exists, &mut found);
        found
    }

    #[test]
    fn links_are_resolved_from_their_page() {
        assert!(
            violations("docs/A.md", "[a](CLI.md) [`b`](../README.md#x) [c](./CLI.md \"title\")").is_empty()
        );
        assert_eq!(
            violations("docs/A.md", "ok\n[a](README.md)"),
            ["docs/A.md:2: the link to `README.md` leads nowhere"]
        );
        assert_eq!(violations("README.md", "[a](../out.md)").len(), 1);
    }

    #[test]
    fn urls_headings_and_code_are_left_alone() {
        let text = "[a](https://example.org/x) [b](#part) `[c](gone.md)`\n```\n[d](gone.md)\n```\n";
        assert!(violations("README.md", text).is_empty());
    }
}
