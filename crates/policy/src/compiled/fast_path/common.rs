//! Common requests: every matched rule charges one quota, under a key that is an IPv4 address or a header value,
//! unchanged.
//!
//! A rule is a *common rule* if it does that for all requests of cost 1, except for unusual values: it has one quota,
//! the same for all tiers, and no overrides; its cost is fixed or that of the request; and it counts by the client's
//! full IPv4 address or by a header. A request that matches any other rule is not common.

use std::slice::Iter;

use crate::compiled::grants::cost::CompiledCost;
use crate::compiled::grants::rule_grants::BaseGrants;
use crate::compiled::identity::{CLIENT_IP, IdentityId, IdentityTable, ValueSource};
use crate::compiled::key::key_bytes;
use crate::request::{FieldName, Request};

/// A common rule as it applies to common requests, or a placeholder for any other rule.
#[derive(Debug)]
pub(super) struct CommonStep {
    /// The bits of the methods that the rule matches.
    methods: u32,
    rule: u32,
    /// The bits of the rule's path patterns; 0 if it matches any path.
    pattern_bits: u64,
    quota: u32,
    /// The cost of a request whose caller sets cost 1.
    cost: u64,
    key: KeySource,
}

#[derive(Debug)]
enum KeySource {
    /// A full IPv4 address.
    Client,
    /// The unchanged value of a header.
    Header(FieldName),
    /// It is not a common rule: a request that matches it is not common.
    Other,
}

/// A charge of a common request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonCharge<'r> {
    /// The index of the rule in [`CompiledPolicy::rules`](crate::CompiledPolicy::rules).
    pub rule: u32,
    /// The index of the quota in [`CompiledPolicy::quotas`](crate::CompiledPolicy::quotas).
    pub quota: u32,
    /// The cost.
    pub cost: u64,
    /// The key to charge.
    pub key: CommonKey<'r>,
}

/// The key of a common charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommonKey<'r> {
    /// A value of the request.
    Text(&'r [u8]),
    /// The text of an IPv4 address, packed into a little-endian integer (the first character is the lowest byte), and
    /// its length in bytes, at most 15.
    Address(u128, usize),
}

/// The request is not a common one. [`CompiledPolicy::match_into`](crate::CompiledPolicy::match_into) matches every
/// request.
#[derive(Clone, Copy, Debug)]
pub struct NotCommon;

/// An iterator over the charges of a common request, which matches one rule at a time.
pub struct CommonCharges<'p, 'r> {
    pub(super) steps: Iter<'p, CommonStep>,
    pub(super) request: &'p Request<'r>,
    pub(super) method: u32,
    /// The bits of the patterns that the path matches.
    pub(super) pattern_bits: u64,
    /// The text of the client's address as in [`CommonKey::Address`], if a step needs it.
    pub(super) client: (u128, usize),
}

impl<'r> CommonCharges<'_, 'r> {
    /// Returns the charge, if exactly one is left.
    ///
    /// (Each step is selected by a branch, which the processor predicts. Selecting steps without branches, by bit
    /// operations, would be slower: all later instructions would have to wait for the result.)
    #[inline(always)]
    #[must_use]
    pub fn only(&self) -> Option<Result<CommonCharge<'r>, NotCommon>> {
        let mut steps = self.steps.clone().filter(|step| self.is_for(step));
        let first = steps.next()?;
        if steps.next().is_some() { None } else { Some(self.charge(first)) }
    }

    #[inline(always)]
    fn is_for(&self, step: &CommonStep) -> bool {
        step.methods & self.method != 0 && (step.pattern_bits == 0 || step.pattern_bits & self.pattern_bits != 0)
    }

    #[inline(always)]
    fn charge(&self, step: &CommonStep) -> Result<CommonCharge<'r>, NotCommon> {
        let key = match &step.key {
            KeySource::Client => CommonKey::Address(self.client.0, self.client.1),
            KeySource::Header(name) => CommonKey::Text(header_key(self.request, name).ok_or(NotCommon)?),
            KeySource::Other => return Err(NotCommon),
        };
        Ok(CommonCharge { rule: step.rule, quota: step.quota, cost: step.cost, key })
    }

    /// Returns the endpoint, as in [`Matched::endpoint`](crate::Matched::endpoint).
    #[inline(always)]
    #[must_use]
    pub fn endpoint(&self) -> Option<u32> {
        super::endpoint(self.pattern_bits)
    }
}

impl<'r> Iterator for CommonCharges<'_, 'r> {
    type Item = Result<CommonCharge<'r>, NotCommon>;

    #[inline(always)]
    fn next(&mut self) -> Option<Result<CommonCharge<'r>, NotCommon>> {
        while let Some(step) = self.steps.next() {
            if self.is_for(step) {
                return Some(self.charge(step));
            }
        }
        None
    }
}

impl CommonStep {
    pub(super) fn new(rule: u32, methods: u32, pattern_bits: u64) -> CommonStep {
        CommonStep { methods, rule, pattern_bits, quota: 0, cost: 0, key: KeySource::Other }
    }

    /// Replaces the placeholder, if the key, grants and cost are those of a common rule. The caller has checked that
    /// the rule neither denies nor has overrides.
    pub(super) fn make_common(
        &mut self,
        key: &[IdentityId],
        base: &BaseGrants,
        cost: &CompiledCost,
        identities: &IdentityTable,
    ) {
        // One identity as the key, and the same quotas for all tiers.
        let (&[id], BaseGrants::Same(quotas)) = (key, base) else { return };
        let &[quota] = quotas.as_slice() else { return };
        let cost = match *cost {
            CompiledCost::FromRequest { .. } => 1,
            CompiledCost::Fixed(cost) => cost,
            CompiledCost::Header { .. } | CompiledCost::Methods { .. } | CompiledCost::Paths(_) => return,
        };
        let identity = identities.get(id);
        let key = match &identity.source {
            _ if identity.needs_encoding() => return,
            ValueSource::ClientIp if id == CLIENT_IP && identities.prefixes.v4 >= 32 => KeySource::Client,
            ValueSource::Header(name) => KeySource::Header(name.clone()),
            _ => return,
        };
        *self = CommonStep { quota, cost, key, ..*self };
    }

    pub(super) fn is_by_client(&self) -> bool {
        matches!(self.key, KeySource::Client)
    }
}

/// Returns the value of a header, if it can be used as a key unchanged.
#[inline(always)]
fn header_key<'r>(request: &Request<'r>, name: &FieldName) -> Option<&'r [u8]> {
    let (value, _) = request.headers.first_line_of(name)?;
    let is_trimmed = value.first()? > &b' ' && value.last()? > &b' ';
    if is_trimmed && key_bytes::is_verbatim(value) { Some(value) } else { None }
}
