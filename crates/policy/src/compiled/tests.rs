//! Small policies for the unit tests.

use tollgate_core::Quota;

use crate::model::{Allowance, Grant, Rule};

/// Returns a rule of five requests a minute for all clients together.
pub(super) fn rule(name: &str) -> Rule {
    Rule {
        allowance: Allowance::Same(Grant::Limited(vec![Quota::token_bucket("5/min".parse().unwrap()).unwrap()])),
        ..Rule::new(name)
    }
}
