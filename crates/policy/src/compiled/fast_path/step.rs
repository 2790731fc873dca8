//! The action of one rule on a request that matches it.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::NotOnFastPath;
use super::values::{FastValue, Values};
use crate::compiled::address::address_text::push_client;
use crate::compiled::address::{embedded_v4, key_address};
use crate::compiled::grants::cost::CompiledCost;
use crate::compiled::grants::rule_grants::{BaseGrants, push_part};
use crate::compiled::identity::IdentityId;
use crate::compiled::key::key_bytes;
use crate::compiled::matching::matched::{KeyRef, Matched};

/// One rule of the fast path.
#[derive(Debug)]
pub(super) struct RuleStep {
    pub(super) rule: u32,
    /// The bits of the methods that the rule matches.
    pub(super) methods: u32,
    /// The bits of the rule's path patterns; 0 if it matches any path.
    pub(super) pattern_bits: u64,
    /// Whether the rule denies. It then charges nothing.
    pub(super) denies: bool,
    pub(super) key: StepKey,
    /// Whether the key contains the route, the matched path pattern.
    pub(super) uses_route: bool,
    /// A number that is equal for all rules whose keys have the same parts; `None` if the key depends on the route.
    pub(super) key_shape: Option<u32>,
    /// Whether an earlier step has the same key shape.
    pub(super) shares_key: bool,
    /// The quotas by tier, before overrides.
    pub(super) base: BaseGrants,
    /// The quotas of the policy's own overrides, by key.
    pub(super) policy_overrides: HashMap<Box<[u8]>, Box<[u32]>, FixedState>,
    pub(super) cost: CompiledCost,
}

/// The parts of a key.
#[derive(Debug)]
pub(super) enum StepKey {
    /// The client's address alone, the most frequent key.
    Client,
    /// One identity.
    One(IdentityId),
    /// Several identities, or none: all requests are then counted together.
    Several(Box<[IdentityId]>),
}

/// The key of a request under a rule.
pub(super) enum StepKeyRef {
    At(KeyRef),
    /// One of the identities is absent: the rule does not apply.
    Absent,
}

impl RuleStep {
    /// Whether the rule's conditions hold for a method and the patterns that the path matches.
    #[inline(always)]
    pub(super) fn is_for(&self, method: u32, pattern_bits: u64) -> bool {
        self.methods & method != 0 && (self.pattern_bits == 0 || self.pattern_bits & pattern_bits != 0)
    }

    /// Returns the key of the request. A value that needs no encoding is borrowed from the request.
    #[inline(always)]
    pub(super) fn key<'r>(
        &self,
        values: &Values<'_, 'r>,
        route: Option<&[u8]>,
        matched: &mut Matched<'r>,
    ) -> Result<StepKeyRef, NotOnFastPath> {
        let identities = values.identities;
        let start = matched.keys.len();
        match &self.key {
            StepKey::Client => {
                let Some(client) = values.client() else { return Ok(StepKeyRef::Absent) };
                self.check_embedded(client)?;
                push_client(&mut matched.keys, key_address(client), identities.prefixes);
                Ok(StepKeyRef::At(KeyRef::written(start, matched.keys.len())))
            }
            StepKey::One(only) => {
                let Some((found, value)) = values.find(*only, route)? else { return Ok(StepKeyRef::Absent) };
                match value {
                    FastValue::OfRequest(text)
                        if key_bytes::is_verbatim(text) && !identities.get(*only).needs_encoding() =>
                    {
                        Ok(StepKeyRef::At(matched.borrow_key(text)))
                    }
                    _ => {
                        self.write_part(0, *only, found, value, values, matched)?;
                        Ok(StepKeyRef::At(KeyRef::written(start, matched.keys.len())))
                    }
                }
            }
            StepKey::Several(parts) => self.write_key(parts, values, route, matched),
        }
    }

    fn write_key<'r>(
        &self,
        parts: &[IdentityId],
        values: &Values<'_, 'r>,
        route: Option<&[u8]>,
        matched: &mut Matched<'r>,
    ) -> Result<StepKeyRef, NotOnFastPath> {
        let start = matched.keys.len();
        for (index, id) in parts.iter().enumerate() {
            let Some((found, value)) = values.find(*id, route)? else {
                matched.keys.truncate(start);
                return Ok(StepKeyRef::Absent);
            };
            self.write_part(index, *id, found, value, values, matched)?;
        }
        Ok(StepKeyRef::At(KeyRef::written(start, matched.keys.len())))
    }

    /// Fails if the rule has overrides and the address is an IPv6 address with an embedded IPv4 address (NAT64, 6to4).
    /// Its key contains the IPv4 address, but an override may name the IPv6 address as it was sent.
    #[inline(always)]
    fn check_embedded(&self, address: IpAddr) -> Result<(), NotOnFastPath> {
        if !self.policy_overrides.is_empty() && embedded_v4(address).is_some() { Err(NotOnFastPath) } else { Ok(()) }
    }

    /// Writes one part of a key. `found` is the identity that has the value: `id`, or one of its members if it is a
    /// `first` identity.
    fn write_part(
        &self,
        index: usize,
        id: IdentityId,
        found: IdentityId,
        value: FastValue<'_, '_>,
        values: &Values<'_, '_>,
        matched: &mut Matched<'_>,
    ) -> Result<(), NotOnFastPath> {
        let identities = values.identities;
        match value {
            FastValue::OfRequest(text) | FastValue::OfPolicy(text) => {
                push_part(&mut matched.keys, index, id, found, text, identities);
            }
            FastValue::Address(address) => {
                self.check_embedded(address)?;
                let mut text = SmallVec::<[u8; 64]>::new();
                push_client(&mut text, key_address(address), identities.prefixes);
                push_part(&mut matched.keys, index, id, found, &text, identities);
            }
        }
        Ok(())
    }

    /// Returns the quotas of a key; empty if it is unlimited.
    #[inline(always)]
    pub(super) fn grant(&self, values: &mut Values<'_, '_>, key: &[u8]) -> Result<&[u32], NotOnFastPath> {
        if !self.policy_overrides.is_empty()
            && let Some(quotas) = self.policy_overrides.get(key)
        {
            return Ok(quotas);
        }
        let tier = if self.base.uses_tiers() { values.tier()? } else { None };
        Ok(self.base.choose(|| tier).quotas)
    }
}
