//! From the tree to the model, member by member.
//!
//! Each file has the tables of the members that it reads. What cannot be read is told and replaced by something
//! harmless, so that one mistake does not hide the others. Whether the words themselves are right
//! (a header's name, a path) is checked on the model, not here.

mod cost;
mod identity;
mod keys;
mod members;
mod on_limit;
mod rule;
mod settings;
mod values;
mod when;

use std::path::Path;

use super::NamedFile;
use super::findings::{Findings, Span};
use super::schema::{Field, Kind, Shape, defaulted, field, names, required, shape};
use super::tree::Node;
use crate::check::codes;
use crate::model::Policy;
use identity::IDENTITIES;
use keys::{JWT, SECRETS};
use members::Members;
use rule::RULE;
use settings::{ACCESS, FIELD_SETS, PATHS, RESETS, STORE};

/// The whole file.
pub(in crate::yaml) static POLICY: Shape =
    shape("policy", "A policy of tollgate: who is who, and which limits hold for whom.", FIELDS);

const FIELDS: &[Field] = &[
    required("version", Kind::Number { min: 1, max: 1 }, "The version of this language, always 1."),
    field("identity", Kind::Object(&IDENTITIES), "Who is who: what clients are known by."),
    field("jwt", Kind::Object(&JWT), "With what signed tokens are verified, for identities from their claims."),
    field(
        "secrets",
        Kind::Object(&SECRETS),
        "The key with which the values of secret identities are hashed, the same for all instances.",
    ),
    field("deny", Kind::Object(&ACCESS), "Who is turned away before any rule."),
    field("allow", Kind::Object(&ACCESS), "Who passes without meeting any rule; `deny` comes first."),
    field("rules", Kind::List(&ONE_RULE, 0), "The limits. A request must pass all that apply to it."),
    field("paths", Kind::Object(&PATHS), "How paths are made comparable."),
    defaulted(
        "headers",
        Kind::List(&Kind::Words(&names(&FIELD_SETS)), 0),
        "Which response fields tell clients about their limits.",
        r#"["ietf", "x-ratelimit"]"#,
    ),
    defaulted(
        "reset",
        Kind::Words(&names(&RESETS)),
        "Whether X-RateLimit-Reset counts seconds since 1970 or from now.",
        r#""epoch""#,
    ),
    field("jitter", Kind::Duration, "Up to how much later than necessary refused clients are told to come back."),
    defaulted("store", Kind::AnyOf(&STORES), "Where counters live.", r#""memory""#),
];

static ONE_RULE: Kind = Kind::Object(&RULE);
static STORES: [Kind; 2] = [Kind::Words(&["memory"]), Kind::Object(&STORE)];

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
        let Some(members) = self.members(root, &POLICY) else { return policy };
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
