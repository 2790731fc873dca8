//! Small policies, and what requests meet under them.

use tollgate_core::Quota;

use crate::model::{Allowance, Grant, Rule};

/// A rule for everybody: five a minute.
pub(super) fn rule(name: &str) -> Rule {
    Rule {
        allowance: Allowance::Same(Grant::Limited(vec![Quota::token_bucket("5/min".parse().unwrap()).unwrap()])),
        ..Rule::new(name)
    }
}
