//! Reads the policy model from the YAML tree, member by member.
//!
//! Each file has the schema tables of the members that it reads. An invalid value is reported and replaced by a
//! harmless one, so that one mistake does not hide the others. The form of names (headers, paths) is checked on the
//! model, not here.

mod cost;
mod identity;
mod keys;
mod members;
mod on_limit;
mod public_key;
mod regions;
mod rule;
mod settings;
mod values;
mod when;

use std::path::Path;

use super::findings::{Findings, TextSpan};
use super::schema::{MapSchema, MemberSchema, ValueSchema, defaulted, field, names, required, shape};
use super::tree::YamlNode;
use super::{MissingSecrets, NamedFile};
use crate::check::codes;
use crate::model::Policy;
use identity::IDENTITIES;
use keys::{JWT, SECRETS};
use members::KnownMembers;
use regions::REGIONS;
use rule::{BUDGET, RULE};
use settings::{ACCESS, FIELD_SETS, PATHS, RESETS, STORE};

/// The whole file.
pub(in crate::yaml) static POLICY: MapSchema = MapSchema {
    mistaken: MISTAKEN,
    ..shape("policy", "A tollgate policy: identities, and limits by identity.", FIELDS)
};

/// Members of other configuration languages, with what to write instead.
const MISTAKEN: &[(&str, &str)] = &[
    (
        "limits",
        "write the limits as a list under `rules:`, such as `- { name: per-ip, key: client_ip, limit: 60/min }`",
    ),
    (
        "rate_limits",
        "write the limits as a list under `rules:`, such as `- { name: per-ip, key: client_ip, limit: 60/min }`",
    ),
    ("policies", "write the limits as a list under `rules:`"),
    ("redis", "write it under `store:`, as in `store: { redis: { nodes: [redis.internal:6379] } }`"),
    ("memory", "write it under `store:`, as in `store: { memory: { entries: 1000000 } }`"),
    (
        "trusted_proxies",
        "write it under `identity:`, as in `identity: { client_ip: { trusted_proxies: [10.0.0.0/8] } }`",
    ),
    ("client_ip", "write it under `identity:`, as in `identity: { client_ip: { trusted_proxies: [10.0.0.0/8] } }`"),
    ("tier", "write it under `identity:`, as in `identity: { tier: { header: X-Tier, default: free } }`"),
    ("tiers", "write limits by tier in a rule, as in `tiers: { free: 60/min, pro: 600/min }`"),
    ("include", "a policy is one file; repeat a value with an anchor (&name) and an alias (*name)"),
    ("import", "a policy is one file; repeat a value with an anchor (&name) and an alias (*name)"),
    ("defaults", "a rule has all of its members; repeat a value with an anchor (&name) and an alias (*name)"),
    ("domain", "write a domain of Envoy in a rule: `when: { domain: NAME }`"),
];

const FIELDS: &[MemberSchema] = &[
    required("version", ValueSchema::Number { min: 1, max: 1 }, "The version of the policy language, always 1."),
    field("identity", ValueSchema::Object(&IDENTITIES), "The identities of clients, by name."),
    field(
        "jwt",
        ValueSchema::Object(&JWT),
        "The keys that verify signed tokens (JWT), for identities from their claims.",
    ),
    field(
        "secrets",
        ValueSchema::Object(&SECRETS),
        "The key for hashing the values of secret identities. Use the same key on all instances.",
    ),
    field("deny", ValueSchema::Object(&ACCESS), "Clients that are denied before any rule."),
    field("allow", ValueSchema::Object(&ACCESS), "Clients to which no rule applies. `deny` takes precedence."),
    field("budgets", ValueSchema::Map(&ONE_BUDGET), "Limits that several rules share, at different costs."),
    field("rules", ValueSchema::List(&ONE_RULE, 0), "The limits. A request must pass every rule that applies to it."),
    field("paths", ValueSchema::Object(&PATHS), "How paths are normalised before they are compared."),
    defaulted(
        "headers",
        ValueSchema::List(&ValueSchema::Words(&names(&FIELD_SETS)), 0),
        "The sets of rate limit response headers to send.",
        r#"["ietf", "x-ratelimit"]"#,
    ),
    defaulted(
        "reset",
        ValueSchema::Words(&names(&RESETS)),
        "Whether X-RateLimit-Reset is in seconds since 1970 (`epoch`) or from now (`delta`).",
        r#""epoch""#,
    ),
    field(
        "jitter",
        ValueSchema::Duration,
        "The largest random delay that is added to the retry time of refused clients.",
    ),
    defaulted("store", ValueSchema::AnyOf(&STORES), "Where counters are stored.", r#""memory""#),
    field("regions", ValueSchema::Object(&REGIONS), "The regions that divide the limits of regional rules."),
    field(
        "accept",
        ValueSchema::OneOrMore(&ACCEPTABLE),
        "The codes of accepted warnings and notes: they are not printed and do not fail `validate --strict`.",
    ),
];

/// The codes that a policy or a rule can accept.
static ACCEPTABLE: ValueSchema = ValueSchema::AnyOf(&[
    ValueSchema::Words(codes::WARNING_CODES),
    ValueSchema::Words(codes::NOTE_CODES),
    ValueSchema::Words(&[codes::MISSING_SECRET]),
]);

static ONE_RULE: ValueSchema = ValueSchema::Object(&RULE);
static ONE_BUDGET: ValueSchema = ValueSchema::Object(&BUDGET);
static STORES: [ValueSchema; 2] = [ValueSchema::Words(&["memory"]), ValueSchema::Object(&STORE)];

/// The policy as far as it could be read.
pub(super) struct ReadPolicy {
    pub(super) policy: Policy,
    pub(super) broken: UnreadParts,
    /// The files that the policy names, including those that could not be read.
    pub(super) files: Vec<NamedFile>,
}

/// Parts that other parts refer to and that could not be read. An error that only follows from one of them is not
/// reported.
#[derive(Clone, Copy, Default)]
pub(super) struct UnreadParts {
    pub(super) identities: bool,
    pub(super) tier: bool,
    pub(super) jwt: bool,
    pub(super) regions: bool,
}

pub(super) struct PolicyReader<'r> {
    findings: &'r mut Findings,
    /// The directory of relative file names; `None` if files must not be read.
    base_dir: Option<&'r Path>,
    missing_secrets: MissingSecrets,
    broken: UnreadParts,
    files: Vec<NamedFile>,
}

/// Reads the whole file.
pub(super) fn read(
    root: &YamlNode,
    base_dir: Option<&Path>,
    missing_secrets: MissingSecrets,
    findings: &mut Findings,
) -> ReadPolicy {
    let mut reader =
        PolicyReader { findings, base_dir, missing_secrets, broken: UnreadParts::default(), files: Vec::new() };
    let policy = reader.policy(root);
    ReadPolicy { policy, broken: reader.broken, files: reader.files }
}

impl PolicyReader<'_> {
    fn policy(&mut self, root: &YamlNode) -> Policy {
        let mut policy = Policy::default();
        if let (Some(_), Some(descriptors)) = (root.member("domain"), root.member("descriptors")) {
            let message = "this is a configuration of Envoy's rate limit service, not a tollgate policy";
            let hint = "convert it to a policy: tollgate import envoy FILE";
            self.error(codes::UNKNOWN_MEMBER, descriptors.name_span, message, hint);
            return policy;
        }
        let Some(members) = self.members(root, &POLICY) else { return policy };
        self.version(&members);
        self.identities(&members, &mut policy);
        policy.jwt = self.jwt(&members);
        policy.secret_key = self.secret_key(&members);
        policy.deny = self.access(members.get("deny"));
        policy.allow = self.access(members.get("allow"));
        policy.budgets = self.budgets(members.get("budgets"));
        policy.rules = self.rules(&members);
        policy.resolve_budgets();
        policy.paths = self.paths(&members);
        policy.fields = self.response_fields(&members);
        policy.store = self.store(members.get("store"));
        policy.regions = self.regions(members.get("regions"));
        policy.accept = self.accepted(&members);
        policy
    }

    /// The codes in `accept`.
    fn accepted(&mut self, members: &KnownMembers<'_>) -> Vec<String> {
        members.get("accept").map_or_else(Vec::new, |node| self.texts(node, "the code of a warning"))
    }

    fn version(&mut self, members: &KnownMembers<'_>) {
        let Some(node) = members.get("version") else { return };
        if node.scalar().is_none_or(|scalar| scalar.quoted || &*scalar.text != "1") {
            let message = format!("expected `version: 1`, found {}", node.described());
            self.error(codes::UNSUPPORTED_VERSION, node.span, message, "write `version: 1`, without quotes");
        }
    }

    fn error(&mut self, code: &'static str, span: TextSpan, message: impl Into<String>, hint: impl Into<String>) {
        self.findings.error(code, span, message, hint);
    }
}
