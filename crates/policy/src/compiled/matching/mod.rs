//! Which rules match a request: their conditions, indexed, and what comes of it.
//!
//! The indexes say which rules hold; each of them gives a key, a grant and a cost.

pub(crate) mod bits;
pub(crate) mod conditions;
pub(crate) mod entries;
pub(crate) mod hosts;
pub(crate) mod matched;
pub(crate) mod matcher;
pub(crate) mod methods;

use crate::compiled::fast_path::CommonCharges;
use crate::compiled::grants::rule_grants::{Chosen, push_found};
use crate::compiled::identity::{IdentityId, RequestValues};
use crate::compiled::key::key_bytes::Keys;
use crate::compiled::path::normal::NormalPath;
use crate::compiled::path::routes::MatchedRoutes;
use crate::compiled::{CompiledPolicy, CompiledRule, lossy, position};
use crate::model::OnInvalid;
use crate::request::Request;
use matched::{Access, KeyRef, Matched, MatchedCharge};

/// Why a rule has no key for a request.
pub(super) enum NoKey {
    /// This identity is absent, so that the rule does not apply.
    Absent(IdentityId),
    /// The token from which this identity comes cannot be used, and the policy refuses such.
    Refused(IdentityId),
}

impl CompiledPolicy {
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

    /// The charges of a common request, to be found one by one. `None` if the policy or the request is not common: then
    /// [`match_into`](CompiledPolicy::match_into) says what the request matches. It is for callers who do not keep what
    /// a request matches.
    #[inline(always)]
    #[must_use]
    pub fn common_charges<'p, 'r>(&'p self, request: &'p Request<'r>) -> Option<CommonCharges<'p, 'r>> {
        self.fast_path.as_ref()?.common_charges(&self.identities, request)
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
    pub(super) fn values<'a>(&'a self, request: &'a Request<'a>) -> RequestValues<'a> {
        let mut values = RequestValues::new(&self.identities, request);
        values.routes = self.matched_routes(values.path());
        values
    }

    /// Compares another reading of the path.
    pub(super) fn read_as(&self, values: &mut RequestValues<'_>, reading: usize) {
        values.read_as(reading);
        values.routes = self.matched_routes(values.path());
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
    pub(super) fn matched_routes(&self, path: Option<&NormalPath<'_>>) -> MatchedRoutes {
        path.map(|path| self.matcher.routes.find(path)).unwrap_or_default()
    }

    /// A list denies by any reading of the path, and allows only by all of them.
    pub(super) fn access_in_each(&self, values: &mut RequestValues<'_>) -> Access {
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
    pub(super) fn replaced_by(&self, rule: u32, values: &RequestValues<'_>) -> &[u32] {
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
    pub(super) fn write_key(&self, rule: u32, values: &RequestValues<'_>, keys: &mut Keys) -> Result<(), NoKey> {
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
    pub(super) fn grant(&self, rule: u32, values: &RequestValues<'_>, key: &[u8]) -> Chosen<'_> {
        let action = &self.rules[rule as usize].action;
        action.grants.choose(values, key, &action.key, || self.key_route(rule, values))
    }

    /// The pattern that matched, where a rule's key depends on it.
    #[inline]
    fn key_route(&self, rule: u32, values: &RequestValues<'_>) -> Option<&[u8]> {
        if self.rules[rule as usize].action.uses_route { self.matcher.route(rule, &values.routes) } else { None }
    }
}
