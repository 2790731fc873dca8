//! Finds the rules that match a request, by indexes of their conditions.
//!
//! Each rule whose conditions hold yields a key, a grant (the quotas that the rule applies to this key) and a cost.

pub(crate) mod bits;
pub(crate) mod conditions;
pub(crate) mod entries;
pub(crate) mod hosts;
pub(crate) mod matched;
pub(crate) mod matcher;
pub(crate) mod methods;

use crate::compiled::fast_path::CommonCharges;
use crate::compiled::grants::rule_grants::{ChosenGrant, push_found};
use crate::compiled::identity::{IdentityId, RequestValues};
use crate::compiled::key::key_bytes::KeyBuffer;
use crate::compiled::path::normal::NormalPath;
use crate::compiled::path::routes::MatchedRoutes;
use crate::compiled::{CompiledPolicy, CompiledRule, lossy, position};
use crate::model::OnInvalid;
use crate::request::Request;
use matched::{Access, KeyRef, Matched, MatchedCharge};

/// The reason why a rule has no key for a request.
pub(super) enum NoKey {
    /// This identity is absent: the rule does not apply.
    Absent(IdentityId),
    /// The token of this identity is unusable, and the policy refuses such tokens.
    Refused(IdentityId),
}

impl CompiledPolicy {
    /// Returns the rules that a request matches, and their charges.
    #[must_use]
    pub fn match_request<'r>(&self, request: &Request<'r>) -> Matched<'r> {
        self.match_request_with(request, |_, _| None)
    }

    /// Like [`match_request`](CompiledPolicy::match_request), with the overrides of an operator: `operator_override`
    /// returns the quotas for a rule and a key that replace the rule's grant, or `None`. An empty list means unlimited.
    /// The quotas need not be positions among [`CompiledPolicy::quotas`].
    #[must_use]
    #[inline]
    pub fn match_request_with<'r, 'h>(
        &self,
        request: &Request<'r>,
        operator_override: impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Matched<'r> {
        let mut matched = Matched::new(Access::Rules);
        self.match_into(request, operator_override, &mut matched);
        matched
    }

    /// Like [`match_request_with`](CompiledPolicy::match_request_with), but writes the result to `matched`, which must
    /// be new. This avoids moving a value of some hundreds of bytes.
    #[inline]
    pub fn match_into<'r, 'h>(
        &self,
        request: &Request<'r>,
        operator_override: impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
        matched: &mut Matched<'r>,
    ) {
        if let Some(fast_path) = &self.fast_path {
            if fast_path.match_request(&self.identities, request, matched, &operator_override) {
                return;
            }
            *matched = Matched::new(Access::Rules);
        }
        self.match_indexed(request, &operator_override, matched);
    }

    /// Returns an iterator over the charges of a common request: every rule that it matches charges one quota, under a
    /// key that is an IPv4 address or a header value, unchanged. `None` if the policy or the request is not common: use
    /// [`match_into`](CompiledPolicy::match_into) then. It is for callers that do not need the list of matched rules
    /// afterwards.
    #[inline(always)]
    #[must_use]
    pub fn common_charges<'p, 'r>(&'p self, request: &'p Request<'r>) -> Option<CommonCharges<'p, 'r>> {
        self.fast_path.as_ref()?.common_charges(&self.identities, request)
    }

    /// Like [`match_request_with`](CompiledPolicy::match_request_with), but always uses the indexes: the reference
    /// that the fast path is tested against.
    #[doc(hidden)]
    #[must_use]
    pub fn match_by_index<'r, 'h>(
        &self,
        request: &Request<'r>,
        operator_override: impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Matched<'r> {
        let mut matched = Matched::new(Access::Rules);
        self.match_indexed(request, &operator_override, &mut matched);
        matched
    }

    #[inline(never)]
    fn match_indexed<'h>(
        &self,
        request: &Request<'_>,
        operator_override: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
        matched: &mut Matched<'_>,
    ) {
        let mut values = self.values(request);
        if values.reading_count() > 1 {
            *matched = self.match_each_reading(&mut values, operator_override);
        } else {
            self.match_reading(self.access(&values), &values, operator_override, |_| false, matched);
        }
        if matched.access == Access::Unauthorized {
            matched.refuse_token();
        } else if self.replaces {
            matched.remove_replaced();
        }
        if self.has_budgets {
            matched.charge_budgets_once();
        }
    }

    /// Returns the values of a request, with its path in the first reading.
    #[inline(always)]
    pub(super) fn values<'a>(&'a self, request: &'a Request<'a>) -> RequestValues<'a> {
        let mut values = RequestValues::new(&self.identities, request);
        values.routes = self.matched_routes(values.path());
        values
    }

    /// Selects the reading of the path that conditions are compared with.
    pub(super) fn select_reading(&self, values: &mut RequestValues<'_>, reading: usize) {
        values.select_reading(reading);
        values.routes = self.matched_routes(values.path());
    }

    /// Matches a request whose path is ambiguous: it has several readings, because servers normalise it differently. A
    /// rule that limits applies if it matches in any of them.
    #[cold]
    fn match_each_reading<'h>(
        &self,
        values: &mut RequestValues<'_>,
        operator_override: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Matched<'static> {
        let access = self.access_in_each(values);
        let mut joined: Option<Matched<'static>> = None;
        for reading in 0..values.reading_count() {
            self.select_reading(values, reading);
            let is_final = |rule| joined.as_ref().is_some_and(|joined| self.is_final(rule, joined));
            let mut matched = Matched::new(access);
            self.match_reading(access, values, operator_override, is_final, &mut matched);
            match &mut joined {
                Some(joined) => joined.join_reading(&matched, |rule| self.rules[rule as usize].action.counts_readings),
                None => joined = Some(matched),
            }
        }
        joined.unwrap_or_else(|| Matched::new(access))
    }

    /// Whether further readings of the path cannot change the outcome of a rule. Skipping such rules bounds the work
    /// for an ambiguous path.
    fn is_final(&self, rule: u32, joined: &Matched<'_>) -> bool {
        let action = &self.rules[rule as usize].action;
        let is_charged = joined.charges.iter().any(|charge| charge.rule == rule);
        is_charged && !action.counts_readings && action.replaces.is_empty()
    }

    /// Matches a request in one reading of its path. Skips rules whose outcome is final.
    #[inline]
    fn match_reading<'h>(
        &self,
        access: Access,
        values: &RequestValues<'_>,
        operator_override: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
        is_final: impl Fn(u32) -> bool,
        matched: &mut Matched<'_>,
    ) {
        matched.access = access;
        matched.endpoint = values.routes.first().copied();
        if access == Access::Rules {
            self.matcher.for_each_match(&self.rules, values, |rule| {
                if !is_final(rule) {
                    self.charge(rule, values, matched, operator_override);
                }
            });
        }
    }

    /// Returns the path pattern that a request matches: the most specific of this rule's own, or of all rules if no
    /// rule is given or the rule has no pattern.
    #[must_use]
    pub fn route(&self, rule: Option<usize>, request: &Request<'_>) -> Option<&str> {
        let mut values = self.values(request);
        let route = (0..values.reading_count()).find_map(|reading| {
            self.select_reading(&mut values, reading);
            match rule {
                Some(rule) => self.matcher.route(position(rule), &values.routes),
                None => self.matcher.any_route(&values.routes),
            }
        });
        route.and_then(|route| str::from_utf8(route).ok())
    }

    /// Returns the value by which the `deny` list contains a client, as it is written in keys. It identifies denied
    /// clients whose address is unknown.
    #[must_use]
    pub fn denied_value(&self, request: &Request<'_>) -> Option<String> {
        let mut values = self.values(request);
        let value = (0..values.reading_count()).find_map(|reading| {
            self.select_reading(&mut values, reading);
            self.deny.matched_value(&values, self.matcher.any_route(&values.routes))
        });
        value.map(|value| lossy(&value))
    }

    /// Returns the path patterns that a reading of a path matches.
    pub(super) fn matched_routes(&self, path: Option<&NormalPath<'_>>) -> MatchedRoutes {
        path.map(|path| self.matcher.routes.find(path)).unwrap_or_default()
    }

    /// Checks the access lists in each reading of the path: one denying reading denies, and all must allow.
    pub(super) fn access_in_each(&self, values: &mut RequestValues<'_>) -> Access {
        let mut access = Access::Allowed;
        for reading in 0..values.reading_count() {
            self.select_reading(values, reading);
            match self.access(values) {
                Access::Denied => return Access::Denied,
                Access::Rules | Access::Unauthorized => access = Access::Rules,
                Access::Allowed => {}
            }
        }
        access
    }

    /// Checks the access lists: `deny` before `allow`, and both before the rules.
    fn access(&self, values: &RequestValues<'_>) -> Access {
        let route = self.matcher.any_route(&values.routes);
        if self.deny.contains(values, route) {
            Access::Denied
        } else if self.allow.contains(values, route) {
            Access::Allowed
        } else {
            Access::Rules
        }
    }

    /// Adds the charges of a rule, if its key is present, or its denial.
    #[inline]
    fn charge<'h>(
        &self,
        rule: u32,
        values: &RequestValues<'_>,
        matched: &mut Matched<'_>,
        operator_override: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) {
        if self.rules[rule as usize].deny {
            matched.denials.push(rule);
            return matched.add_replaced(self.replaced_by(rule, values));
        }
        let keys_before = matched.keys.len();
        let key = match self.shared_key(rule, matched) {
            Some(key) => key,
            None => match self.write_key(rule, values, &mut matched.keys) {
                Ok(()) => KeyRef::written(keys_before, matched.keys.len()),
                Err(NoKey::Absent(_)) => return,
                Err(NoKey::Refused(_)) => return matched.refuse_token(),
            },
        };
        matched.add_replaced(self.replaced_by(rule, values));
        let text = matched.key_at(key);
        let quotas = match operator_override(rule, text) {
            Some(quotas) => quotas,
            None => self.grant(rule, values, text).quotas,
        };
        if quotas.is_empty() {
            matched.unlimited = true;
            return matched.keys.truncate(keys_before);
        }
        let cost = self.rules[rule as usize].action.cost.for_values(values);
        for quota in quotas {
            matched.charges.push(MatchedCharge { rule, quota: *quota, cost, key });
        }
    }

    /// Returns the rules that this one replaces: none unless this one matches strictly.
    #[inline(always)]
    pub(super) fn replaced_by(&self, rule: u32, values: &RequestValues<'_>) -> &[u32] {
        let replaces = &self.rules[rule as usize].action.replaces;
        if replaces.is_empty() || !self.applies_strictly(rule, values) { &[] } else { replaces }
    }

    /// Returns the key of an earlier charge whose rule has the same key parts. Most rules count by the same few
    /// identities.
    #[inline]
    fn shared_key(&self, rule: u32, matched: &Matched<'_>) -> Option<KeyRef> {
        let key_shape = self.rules[rule as usize].action.key_shape?;
        let is_same = |charge: &&MatchedCharge| self.rules[charge.rule as usize].action.key_shape == Some(key_shape);
        let charge = matched.charges.iter().take(4).find(is_same)?;
        Some(charge.key)
    }

    /// Whether a rule matches strictly, so that the rules it replaces do not apply. An unusable value, or an address
    /// that matches only by the IPv4 address it embeds, matches a rule but exempts from none.
    #[inline]
    fn applies_strictly(&self, rule: u32, values: &RequestValues<'_>) -> bool {
        let CompiledRule { action, conditions, .. } = &self.rules[rule as usize];
        let route = self.key_route(rule, values);
        let is_usable = |id: &IdentityId| values.find_usable(*id, route).is_some();
        action.key.iter().all(is_usable) && conditions.hold_strictly(values, self.matcher.route(rule, &values.routes))
    }

    /// Writes the key of a rule whose conditions hold, or returns why there is none.
    #[inline]
    pub(super) fn write_key(&self, rule: u32, values: &RequestValues<'_>, keys: &mut KeyBuffer) -> Result<(), NoKey> {
        let start = keys.len();
        let route = self.key_route(rule, values);
        for (part_index, id) in self.rules[rule as usize].action.key.iter().enumerate() {
            let Some(found) = values.find(*id, route) else {
                keys.truncate(start);
                return Err(NoKey::Absent(*id));
            };
            if !found.is_usable() && self.identities.get(found.id).on_invalid == OnInvalid::Refuse {
                keys.truncate(start);
                return Err(NoKey::Refused(found.id));
            }
            push_found(keys, part_index, *id, found, &self.identities);
        }
        Ok(())
    }

    /// Returns the grant of a key under a rule.
    #[inline]
    pub(super) fn grant(&self, rule: u32, values: &RequestValues<'_>, key: &[u8]) -> ChosenGrant<'_> {
        let action = &self.rules[rule as usize].action;
        action.grants.choose(values, key, &action.key, || self.key_route(rule, values))
    }

    /// Returns the rule's route, the matched path pattern, if the rule's key contains it.
    #[inline]
    fn key_route(&self, rule: u32, values: &RequestValues<'_>) -> Option<&[u8]> {
        if self.rules[rule as usize].action.uses_route { self.matcher.route(rule, &values.routes) } else { None }
    }
}
