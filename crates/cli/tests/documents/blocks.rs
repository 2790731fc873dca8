//! The code blocks of a page, and the HTML comments directly above them.

/// A code block. Lines are counted from 1.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    /// The line of the first line of the text.
    pub(crate) line: usize,
    /// The words and what follows them, the last first.
    marks: Vec<(String, String)>,
}

/// The words that a comment above a block may begin with.
const MARKS: [&str; 4] = ["file", "not run", "run first", "warns"];

impl Block {
    /// What follows the word in a comment such as `<!-- file: policy.yaml -->`.
    pub(crate) fn mark(&self, word: &str) -> Option<&str> {
        self.marks(word).next()
    }

    /// What follows the word in each such comment, in their order.
    pub(crate) fn marks(&self, word: &str) -> impl Iterator<Item = &str> {
        self.marks.iter().rev().filter(move |mark| mark.0 == word).map(|mark| mark.1.as_str())
    }
}

/// Returns the blocks of a page in their order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let lines: Vec<&str> = page.lines().collect();
    let mut blocks = Vec::new();
    let mut number = 0;
    while number < lines.len() {
        if let Some((fence, language)) = fence(lines[number]) {
            let indent = lines[number].len() - lines[number].trim_start().len();
            let rest = &lines[number + 1..];
            let length = rest.iter().position(|line| line.trim() == fence).unwrap_or(rest.len());
            let text: Vec<&str> = rest[..length].iter().map(|line| without_indent(line, indent)).collect();
            let marks = lines[..number].iter().rev().map_while(|line| mark(line)).collect();
            let text = text.iter().map(|line| format!("{line}\n")).collect();
            blocks.push(Block { language: language.to_owned(), text, line: number + 2, marks });
            number += length + 1;
        }
        number += 1;
    }
    blocks
}

/// Splits a line that begins a block into its backticks and its language.
fn fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (backticks, language) = line.split_at(line.len() - line.trim_start_matches('`').len());
    (backticks.len() >= 3 && !language.contains('`')).then_some((backticks, language.trim()))
}

fn without_indent(line: &str, indent: usize) -> &str {
    let spaces = line.len() - line.trim_start().len();
    &line[spaces.min(indent)..]
}

fn mark(line: &str) -> Option<(String, String)> {
    let comment = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    let (word, rest) = comment.trim().split_once(':')?;
    MARKS.contains(&word).then(|| (word.to_owned(), rest.trim().to_owned()))
}

#[test]
fn blocks_have_their_language_text_line_and_marks() {
    let page = "Text\n\n<!-- file: a.yaml -->\n<!-- warns: b -->\n```yaml\nx: 1\n\ny: 2\n```\n\n- item:\n\n  ````sh\n  ls\n    -l\n  ```\n  ````\n";
    let blocks = blocks(page);
    let shown: Vec<_> = blocks.iter().map(|block| (block.language.as_str(), block.text.as_str(), block.line)).collect();
    assert_eq!(shown, [("yaml", "x: 1\n\ny: 2\n", 6), ("sh", "ls\n  -l\n```\n", 14)]);
    assert_eq!(
        (blocks[0].mark("file"), blocks[0].mark("warns"), blocks[1].mark("file")),
        (Some("a.yaml"), Some("b"), None)
    );
}
