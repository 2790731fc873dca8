//! All pages, and the test that runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::page::Page;
use crate::session::{self, namespace};

/// Pages wait more than they compute: for services to start, and for commands with pauses.
const AT_ONCE: usize = 4;

/// How many blocks may be left out. Raise it only for what no test can run.
const MOST_NOT_RUN: usize = 40;

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The names of the pages that are tested: the README, and all below `docs` and `deploy`.
pub(crate) fn names() -> Vec<String> {
    let mut names = vec!["README.md".to_owned()];
    for folder in ["docs", "deploy"] {
        add_pages(Path::new(folder), &mut names);
    }
    names.sort();
    names
}

fn add_pages(folder: &Path, names: &mut Vec<String>) {
    for entry in fs::read_dir(repository().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            add_pages(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            names.push(path.to_str().unwrap().to_owned());
        }
    }
}

pub(crate) fn text(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap()
}

/// The pages that this run tests.
fn read_pages() -> Vec<(String, Page)> {
    let only = std::env::var("TOLLGATE_PAGE").ok();
    let names = names().into_iter().filter(|name| only.as_ref().is_none_or(|only| only == name));
    let pages: Vec<_> = names.map(|name| (name.clone(), Page::read(&name, &text(&name)))).collect();
    assert!(!pages.is_empty(), "there is no page {only:?}");
    pages
}

#[test]
fn every_block_is_tested_or_says_why_not() {
    let pages = read_pages();
    let problems: Vec<&str> = pages.iter().flat_map(|(_, page)| &page.problems).map(String::as_str).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let not_run: Vec<&str> = pages.iter().flat_map(|(_, page)| &page.not_run).map(String::as_str).collect();
    println!("{} blocks are not run:\n{}", not_run.len(), not_run.join("\n"));
    assert!(not_run.len() <= MOST_NOT_RUN, "{} blocks are not run:\n{}", not_run.len(), not_run.join("\n"));
}

#[test]
fn commands_and_policies_do_what_the_pages_say() {
    if namespace::command().is_none() {
        println!("skipped: the system permits no network namespaces");
        return;
    }
    let pages: Vec<_> = read_pages().into_iter().filter(|(_, page)| !page.steps.is_empty()).collect();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, page)) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = std::time::Instant::now();
                    if let Err(problem) = session::run(name, &page.steps) {
                        problems.lock().unwrap().push(problem);
                    }
                    println!("{name}: {} steps in {:?}", page.steps.len(), begun.elapsed());
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{} pages are wrong:\n\n{}", problems.len(), problems.join("\n\n"));
}
