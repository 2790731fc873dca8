//! Rules as they may be shown: promises are in logs, events and operators' answers.

use std::borrow::Cow;

use crate::compiled::Secrets;
use crate::model::{Condition, IdentitySource, Policy, Rule, TextPattern, is_credential_header};

/// A rule whose overrides and conditions show no credentials: those are hashed, as in keys. Patterns with stars are no
/// values.
pub(crate) fn shown<'r>(rule: &'r Rule, policy: &Policy) -> Cow<'r, Rule> {
    let is_secret_header = |name: &str| is_secret_header(name, policy);
    let has_secret_key = !rule.overrides.is_empty() && rule.key.iter().any(|name| may_be_secret(name, policy));
    let asks_for_secret = rule.when.identities.iter().any(|(name, _)| may_be_secret(name, policy))
        || rule.when.headers.iter().any(|(name, _)| is_secret_header(name));
    if !has_secret_key && !asks_for_secret {
        return Cow::Borrowed(rule);
    }
    let secrets = Secrets::new(policy.secret_key.as_ref());
    let hashed = |text: &str| secrets.hashed(text.as_bytes());
    let shown_part = |name: &str, pattern: &TextPattern| {
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
    let shown_line = |name: &str, pattern: &TextPattern| match pattern.is_wildcard() || !is_secret_header(name) {
        true => pattern.clone(),
        false => TextPattern(hashed(&pattern.0)),
    };
    let mut shown = rule.clone();
    for given in &mut shown.overrides {
        given.key = rule.key.iter().zip(&given.key).map(|(name, pattern)| shown_part(name, pattern)).collect();
    }
    for (name, condition) in &mut shown.when.identities {
        each_pattern(condition, |pattern| *pattern = shown_part(name, pattern));
    }
    for (name, condition) in &mut shown.when.headers {
        each_pattern(condition, |pattern| *pattern = shown_line(name, pattern));
    }
    Cow::Owned(shown)
}

fn each_pattern(condition: &mut Condition, change: impl FnMut(&mut TextPattern)) {
    match condition {
        Condition::Present | Condition::Absent => {}
        Condition::OneOf(these) => these.iter_mut().for_each(change),
        Condition::OneOfBut { these, but_not } => these.iter_mut().chain(but_not).for_each(change),
    }
}

/// Whether a header carries credentials, by its name or because a secret identity is read from it.
fn is_secret_header(name: &str, policy: &Policy) -> bool {
    let is_read =
        |source: &IdentitySource| matches!(source, IdentitySource::Header(header) if header.eq_ignore_ascii_case(name));
    is_credential_header(name)
        || policy.identities.iter().any(|identity| identity.is_secret() && is_read(&identity.source))
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
