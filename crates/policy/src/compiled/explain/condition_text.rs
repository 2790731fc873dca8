//! What a rule asks for, as it was written: kept for telling people why it does not apply.

use crate::model::{Condition, Networks, TextPattern, When};

/// The conditions of a rule as text.
#[derive(Debug)]
pub(in crate::compiled) struct ConditionText {
    pub(in crate::compiled) methods: Vec<String>,
    pub(in crate::compiled) hosts: Vec<String>,
    pub(in crate::compiled) paths: Vec<String>,
    /// In the order of the tests: headers first, then identities.
    pub(in crate::compiled) tests: Vec<TestText>,
    pub(in crate::compiled) network: String,
    pub(in crate::compiled) domains: Vec<String>,
}

/// One condition on a value.
#[derive(Debug)]
pub(in crate::compiled) struct TestText {
    what: String,
    condition: Condition,
}

impl ConditionText {
    pub(in crate::compiled) fn of(when: &When) -> ConditionText {
        let header = |(name, condition): &(String, Condition)| TestText {
            what: format!("header `{name}`"),
            condition: condition.clone(),
        };
        let identity = |(name, condition): &(String, Condition)| TestText {
            what: format!("identity `{name}`"),
            condition: condition.clone(),
        };
        ConditionText {
            methods: when.methods.clone(),
            hosts: when.hosts.clone(),
            paths: when.paths.clone(),
            tests: when.headers.iter().map(header).chain(when.identities.iter().map(identity)).collect(),
            network: when.network.as_ref().map(network).unwrap_or_default(),
            domains: when.domains.clone(),
        }
    }
}

impl TestText {
    /// Why this value does not pass.
    pub(in crate::compiled) fn failed(&self, value: Option<&str>) -> String {
        let what = &self.what;
        match (value, &self.condition) {
            (None, _) => format!("{what} is absent"),
            (Some(_), Condition::Absent) => format!("{what} is present"),
            (Some(value), Condition::OneOf(patterns)) => match patterns.as_slice() {
                [only] => format!("{what} is `{value}`, not `{}`", only.0),
                several => format!("{what} is `{value}`, not among {}", quoted(several)),
            },
            (Some(value), Condition::OneOfBut { these, but_not }) => {
                let these = if these.is_empty() { "all".to_owned() } else { quoted(these) };
                format!("{what} is `{value}`, not among {these} without {}", quoted(but_not))
            }
            (Some(value), Condition::Present) => format!("{what} is `{value}`"),
        }
    }
}

fn quoted(patterns: &[TextPattern]) -> String {
    patterns.iter().map(|pattern| format!("`{}`", pattern.0)).collect::<Vec<_>>().join(", ")
}

pub(crate) fn network(networks: &Networks) -> String {
    match networks {
        Networks::Internal | Networks::NotInternal => "the internal networks".to_owned(),
        Networks::Among(networks) | Networks::NotAmong(networks) => {
            networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
    }
}
