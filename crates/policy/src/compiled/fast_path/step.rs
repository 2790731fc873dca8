//! What one rule does to a request that matches it.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::Uncommon;
use super::values::{Value, Values};
use crate::compiled::address::address_text::push_client;
use crate::compiled::address::{carried, counted};
use crate::compiled::grants::cost::CompiledCost;
use crate::compiled::grants::rule_grants::{Base, push_part};
use crate::compiled::identity::IdentityId;
use crate::compiled::key::key_bytes;
use crate::compiled::matching::matched::{KeyRef, Matched};

/// One rule.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) rule: u32,
    /// The bits of the methods that it is for.
    pub(super) methods: u32,
    /// The bits of its path patterns; none if it is for any path.
    pub(super) patterns: u64,
    /// Whether it denies, and charges nothing.
    pub(super) denies: bool,
    pub(super) key: StepKey,
    /// Whether the key depends on the pattern that matched.
    pub(super) uses_route: bool,
    /// Rules with the same parts in their keys have the same number.
    pub(super) shape: Option<u32>,
    /// Whether a step before has the same.
    pub(super) shares_key: bool,
    pub(super) base: Base,
    /// The quotas of overrides, by key.
    pub(super) overrides: HashMap<Box<[u8]>, Box<[u32]>, FixedState>,
    pub(super) cost: CompiledCost,
}

/// What a key is made of.
#[derive(Debug)]
pub(super) enum StepKey {
    /// The client's address alone, as most keys are.
    Client,
    /// One identity.
    One(IdentityId),
    /// Several, or none: all requests are counted together.
    Several(Box<[IdentityId]>),
}

/// The key of a request under a rule.
pub(super) enum Key {
    At(KeyRef),
    /// One of the identities is absent, so that the rule does not apply.
    Absent,
}

impl Step {
    /// Whether its conditions hold for a method and the patterns that a path matches.
    #[inline(always)]
    pub(super) fn is_for(&self, method: u32, patterns: u64) -> bool {
        self.methods & method != 0 && (self.patterns == 0 || self.patterns & patterns != 0)
    }

    /// Finds the key: a value that needs nothing written is borrowed.
    #[inline(always)]
    pub(super) fn key<'r>(
        &self,
        values: &Values<'_, 'r>,
        route: Option<&[u8]>,
        matched: &mut Matched<'r>,
    ) -> Result<Key, Uncommon> {
        let identities = values.identities;
        let start = matched.keys.len();
        match &self.key {
            StepKey::Client => {
                let Some(client) = values.client() else { return Ok(Key::Absent) };
                self.check_override(client)?;
                push_client(&mut matched.keys, counted(client), identities.prefixes);
                Ok(Key::At(KeyRef::written(start, matched.keys.len())))
            }
            StepKey::One(only) => {
                let Some((found, value)) = values.find(*only, route)? else { return Ok(Key::Absent) };
                match value {
                    Value::OfRequest(text)
                        if key_bytes::is_written_plain(text) && !identities.known(*only).needs_writing() =>
                    {
                        Ok(Key::At(matched.borrow_key(text)))
                    }
                    _ => {
                        self.write_part(0, *only, found, value, values, matched)?;
                        Ok(Key::At(KeyRef::written(start, matched.keys.len())))
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
    ) -> Result<Key, Uncommon> {
        let start = matched.keys.len();
        for (at, id) in parts.iter().enumerate() {
            let Some((found, value)) = values.find(*id, route)? else {
                matched.keys.truncate(start);
                return Ok(Key::Absent);
            };
            self.write_part(at, *id, found, value, values, matched)?;
        }
        Ok(Key::At(KeyRef::written(start, matched.keys.len())))
    }

    /// An override may mean an address as it was sent, where it is counted as another.
    #[inline(always)]
    fn check_override(&self, address: IpAddr) -> Result<(), Uncommon> {
        if !self.overrides.is_empty() && carried(address).is_some() { Err(Uncommon) } else { Ok(()) }
    }

    fn write_part(
        &self,
        at: usize,
        id: IdentityId,
        found: IdentityId,
        value: Value<'_, '_>,
        values: &Values<'_, '_>,
        matched: &mut Matched<'_>,
    ) -> Result<(), Uncommon> {
        let identities = values.identities;
        match value {
            Value::OfRequest(text) | Value::OfPolicy(text) => {
                push_part(&mut matched.keys, at, id, found, text, identities);
            }
            Value::Address(address) => {
                self.check_override(address)?;
                let mut text = SmallVec::<[u8; 64]>::new();
                push_client(&mut text, counted(address), identities.prefixes);
                push_part(&mut matched.keys, at, id, found, &text, identities);
            }
        }
        Ok(())
    }

    /// The quotas for a key; none if it is unlimited.
    #[inline(always)]
    pub(super) fn grant(&self, values: &mut Values<'_, '_>, key: &[u8]) -> Result<&[u32], Uncommon> {
        if !self.overrides.is_empty()
            && let Some(quotas) = self.overrides.get(key)
        {
            return Ok(quotas);
        }
        let tier = if self.base.uses_tiers() { values.tier()? } else { None };
        Ok(self.base.choose(|| tier).quotas)
    }
}
