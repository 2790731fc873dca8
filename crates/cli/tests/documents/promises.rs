//! The tests that docs/guide/promises.md names exist, in the files that it names.

use std::path::Path;

use crate::pages::{repository, text};

const PAGE: &str = "docs/guide/promises.md";

/// The tests, with the files that the page links them to.
fn named_tests(page: &str) -> Vec<(&str, &str)> {
    let links = page.split("[`").skip(1).filter_map(|rest| rest.split_once("`]("));
    let targets = links.filter_map(|(name, rest)| Some((name, rest.split(')').next()?)));
    targets.filter(|(_, target)| target.ends_with(".rs")).collect()
}

/// Whether a file has a test of this name, as a function or as the name that a macro gives it.
fn has_test(source: &str, name: &str) -> bool {
    source.contains(&format!("fn {name}("))
        || source.lines().any(|line| line.trim_start().starts_with(&format!("{name}: ")))
}

#[test]
fn tests_that_the_page_names_exist() {
    let page = text(PAGE);
    let tests = named_tests(&page);
    assert!(tests.len() > 40, "{} tests are named", tests.len());
    let folder = repository().join(Path::new(PAGE).parent().unwrap());
    let source = |target: &str| std::fs::read_to_string(folder.join(target)).unwrap_or_default();
    let missing: Vec<_> = tests.iter().filter(|(name, target)| !has_test(&source(target), name)).collect();
    assert!(missing.is_empty(), "{PAGE} names tests that do not exist: {missing:?}");
}
