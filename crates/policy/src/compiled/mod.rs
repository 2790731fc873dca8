//! Compiled policies: which rules match a request, with which key, quota and cost.
//!
//! [`CompiledPolicy::new`] resolves every name and builds the indexes. `match_request` evaluates a simple policy as a
//! list of steps (`fast_path`). All other policies, and unusual requests, use the indexes: the request's path and host
//! are normalised (`path`, `matching::hosts`), the access lists are checked (`access`), the rules whose conditions hold
//! are found (`matching`), and each of them yields a key (`key`), the quotas that it applies to this key, and a cost
//! (both in `grants`). `identity` reads the client's identities, each as late as possible and once. `explain` does the
//! same and reports the reasons.

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
pub use fast_path::{CommonCharge, CommonCharges, CommonKey, NotCommon};
pub use grants::override_grant::{InvalidLimit, PossibleGrant};
pub use key::read_key::InvalidKey;
pub use key::secrets::HmacKey;
pub(crate) use key::secrets::Secrets;
pub use matching::matched::{Access, Matched, MatchedCharge};
pub(crate) use path::pattern::PathPattern;
pub use rule::{AdvertisedQuota, CompiledRule, MAX_FIELD_INTEGER, RuleQuota};

use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::OnceLock;

use tollgate_core::RegionShare;

use crate::model::ResponseFields;
use crate::request::Request;
use access::CompiledAccess;
use fast_path::FastPath;
use identity::{IdentityTable, RequestValues};
use matching::matcher::Matcher;

/// A checked policy, compiled once and used for every request.
#[derive(Debug)]
pub struct CompiledPolicy {
    rules: Vec<CompiledRule>,
    quotas: Vec<RuleQuota>,
    fields: ResponseFields,
    needs_client_ip: bool,
    /// The share of this region in regional limits, or the smallest share of all if the region is not set.
    region_share: Option<RegionShare>,
    /// Whether any rule replaces other rules.
    replaces: bool,
    /// Whether any rules share a budget.
    has_budgets: bool,
    identities: IdentityTable,
    deny: CompiledAccess,
    allow: CompiledAccess,
    matcher: Matcher,
    /// The same rules as a list of steps, if all of them are simple.
    fast_path: Option<FastPath>,
    attachment: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl CompiledPolicy {
    /// Returns the value that a program has attached to the policy, so that every verdict can reach it: the metrics of
    /// its rules, for instance. The first call attaches the value that `attach` returns. `None` if a value of another
    /// type is attached.
    #[inline]
    pub fn attachment<T: Any + Send + Sync>(&self, attach: impl FnOnce() -> T) -> Option<&T> {
        self.attachment.get_or_init(|| Box::new(attach())).downcast_ref()
    }

    /// Returns the rules, in the order of the policy.
    #[must_use]
    pub fn rules(&self) -> &[CompiledRule] {
        &self.rules
    }

    /// Returns every quota that can be charged, with its scope.
    #[must_use]
    pub fn quotas(&self) -> &[RuleQuota] {
        &self.quotas
    }

    /// Returns the path patterns of all rules, the most specific first. They classify requests by endpoint, and their
    /// number is bounded by the policy.
    pub fn endpoints(&self) -> impl ExactSizeIterator<Item = Cow<'_, str>> {
        self.matcher.routes.texts().map(String::from_utf8_lossy)
    }

    /// The share of this region in regional limits, or the smallest share of all if the region is not set; `None` without
    /// regions.
    #[must_use]
    pub fn region_share(&self) -> Option<RegionShare> {
        self.region_share
    }

    /// Returns the settings of the response fields.
    #[must_use]
    pub fn fields(&self) -> &ResponseFields {
        &self.fields
    }

    /// Whether any decision depends on the client's address.
    #[must_use]
    pub fn needs_client_ip(&self) -> bool {
        self.needs_client_ip
    }

    /// Whether a caller may set the identity of this name directly ([`Request::identities`]).
    #[must_use]
    pub fn accepts_identity(&self, name: &str) -> bool {
        self.identities.is_settable(name)
    }

    /// Whether this address is a trusted proxy, whose forwarding header is used.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.identities.trusted.contains(peer)
    }

    /// Returns the fingerprint of the HMAC key with which secret values are hashed in this policy's keys. It is the
    /// text `"none"` if the policy has no such HMAC key, and [`None`] if no rule counts by a secret identity. Instances
    /// that share a store share counters of secret identities only if their fingerprints are equal.
    #[must_use]
    pub fn secrets_fingerprint(&self) -> Option<&str> {
        let is_used = (0..).zip(&self.rules).any(|(rule, _)| self.counts_by_secret(rule));
        is_used.then(|| self.identities.secrets.fingerprint())
    }

    /// Whether a value in the key of this rule may be a credential, which keys contain only as a hash.
    #[must_use]
    pub fn counts_by_secret(&self, rule: u32) -> bool {
        let parts = self.rules.get(rule as usize).map_or(&[][..], |rule| &rule.action.key);
        parts.iter().any(|id| self.identities.candidates(*id).any(|candidate| self.identities.get(candidate).secret))
    }

    /// Whether requests can be matched on the fast path.
    #[doc(hidden)]
    #[must_use]
    pub fn has_fast_path(&self) -> bool {
        self.fast_path.is_some()
    }

    /// Returns the client's address: that of the peer, or the one that a trusted proxy forwarded.
    #[must_use]
    pub fn client_address(&self, request: &Request<'_>) -> Option<IpAddr> {
        self.identities.client(request)
    }

    /// Returns the client's address as it is written in keys: shortened to the prefix that distinguishes clients.
    #[must_use]
    pub fn client_key(&self, request: &Request<'_>) -> Option<String> {
        let values = RequestValues::new(&self.identities, request);
        values.find(identity::CLIENT_IP, None).map(|found| lossy(found.text))
    }
}

/// Converts an index of a rule, or an offset in the keys of a request, to 32 bits. Both are far smaller: long values
/// are shortened, and no policy has millions of rules that all match.
fn position(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests;
