//! Simple policies as a flat list of steps, one for each rule.
//!
//! Most policies have a few rules with conditions on a method or a path, and count by one or two identities. For them
//! the indexes cost more than they save. A request is matched step by step. An unusual request is not on the fast path
//! ([`NotOnFastPath`]) and is matched by the indexes instead: its path is ambiguous (servers normalise it differently),
//! a value is unusable, a gateway sends an Envoy rate limit descriptor .. The indexes are the reference: the fast path
//! returns the same result or none.
//!
//! There are two levels. A *common* request needs only rules that charge one quota under a key that is an IPv4 address
//! or a header value, unchanged ([`CommonCharges`]). All other requests on the fast path are matched by the
//! [`RuleStep`]s.
//!
//! A set of path patterns is a `u64` with one bit for each pattern (`pattern_bits`). The *route* of a rule is the most
//! specific matched pattern among those of the rule; the *endpoint* of a request is the most specific matched pattern
//! of the whole policy.

mod common;
mod compile;
mod step;
mod values;

pub use common::{CommonCharge, CommonCharges, CommonKey, NotCommon};

use std::net::{IpAddr, Ipv4Addr};

use super::address::address_text::v4_packed_text;
use super::identity::IdentityTable;
use super::matching::matched::{Access, Matched, MatchedCharge};
use super::path::pattern::PathPattern;
use crate::model::Paths;
use crate::request::{Request, is_same};
use common::CommonStep;
use step::{RuleStep, StepKeyRef};
use values::{RequestPath, Values};

/// The request is not on the fast path: the indexes match it.
#[derive(Clone, Copy, Debug)]
struct NotOnFastPath;

/// The rules of a simple policy, in order.
#[derive(Debug)]
pub(super) struct FastPath {
    steps: Vec<RuleStep>,
    /// The same rules as they apply to common requests, in the same order.
    common_steps: Vec<CommonStep>,
    /// The methods in the conditions of steps. The index of a method is the number of its bit.
    methods: Vec<Box<[u8]>>,
    /// Whether the method is read at all, for a condition, a key or a cost.
    reads_method: bool,
    /// Whether a common step counts by the client's address.
    reads_client: bool,
    /// All path patterns, the most specific first. The index of a pattern is the number of its bit.
    patterns: Vec<PathPattern>,
    /// The paths of patterns without wildcards, each with the bits of all patterns that it matches. A target that is
    /// one of them needs no parsing.
    exact_paths: Vec<(Box<[u8]>, u64)>,
    /// Whether the path is read at all.
    reads_path: bool,
    /// The settings of path normalisation.
    paths: Paths,
}

/// The bit of all methods that no rule names. A step without a condition on the method has this bit and all others.
const OTHER_METHOD: u32 = 1 << 31;

impl FastPath {
    /// Writes the rules that a request matches to `matched`. `operator_override` returns the quotas that replace those
    /// of a rule (its index) for a key, if an operator has set an override. Returns false if the request has to be
    /// matched by the indexes; the content of `matched` is then invalid.
    #[inline(always)]
    pub(super) fn match_request<'r, 'h>(
        &self,
        identities: &IdentityTable,
        request: &Request<'r>,
        matched: &mut Matched<'r>,
        operator_override: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> bool {
        if let Some(charges) = self.common_charges(identities, request) {
            if match_common(charges, matched, operator_override).is_ok() {
                return true;
            }
            *matched = Matched::new(Access::Rules);
        }
        self.match_steps(identities, request, matched, operator_override).is_ok()
    }

    /// Returns the charges of a request of cost 1 whose caller sets no identities and no descriptor, whose client has
    /// an IPv4 address if a step needs it, and whose method and path, if they are read, are on the fast path. `None`
    /// for all others.
    #[inline(always)]
    pub(super) fn common_charges<'p, 'r>(
        &'p self,
        identities: &IdentityTable,
        request: &'p Request<'r>,
    ) -> Option<CommonCharges<'p, 'r>> {
        if !request.identities.is_empty() || request.cost != 1 {
            return None;
        }
        // The packed text of the address, and its length.
        let client = if self.reads_client { v4_packed_text(client_address(identities, request)?) } else { (0, 0) };
        if request.descriptor.is_some() {
            return None;
        }
        let method = self.method(request).ok()?;
        let pattern_bits = self.patterns_of(request.target).ok()?;
        Some(CommonCharges { steps: self.common_steps.iter(), request, method, pattern_bits, client })
    }

    /// Matches a request step by step. Fails if it is not on the fast path.
    #[inline(always)]
    fn match_steps<'r, 'h>(
        &self,
        identities: &IdentityTable,
        request: &Request<'r>,
        matched: &mut Matched<'r>,
        operator_override: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Result<(), NotOnFastPath> {
        let (method, path) = self.read(request)?;
        let pattern_bits = self.matched_patterns(path);
        matched.endpoint = endpoint(pattern_bits);
        let mut values = Values::new(identities, request, path);
        for step in self.steps.iter().filter(|step| step.is_for(method, pattern_bits)) {
            self.charge(step, pattern_bits, &mut values, matched, operator_override)?;
        }
        Ok(())
    }

    /// Adds the charges of a step, or its denial.
    fn charge<'r, 'h>(
        &self,
        step: &RuleStep,
        pattern_bits: u64,
        values: &mut Values<'_, 'r>,
        matched: &mut Matched<'r>,
        operator_override: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Result<(), NotOnFastPath> {
        if step.denies {
            matched.denials.push(step.rule);
            return Ok(());
        }
        let keys_before = matched.keys.len();
        let key = match self.key(step, pattern_bits, values, matched)? {
            StepKeyRef::At(key) => key,
            StepKeyRef::Absent => return Ok(()),
        };
        let quotas = match operator_override(step.rule, matched.key_at(key)) {
            Some(quotas) => quotas,
            None => step.grant(values, matched.key_at(key))?,
        };
        if quotas.is_empty() {
            matched.unlimited = true;
            matched.keys.truncate(keys_before);
            return Ok(());
        }
        let request = values.request;
        let number = |header| values.number(header);
        let cost = step.cost.compute(request, request.method.as_bytes(), number, |costs| values.path_cost(costs));
        for quota in quotas {
            matched.charges.push(MatchedCharge { rule: step.rule, quota: *quota, cost, key });
        }
        Ok(())
    }

    /// Returns the bit of the method, and the path if it is known. Fails if the path is ambiguous.
    #[inline(always)]
    fn read<'r>(&self, request: &Request<'r>) -> Result<(u32, Option<RequestPath<'r>>), NotOnFastPath> {
        // The entries of an Envoy descriptor are compared literally, which only the indexes do.
        if request.descriptor.is_some() {
            return Err(NotOnFastPath);
        }
        let path = if self.reads_path { RequestPath::read(request.target, self.paths)? } else { None };
        Ok((self.method(request)?, path))
    }

    #[inline(always)]
    fn method(&self, request: &Request<'_>) -> Result<u32, NotOnFastPath> {
        if self.reads_method { self.method_bit(request.method.as_bytes()) } else { Ok(OTHER_METHOD) }
    }

    /// Returns a bit for each pattern that the path of a target matches.
    #[inline(always)]
    fn patterns_of(&self, target: &str) -> Result<u64, NotOnFastPath> {
        if !self.reads_path {
            return Ok(0);
        }
        for (path, pattern_bits) in &self.exact_paths {
            if is_same(path, target.as_bytes()) {
                return Ok(*pattern_bits);
            }
        }
        Ok(self.matched_patterns(RequestPath::read(target, self.paths)?))
    }

    /// Precomputes the result of [`patterns_of`](FastPath::patterns_of) for the paths of patterns without wildcards.
    fn index_exact_paths(&mut self) {
        let texts = self.patterns.iter().filter(|pattern| !pattern.is_wildcard()).map(PathPattern::text);
        let read = |text: &[u8]| {
            let target = str::from_utf8(text).ok()?;
            Some((text.into(), self.matched_patterns(RequestPath::read(target, self.paths).ok()?)))
        };
        self.exact_paths = texts.filter_map(read).collect();
    }

    #[inline(always)]
    fn method_bit(&self, method: &[u8]) -> Result<u32, NotOnFastPath> {
        // A loop, because a closure would become a call.
        for (number, known) in self.methods.iter().enumerate() {
            if is_same(known, method) {
                return Ok(1 << number);
            }
        }
        // With lowercase letters it may be one of the methods above in another letter case.
        if method.iter().any(u8::is_ascii_lowercase) { Err(NotOnFastPath) } else { Ok(OTHER_METHOD) }
    }

    /// Returns a bit for each pattern that the path matches.
    #[inline(always)]
    fn matched_patterns(&self, path: Option<RequestPath<'_>>) -> u64 {
        let Some(path) = path else { return 0 };
        let mut bits = 0;
        for (number, pattern) in self.patterns.iter().enumerate() {
            bits |= u64::from(pattern.matches(path.bytes, path.slash)) << number;
        }
        bits
    }

    /// Returns the key under which a step counts a request.
    #[inline(always)]
    fn key<'r>(
        &self,
        step: &RuleStep,
        pattern_bits: u64,
        values: &Values<'_, 'r>,
        matched: &mut Matched<'r>,
    ) -> Result<StepKeyRef, NotOnFastPath> {
        // Only the first charges are searched: computing the key again is cheaper than a longer search.
        if step.shares_key
            && let Some(charge) = matched.charges.iter().take(4).find(|charge| self.has_same_key(step, charge))
        {
            return Ok(StepKeyRef::At(charge.key));
        }
        let route = if step.uses_route { self.route(step, pattern_bits) } else { None };
        step.key(values, route, matched)
    }

    /// Whether a charge has the same key as this step: its rule counts by the same identities.
    #[inline(always)]
    fn has_same_key(&self, step: &RuleStep, charge: &MatchedCharge) -> bool {
        self.steps[charge.rule as usize].key_shape == step.key_shape
    }

    /// Returns the text of the route: the most specific matched pattern of the step, or of all patterns if the step has
    /// none.
    fn route(&self, step: &RuleStep, pattern_bits: u64) -> Option<&[u8]> {
        let own = if step.pattern_bits == 0 { pattern_bits } else { step.pattern_bits & pattern_bits };
        self.patterns.get(own.trailing_zeros() as usize).map(PathPattern::text)
    }
}

/// Writes the charges of a common request to `matched`. Fails if the request is not common, or one of its keys has an
/// operator's override.
fn match_common<'r, 'h>(
    charges: CommonCharges<'_, 'r>,
    matched: &mut Matched<'r>,
    operator_override: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
) -> Result<(), NotCommon> {
    matched.endpoint = charges.endpoint();
    for charge in charges {
        let CommonCharge { rule, quota, cost, key } = charge?;
        let key = match key {
            CommonKey::Text(text) => matched.borrow_key(text),
            CommonKey::Address(text, length) => matched.write_key(&text.to_le_bytes()[..length]),
        };
        if operator_override(rule, matched.key_at(key)).is_some() {
            return Err(NotCommon);
        }
        matched.charges.push(MatchedCharge { rule, quota, cost, key });
    }
    Ok(())
}

/// Returns the client's address, if it is IPv4.
#[inline(always)]
fn client_address(identities: &IdentityTable, request: &Request<'_>) -> Option<Ipv4Addr> {
    match request.peer {
        Some(IpAddr::V4(peer)) if identities.trusted.is_empty() => return Some(peer),
        _ => {}
    }
    match identities.client(request) {
        Some(IpAddr::V4(address)) => Some(address),
        _ => None,
    }
}

/// Returns the index of the endpoint: the most specific of the patterns that a path matches.
#[inline(always)]
fn endpoint(pattern_bits: u64) -> Option<u32> {
    if pattern_bits == 0 { None } else { Some(pattern_bits.trailing_zeros()) }
}
