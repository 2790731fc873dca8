//! The index, docs/README.md, leads to every page, recipe and example, directly or through the index of a folder.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::pages::{names, repository, text};

const INDEX: &str = "docs/README.md";

/// The targets of the relative links of a page, as paths from the root of the repository.
fn links(page: &str) -> Vec<String> {
    let folder = Path::new(page).parent().unwrap();
    let text = text(page);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let relative = targets.filter(|target| !target.is_empty() && !target.contains(':'));
    relative.filter_map(|target| page_of(&folder.join(target))).collect()
}

/// The page that a link shows: a directory shows its README.
pub(super) fn page_of(target: &Path) -> Option<String> {
    let mut path = PathBuf::new();
    for component in target.components() {
        match component {
            Component::ParentDir => _ = path.pop(),
            other => path.push(other),
        }
    }
    let readme = path.join("README.md");
    let page = if repository().join(&readme).exists() { readme } else { path };
    Some(page.to_str()?.to_owned())
}

/// All that the index and the indices of folders below `docs` link to.
fn indexed() -> BTreeSet<String> {
    let (mut linked, mut unread) = (BTreeSet::new(), vec![INDEX.to_owned()]);
    while let Some(page) = unread.pop() {
        for target in links(&page) {
            let is_index = target.starts_with("docs/") && target.ends_with("/README.md");
            if linked.insert(target.clone()) && is_index {
                unread.push(target);
            }
        }
    }
    linked
}

#[test]
fn every_page_recipe_and_example_is_in_the_index() {
    let linked = indexed();
    let directories = ["deploy", "examples"].into_iter().flat_map(|folder| {
        let entries = std::fs::read_dir(repository().join(folder)).unwrap();
        entries.map(move |entry| format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap()))
    });
    let all = names().into_iter().chain(directories.filter_map(|directory| page_of(Path::new(&directory))));
    // The guide is a crate for the tests of these pages.
    let missing: Vec<String> =
        all.filter(|page| page != INDEX && page != "examples/guide" && !linked.contains(page)).collect();
    assert!(missing.is_empty(), "{INDEX} has no link to {missing:?}");
}
