//! Simple policies as a flat list of steps, one for each rule.
//!
//! Most policies have a few rules that ask for a method or a path and count by one or two identities. For them the
//! indexes cost more than they save. A request walks the steps in order; where it is out of the ordinary (its path
//! has several readings, a value cannot be used, a gateway describes it ..) it leaves them for the indexes, which
//! are the reference: the fast path gives the same answer or none.

mod common;
mod compile;
mod step;
mod values;

pub use common::{CommonCharge, CommonCharges, CommonKey, Uncommon};

use std::net::{IpAddr, Ipv4Addr};

use super::address::address_text::v4_in_register;
use super::identity::Identities;
use super::matching::matched::{Access, Matched, MatchedCharge};
use super::path::pattern::PathPattern;
use crate::model::Paths;
use crate::request::{Request, is_same};
use common::CommonStep;
use step::{Key, Step};
use values::{RequestPath, Values};

/// The rules of a simple policy, in order.
#[derive(Debug)]
pub(super) struct FastPath {
    steps: Vec<Step>,
    /// What each of them does to most requests.
    common: Vec<CommonStep>,
    /// The methods that steps ask for, by the number of their bit.
    methods: Vec<Box<[u8]>>,
    /// Whether a method is read at all, as a condition or as a part of a key.
    reads_method: bool,
    /// Whether a common step counts by the client's address.
    reads_client: bool,
    /// All path patterns, by number, the most specific first.
    patterns: Vec<PathPattern>,
    /// Paths that a pattern stands for alone, each with the bits of all patterns that it matches. A target that is one
    /// of them is not read any further.
    exact_paths: Vec<(Box<[u8]>, u64)>,
    /// Whether the path is read at all.
    reads_path: bool,
    paths: Paths,
}

/// The bit of a method that no step asks for. Steps that take any method have it.
const OTHER_METHOD: u32 = 1 << 31;

impl FastPath {
    /// Fills in what a request matches. False if it has to be matched by the indexes; what was filled in is then
    /// of no use.
    #[inline(always)]
    pub(super) fn match_request<'r, 'h>(
        &self,
        identities: &Identities,
        request: &Request<'r>,
        matched: &mut Matched<'r>,
        overrides: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> bool {
        if let Some(charges) = self.common_charges(identities, request) {
            if match_common(charges, matched, overrides).is_ok() {
                return true;
            }
            *matched = Matched::new(Access::Rules);
        }
        self.walk(identities, request, matched, overrides).is_ok()
    }

    /// The charges of a request of cost 1 whose caller sets no identities and whose client, if it is asked for, has an
    /// IPv4 address. `None` for all others.
    #[inline(always)]
    pub(super) fn common_charges<'p, 'r>(
        &'p self,
        identities: &Identities,
        request: &'p Request<'r>,
    ) -> Option<CommonCharges<'p, 'r>> {
        if !request.identities.is_empty() || request.cost != 1 {
            return None;
        }
        let client = if self.reads_client { v4_in_register(client_address(identities, request)?) } else { (0, 0) };
        if request.descriptor.is_some() {
            return None;
        }
        let method = self.method(request).ok()?;
        let patterns = self.patterns_of(request.target).ok()?;
        Some(CommonCharges { steps: self.common.iter(), request, method, patterns, client })
    }

    #[inline(always)]
    fn walk<'r, 'h>(
        &self,
        identities: &Identities,
        request: &Request<'r>,
        matched: &mut Matched<'r>,
        overrides: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Result<(), Uncommon> {
        let (method, path) = self.read(request)?;
        let patterns = self.matched_patterns(path);
        matched.endpoint = endpoint(patterns);
        let mut values = Values::new(identities, request, path);
        for step in self.steps.iter().filter(|step| step.is_for(method, patterns)) {
            self.charge(step, patterns, &mut values, matched, overrides)?;
        }
        Ok(())
    }

    /// What a step adds to a request.
    fn charge<'r, 'h>(
        &self,
        step: &Step,
        patterns: u64,
        values: &mut Values<'_, 'r>,
        matched: &mut Matched<'r>,
        overrides: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
    ) -> Result<(), Uncommon> {
        if step.denies {
            matched.denials.push(step.rule);
            return Ok(());
        }
        let written = matched.keys.len();
        let key = match self.key(step, patterns, values, matched)? {
            Key::At(key) => key,
            Key::Absent => return Ok(()),
        };
        let quotas = match overrides(step.rule, matched.key_at(key)) {
            Some(quotas) => quotas,
            None => step.grant(values, matched.key_at(key))?,
        };
        if quotas.is_empty() {
            matched.unlimited = true;
            matched.keys.truncate(written);
            return Ok(());
        }
        let request = values.request;
        let cost = step.cost.of(request, request.method.as_bytes(), |header| values.number(header));
        for quota in quotas {
            matched.charges.push(MatchedCharge { rule: step.rule, quota: *quota, cost, key });
        }
        Ok(())
    }

    /// The bit of the method, and the path if it is known and there is one way to read it.
    #[inline(always)]
    fn read<'r>(&self, request: &Request<'r>) -> Result<(u32, Option<RequestPath<'r>>), Uncommon> {
        // A gateway's descriptor is compared literally.
        if request.descriptor.is_some() {
            return Err(Uncommon);
        }
        let path = if self.reads_path { RequestPath::read(request.target, self.paths)? } else { None };
        Ok((self.method(request)?, path))
    }

    #[inline(always)]
    fn method(&self, request: &Request<'_>) -> Result<u32, Uncommon> {
        if self.reads_method { self.method_bit(request.method.as_bytes()) } else { Ok(OTHER_METHOD) }
    }

    /// A bit for each pattern that the path of a target matches.
    #[inline(always)]
    fn patterns_of(&self, target: &str) -> Result<u64, Uncommon> {
        if !self.reads_path {
            return Ok(0);
        }
        for (path, patterns) in &self.exact_paths {
            if is_same(path, target.as_bytes()) {
                return Ok(*patterns);
            }
        }
        Ok(self.matched_patterns(RequestPath::read(target, self.paths)?))
    }

    /// What [`patterns_of`](FastPath::patterns_of) would find for the paths that patterns stand for.
    fn find_exact_paths(&mut self) {
        let texts = self.patterns.iter().filter(|pattern| !pattern.is_wild()).map(PathPattern::text);
        let read = |text: &[u8]| {
            let target = str::from_utf8(text).ok()?;
            Some((text.into(), self.matched_patterns(RequestPath::read(target, self.paths).ok()?)))
        };
        self.exact_paths = texts.filter_map(read).collect();
    }

    #[inline(always)]
    fn method_bit(&self, method: &[u8]) -> Result<u32, Uncommon> {
        // Loops, because as closures they become calls.
        for (at, known) in self.methods.iter().enumerate() {
            if is_same(known, method) {
                return Ok(1 << at);
            }
        }
        // It may be one of them in another case.
        if method.iter().any(u8::is_ascii_lowercase) { Err(Uncommon) } else { Ok(OTHER_METHOD) }
    }

    /// A bit for each pattern that the path matches.
    #[inline(always)]
    fn matched_patterns(&self, path: Option<RequestPath<'_>>) -> u64 {
        let Some(path) = path else { return 0 };
        let mut bits = 0;
        for (number, pattern) in self.patterns.iter().enumerate() {
            bits |= u64::from(pattern.matches(path.bytes, path.slash)) << number;
        }
        bits
    }

    /// The key under which a step counts a request.
    #[inline(always)]
    fn key<'r>(
        &self,
        step: &Step,
        patterns: u64,
        values: &Values<'_, 'r>,
        matched: &mut Matched<'r>,
    ) -> Result<Key, Uncommon> {
        if step.shares_key
            && let Some(charge) = matched.charges.iter().take(4).find(|charge| self.has_same_key(step, charge))
        {
            return Ok(Key::At(charge.key));
        }
        let route = if step.uses_route { self.route(step, patterns) } else { None };
        step.key(values, route, matched)
    }

    /// Whether a charge has the key of this step: its rule counts by the same identities.
    #[inline(always)]
    fn has_same_key(&self, step: &Step, charge: &MatchedCharge) -> bool {
        self.steps[charge.rule as usize].shape == step.shape
    }

    /// The pattern that matched: the most specific of the step's own, or of all where it has none.
    fn route(&self, step: &Step, patterns: u64) -> Option<&[u8]> {
        let own = if step.patterns == 0 { patterns } else { step.patterns & patterns };
        self.patterns.get(own.trailing_zeros() as usize).map(PathPattern::text)
    }
}

/// Fills in the charges of a common request, unless an override holds for one of its keys.
fn match_common<'r, 'h>(
    charges: CommonCharges<'_, 'r>,
    matched: &mut Matched<'r>,
    overrides: &impl Fn(u32, &[u8]) -> Option<&'h [u32]>,
) -> Result<(), Uncommon> {
    matched.endpoint = charges.endpoint();
    for charge in charges {
        let CommonCharge { rule, quota, cost, key } = charge?;
        let key = match key {
            CommonKey::Text(text) => matched.borrow_key(text),
            CommonKey::Address(text, length) => matched.write_key(&text.to_le_bytes()[..length]),
        };
        if overrides(rule, matched.key_at(key)).is_some() {
            return Err(Uncommon);
        }
        matched.charges.push(MatchedCharge { rule, quota, cost, key });
    }
    Ok(())
}

/// The client's address, if it is IPv4.
#[inline(always)]
fn client_address(identities: &Identities, request: &Request<'_>) -> Option<Ipv4Addr> {
    match request.peer {
        Some(IpAddr::V4(peer)) if identities.trusted.is_empty() => return Some(peer),
        _ => {}
    }
    match identities.client(request) {
        Some(IpAddr::V4(address)) => Some(address),
        _ => None,
    }
}

/// The most specific pattern of those that a path matches.
#[inline(always)]
fn endpoint(patterns: u64) -> Option<u32> {
    if patterns == 0 { None } else { Some(patterns.trailing_zeros()) }
}
