//! The vocabulary of the project: one meaning for each type name, and no words that only this project understands.
//!
//! ARCHITECTURE.md has the glossary of the few terms that are the project's own.
#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of types that were replaced by the term of the field.
const RETIRED_TYPES: [&str; 35] = [
    "Asker",
    "Bell",
    "Board",
    "Boarded",
    "Books",
    "Carrier",
    "Deed",
    "Desk",
    "Door",
    "Draft",
    "Facts",
    "FewASecond",
    "Graduated",
    "Habits",
    "Hall",
    "Heard",
    "Journey",
    "Laid",
    "Loosening",
    "Met",
    "News",
    "Nonsense",
    "Papers",
    "Places",
    "Planted",
    "Question",
    "Said",
    "SaidNo",
    "Scout",
    "Scribe",
    "Silence",
    "StraightBody",
    "Told",
    "Tray",
    "Visitor",
];

/// Words and phrases with their replacements, in prose, comments, messages and names of functions and tests.
const RETIRED_WORDS: [(&str, &str); 34] = [
    ("whoever", "the client, the caller, the process"),
    ("nobody", "no client, no instance, nothing"),
    ("somebody", "a client, a caller, another instance"),
    ("anybody", "any client, any instance"),
    ("whom", "the client that, the caller that"),
    ("besides", "extra, also"),
    ("loosen", "send_refund"),
    ("disappoint", "fail_all"),
    ("was_in_vain", "rolled_back"),
    ("by_hand", "override"),
    ("head_at_most", "header timeout"),
    ("look_closer", "strict parser"),
    ("part_of", "shard_index"),
    ("under way", "in flight"),
    ("one's own", "custom, your own"),
    ("oneself", "yourself, custom"),
    ("operator's hand", "admin API"),
    ("what is no", "name the thing: a value that is not .."),
    ("does what it says", "state the effect"),
    ("also where it is a no", "also for refusals"),
    ("the other end", "the peer"),
    ("further out", "outer"),
    ("let go", "release"),
    ("lets go", "releases"),
    ("letting go", "releasing"),
    ("goes on", "continues"),
    ("give back", "refund, release, return"),
    ("gives back", "refunds, releases, returns"),
    ("given back", "refunded, released, returned"),
    ("giving back", "refunding, releasing"),
    ("looked at", "inspected, peeked, checked"),
    ("looks at", "inspects, checks"),
    ("hears", "receives"),
    ("stands in the way", "refuses"),
];

/// Types that stand in two files because one of them is compiled, by feature or by platform.
const ALTERNATIVES: [&str; 4] = ["Cell", "Claims", "ClientStream", "Verifier"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All files below a folder, without build results.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || matches!(&*name, "target" | "artifacts" | "corpus") {
            continue;
        }
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// The text files that people read, with their paths below the root.
fn texts() -> Vec<(String, String)> {
    let root = root();
    let mut paths = Vec::new();
    files(&root, &mut paths);
    let is_text = |path: &PathBuf| {
        let ending = path.extension().unwrap_or_default();
        ["rs", "md", "lua", "yaml", "toml", "sh", "proto"].iter().any(|known| ending == *known)
            || path.starts_with(root.join("scripts"))
    };
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        Some((name, std::fs::read_to_string(&path).ok()?))
    };
    paths.into_iter().filter(is_text).filter_map(read).collect()
}

/// The names of the types that a line declares for other modules.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start().strip_prefix("pub")?;
    let line = match line.strip_prefix('(') {
        Some(scoped) => scoped.split_once(") ")?.1,
        None => line.strip_prefix(' ')?,
    };
    let kinds = ["struct ", "enum ", "trait ", "union ", "type "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    Some(rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or(rest))
}

#[test]
fn each_type_name_has_one_meaning() {
    let mut declarations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, text) in texts().into_iter().filter(|(name, _)| name.starts_with("crates/") && name.contains("/src/")) {
        for declared in text.lines().filter_map(declared) {
            declarations.entry(declared.to_owned()).or_default().push(name.clone());
        }
    }
    assert!(declarations.contains_key("Limiter"), "the declarations are found");
    let repeated: Vec<_> = declarations
        .iter()
        .filter(|(name, files)| files.len() > 1 && !ALTERNATIVES.contains(&name.as_str()))
        .map(|(name, files)| format!("{name}: {}", files.join(", ")))
        .collect();
    assert!(repeated.is_empty(), "types that share a name:\n{}", repeated.join("\n"));
}

#[test]
fn retired_type_names_stay_retired() {
    let mut found = Vec::new();
    for (name, text) in texts().into_iter().filter(|(name, _)| name.ends_with(".rs") && !is_this_file(name)) {
        for (number, line) in (1..).zip(text.lines()) {
            let is_declared = |retired: &&str| {
                ["struct", "enum", "trait", "type"].iter().any(|kind| has_word(line, &format!("{kind} {retired}")))
            };
            found.extend(
                RETIRED_TYPES.iter().filter(|retired| is_declared(retired)).map(|_| format!("{name}:{number}: {line}")),
            );
        }
    }
    assert!(found.is_empty(), "use the term of the field:\n{}", found.join("\n"));
}

#[test]
fn retired_words_stay_retired() {
    let mut found = Vec::new();
    for (name, text) in texts().into_iter().filter(|(name, _)| !is_this_file(name) && name != "Cargo.lock") {
        for (number, line) in (1..).zip(text.lines()) {
            let lower = line.to_lowercase();
            let hits = RETIRED_WORDS.iter().filter(|(word, _)| has_word(&lower, word));
            found.extend(hits.map(|(word, instead)| format!("{name}:{number}: `{word}` ({instead}): {}", line.trim())));
        }
    }
    assert!(found.is_empty(), "{} lines with retired words:\n{}", found.len(), found.join("\n"));
}

fn is_this_file(name: &str) -> bool {
    name.ends_with("tests/vocabulary.rs")
}

/// Whether a text contains a word that is not part of another. An underscore separates words, as in names of tests.
fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(word)
        .any(|(at, _)| !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + word.len()..].chars().next()))
}

#[test]
fn words_are_found_whole_and_in_names() {
    assert!(has_word("nobody asks", "nobody") && has_word("nobody_asks()", "nobody") && has_word("(nobody)", "nobody"));
    assert!(!has_word("besidesnobodyelse", "nobody"));
    assert_eq!(declared("    pub(crate) struct Log<'a> {"), Some("Log"));
    assert_eq!(declared("pub enum Action {"), Some("Action"));
    assert_eq!((declared("pub fn limit()"), declared("struct Private;")), (None, None));
}
