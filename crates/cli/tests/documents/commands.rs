//! The commands of a block, and the services among them.

/// A command with the output that the page shows.
#[derive(Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The lines below it; `None` where a page shows no outputs.
    pub(crate) output: Option<Vec<String>>,
}

/// A program that runs until it is stopped. A reader gives it a terminal of its own.
pub(crate) struct Service {
    /// Starting a service stops the one of the same name that a page started before.
    pub(crate) name: &'static str,
    /// The first words of its commands.
    beginnings: &'static [&'static str],
    /// A pattern of `grep -E`: a line that is printed when all its listeners accept.
    pub(crate) ready: &'static str,
}

pub(crate) const SERVICES: [Service; 2] = [
    Service {
        name: "tollgate",
        beginnings: &[
            "tollgate serve",
            "tollgate demo",
            "target/release/tollgate serve",
            "cargo run --release -- serve",
            "cargo run --release -- demo",
        ],
        ready: "admin listening on",
    },
    Service { name: "redis", beginnings: &["redis-server"], ready: "Ready to accept connections" },
];

impl Command {
    /// The service that the command starts.
    pub(crate) fn service(&self) -> Option<&'static Service> {
        let program = &self.text[assignments(&self.text)..];
        let begins = |words: &&str| {
            program.strip_prefix(*words).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\n']))
        };
        let is_only_asked = program.contains(" --help");
        SERVICES.iter().find(|service| !is_only_asked && service.beginnings.iter().any(begins))
    }

    /// Whether the service runs beside those that the page starts later, because the command ends in `&`.
    pub(crate) fn is_in_background(&self) -> bool {
        self.text.trim_end().ends_with('&')
    }

    /// The command of a service such that signals to the shell that runs it reach the service.
    pub(crate) fn replacing_the_shell(&self) -> String {
        let (assigned, program) = self.text.split_at(assignments(&self.text));
        format!("{assigned}exec {}", program.trim_end().trim_end_matches('&'))
    }
}

/// The length of the assignments of variables that precede a program.
fn assignments(command: &str) -> usize {
    let is_assignment = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        })
    };
    command.split_inclusive(' ').take_while(is_assignment).map(str::len).sum()
}

/// The commands of a `console` block: the lines after `$ `, each followed by its output.
pub(crate) fn of_console(text: &str, first_line: usize) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let incomplete = commands.last_mut().filter(|last| !is_complete(&last.text));
        if let Some(last) = incomplete {
            last.text += &format!("{}\n", line.strip_prefix("> ").unwrap_or(line));
        } else if let Some(command) = line.strip_prefix("$ ") {
            commands.push(Command {
                line: first_line + number,
                text: format!("{command}\n"),
                output: Some(Vec::new()),
            });
        } else if let Some(last) = commands.last_mut() {
            last.output.get_or_insert_default().push(line.to_owned());
        }
    }
    commands
}

/// The commands of an `sh` block.
pub(crate) fn of_script(text: &str, first_line: usize) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let incomplete = commands.last_mut().filter(|last| !is_complete(&last.text));
        if let Some(last) = incomplete {
            last.text += &format!("{line}\n");
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            commands.push(Command { line: first_line + number, text: format!("{line}\n"), output: None });
        }
    }
    commands
}

/// Whether a shell would run this without waiting for a further line.
fn is_complete(command: &str) -> bool {
    let has_line = |ends: &dyn Fn(&str) -> bool| command.lines().skip(1).any(ends);
    if let Some((_, rest)) = command.split_once("<<") {
        let word: String =
            rest.trim_start_matches(['-', '\'', '"']).chars().take_while(|c| c.is_alphanumeric()).collect();
        return word.is_empty() || has_line(&|line| line.trim() == word);
    }
    let is_loop = ["for ", "while ", "until "].iter().any(|word| command.starts_with(word));
    let loop_is_open = is_loop && !command.contains("; done") && !has_line(&|line| line.starts_with("done"));
    !loop_is_open && !command.ends_with("\\\n") && quotes_are_closed(command)
}

fn quotes_are_closed(command: &str) -> bool {
    let (mut open, mut is_escaped) = (None, false);
    for character in command.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if open != Some('\'') => is_escaped = true,
            '\'' | '"' if open.is_none() => open = Some(character),
            _ if open == Some(character) => open = None,
            _ => {}
        }
    }
    open.is_none()
}

#[test]
fn console_block_has_commands_with_outputs() {
    let commands = of_console("$ a \\\n  b\none\n\n$ cat <<'EOF'\nx $ y\nEOF\nx $ y\n$ c '1\n2'\n", 10);
    let shown: Vec<_> =
        commands.iter().map(|c| (c.line, c.text.as_str(), c.output.clone().unwrap().join("|"))).collect();
    let expected = [
        (10, "a \\\n  b\n", "one|".to_owned()),
        (14, "cat <<'EOF'\nx $ y\nEOF\n", "x $ y".to_owned()),
        (18, "c '1\n2'\n", String::new()),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn services_are_recognised_behind_assignments() {
    let service = |text: &str| {
        let command = Command { line: 1, text: text.to_owned(), output: None };
        command.service().map(|service| (service.name, command.replacing_the_shell()))
    };
    assert_eq!(
        service("A=1 tollgate serve p.yaml &\n"),
        Some(("tollgate", "A=1 exec tollgate serve p.yaml ".to_owned()))
    );
    assert_eq!(service("redis-server --port 1\n"), Some(("redis", "exec redis-server --port 1".to_owned())));
    assert_eq!((service("tollgate serve --help\n"), service("tollgate validate a=b\n")), (None, None));
}
