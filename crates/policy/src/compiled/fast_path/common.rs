//! What most rules do to most requests: they charge one quota, under a key that stands in the request.

use std::slice::Iter;

use crate::compiled::grants::cost::CompiledCost;
use crate::compiled::grants::rule_grants::Base;
use crate::compiled::identity::{CLIENT_IP, Identities, IdentityId, Source};
use crate::compiled::key::key_bytes;
use crate::request::{FieldName, Request};

/// A rule, as far as it is common.
#[derive(Debug)]
pub(super) struct CommonStep {
    /// The bits of the methods that the rule is for.
    methods: u32,
    rule: u32,
    /// The bits of its path patterns; none if it is for any path.
    patterns: u64,
    quota: u32,
    /// For a request of cost 1.
    cost: u64,
    key: KeySource,
}

#[derive(Debug)]
enum KeySource {
    /// A whole IPv4 address.
    Client,
    /// The value of a header, as it is.
    Header(FieldName),
    /// The rule is not common.
    Other,
}

/// A charge of a common request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonCharge<'r> {
    /// The position of the rule among [`CompiledPolicy::rules`](crate::CompiledPolicy::rules).
    pub rule: u32,
    /// The position of the quota among [`CompiledPolicy::quotas`](crate::CompiledPolicy::quotas).
    pub quota: u32,
    /// What it costs.
    pub cost: u64,
    /// Whose counter it is for.
    pub key: CommonKey<'r>,
}

/// The key of a common charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommonKey<'r> {
    /// A value of the request.
    Text(&'r [u8]),
    /// The text of an address: its bytes from the lowest on, and how many there are, at most 15.
    Address(u128, usize),
}

/// A request that is not common: [`CompiledPolicy::match_into`](crate::CompiledPolicy::match_into) says what it matches.
#[derive(Clone, Copy, Debug)]
pub struct Uncommon;

/// The charges of a common request, found one by one.
pub struct CommonCharges<'p, 'r> {
    pub(super) steps: Iter<'p, CommonStep>,
    pub(super) request: &'p Request<'r>,
    pub(super) method: u32,
    pub(super) patterns: u64,
    /// The text of the client's address, if a step asks for it.
    pub(super) client: (u128, usize),
}

impl<'r> CommonCharges<'_, 'r> {
    /// The charge, if there is exactly one left. (Steps are found by branches, which processors predict, and not by
    /// bits, for which everything that follows would wait.)
    #[inline(always)]
    #[must_use]
    pub fn only(&self) -> Option<Result<CommonCharge<'r>, Uncommon>> {
        let mut steps = self.steps.clone().filter(|step| self.is_for(step));
        let first = steps.next()?;
        if steps.next().is_some() { None } else { Some(self.charge(first)) }
    }

    #[inline(always)]
    fn is_for(&self, step: &CommonStep) -> bool {
        step.methods & self.method != 0 && (step.patterns == 0 || step.patterns & self.patterns != 0)
    }

    #[inline(always)]
    fn charge(&self, step: &CommonStep) -> Result<CommonCharge<'r>, Uncommon> {
        let key = match &step.key {
            KeySource::Client => CommonKey::Address(self.client.0, self.client.1),
            KeySource::Header(name) => CommonKey::Text(header_key(self.request, name).ok_or(Uncommon)?),
            KeySource::Other => return Err(Uncommon),
        };
        Ok(CommonCharge { rule: step.rule, quota: step.quota, cost: step.cost, key })
    }

    /// The kind of endpoint, as in [`Matched::endpoint`](crate::Matched::endpoint).
    #[inline(always)]
    #[must_use]
    pub fn endpoint(&self) -> Option<u32> {
        super::endpoint(self.patterns)
    }
}

impl<'r> Iterator for CommonCharges<'_, 'r> {
    type Item = Result<CommonCharge<'r>, Uncommon>;

    #[inline(always)]
    fn next(&mut self) -> Option<Result<CommonCharge<'r>, Uncommon>> {
        while let Some(step) = self.steps.next() {
            if self.is_for(step) {
                return Some(self.charge(step));
            }
        }
        None
    }
}

impl CommonStep {
    pub(super) fn new(rule: u32, methods: u32, patterns: u64) -> CommonStep {
        CommonStep { methods, rule, patterns, quota: 0, cost: 0, key: KeySource::Other }
    }

    /// Makes it common, if the rule's key, grants and cost allow it.
    pub(super) fn make_common(
        &mut self,
        key: &[IdentityId],
        base: &Base,
        cost: &CompiledCost,
        identities: &Identities,
    ) {
        let (&[id], Base::Same(quotas)) = (key, base) else { return };
        let &[quota] = quotas.as_slice() else { return };
        let cost = match *cost {
            CompiledCost::OfTheRequest { .. } => 1,
            CompiledCost::Fixed(cost) => cost,
            CompiledCost::Header { .. } | CompiledCost::Methods { .. } => return,
        };
        let known = identities.known(id);
        let key = match &known.source {
            _ if known.needs_writing() => return,
            Source::ClientIp if id == CLIENT_IP && identities.prefixes.v4 >= 32 => KeySource::Client,
            Source::Header(name) => KeySource::Header(name.clone()),
            _ => return,
        };
        *self = CommonStep { quota, cost, key, ..*self };
    }

    pub(super) fn is_by_client(&self) -> bool {
        matches!(self.key, KeySource::Client)
    }
}

/// The value of a header, if it is a key as it is.
#[inline(always)]
fn header_key<'r>(request: &Request<'r>, name: &FieldName) -> Option<&'r [u8]> {
    let (value, _) = request.headers.first_line_of(name)?;
    let is_trimmed = value.first()? > &b' ' && value.last()? > &b' ';
    if is_trimmed && key_bytes::is_written_plain(value) { Some(value) } else { None }
}
