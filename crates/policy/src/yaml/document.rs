//! Other YAML files than policies, read with the same care: each value with
//! its place, so that what is wrong can be shown.

use super::diagnostic::{Diagnostic, Report, Severity};
use super::findings::{Source, Span};
use super::tree::{Node, Value};
use super::{Findings, root_of, text_of};
use crate::problem::{Place, Problem};

/// A YAML file of some kind.
#[derive(Debug)]
pub struct Document {
    name: String,
    text: String,
    root: Node,
}

/// A value of a document.
#[derive(Clone, Copy, Debug)]
pub struct DocumentValue<'d>(&'d Node);

/// Where something stands in a document.
#[derive(Clone, Copy, Debug)]
pub struct DocumentPlace(Span);

/// Something wrong in a document.
#[derive(Clone, Debug)]
pub struct Mistake {
    /// Where.
    pub place: DocumentPlace,
    /// What.
    pub message: String,
    /// How to repair it; may be empty.
    pub hint: String,
}

impl Document {
    /// Reads a text that is one YAML document; `file_name` is what messages call it.
    pub fn parse(text: &str, file_name: &str) -> Result<Document, Report> {
        let text = text_of(text, file_name)?;
        let mut findings = Findings::default();
        match root_of(text, &mut findings) {
            Some(root) if findings.is_empty() => {
                Ok(Document { name: file_name.to_owned(), text: text.to_owned(), root })
            }
            _ => Err(findings.into_report(&Source::new(file_name, text))),
        }
    }

    /// All of it.
    #[must_use]
    pub fn root(&self) -> DocumentValue<'_> {
        DocumentValue(&self.root)
    }

    /// What is wrong with it, as people are told.
    #[must_use]
    pub fn report(&self, mistakes: Vec<Mistake>) -> Report {
        let source = Source::new(&self.name, &self.text);
        let told = |mistake: Mistake| {
            let problem = Problem::new("import", Place::top(), mistake.message, mistake.hint);
            source.diagnostic(Severity::Error, problem, mistake.place.0, &[])
        };
        let mut errors: Vec<Diagnostic> = mistakes.into_iter().map(told).collect();
        errors.sort_by_key(|error| (error.line, error.column));
        Report { errors, warnings: Vec::new(), omitted: 0, files: Vec::new() }
    }
}

impl<'d> DocumentValue<'d> {
    /// Its text, if it is neither a list nor a map nor nothing.
    #[must_use]
    pub fn text(self) -> Option<&'d str> {
        self.0.scalar().filter(|scalar| !scalar.is_null()).map(|scalar| &*scalar.text)
    }

    /// Whether there is only its name.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self.0.scalar().is_some_and(|scalar| scalar.is_null())
    }

    /// Whether it is true or false.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        self.0.scalar()?.as_bool()
    }

    /// The items of a list.
    pub fn items(self) -> Option<impl Iterator<Item = DocumentValue<'d>>> {
        match &self.0.value {
            Value::List(items) => Some(items.iter().map(DocumentValue)),
            Value::Scalar(_) | Value::Map(_) => None,
        }
    }

    /// The members of a map, each with its name and where that stands.
    pub fn members(self) -> Option<impl Iterator<Item = (&'d str, DocumentPlace, DocumentValue<'d>)>> {
        let members = self.0.members().iter();
        let told = members.map(|member| (&*member.name, DocumentPlace(member.name_span), DocumentValue(&member.value)));
        self.0.is_map().then_some(told)
    }

    /// Where it stands.
    #[must_use]
    pub fn place(self) -> DocumentPlace {
        DocumentPlace(self.0.span)
    }

    /// What it is, to be put after "found".
    #[must_use]
    pub fn described(self) -> String {
        self.0.described()
    }
}
