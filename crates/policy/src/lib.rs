//! Policies: their model, their checks, and the matching of requests to rules.
//!
//! A [`Policy`] is built in a program ([`PolicyBuilder`]) or read from a file (feature `yaml`), then checked, then
//! compiled. A [`CompiledPolicy`] returns the quotas, keys and costs of each request. This crate has no state and no
//! store: the caller charges them.

mod builder;
mod check;
mod compiled;
mod counter_changes;
mod duration;
#[cfg(feature = "jwks")]
mod jwks;
pub mod model;
pub mod pem;
mod problem;
pub mod promise;
pub mod published;
mod request;
#[cfg(feature = "yaml")]
mod starter;
#[cfg(feature = "yaml")]
mod yaml;

pub use builder::{BudgetBuilder, PolicyBuilder, RuleBuilder, budget, rule};
pub use check::codes::{ERROR_CODES, NOTE_CODES, SECRET_CODES, WARNING_CODES};
pub use compiled::{
    Access, AdvertisedQuota, Application, CommonCharge, CommonCharges, CommonKey, CompileError, CompiledPolicy,
    CompiledRule, ExplainedRule, Explanation, GrantSource, HmacKey, InvalidKey, InvalidLimit, MAX_FIELD_INTEGER,
    Matched, MatchedCharge, NotCommon, PossibleGrant, RuleOutcome, RuleQuota,
};
pub use counter_changes::{CounterChange, counter_changes};
pub use duration::parse_duration;
/// A network, as `10.0.0.0/8`.
pub use ipnet::IpNet;
#[cfg(feature = "jwks")]
pub use jwks::JwksError;
pub use model::Policy;
pub use problem::{CheckedPolicy, PolicyErrors, PolicyPath, PolicyPathStep, Problem, UnknownRegion};
pub use request::{Descriptor, FieldName, Headers, Request, parse_address};
#[cfg(feature = "yaml")]
pub use starter::STARTER;
#[cfg(feature = "yaml")]
pub use yaml::{
    Diagnostic, Document, DocumentPlace, DocumentValue, LoadError, Loaded, MissingSecrets, Mistake, NamedFile, Report,
    Severity, json_schema, load, load_with, parse, parse_with,
};
