//! Links to headings lead to headings.

use std::collections::BTreeSet;
use std::path::Path;

use super::index::page_of;
use crate::pages::{names, repository, text};

/// The anchors of the headings of a page, as GitHub forms them. A repeated one has a number.
fn anchors(page: &str) -> BTreeSet<String> {
    let (mut anchors, mut is_code) = (BTreeSet::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
            let anchor = anchor(heading.trim_start_matches('#').trim());
            let numbered = (1..).map(|number| format!("{anchor}-{number}"));
            let mut candidates = std::iter::once(anchor.clone()).chain(numbered);
            let new = candidates.find(|candidate| !anchors.contains(candidate));
            anchors.extend(new);
        }
    }
    anchors
}

/// Letters, digits, hyphens and underscores in lower case; spaces become hyphens. Of a link, its text.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    for (number, piece) in heading.split("](").enumerate() {
        text += if number == 0 { piece } else { piece.split_once(')').map_or("", |(_, rest)| rest) };
    }
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The links of a page to headings of pages: as written, the page, and the anchor.
fn links(name: &str, text: &str) -> Vec<(String, String, String)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let with_anchor = targets.filter(|target| !target.contains("://")).filter_map(|target| target.split_once('#'));
    let page = |path: &str| {
        if path.is_empty() { Some(name.to_owned()) } else { page_of(&Path::new(name).parent()?.join(path)) }
    };
    let links = with_anchor.filter_map(|(path, anchor)| Some((path, page(path)?, anchor)));
    links.map(|(path, page, anchor)| (format!("{path}#{anchor}"), page, anchor.to_owned())).collect()
}

#[test]
fn links_to_headings_lead_to_headings() {
    let mut broken = Vec::new();
    // Whether the page itself exists, `scripts/check-links` checks.
    let is_page = |page: &str| page.ends_with(".md") && repository().join(page).exists();
    for name in names() {
        for (link, page, anchor) in links(&name, &text(&name)) {
            if is_page(&page) && !anchors(&text(&page)).contains(&anchor) {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "links to headings that do not exist:\n{}", broken.join("\n"));
}

#[test]
fn anchors_are_those_of_github() {
    let page = "# Keys: `key`\n## A [b c](d.md) e\n```sh\n# not\n```\n## Keys: `key`\n### CL.THROTTLE, and more\n";
    let expected = ["a-b-c-e", "clthrottle-and-more", "keys-key", "keys-key-1"];
    assert_eq!(anchors(page).iter().map(String::as_str).collect::<Vec<_>>(), expected);
}
