//! Builds the tree of a file from YAML events, within fixed limits on depth and size.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use super::findings::Findings;
use super::findings::TextSpan;
use super::tree::{YamlMap, YamlMember, YamlNode, YamlScalar, YamlValue};
use crate::check::codes;
use crate::check::members;
use crate::check::words::quoted;

/// The deepest nesting that is accepted. A policy needs at most eight levels.
const MAX_DEPTH: usize = 32;
/// The most values that are accepted. Values that an alias repeats count each time.
const MAX_NODES: usize = 500_000;

/// Builds the tree of the only document in `text`.
///
/// Errors go to `findings`. Composing continues after those that leave the rest readable, and returns `None` after
/// the others.
pub(super) fn compose(text: &str, findings: &mut Findings) -> Option<YamlNode> {
    let chars: Vec<char> = text.chars().collect();
    let mut composer =
        Composer { findings, chars: &chars, open: Vec::new(), anchors: HashMap::new(), documents: 0, root: None };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => composer.take(event, composer.span(span.start, span.end))?,
            Err(error) => return composer.unreadable(&error),
        }
    }
    composer.root.take().map(|built| built.node)
}

struct Composer<'f> {
    findings: &'f mut Findings,
    /// The characters of the file, by the index of a marker.
    chars: &'f [char],
    /// The lists and maps that are open, the innermost last.
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, ComposedValue>,
    documents: usize,
    root: Option<ComposedValue>,
}

/// A complete value, the number of values in it, and its depth.
#[derive(Clone)]
struct ComposedValue {
    node: YamlNode,
    nodes: usize,
    depth: usize,
}

struct OpenCollection {
    span: TextSpan,
    anchor: usize,
    nodes: usize,
    depth: usize,
    content: OpenContent,
}

enum OpenContent {
    List(Vec<YamlNode>),
    Map { members: Vec<YamlMember>, is_whole: bool, names: HashSet<Rc<str>>, next: ExpectedEvent },
}

/// The event that an open map expects next.
enum ExpectedEvent {
    Name,
    /// The value of a name.
    Value(Rc<str>, TextSpan),
    /// The value of a member that was refused. The value of a secret is hidden in messages.
    Nameless {
        is_secret: bool,
    },
}

impl Composer<'_> {
    fn take(&mut self, event: Event<'_>, span: TextSpan) -> Option<()> {
        match event {
            Event::DocumentStart(_) => self.document(span),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), span);
                let scalar = YamlScalar { text: text.into(), quoted: style != ScalarStyle::Plain };
                let node = YamlNode { span, value: YamlValue::Scalar(scalar) };
                self.finish(ComposedValue { node, nodes: 1, depth: 0 }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), span);
                self.begin(span, anchor, OpenContent::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), span);
                let content = OpenContent::Map {
                    members: Vec::new(),
                    is_whole: true,
                    names: HashSet::new(),
                    next: ExpectedEvent::Name,
                };
                self.begin(span, anchor, content)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Some(()),
        }
    }

    fn document(&mut self, span: TextSpan) -> Option<()> {
        self.documents += 1;
        if self.documents == 1 {
            return Some(());
        }
        let hint = "remove this line and everything after it, or move it to a separate file";
        let message = "a policy file has exactly one YAML document, and a second one begins here";
        self.findings.error(codes::SEVERAL_DOCUMENTS, span, message, hint);
        None
    }

    fn begin(&mut self, span: TextSpan, anchor: usize, content: OpenContent) -> Option<()> {
        if self.open.len() == MAX_DEPTH {
            return self.too_deep(span);
        }
        self.open.push(OpenCollection { span, anchor, nodes: 1, depth: 1, content });
        Some(())
    }

    fn end(&mut self, end: TextSpan) -> Option<()> {
        let open = self.open.pop()?;
        let span = match &open.content {
            // A flow list or map spans its brackets. A block has no end marker, so the span is that of its first name.
            _ if open.span.width > 0 && open.span.line == end.line => {
                TextSpan { width: (end.column + end.width).saturating_sub(open.span.column), ..open.span }
            }
            OpenContent::Map { members, .. } => members.first().map_or(open.span, |member| member.name_span),
            OpenContent::List(_) => open.span,
        };
        let value = match open.content {
            OpenContent::List(items) => YamlValue::List(Rc::new(items)),
            OpenContent::Map { members, is_whole, .. } => YamlValue::Map(Rc::new(YamlMap { members, is_whole })),
        };
        self.finish(ComposedValue { node: YamlNode { span, value }, nodes: open.nodes, depth: open.depth }, open.anchor)
    }

    fn alias(&mut self, anchor: usize, span: TextSpan) -> Option<()> {
        let Some(built) = self.anchors.get(&anchor).cloned() else {
            self.findings.error(
                codes::SYNTAX,
                span,
                "this alias is inside the value that it repeats",
                "repeat a value that is complete before the alias",
            );
            return None;
        };
        if self.open.len() + built.depth > MAX_DEPTH {
            return self.too_deep(span);
        }
        self.finish(built, 0)
    }

    /// Adds a complete value to the innermost open list or map.
    fn finish(&mut self, built: ComposedValue, anchor: usize) -> Option<()> {
        if anchor != 0 {
            self.anchors.insert(anchor, built.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(built);
            return Some(());
        };
        open.nodes += built.nodes;
        open.depth = open.depth.max(built.depth + 1);
        let (nodes, span) = (open.nodes, built.node.span);
        match &mut open.content {
            OpenContent::List(items) => items.push(built.node),
            OpenContent::Map { members, is_whole, names, next } => match std::mem::replace(next, ExpectedEvent::Name) {
                ExpectedEvent::Name => *next = named(&built.node, names, self.findings),
                ExpectedEvent::Value(name, name_span) => {
                    members.push(YamlMember { name, name_span, value: built.node });
                }
                ExpectedEvent::Nameless { is_secret } => {
                    *is_whole = false;
                    if is_secret {
                        self.findings.hide(span);
                    }
                }
            },
        }
        if nodes > MAX_NODES { self.too_many(span) } else { Some(()) }
    }

    fn refuse_tag(&mut self, is_tagged: bool, span: TextSpan) {
        if is_tagged {
            let hint = "remove the tag (the word that begins with `!`); to write a number as text, put it in quotes";
            self.findings.error(codes::TAG, span, "YAML tags are not supported in a policy", hint);
        }
    }

    fn too_deep(&mut self, span: TextSpan) -> Option<()> {
        let message = format!("values are nested more than {MAX_DEPTH} levels deep");
        let hint = "a policy needs at most 8 levels; check for a bracket that is not closed";
        self.findings.error(codes::TOO_DEEP, span, message, hint);
        None
    }

    fn too_many(&mut self, span: TextSpan) -> Option<()> {
        let message = format!("the file has more than {MAX_NODES} values, including those that aliases repeat");
        let hint = "move the tiers of many clients to a separate file, named by `file:` under `tier`";
        self.findings.error(codes::TOO_MANY_VALUES, span, message, hint);
        None
    }

    fn unreadable(&mut self, error: &ScanError) -> Option<YamlNode> {
        let marker = *error.marker();
        // The parser's own limit comes before ours where brackets are on one line.
        if error.info().contains("recursion") {
            self.too_deep(self.span(marker, marker))?;
        }
        if let Some((variable, name)) = self.variable(error.info(), marker) {
            // The hint about variables is added to every problem with one.
            let message = format!("expected a value, found the variable {}", quoted(&name));
            self.findings.error(codes::SYNTAX, variable, message, "");
            return None;
        }
        if let Some((escape, sequence)) = self.invalid_escape(error.info(), marker) {
            let message = format!("{} is not an escape sequence of YAML", quoted(&sequence));
            let is_path = self.chars[marker.index() + 1..].iter().find(|c| **c != '^') == Some(&'/');
            let hint = if is_path {
                "paths are not regular expressions: write `{name}` for any one segment, as in \"/users/{id}\""
            } else {
                "put the text in single quotes, where a backslash has no special meaning, or write `\\\\` for a backslash"
            };
            self.findings.error(codes::SYNTAX, escape, message, hint);
            return None;
        }
        if let Some((opening, bracket)) = self.unclosed_bracket(marker) {
            let message = format!("this `{bracket}` is not closed");
            let closing = if bracket == '[' { ']' } else { '}' };
            let hint = format!("add the missing `{closing}`; a text that contains brackets needs quotes");
            self.findings.error(codes::SYNTAX, opening, message, hint);
            return None;
        }
        let (message, hint) = syntax_message(error.info(), self.chars.get(marker.index()).copied());
        self.findings.error(codes::SYNTAX, self.near(marker), message, hint);
        None
    }

    /// The variable, as in `${NAME}`, whose brace in a flow list or map causes the error at `marker`.
    fn variable(&self, info: &str, marker: Marker) -> Option<(TextSpan, String)> {
        let dollar = marker.index().checked_sub(1)?;
        let is_variable = info.contains("flow") && self.chars.get(dollar..=marker.index())? == ['$', '{'];
        let rest = self.chars.get(dollar..).filter(|_| is_variable)?;
        let width = rest.iter().position(|c| matches!(c, '}' | '\n' | '\r'))? + 1;
        let name = self.chars[dollar..dollar + width].iter().collect::<String>();
        Some((TextSpan { line: marker.line(), column: marker.col(), width }, name.trim_end().to_owned()))
    }

    /// The first invalid escape sequence in the text in double quotes that begins at `marker`.
    fn invalid_escape(&self, info: &str, marker: Marker) -> Option<(TextSpan, String)> {
        const ESCAPES: &str = "0abt\tnvfre \"/\\N_LP\n\r";
        const DIGITS: [(char, usize); 3] = [('x', 2), ('u', 4), ('U', 8)];
        if !["escape character", "hexadecimal"].iter().any(|words| info.contains(words)) {
            return None;
        }
        let (mut line, mut column) = (marker.line(), marker.col() + 1);
        let mut rest = self.chars.get(marker.index()..)?.iter().copied();
        while let Some(c) = rest.next() {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
            if c == '\\' {
                let escaped = rest.next()?;
                let digits = DIGITS.iter().find(|(c, _)| *c == escaped).map(|(_, digits)| *digits);
                let has_digits = |digits| rest.clone().take(digits).filter(char::is_ascii_hexdigit).count() == digits;
                if !digits.map_or(ESCAPES.contains(escaped), has_digits) {
                    return Some((TextSpan { line, column: column - 1, width: 2 }, format!("\\{escaped}")));
                }
                (line, column) = if escaped == '\n' { (line + 1, 1) } else { (line, column + 1) };
            }
        }
        None
    }

    /// The bracket whose closing one is missing, if that causes the error at `marker`: another kind of bracket closes
    /// first, the file ends, or the error is on a later line.
    fn unclosed_bracket(&self, marker: Marker) -> Option<(TextSpan, char)> {
        let mut open = self.open.iter().filter(|open| open.span.width > 0);
        let outermost = open.next()?;
        if let Some(mismatch) = self.mismatched_bracket(outermost.span, marker) {
            return Some(mismatch);
        }
        let innermost = open.next_back().unwrap_or(outermost);
        let bracket = if matches!(innermost.content, OpenContent::List(_)) { '[' } else { '{' };
        let is_unclosed = self.chars.get(marker.index()).is_none() || marker.line() > innermost.span.line;
        is_unclosed.then_some((TextSpan { width: 1, ..innermost.span }, bracket))
    }

    /// The first bracket from `start` up to the error at `marker` that a bracket of the other kind closes. The parser
    /// takes some of these for the end of a pair in a list, and reports an error much later.
    fn mismatched_bracket(&self, start: TextSpan, marker: Marker) -> Option<(TextSpan, char)> {
        let (mut line, mut column) = (start.line, start.column);
        let (mut open, mut quote, mut is_comment) = (Vec::new(), None, false);
        let line_start =
            self.chars.split(|c| *c == '\n').take(start.line - 1).map(|text| text.len() + 1).sum::<usize>();
        let mut before = ' ';
        let scanned = self.chars.get(line_start + start.column - 1..=marker.index().min(self.chars.len() - 1))?;
        // Lines that end otherwise than with a line feed are counted differently here.
        scanned.first().filter(|first| matches!(first, '[' | '{'))?;
        for &c in scanned {
            match (c, quote) {
                ('\n', _) => is_comment = false,
                _ if is_comment => {}
                (_, Some(closing)) if c == closing => quote = None,
                (_, Some(_)) => {}
                ('"' | '\'', None) if !before.is_alphanumeric() => quote = Some(c),
                ('#', None) if before.is_whitespace() => is_comment = true,
                ('[' | '{', None) => open.push((TextSpan { line, column, width: 1 }, c)),
                (']' | '}', None) => match (open.pop()?, c) {
                    ((_, '['), ']') | ((_, '{'), '}') => {}
                    (mismatched, _) => return Some(mismatched),
                },
                _ => {}
            }
            before = c;
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        None
    }

    /// The position of an error. One after the last line of text moves to the end of that line.
    fn near(&self, marker: Marker) -> TextSpan {
        let before = &self.chars[..marker.index().min(self.chars.len())];
        let is_after_text = self.chars.iter().skip(marker.index()).all(|c| c.is_whitespace());
        let Some(last) = before.iter().rposition(|c| !c.is_whitespace()).filter(|_| is_after_text) else {
            return self.span(marker, marker);
        };
        let line_start = before[..=last].iter().rposition(|c| matches!(c, '\n' | '\r')).map_or(0, |at| at + 1);
        let indent = before[line_start..=last].iter().take_while(|c| c.is_whitespace()).count();
        let line = before[..=last].iter().filter(|c| **c == '\n').count() + 1;
        TextSpan { line, column: indent + 1, width: last + 1 - line_start - indent }
    }

    /// The span between two markers, without spaces at its end. It ends with the line.
    fn span(&self, start: Marker, end: Marker) -> TextSpan {
        let width = if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
        // The parser counts the spaces after a quoted text in a flow list or map as part of it.
        let text = self.chars.get(start.index()..start.index() + width).unwrap_or_default();
        let spaces = text.iter().rev().take_while(|c| **c == ' ').count();
        TextSpan { line: start.line(), column: start.col() + 1, width: width - spaces }
    }
}

/// Checks the name of a member and returns what the map expects after it.
fn named(node: &YamlNode, names: &mut HashSet<Rc<str>>, findings: &mut Findings) -> ExpectedEvent {
    let span = node.span;
    let Some(scalar) = node.scalar().filter(|scalar| !scalar.is_null() && scalar.as_bool().is_none()) else {
        let message = format!("expected a name as text, found {}", node.described());
        let is_word = node.scalar().is_some();
        let hint =
            if is_word { "put it in quotes to use it as text" } else { "write the name as one word or quoted text" };
        findings.error(codes::BAD_KEY, span, message, hint);
        return ExpectedEvent::Nameless { is_secret: false };
    };
    if &*scalar.text == "<<" && !scalar.quoted {
        let hint = "write the members out, or give a whole value an anchor (&name) and repeat it with an alias (*name)";
        findings.error(codes::MERGE_KEY, span, "merge keys (`<<`) are not supported", hint);
        return ExpectedEvent::Nameless { is_secret: false };
    }
    if !names.insert(scalar.text.clone()) {
        let (message, hint) = members::twice(&scalar.text);
        findings.error(codes::DUPLICATE_MEMBER, span, message, hint);
        // The second value of a repeated secret is hidden as the first one is.
        return ExpectedEvent::Nameless { is_secret: matches!(&*scalar.text, "key" | "password") };
    }
    ExpectedEvent::Value(scalar.text.clone(), span)
}

/// Translates an error of the YAML parser into a message and a hint.
fn syntax_message(info: &str, at: Option<char>) -> (String, String) {
    let generic = || format!("this is not valid YAML: {info}");
    if info.contains("unknown anchor") {
        let hint = "put a text that begins with `*` in quotes, as in \"*.example.com\"; without them `*name` repeats the value with the anchor `&name`";
        ("there is no anchor of this name".to_owned(), hint.to_owned())
    } else if info.contains("tab") {
        (generic(), "indent with spaces: YAML does not allow tabs here".to_owned())
    } else if info.contains("quoted scalar") {
        let quote = at.filter(|c| matches!(c, '"' | '\'')).map_or_else(|| "quote".to_owned(), |c| format!("`{c}`"));
        (format!("this {quote} is not closed"), "add the closing quote at the end of the text".to_owned())
    } else if info.contains("flow") && at == Some('{') {
        let hint = "put a text that contains braces in quotes, as in \"/users/{id}\", or add the missing comma";
        ("expected `,` or a closing bracket before this `{`".to_owned(), hint.to_owned())
    } else if let (true, Some(c)) = (info.contains("unexpected character"), at) {
        (format!("a text cannot begin with `{c}` without quotes"), "put the text in quotes".to_owned())
    } else if info.contains("mapping values are not allowed") {
        let hint = "put a text that contains `: ` in quotes, or check for a name without `:` in the line above";
        ("a second `:` in one member, or a name that is continued on this line".to_owned(), hint.to_owned())
    } else if info.contains("simple key expect") {
        let hint = "write `name: value`, with a colon and a space";
        ("expected a name followed by `:`".to_owned(), hint.to_owned())
    } else if info.contains("block collection") || info.contains("block mapping") {
        let hint = "indent the line as far as the members it belongs to";
        ("the indentation of this line matches no line above".to_owned(), hint.to_owned())
    } else {
        let hint = "check the indentation, and look for unclosed brackets and quotes, here and in the lines above";
        (generic(), hint.to_owned())
    }
}
