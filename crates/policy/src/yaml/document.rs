//! YAML files other than policies, for example those to import. Every value has its position, for messages.

use super::diagnostic::{Diagnostic, Report, Severity};
use super::findings::{SourceText, TextSpan};
use super::tree::{YamlNode, YamlValue};
use super::{Findings, root_of, text_of};
use crate::problem::{PolicyPath, Problem};

/// A parsed YAML file of any kind.
#[derive(Debug)]
pub struct Document {
    name: String,
    text: String,
    root: YamlNode,
}

/// A value of a document.
#[derive(Clone, Copy, Debug)]
pub struct DocumentValue<'d>(&'d YamlNode);

/// A position in a document.
#[derive(Clone, Copy, Debug)]
pub struct DocumentPlace(TextSpan);

/// An error in a document.
#[derive(Clone, Debug)]
pub struct Mistake {
    /// The position.
    pub place: DocumentPlace,
    /// What is wrong, and what was expected.
    pub message: String,
    /// How to repair it; may be empty.
    pub hint: String,
}

impl Document {
    /// Parses a text that is one YAML document. Messages call it `file_name`.
    pub fn parse(text: &str, file_name: &str) -> Result<Document, Report> {
        let text = text_of(text, file_name)?;
        let mut findings = Findings::default();
        match root_of(text, &mut findings) {
            Some(root) if findings.is_empty() => {
                Ok(Document { name: file_name.to_owned(), text: text.to_owned(), root })
            }
            _ => Err(findings.into_report(&SourceText::new(file_name, text))),
        }
    }

    /// Returns the value of the whole document.
    #[must_use]
    pub fn root(&self) -> DocumentValue<'_> {
        DocumentValue(&self.root)
    }

    /// Returns a report of these errors, sorted by position.
    #[must_use]
    pub fn report(&self, mistakes: Vec<Mistake>) -> Report {
        let source = SourceText::new(&self.name, &self.text);
        let diagnostic = |mistake: Mistake| {
            let problem = Problem::new("", PolicyPath::top(), mistake.message, mistake.hint);
            source.diagnostic(Severity::Error, problem, mistake.place.0, &[])
        };
        let mut errors: Vec<Diagnostic> = mistakes.into_iter().map(diagnostic).collect();
        errors.sort_by_key(|error| (error.line, error.column));
        Report { errors, warnings: Vec::new(), omitted: 0, files: Vec::new() }
    }
}

impl<'d> DocumentValue<'d> {
    /// Returns the text of a scalar that is not null.
    #[must_use]
    pub fn text(self) -> Option<&'d str> {
        self.0.scalar().filter(|scalar| !scalar.is_null()).map(|scalar| &*scalar.text)
    }

    /// Whether the value is null or missing after its name.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self.0.scalar().is_some_and(|scalar| scalar.is_null())
    }

    /// Returns the value of `true` and `false`.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        self.0.scalar()?.as_bool()
    }

    /// Returns the items of a list, and `None` for other values.
    pub fn items(self) -> Option<impl Iterator<Item = DocumentValue<'d>>> {
        match &self.0.value {
            YamlValue::List(items) => Some(items.iter().map(DocumentValue)),
            YamlValue::Scalar(_) | YamlValue::Map(_) => None,
        }
    }

    /// Returns the members of a map with the positions of their names, and `None` for other values.
    pub fn members(self) -> Option<impl Iterator<Item = (&'d str, DocumentPlace, DocumentValue<'d>)>> {
        let members = self.0.members().iter();
        let members =
            members.map(|member| (&*member.name, DocumentPlace(member.name_span), DocumentValue(&member.value)));
        self.0.is_map().then_some(members)
    }

    /// Returns the position of the value.
    #[must_use]
    pub fn place(self) -> DocumentPlace {
        DocumentPlace(self.0.span)
    }

    /// Describes the value, for use after "found" in a message.
    #[must_use]
    pub fn described(self) -> String {
        self.0.described()
    }
}
