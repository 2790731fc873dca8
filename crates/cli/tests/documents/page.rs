//! The steps of a page: what its blocks do in a session.

use crate::blocks::{Block, blocks};
use crate::commands::{Command, of_console, of_script};
use crate::elsewhere;
use crate::policies;
use crate::rust_examples;
use crate::session::Step;

/// What a page says, as far as it can be run.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) steps: Vec<Step>,
    /// The blocks that are not run, with their reasons.
    pub(crate) not_run: Vec<String>,
    /// The blocks of which nothing states how they are tested, and those that are wrong.
    pub(crate) problems: Vec<String>,
}

/// Languages of blocks in which nothing can run.
const PROSE: [&str; 3] = ["", "text", "mermaid"];

impl Page {
    pub(crate) fn read(name: &str, text: &str) -> Page {
        let mut page = Page::default();
        for block in blocks(text) {
            if let Err(problem) = page.add(name, &block) {
                page.problems.push(format!("{name}:{}: {problem}", block.line));
            }
        }
        page
    }

    fn add(&mut self, name: &str, block: &Block) -> Result<(), String> {
        for command in block.marks("run first") {
            self.run(Command { line: block.line, text: format!("{command}\n"), output: None });
        }
        if let Some(reason) = block.mark("not run") {
            self.not_run.push(format!("{name}:{}: {reason}", block.line));
            return if reason.is_empty() { Err("why is it not run?".to_owned()) } else { Ok(()) };
        }
        let file = block.mark("file");
        if let Some(name) = file {
            self.steps.push(Step::Write { name: name.to_owned(), text: block.text.clone() });
        }
        if elsewhere::has_block(name, block) || PROSE.contains(&block.language.as_str()) {
            return Ok(());
        }
        match block.language.as_str() {
            "console" | "sh" => self.add_commands(block),
            "yaml" => self.add_policy(block, file.is_some()),
            "json" => {
                serde_json::from_str(&block.text).map(|_: serde_json::Value| ()).map_err(|error| error.to_string())
            }
            "toml" if block.text.contains("tollgate") => rust_examples::check_features(&block.text),
            "rust" | "rust,no_run" if rust_examples::has_page(name) => Ok(()),
            _ if file.is_some() => Ok(()),
            language => Err(format!("no test runs this block of {language:?}; see CONTRIBUTING.md")),
        }
    }

    fn add_commands(&mut self, block: &Block) -> Result<(), String> {
        let read = if block.language == "sh" { of_script } else { of_console };
        let commands = read(&block.text, block.line);
        if commands.is_empty() {
            return Err("the block has no command".to_owned());
        }
        for command in commands {
            if !elsewhere::has_command(&command.text) {
                self.run(command);
            }
        }
        Ok(())
    }

    /// A command must succeed, unless the page shows what it prints.
    fn run(&mut self, command: Command) {
        let prints = command.output.as_ref().is_some_and(|lines| lines.iter().any(|line| !line.is_empty()));
        self.steps.push(Step::Run { command, must_succeed: !prints });
    }

    fn add_policy(&mut self, block: &Block, is_file: bool) -> Result<(), String> {
        let Some(text) = policies::complete(&block.text) else {
            return if is_file { Ok(()) } else { Err("this is no policy; is it not run?".to_owned()) };
        };
        let warnings = block.mark("warns").unwrap_or_default().split([',', ' ']).filter(|code| !code.is_empty());
        let warnings = (text == block.text).then(|| warnings.map(str::to_owned).collect());
        self.steps.push(Step::Validate { line: block.line, text, warnings });
        Ok(())
    }
}

#[test]
fn blocks_that_nothing_runs_are_problems() {
    for (block, expected) in [
        ("```python\nx\n```\n", "no test runs this block"),
        ("<!-- file: a.py -->\n```python\nx\n```\n", ""),
        ("<!-- not run: needs a GPU -->\n```python\nx\n```\n", ""),
        ("<!-- not run: -->\n```python\nx\n```\n", "why is it not run?"),
        ("```yaml\nglobal: {}\n```\n", "this is no policy"),
        ("```json\n{\"a\":}\n```\n", "expected value"),
        ("```console\nHTTP/1.1 200\n```\n", "no command"),
        ("```rust\nlet a = 1;\n```\n", "no test runs this block"),
        ("```toml\ntollgate = { version = \"0.1\", features = [\"axun\"] }\n```\n", "axun"),
    ] {
        let problems = Page::read("docs/no-such-page.md", block).problems;
        assert_eq!(problems.is_empty(), expected.is_empty(), "{block}{problems:?}");
        assert!(problems.iter().all(|problem| problem.contains(expected)), "{block}{problems:?}");
    }
}
