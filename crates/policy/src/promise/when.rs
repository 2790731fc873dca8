//! Which requests a rule is for, in words: what is written and never applies is seen there.

use super::words::either;
use crate::model::{Condition, Networks, TextPattern, When};

/// Each condition of a rule, such as `path /login or /register`. None: all requests.
pub(super) fn conditions(when: &When) -> Vec<String> {
    let mut conditions = Vec::new();
    let mut any_of = |what: &str, these: &[String]| {
        if !these.is_empty() {
            conditions.push(format!("{what} {}", either(these)));
        }
    };
    any_of("method", &methods(&when.methods));
    any_of("host", &when.hosts);
    any_of("path", &when.paths);
    any_of("domain", &when.domains);
    conditions.extend(when.headers.iter().map(|(name, condition)| format!("header {name} {}", asked(condition))));
    conditions.extend(when.identities.iter().map(|(name, condition)| format!("identity {name} {}", asked(condition))));
    conditions.extend(when.network.as_ref().map(|network| {
        let relation = if network.is_outside() { "not in" } else { "in" };
        format!("client_ip {relation} {}", networks(network))
    }));
    if when.exact_entries {
        conditions.push("exactly the entries that it names".to_owned());
    }
    conditions
}

/// The networks that are named, also where the client is to come from elsewhere.
pub(crate) fn networks(networks: &Networks) -> String {
    match networks {
        Networks::Internal | Networks::NotInternal => "the internal networks".to_owned(),
        Networks::Among(networks) | Networks::NotAmong(networks) => {
            networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
    }
}

fn methods(asked: &[String]) -> Vec<String> {
    let has = |method: &str| asked.iter().any(|asked| asked == method);
    let implied = (has("GET") && !has("HEAD")).then(|| "HEAD".to_owned());
    asked.iter().cloned().chain(implied).collect()
}

fn asked(condition: &Condition) -> String {
    match condition {
        Condition::Present => "present".to_owned(),
        Condition::Absent => "absent".to_owned(),
        Condition::OneOf(these) => joined(these),
        Condition::OneOfBut { these, but_not } if these.is_empty() => format!("not {}", joined(but_not)),
        Condition::OneOfBut { these, but_not } => format!("{}, but not {}", joined(these), joined(but_not)),
    }
}

fn joined(patterns: &[TextPattern]) -> String {
    either(&patterns.iter().map(|pattern| pattern.0.clone()).collect::<Vec<_>>())
}
