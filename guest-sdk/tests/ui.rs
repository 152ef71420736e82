//! Mistakes in a grain are reported where the user made them. Each fixture in `ui/` must fail to compile with
//! exactly the errors beside it; `TRYBUILD=overwrite cargo test --test ui` writes them again.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

/// The fixtures are compiled in a project of their own, which needs their WIT folders beside its manifest.
fn copy_contracts() {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tests/trybuild/granary-guest");
    for folder in ["bank", "resources", "broken"] {
        fs::create_dir_all(to.join(folder)).unwrap();
        for file in fs::read_dir(from.join(folder)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(folder).join(file.file_name())).unwrap();
        }
    }
}

#[test]
fn mistakes_are_reported_where_they_are() {
    copy_contracts();
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
