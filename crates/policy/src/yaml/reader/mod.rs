//! From the tree to the model, member by member.
//!
//! What cannot be read is told and replaced by something harmless, so that one
//! mistake does not hide the others. Whether the words themselves are right
//! (a header's name, a path) is checked on the model, not here.

mod cost;
mod files;
mod grant;
mod identity;
mod jwt;
mod members;
mod on_limit;
mod rule;
mod settings;
mod values;
mod when;

use std::path::Path;

use super::NamedFile;
use super::found::Findings;
use super::shape;
use super::source::Span;
use super::tree::Node;
use crate::check::codes;
use crate::model::Policy;
use members::Members;

/// What was read, as far as it could be.
pub(super) struct Read {
    pub(super) policy: Policy,
    pub(super) broken: Broken,
    /// The files that it names and that were read, or could not be.
    pub(super) files: Vec<NamedFile>,
}

/// Parts that others refer to and that could not be read: what is then missing
/// elsewhere is no mistake of its own.
#[derive(Clone, Copy, Default)]
pub(super) struct Broken {
    pub(super) identities: bool,
    pub(super) tier: bool,
    pub(super) jwt: bool,
}

pub(super) struct Reader<'r> {
    findings: &'r mut Findings,
    /// Where relative files are; `None` where no file may be read.
    base_dir: Option<&'r Path>,
    broken: Broken,
    files: Vec<NamedFile>,
}

/// Reads the whole file.
pub(super) fn read(root: &Node, base_dir: Option<&Path>, findings: &mut Findings) -> Read {
    let mut reader = Reader { findings, base_dir, broken: Broken::default(), files: Vec::new() };
    let policy = reader.policy(root);
    Read { policy, broken: reader.broken, files: reader.files }
}

impl Reader<'_> {
    fn policy(&mut self, root: &Node) -> Policy {
        let mut policy = Policy::default();
        let Some(members) = self.members(root, &shape::POLICY) else { return policy };
        self.version(&members);
        self.identities(&members, &mut policy);
        policy.jwt = self.jwt(&members);
        policy.secret_key = self.secret_key(&members);
        policy.deny = self.access(members.get("deny"));
        policy.allow = self.access(members.get("allow"));
        policy.rules = self.rules(&members);
        policy.paths = self.paths(&members);
        policy.fields = self.response_fields(&members);
        policy.store = self.store(members.get("store"));
        policy
    }

    fn version(&mut self, members: &Members<'_>) {
        let Some(node) = members.get("version") else { return };
        if node.scalar().is_none_or(|scalar| scalar.quoted || &*scalar.text != "1") {
            let message = format!("expected version 1, found {}", node.described());
            self.error(codes::UNSUPPORTED_VERSION, node.span, message, "this program understands `version: 1`");
        }
    }

    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.findings.error(code, span, message, hint);
    }
}
