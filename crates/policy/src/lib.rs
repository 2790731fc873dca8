//! What a policy says, and which of its rules match a request.
//!
//! A [`Policy`] is put together by hand or read from a file (feature `yaml`),
//! then checked. Nothing here keeps state or knows a store: a plan names, for
//! each request, the quotas, keys and costs that somebody else then charges.

mod builder;
mod check;
mod compiled;
mod counter_changes;
mod duration;
#[cfg(feature = "jwks")]
mod jwks;
pub mod model;
mod problem;
pub mod promise;
pub mod published;
mod request;
#[cfg(feature = "yaml")]
mod starter;
#[cfg(feature = "yaml")]
mod yaml;

pub use builder::{PolicyBuilder, RuleBuilder, rule};
pub use check::codes::{ERROR_CODES, WARNING_CODES};
pub use compiled::{
    Access, AdvertisedQuota, Application, CommonCharge, CommonCharges, CommonKey, CompileError, CompiledPolicy,
    CompiledRule, ExplainedRule, Explanation, GrantSource, HmacKey, InvalidKey, InvalidLimit, MAX_FIELD_INTEGER,
    Matched, MatchedCharge, PossibleGrant, RuleOutcome, RuleQuota, Uncommon,
};
pub use counter_changes::{CounterChange, counter_changes};
pub use duration::parse_duration;
#[cfg(feature = "jwks")]
pub use jwks::JwksError;
pub use model::Policy;
pub use problem::{CheckedPolicy, Place, PolicyErrors, Problem, Step};
pub use request::{Descriptor, FieldName, Headers, Request, parse_address};
#[cfg(feature = "yaml")]
pub use starter::STARTER;
#[cfg(feature = "yaml")]
pub use yaml::{
    Diagnostic, Document, DocumentPlace, DocumentValue, LoadError, Loaded, Mistake, NamedFile, Report, Severity,
    json_schema, load, parse,
};
