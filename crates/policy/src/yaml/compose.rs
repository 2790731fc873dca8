//! From YAML's events to a tree, within limits that no hostile file gets past.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use super::findings::Findings;
use super::findings::Span;
use super::tree::{Map, Member, Node, Scalar, Value};
use crate::check::codes;
use crate::check::members;

/// No policy needs more than eight.
const MAX_DEPTH: usize = 32;
/// What aliases repeat counts each time.
const MAX_NODES: usize = 500_000;

/// Reads the only document of `text`. What can be overlooked is put into
/// `findings` and reading goes on; `None` where it cannot.
pub(super) fn compose(text: &str, findings: &mut Findings) -> Option<Node> {
    let mut composer = Composer { findings, open: Vec::new(), anchors: HashMap::new(), documents: 0, root: None };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => composer.take(event, spanned(span.start, span.end))?,
            Err(error) => return composer.unreadable(&error),
        }
    }
    composer.root.take().map(|built| built.node)
}

struct Composer<'f> {
    findings: &'f mut Findings,
    /// The lists and maps that have begun, the innermost last.
    open: Vec<Open>,
    anchors: HashMap<usize, Built>,
    documents: usize,
    root: Option<Built>,
}

/// A complete value, how many it consists of, and how deep they nest.
#[derive(Clone)]
struct Built {
    node: Node,
    nodes: usize,
    depth: usize,
}

struct Open {
    span: Span,
    anchor: usize,
    nodes: usize,
    depth: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { members: Vec<Member>, is_whole: bool, names: HashSet<Rc<str>>, next: Next },
}

/// What a map waits for.
enum Next {
    Name,
    /// The value of a name.
    Value(Rc<str>, Span),
    /// The value of something that cannot be a name; perhaps a secret.
    Nameless {
        is_secret: bool,
    },
}

impl Composer<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        match event {
            Event::DocumentStart(_) => self.document(span),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), span);
                let scalar = Scalar { text: text.into(), quoted: style != ScalarStyle::Plain };
                let node = Node { span, value: Value::Scalar(scalar) };
                self.finish(Built { node, nodes: 1, depth: 0 }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), span);
                self.begin(span, anchor, Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), span);
                let content =
                    Content::Map { members: Vec::new(), is_whole: true, names: HashSet::new(), next: Next::Name };
                self.begin(span, anchor, content)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Some(()),
        }
    }

    fn document(&mut self, span: Span) -> Option<()> {
        self.documents += 1;
        if self.documents == 1 {
            return Some(());
        }
        let hint = "remove everything from this line on, or put it into a file of its own";
        self.findings.error(codes::SEVERAL_DOCUMENTS, span, "a policy is one document; a second one begins here", hint);
        None
    }

    fn begin(&mut self, span: Span, anchor: usize, content: Content) -> Option<()> {
        if self.open.len() == MAX_DEPTH {
            return self.too_deep(span);
        }
        self.open.push(Open { span, anchor, nodes: 1, depth: 1, content });
        Some(())
    }

    fn end(&mut self, end: Span) -> Option<()> {
        let open = self.open.pop()?;
        let span = match &open.content {
            // A flow list or map stands between brackets; a block is known by where it begins.
            _ if open.span.width > 0 && open.span.line == end.line => {
                Span { width: (end.column + end.width).saturating_sub(open.span.column), ..open.span }
            }
            Content::Map { members, .. } => members.first().map_or(open.span, |member| member.name_span),
            Content::List(_) => open.span,
        };
        let value = match open.content {
            Content::List(items) => Value::List(Rc::new(items)),
            Content::Map { members, is_whole, .. } => Value::Map(Rc::new(Map { members, is_whole })),
        };
        self.finish(Built { node: Node { span, value }, nodes: open.nodes, depth: open.depth }, open.anchor)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Option<()> {
        let Some(built) = self.anchors.get(&anchor).cloned() else {
            self.findings.error(codes::SYNTAX, span, "this alias stands inside the very value that it repeats", "");
            return None;
        };
        if self.open.len() + built.depth > MAX_DEPTH {
            return self.too_deep(span);
        }
        self.finish(built, 0)
    }

    /// Puts a complete value where it belongs.
    fn finish(&mut self, built: Built, anchor: usize) -> Option<()> {
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
            Content::List(items) => items.push(built.node),
            Content::Map { members, is_whole, names, next } => match std::mem::replace(next, Next::Name) {
                Next::Name => *next = named(&built.node, names, self.findings),
                Next::Value(name, name_span) => members.push(Member { name, name_span, value: built.node }),
                Next::Nameless { is_secret } => {
                    *is_whole = false;
                    if is_secret {
                        self.findings.hide(span);
                    }
                }
            },
        }
        if nodes > MAX_NODES { self.too_many(span) } else { Some(()) }
    }

    fn refuse_tag(&mut self, is_tagged: bool, span: Span) {
        if is_tagged {
            let hint = "remove the word that begins with `!`; to make a text of a value, put it in quotes";
            self.findings.error(codes::TAG, span, "tags are not understood in a policy", hint);
        }
    }

    fn too_deep(&mut self, span: Span) -> Option<()> {
        let message = format!("this nests more than {MAX_DEPTH} levels deep");
        let hint = "no part of a policy nests that deep: is a bracket missing?";
        self.findings.error(codes::TOO_DEEP, span, message, hint);
        None
    }

    fn too_many(&mut self, span: Span) -> Option<()> {
        let message = format!("the file has more than {MAX_NODES} values, counting what aliases repeat");
        let hint = "tiers of many clients go into a `file:` of their own";
        self.findings.error(codes::TOO_MANY_VALUES, span, message, hint);
        None
    }

    fn unreadable(&mut self, error: &ScanError) -> Option<Node> {
        let span = spanned(*error.marker(), *error.marker());
        // The parser's own limit comes before ours where brackets stand on one line.
        if error.info().contains("recursion") {
            self.too_deep(span)?;
        }
        let message = format!("this is not YAML: {}", error.info());
        self.findings.error(codes::SYNTAX, span, message, syntax_hint(error.info()));
        None
    }
}

/// What a member's name leads to.
fn named(node: &Node, names: &mut HashSet<Rc<str>>, findings: &mut Findings) -> Next {
    let span = node.span;
    let Some(scalar) = node.scalar().filter(|scalar| !scalar.is_null() && scalar.as_bool().is_none()) else {
        let message = format!("a member's name must be a text, found {}", node.described());
        let is_word = node.scalar().is_some();
        let hint = if is_word { "put it in quotes if it is meant as a text" } else { "a name is one word or one text" };
        findings.error(codes::BAD_KEY, span, message, hint);
        return Next::Nameless { is_secret: false };
    };
    if &*scalar.text == "<<" && !scalar.quoted {
        let hint = "write the members out, or give a whole value an anchor (&name) and repeat it by an alias (*name)";
        findings.error(codes::MERGE_KEY, span, "merge keys (`<<`) are not understood", hint);
        return Next::Nameless { is_secret: false };
    }
    if !names.insert(scalar.text.clone()) {
        let (message, hint) = members::twice(&scalar.text);
        findings.error(codes::DUPLICATE_MEMBER, span, message, hint);
        // Whoever writes a secret into the file may do it twice.
        return Next::Nameless { is_secret: matches!(&*scalar.text, "key" | "password") };
    }
    Next::Value(scalar.text.clone(), span)
}

fn syntax_hint(info: &str) -> &'static str {
    if info.contains("unknown anchor") {
        "a text that begins with `*` needs quotes, as in \"*.example.com\"; else it repeats what an anchor (&name) names"
    } else if info.contains("tab") {
        "indent with spaces; YAML does not allow tabs there"
    } else if info.contains("quote") || info.contains("scalar") {
        "look for a quote that is not closed"
    } else {
        "look at the indentation, and for brackets or quotes that are not closed, here and in the lines above"
    }
}

/// The width ends with the line.
fn spanned(start: Marker, end: Marker) -> Span {
    let is_one_line = start.line() == end.line();
    let width = if is_one_line { end.col().saturating_sub(start.col()) } else { 1 };
    Span { line: start.line(), column: start.col() + 1, width }
}
