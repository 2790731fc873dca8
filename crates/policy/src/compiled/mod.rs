//! A policy compiled: which rules match a request, with which key, quota and cost.
//!
//! [`CompiledPolicy::new`] resolves every name and builds the indexes. `match_request` walks the steps of a simple
//! policy (`fast_path`). All others, and requests out of the ordinary, take the indexes: what a request says is made
//! comparable (`path`, `matching::hosts`), lists are asked (`access`), the rules whose conditions hold are found
//! (`matching`), and each of them gives a key (`key`), a grant and a cost (`grants`). `identity` finds out who the
//! client is, as late as possible and once. `explain` does the same and tells what it saw.

mod access;
pub(crate) mod address;
mod compile;
mod explain;
mod fast_path;
mod grants;
mod identity;
mod key;
mod matching;
mod path;
mod rule;

pub use compile::CompileError;
pub use explain::{Application, ExplainedRule, Explanation, GrantSource, RuleOutcome};
pub use fast_path::{CommonCharge, CommonCharges, CommonKey, Uncommon};
pub use grants::override_grant::{InvalidLimit, PossibleGrant};
pub use key::read_key::InvalidKey;
pub use key::secrets::HmacKey;
pub(crate) use key::secrets::Secrets;
pub use matching::matched::{Access, Matched, MatchedCharge};
pub use rule::{AdvertisedQuota, CompiledRule, MAX_FIELD_INTEGER, RuleQuota};

use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::OnceLock;

use crate::model::ResponseFields;
use crate::request::Request;
use access::CompiledAccess;
use fast_path::FastPath;
use identity::{Identities, RequestValues};
use matching::matcher::Matcher;

/// A checked policy, compiled once and then asked for every request.
#[derive(Debug)]
pub struct CompiledPolicy {
    rules: Vec<CompiledRule>,
    quotas: Vec<RuleQuota>,
    fields: ResponseFields,
    needs_client_ip: bool,
    /// Whether any rule replaces others.
    replaces: bool,
    identities: Identities,
    deny: CompiledAccess,
    allow: CompiledAccess,
    matcher: Matcher,
    /// The same rules as a list of steps, where all of them are simple.
    fast_path: Option<FastPath>,
    attachment: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl CompiledPolicy {
    /// What a program has attached to the policy, to reach it from every verdict: the counters of its rules, for
    /// instance. The first call attaches what `attach` gives; `None` if something of another type was attached.
    #[inline]
    pub fn attachment<T: Any + Send + Sync>(&self, attach: impl FnOnce() -> T) -> Option<&T> {
        self.attachment.get_or_init(|| Box::new(attach())).downcast_ref()
    }

    /// The rules, in the order of the policy.
    #[must_use]
    pub fn rules(&self) -> &[CompiledRule] {
        &self.rules
    }

    /// Every quota that can be charged, with its scope.
    #[must_use]
    pub fn quotas(&self) -> &[RuleQuota] {
        &self.quotas
    }

    /// The path patterns of all rules, the most specific first. They say what kind of
    /// endpoint a request is for, and there are no more of them than the policy writes.
    pub fn endpoints(&self) -> impl ExactSizeIterator<Item = Cow<'_, str>> {
        self.matcher.routes.texts().map(String::from_utf8_lossy)
    }

    /// What clients are told.
    #[must_use]
    pub fn fields(&self) -> &ResponseFields {
        &self.fields
    }

    /// Whether anything depends on where a request comes from.
    #[must_use]
    pub fn needs_client_ip(&self) -> bool {
        self.needs_client_ip
    }

    /// Whether somebody at this address is believed when they speak for others.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.identities.trusted.contains(peer)
    }

    /// The fingerprint of the key under which secret values are hashed in this plan's keys, or `none` if the
    /// policy has no such key; `None` where no rule counts by a secret identity. Instances that share a store count
    /// together only if they agree on it.
    #[must_use]
    pub fn secrets_fingerprint(&self) -> Option<&str> {
        let is_used = (0..).zip(&self.rules).any(|(rule, _)| self.counts_by_secret(rule));
        is_used.then(|| self.identities.secrets.fingerprint())
    }

    /// Whether a value in the key of this rule may be a credential, which is shown only as a hash.
    #[must_use]
    pub fn counts_by_secret(&self, rule: u32) -> bool {
        let parts = self.rules.get(rule as usize).map_or(&[][..], |rule| &rule.action.key);
        parts.iter().any(|id| self.identities.places(*id).any(|place| self.identities.known(place).secret))
    }

    /// Whether requests can take the fast path.
    #[doc(hidden)]
    #[must_use]
    pub fn has_fast_path(&self) -> bool {
        self.fast_path.is_some()
    }

    /// The address of the client: that of the peer, or what a trusted proxy says.
    #[must_use]
    pub fn client_address(&self, request: &Request<'_>) -> Option<IpAddr> {
        self.identities.client(request)
    }

    /// The client's address as keys show it: the prefix by which clients are told apart.
    #[must_use]
    pub fn client_key(&self, request: &Request<'_>) -> Option<String> {
        let values = RequestValues::new(&self.identities, request);
        values.find(identity::CLIENT_IP, None).map(|found| lossy(found.text))
    }
}

/// Keys are shorter than 2^32 bytes: values are shortened, and nobody writes millions of rules that all apply.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests;
