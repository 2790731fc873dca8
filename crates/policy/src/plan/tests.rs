//! Small policies, and what requests meet under them.

use tollgate_core::Quota;

use crate::model::{Allowance, Cost, Grant, Rule, When};

/// A rule for everybody: five a minute.
pub(super) fn rule(name: &str) -> Rule {
    Rule {
        name: name.to_owned(),
        when: When::default(),
        key: Vec::new(),
        allowance: Allowance::Same(Grant::Limited(vec![Quota::token_bucket("5/min".parse().unwrap()).unwrap()])),
        cost: Cost::default(),
        on_limit: None,
        shadow: false,
        publish: true,
        overrides: Vec::new(),
        on_failure: None,
    }
}
