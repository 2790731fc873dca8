//! Manual pages and shell completions, compared with `--help`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::running::{output, tollgate};

/// A command with what its help lists.
struct DocumentedCommand {
    /// `keys reset`; empty for the program.
    name: String,
    flags: Vec<String>,
}

fn stdout(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The first words of the lines in a section of a help text.
fn listed<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let section = help.split_once(&format!("\n{heading}:\n")).map(|(_, rest)| rest).unwrap_or_default();
    let section = section.split("\n\n").next().unwrap_or_default();
    section.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| *word != "help").collect()
}

/// The long flags that a help text lists, each at the beginning of a line.
fn flags(help: &str) -> Vec<String> {
    let first_flag = |line: &str| {
        let line = line.trim_start();
        let line =
            line.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.get(3..)).unwrap_or(line);
        let flag = line.split([' ', '=', '[', ',']).next()?;
        flag.starts_with("--").then(|| flag.to_owned())
    };
    help.lines().filter_map(first_flag).collect()
}

/// The program and all commands below it, as help lists them.
fn commands() -> Vec<DocumentedCommand> {
    let mut found = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(name) = pending.pop() {
        let arguments: Vec<&str> = name.split_whitespace().chain(["--help"]).collect();
        let help = stdout(&arguments);
        pending.extend(listed(&help, "Commands").iter().map(|below| format!("{name} {below}").trim().to_owned()));
        found.push(DocumentedCommand { flags: flags(&help), name });
    }
    found
}

#[test]
fn every_command_has_a_manual_page_with_all_its_flags() {
    let directory = tempfile::tempdir().unwrap();
    stdout(&["manual", directory.path().join("new").to_str().unwrap()]);
    let written = fs::read_dir(directory.path().join("new")).unwrap();
    let written: BTreeSet<String> = written.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let commands = commands();
    let file = |command: &DocumentedCommand| format!("tollgate {}", command.name).trim().replace(' ', "-") + ".1";
    assert_eq!(written, commands.iter().map(file).collect());
    assert!(commands.len() > 20 && commands.iter().map(|command| command.flags.len()).sum::<usize>() > 80);
    for command in &commands {
        let page = fs::read_to_string(directory.path().join("new").join(file(command))).unwrap();
        let page = page.replace("\\-", "-");
        for flag in &command.flags {
            assert!(page.contains(&format!("\\fB{flag}\\fR")), "the page of `{}` has no {flag}", command.name);
        }
        assert!(page.contains(concat!("\"tollgate ", env!("CARGO_PKG_VERSION"), "\"")), "{page}");
    }
}

#[test]
fn manual_reports_a_directory_that_it_cannot_write() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = output(&["manual", file.path().to_str().unwrap()]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr.starts_with("error: cannot write pages to "), "{stderr}");
}

#[test]
fn completions_name_every_command_and_flag() {
    let commands = commands();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&["completions", shell]);
        for command in &commands {
            let word = command.name.split(' ').next_back().unwrap();
            assert!(script.contains(word), "{shell}: {}", command.name);
            for flag in &command.flags {
                // Fish writes a flag as `-l name`.
                let name = flag.trim_start_matches('-');
                assert!(script.contains(flag) || script.contains(&format!("-l {name}")), "{shell}: {flag}");
            }
        }
    }
}

#[test]
fn bash_offers_commands_and_their_flags() {
    let completed = |words: &str| {
        let script = r#"
            source /dev/stdin
            COMP_WORDS=($0) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
            _tollgate tollgate "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            printf '%s\n' "${COMPREPLY[@]}""#;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("completions");
        fs::write(&file, tollgate(&["completions", "bash"]).output().unwrap().stdout).unwrap();
        let output = Command::new("bash").args(["-c", script, words]).stdin(fs::File::open(file).unwrap()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(completed("tollgate val"), "validate\n");
    assert_eq!(completed("tollgate serve --admin-t"), "--admin-token-file\n");
    assert_eq!(completed("tollgate completions z"), "zsh\n");
}
