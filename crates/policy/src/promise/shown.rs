//! Rules as they may be shown: promises are in logs, events and operators' answers.

use std::borrow::Cow;

use crate::model::{IdentitySource, Override, Policy, Rule, TextPattern};
use crate::plan::Secrets;

/// A rule whose overrides show no credentials: those are hashed, as in keys. Patterns with stars are no values.
pub(super) fn shown<'r>(rule: &'r Rule, policy: &Policy) -> Cow<'r, Rule> {
    if rule.overrides.is_empty() || !rule.key.iter().any(|name| may_be_secret(name, policy)) {
        return Cow::Borrowed(rule);
    }
    let secrets = Secrets::new(policy.secret_key.as_ref());
    let hashed = |text: &str| secrets.hashed(text.as_bytes());
    let shown_part = |(name, pattern): (&String, &TextPattern)| {
        if pattern.is_wildcard() || !may_be_secret(name, policy) {
            return pattern.clone();
        }
        // Of a list, a pattern names the identity that it means.
        let named = pattern.0.split_once('=').filter(|(only, _)| listed(name, policy).contains(only));
        TextPattern(match named {
            Some((only, text)) if may_be_secret(only, policy) => format!("{only}={}", hashed(text)),
            Some(_) => pattern.0.clone(),
            None => hashed(&pattern.0),
        })
    };
    let shown_override = |given: &Override| {
        let key = rule.key.iter().zip(&given.key).map(shown_part).collect();
        Override { key, grant: given.grant.clone() }
    };
    let overrides = rule.overrides.iter().map(shown_override).collect();
    Cow::Owned(Rule { overrides, ..rule.clone() })
}

fn may_be_secret(name: &str, policy: &Policy) -> bool {
    let all = listed(name, policy);
    policy.identities.iter().any(|identity| identity.is_secret() && all.contains(&identity.name.as_str()))
}

/// An identity, and those that it is the first of, also by way of others.
fn listed<'p>(name: &'p str, policy: &'p Policy) -> Vec<&'p str> {
    let mut found = vec![name];
    let mut at = 0;
    while let Some(name) = found.get(at).copied() {
        at += 1;
        let identity = policy.identities.iter().find(|identity| identity.name == name);
        if let Some(IdentitySource::First(others)) = identity.map(|identity| &identity.source) {
            for other in others {
                if !found.contains(&other.as_str()) {
                    found.push(other);
                }
            }
        }
    }
    found
}
