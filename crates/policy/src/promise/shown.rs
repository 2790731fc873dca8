//! Hides credentials in rules, because promises are in logs, events and responses of the admin API.

use std::borrow::Cow;

use crate::check::names::IdentityNames;
use crate::compiled::Secrets;
use crate::model::{Condition, Identity, IdentitySource, Policy, Rule, TextPattern, is_credential_header};

/// Returns the rules of a policy without credentials: values of secret identities and headers in overrides and conditions
/// are hashed, as in keys. Patterns with stars stay, because they are not values.
pub(crate) fn shown(policy: &Policy) -> Vec<Cow<'_, Rule>> {
    let shown = Shown { policy, names: IdentityNames::of(policy), secrets: Secrets::new(policy.secret_key.as_ref()) };
    policy.rules.iter().map(|rule| shown.rule(rule)).collect()
}

struct Shown<'p> {
    policy: &'p Policy,
    names: IdentityNames<'p>,
    secrets: Secrets,
}

impl Shown<'_> {
    fn rule<'r>(&self, rule: &'r Rule) -> Cow<'r, Rule> {
        let has_secret_key = !rule.overrides.is_empty() && rule.key.iter().any(|name| self.may_be_secret(name));
        let has_secret_condition = rule.when.identities.iter().any(|(name, _)| self.may_be_secret(name))
            || rule.when.headers.iter().any(|(name, _)| self.is_secret_header(name));
        if !has_secret_key && !has_secret_condition {
            return Cow::Borrowed(rule);
        }
        let mut shown = rule.clone();
        for given in &mut shown.overrides {
            rule.key.iter().zip(&mut given.key).for_each(|(name, pattern)| self.hide_value(name, pattern));
        }
        for (name, condition) in &mut shown.when.identities {
            each_pattern(condition, |pattern| self.hide_value(name, pattern));
        }
        for (_, condition) in shown.when.headers.iter_mut().filter(|(name, _)| self.is_secret_header(name)) {
            each_pattern(condition, |pattern| self.hide(pattern));
        }
        Cow::Owned(shown)
    }

    /// Hashes the value of a pattern without stars.
    fn hide(&self, pattern: &mut TextPattern) {
        if !pattern.is_wildcard() {
            pattern.0 = self.secrets.hashed(pattern.0.as_bytes());
        }
    }

    /// Hashes the value of an identity, if it may be secret.
    fn hide_value(&self, identity: &str, pattern: &mut TextPattern) {
        if pattern.is_wildcard() || !self.may_be_secret(identity) {
            return;
        }
        // A pattern for a `first` list names the identity of its value.
        let listed = self.names.with_listed(std::iter::once(identity));
        match pattern.0.split_once('=').filter(|(only, _)| listed.contains(only)) {
            Some((only, text)) if self.may_be_secret(only) => {
                pattern.0 = format!("{only}={}", self.secrets.hashed(text.as_bytes()));
            }
            Some(_) => {}
            None => self.hide(pattern),
        }
    }

    /// Whether a header carries credentials, by its name or because a secret identity is read from it.
    fn is_secret_header(&self, name: &str) -> bool {
        let is_read = |source: &IdentitySource| matches!(source, IdentitySource::Header(header) if header.eq_ignore_ascii_case(name));
        let is_secret_source = |identity: &Identity| identity.is_secret() && is_read(&identity.source);
        is_credential_header(name) || self.policy.identities.iter().any(is_secret_source)
    }

    /// Whether a value of an identity, or of the identities in its `first` list, may be a credential.
    fn may_be_secret(&self, name: &str) -> bool {
        let all = self.names.with_listed(std::iter::once(name));
        all.into_iter().any(|name| self.names.declared(name).is_some_and(Identity::is_secret))
    }
}

fn each_pattern(condition: &mut Condition, change: impl FnMut(&mut TextPattern)) {
    match condition {
        Condition::Present | Condition::Absent => {}
        Condition::OneOf(these) => these.iter_mut().for_each(change),
        Condition::OneOfBut { these, but_not } => these.iter_mut().chain(but_not).for_each(change),
    }
}
