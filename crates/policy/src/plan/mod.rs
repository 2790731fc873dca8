//! A policy compiled: which rules meet a request, with which key, quota and cost.

mod error;
mod explanation;
mod met;
mod planned;

pub use error::CompileError;
pub use explanation::{Application, ExplainedRule, Explanation, GrantSource, RuleOutcome};
pub use met::{Access, Met, PlannedCharge};
pub use planned::{PlannedQuota, PlannedRule};

use crate::checked::CheckedPolicy;
use crate::model::ResponseFields;
use crate::request::Request;

/// A checked policy, compiled once and then asked for every request.
#[derive(Debug)]
pub struct Plan {
    rules: Vec<PlannedRule>,
    quotas: Vec<PlannedQuota>,
    fields: ResponseFields,
}

impl Plan {
    /// Compiles a policy.
    pub fn compile(policy: &CheckedPolicy) -> Result<Plan, CompileError> {
        Ok(Plan { rules: Vec::new(), quotas: Vec::new(), fields: policy.fields.clone() })
    }

    /// The rules, in the order of the policy.
    #[must_use]
    pub fn rules(&self) -> &[PlannedRule] {
        &self.rules
    }

    /// Every quota that can be charged, with its scope.
    #[must_use]
    pub fn quotas(&self) -> &[PlannedQuota] {
        &self.quotas
    }

    /// What clients are told.
    #[must_use]
    pub fn fields(&self) -> &ResponseFields {
        &self.fields
    }

    /// Whether anything depends on where a request comes from.
    #[must_use]
    pub fn needs_client_ip(&self) -> bool {
        true
    }

    /// What a request meets.
    #[must_use]
    pub fn meet(&self, _: &Request<'_>) -> Met {
        Met::new(Access::Rules)
    }

    /// What a request meets, and why, for people.
    #[must_use]
    pub fn explain(&self, _: &Request<'_>) -> Explanation {
        Explanation {
            access: Access::Rules,
            decided_by: None,
            client_ip: None,
            path: None,
            identities: Vec::new(),
            tier: None,
            rules: Vec::new(),
        }
    }
}
