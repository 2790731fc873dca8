//! A call of a gateway, as requests that are decided together.

use smallvec::SmallVec;
use tollgate::{AskedTogether, CallerCharge, CallerLimit, Descriptor, Part, Request};
use tonic::Status;

use super::messages::{RateLimitDescriptor, RateLimitRequest};
use super::override_limits::OverrideLimits;
use crate::engine::Engine;
use crate::grpc::limits::{MAX_DESCRIPTORS, MAX_ENTRIES};

/// What a call says, checked.
pub(in crate::grpc) struct Call<'a> {
    domain: &'a str,
    descriptors: SmallVec<[Described<'a>; 1]>,
}

/// One descriptor.
struct Described<'a> {
    entries: SmallVec<[(&'a str, &'a str); 4]>,
    hits: u64,
    gives_back: bool,
    instead: Option<Instead>,
}

/// A limit that the gateway brings along.
struct Instead {
    limit: CallerLimit,
    key: Vec<u8>,
    /// Nothing passes a limit of 0.
    is_closed: bool,
}

impl<'a> Call<'a> {
    pub(in crate::grpc) fn read(
        request: &'a RateLimitRequest,
        engine: &Engine,
        overrides: &OverrideLimits,
    ) -> Result<Call<'a>, Status> {
        if request.domain.is_empty() {
            return Err(Status::invalid_argument("the domain must not be empty"));
        }
        if request.descriptors.is_empty() {
            return Err(Status::invalid_argument("there must be at least one descriptor"));
        }
        if request.descriptors.len() > MAX_DESCRIPTORS {
            return Err(Status::invalid_argument(format!("there are more than {MAX_DESCRIPTORS} descriptors")));
        }
        let hits = u64::from(request.hits_addend).max(1);
        let read = |descriptor| Described::read(&request.domain, descriptor, hits, engine, overrides);
        let descriptors = request.descriptors.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Call { domain: &request.domain, descriptors })
    }

    pub(in crate::grpc) fn descriptors(&self) -> SmallVec<[Descriptor<'_>; 1]> {
        let entries = self.descriptors.iter().map(|described| &described.entries);
        entries.map(|entries| Descriptor { domain: self.domain, entries }).collect()
    }

    pub(in crate::grpc) fn asked<'c>(&'c self, descriptors: &'c [Descriptor<'c>]) -> Vec<AskedTogether<'c>> {
        self.descriptors.iter().zip(descriptors).map(|(described, told)| described.asked(told)).collect()
    }
}

impl<'a> Described<'a> {
    fn read(
        domain: &str,
        descriptor: &'a RateLimitDescriptor,
        hits: u64,
        engine: &Engine,
        overrides: &OverrideLimits,
    ) -> Result<Described<'a>, Status> {
        if descriptor.entries.len() > MAX_ENTRIES {
            return Err(Status::invalid_argument(format!("a descriptor has more than {MAX_ENTRIES} entries")));
        }
        let instead = match descriptor.limit {
            None => None,
            Some(limit) => Some(Instead {
                limit: overrides
                    .get(engine, limit)
                    .ok_or_else(|| Status::invalid_argument("a descriptor's limit has no unit that is known"))?,
                key: key(domain, descriptor),
                is_closed: limit.requests_per_unit == 0,
            }),
        };
        Ok(Described {
            entries: descriptor.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect(),
            hits: descriptor.hits_addend.map_or(hits, |own| own.value),
            gives_back: descriptor.is_negative_hits,
            instead,
        })
    }

    fn asked<'c>(&'c self, told: &'c Descriptor<'c>) -> AskedTogether<'c> {
        let request = Request { cost: self.hits, ..Request::from_descriptor(told) };
        let part = match &self.instead {
            _ if self.gives_back => Part::GiveBack,
            None => Part::Charge,
            Some(instead) => {
                // Twice what the smallest limit holds: it never fits.
                let cost = if instead.is_closed && self.hits > 0 { 2 } else { self.hits };
                Part::ChargeInstead(CallerCharge { limit: &instead.limit, key: &instead.key, cost })
            }
        };
        AskedTogether { request, part }
    }
}

/// What is counted under a limit that the gateway brings along: each part
/// behind its length, so that no two descriptors share a key.
fn key(domain: &str, descriptor: &RateLimitDescriptor) -> Vec<u8> {
    let entries = descriptor.entries.iter().flat_map(|entry| [&entry.key, &entry.value]);
    let mut key = Vec::new();
    for part in std::iter::once(domain).chain(entries.map(String::as_str)) {
        key.extend_from_slice(&(part.len() as u64).to_le_bytes());
        key.extend_from_slice(part.as_bytes());
    }
    key
}
