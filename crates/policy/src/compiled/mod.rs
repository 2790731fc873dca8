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
mod error;
mod explain;
mod fast_path;
mod grants;
mod identity;
mod key;
mod matching;
mod path;
mod rule;

pub use error::CompileError;
pub use explain::{Application, ExplainedRule, Explanation, GrantSource, RuleOutcome};
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

use crate::model::{OnInvalid, ResponseFields};
use crate::request::Request;
use access::CompiledAccess;
use fast_path::FastPath;
use grants::rule_grants::{Chosen, push_found};
use identity::{Identities, IdentityId, RequestValues};
use key::key_bytes::Keys;
use matching::matched::KeyRef;
use matching::matcher::Matcher;
use path::normal::NormalPath;
use path::routes::MatchedRoutes;

/// Why a rule has no key for a request.
enum NoKey {
    /// This identity is absent, so that the rule does not apply.
    Absent(IdentityId),
    /// The token from which this identity comes cannot be used, and the policy refuses such.
    Refused(IdentityId),
}

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
        self.matcher.routes.index.texts().map(String::from_utf8_lossy)
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

    /// The rules that a request matches, and what they charge.
    #[must_use]
    pub fn match_request<'r>(&self, request: &Request<'r>) -> Matched<'r> {
        self.match_request_with(request, |_, _| None)
    }

    /// Like [`match_request`](CompiledPolicy::match_request), where `overrides` may know quotas for a rule and
    /// a key that hold instead of what the rule grants: none of them is
    /// unlimited. They need not be positions among [`CompiledPolicy::quotas`].
    #[must_use]
    #[inline]
    pub fn match_request_with<'r, 'h>(
        &self,
        request: &Request<'r>,
        overrides: impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Matched<'r> {
        let mut matched = Matched::new(Access::Rules);
        self.match_into(request, overrides, &mut matched);
        matched
    }

    /// Like [`match_request_with`](CompiledPolicy::match_request_with), into a place that the caller has: what a
    /// request matches is some hundreds of bytes, which are not moved then. `matched` has to be new.
    #[inline]
    pub fn match_into<'r, 'h>(
        &self,
        request: &Request<'r>,
        overrides: impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
        matched: &mut Matched<'r>,
    ) {
        if let Some(steps) = &self.fast_path {
            if steps.match_request(&self.identities, request, matched, &overrides) {
                return;
            }
            *matched = Matched::new(Access::Rules);
        }
        self.match_indexed(request, &overrides, matched);
    }

    /// Gives the charges of a common request to `charge`, one by one: the positions of its rule and quota, its cost and
    /// the bytes of its key. Returns the endpoint, as in [`Matched::endpoint`]. `None` if the request, the policy or a
    /// rule that applies is not common, or once `charge` is false: then [`match_into`](CompiledPolicy::match_into) says
    /// what the request matches. It is for callers who do not keep what a request matches.
    #[inline(always)]
    pub fn match_common(
        &self,
        request: &Request<'_>,
        charge: impl FnMut(u32, u32, u64, &[u8]) -> bool,
    ) -> Option<Option<u32>> {
        self.fast_path.as_ref()?.match_common(&self.identities, request, charge)
    }

    /// Like [`match_request_with`](CompiledPolicy::match_request_with), always by way of the indexes: the reference
    /// that the fast path is tested against.
    #[doc(hidden)]
    #[must_use]
    pub fn match_by_index<'r, 'h>(
        &self,
        request: &Request<'r>,
        overrides: impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Matched<'r> {
        let mut matched = Matched::new(Access::Rules);
        self.match_indexed(request, &overrides, &mut matched);
        matched
    }

    #[inline(never)]
    fn match_indexed<'h>(
        &self,
        request: &Request<'_>,
        overrides: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
        matched: &mut Matched<'_>,
    ) {
        let mut values = self.values(request);
        if values.reading_count() > 1 {
            *matched = self.match_each_reading(&mut values, overrides);
        } else {
            self.match_reading(self.access(&values), &values, overrides, |_| false, matched);
        }
        if matched.access == Access::Unauthorized {
            matched.refuse_token();
        } else if self.replaces {
            matched.without_replaced();
        }
    }

    /// The values of a request, with its path in the first reading.
    #[inline(always)]
    fn values<'a>(&'a self, request: &'a Request<'a>) -> RequestValues<'a> {
        let mut values = RequestValues::new(&self.identities, request);
        values.routes = self.matched_routes(values.path());
        values
    }

    /// Compares another reading of the path.
    fn read_as(&self, values: &mut RequestValues<'_>, reading: usize) {
        values.read_as(reading);
        values.routes = self.matched_routes(values.path());
    }

    /// Whether requests can take the fast path.
    #[doc(hidden)]
    #[must_use]
    pub fn has_fast_path(&self) -> bool {
        self.fast_path.is_some()
    }

    /// What a request matches whose path can be read in several ways: whatever limits in any of them.
    #[cold]
    fn match_each_reading<'h>(
        &self,
        values: &mut RequestValues<'_>,
        overrides: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Matched<'static> {
        let access = self.access_in_each(values);
        let mut joined: Option<Matched<'static>> = None;
        for reading in 0..values.reading_count() {
            self.read_as(values, reading);
            let is_settled = |rule| joined.as_ref().is_some_and(|joined| self.is_settled(rule, joined));
            let mut matched = Matched::new(access);
            self.match_reading(access, values, overrides, is_settled, &mut matched);
            match &mut joined {
                Some(joined) => joined.join_reading(&matched, |rule| self.rules[rule as usize].action.counts_readings),
                None => joined = Some(matched),
            }
        }
        joined.unwrap_or_else(|| Matched::new(access))
    }

    /// Whether other readings of the path change nothing about a rule. Not to ask again bounds what an odd path costs.
    fn is_settled(&self, rule: u32, joined: &Matched<'_>) -> bool {
        let action = &self.rules[rule as usize].action;
        let is_charged = joined.charges.iter().any(|charge| charge.rule == rule);
        is_charged && !action.counts_readings && action.replaces.is_empty()
    }

    /// What a request matches in one reading of its path, but for rules that are settled.
    #[inline]
    fn match_reading<'h>(
        &self,
        access: Access,
        values: &RequestValues<'_>,
        overrides: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
        is_settled: impl Fn(u32) -> bool,
        matched: &mut Matched<'_>,
    ) {
        matched.access = access;
        matched.endpoint = values.routes.first().copied();
        if access == Access::Rules {
            self.matcher.each(&self.rules, values, |rule| {
                if !is_settled(rule) {
                    self.charge(rule, values, matched, overrides);
                }
            });
        }
    }

    /// The path pattern that a request matches: the most specific of this
    /// rule's own, or of anybody's where no rule is given or the rule has none.
    #[must_use]
    pub fn route(&self, rule: Option<usize>, request: &Request<'_>) -> Option<&str> {
        let mut values = self.values(request);
        let route = (0..values.reading_count()).find_map(|reading| {
            self.read_as(&mut values, reading);
            match rule {
                Some(rule) => self.matcher.route(position(rule), &values.routes),
                None => self.matcher.any_route(&values.routes),
            }
        });
        route.and_then(|route| str::from_utf8(route).ok())
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

    /// Who a denied client is where no address is known: the value that the list names, as keys show it.
    #[must_use]
    pub fn denied_value(&self, request: &Request<'_>) -> Option<String> {
        let mut values = self.values(request);
        let value = (0..values.reading_count()).find_map(|reading| {
            self.read_as(&mut values, reading);
            self.deny.value_meant(&values, self.matcher.any_route(&values.routes))
        });
        value.map(|value| lossy(&value))
    }

    /// The path patterns that a reading of a path matches.
    fn matched_routes(&self, path: Option<&NormalPath<'_>>) -> MatchedRoutes {
        path.map(|path| self.matcher.routes.index.find(path)).unwrap_or_default()
    }

    /// A list denies by any reading of the path, and allows only by all of them.
    fn access_in_each(&self, values: &mut RequestValues<'_>) -> Access {
        let mut access = Access::Allowed;
        for reading in 0..values.reading_count() {
            self.read_as(values, reading);
            match self.access(values) {
                Access::Denied => return Access::Denied,
                Access::Rules | Access::Unauthorized => access = Access::Rules,
                Access::Allowed => {}
            }
        }
        access
    }

    /// Deny comes before allow, and both before the rules.
    fn access(&self, values: &RequestValues<'_>) -> Access {
        let route = self.matcher.any_route(&values.routes);
        if self.deny.means(values, route) {
            Access::Denied
        } else if self.allow.means(values, route) {
            Access::Allowed
        } else {
            Access::Rules
        }
    }

    /// Adds what a rule charges, if its key is there, or that it denies.
    #[inline]
    fn charge<'h>(
        &self,
        rule: u32,
        values: &RequestValues<'_>,
        matched: &mut Matched<'_>,
        overrides: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) {
        if self.rules[rule as usize].deny {
            matched.denials.push(rule);
            return matched.replace(self.replaced_by(rule, values));
        }
        let written = matched.keys.len();
        let key = match self.written_before(rule, matched) {
            Some(key) => key,
            None => match self.write_key(rule, values, &mut matched.keys) {
                Ok(()) => KeyRef::written(written, matched.keys.len()),
                Err(NoKey::Absent(_)) => return,
                Err(NoKey::Refused(_)) => return matched.refuse_token(),
            },
        };
        matched.replace(self.replaced_by(rule, values));
        let text = matched.key_at(key);
        let quotas = match overrides(rule, text) {
            Some(quotas) => quotas,
            None => self.grant(rule, values, text).quotas,
        };
        if quotas.is_empty() {
            matched.unlimited = true;
            return matched.keys.truncate(written);
        }
        let cost = self.rules[rule as usize].action.cost.of_values(values);
        for quota in quotas {
            matched.charges.push(MatchedCharge { rule, quota: *quota, cost, key });
        }
    }

    /// The rules that do not apply where this one does: none where that is not certain.
    #[inline(always)]
    fn replaced_by(&self, rule: u32, values: &RequestValues<'_>) -> &[u32] {
        let replaces = &self.rules[rule as usize].action.replaces;
        if replaces.is_empty() || !self.surely_applies(rule, values) { &[] } else { replaces }
    }

    /// Where the key of another rule with the same parts stands already. Most rules count by the same few identities.
    #[inline]
    fn written_before(&self, rule: u32, matched: &Matched<'_>) -> Option<KeyRef> {
        let shape = self.rules[rule as usize].action.shape?;
        let is_same = |charge: &&MatchedCharge| self.rules[charge.rule as usize].action.shape == Some(shape);
        let charge = matched.charges.iter().take(4).find(is_same)?;
        Some(charge.key)
    }

    /// Whether what a rule replaces does not apply. A value that cannot be used, or an address that is meant only
    /// for what it carries, matches a rule and exempts from none.
    #[inline]
    fn surely_applies(&self, rule: u32, values: &RequestValues<'_>) -> bool {
        let CompiledRule { action, conditions, .. } = &self.rules[rule as usize];
        let route = self.key_route(rule, values);
        let is_usable = |id: &IdentityId| values.find_usable(*id, route).is_some();
        action.key.iter().all(is_usable) && conditions.surely_hold(values, self.matcher.route(rule, &values.routes))
    }

    /// Writes the key of a rule whose conditions hold, or says why there is none.
    #[inline]
    fn write_key(&self, rule: u32, values: &RequestValues<'_>, keys: &mut Keys) -> Result<(), NoKey> {
        let start = keys.len();
        let route = self.key_route(rule, values);
        for (at, id) in self.rules[rule as usize].action.key.iter().enumerate() {
            let Some(found) = values.find(*id, route) else {
                keys.truncate(start);
                return Err(NoKey::Absent(*id));
            };
            if !found.is_usable() && self.identities.known(found.id).on_invalid == OnInvalid::Refuse {
                keys.truncate(start);
                return Err(NoKey::Refused(found.id));
            }
            push_found(keys, at, *id, found, &self.identities);
        }
        Ok(())
    }

    /// What a rule grants to a key.
    #[inline]
    fn grant(&self, rule: u32, values: &RequestValues<'_>, key: &[u8]) -> Chosen<'_> {
        let action = &self.rules[rule as usize].action;
        action.grants.choose(values, key, &action.key, || self.key_route(rule, values))
    }

    /// The pattern that matched, where a rule's key depends on it.
    #[inline]
    fn key_route(&self, rule: u32, values: &RequestValues<'_>) -> Option<&[u8]> {
        if self.rules[rule as usize].action.uses_route { self.matcher.route(rule, &values.routes) } else { None }
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
