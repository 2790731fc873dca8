//! An RLS call, as requests that are decided together.

use smallvec::SmallVec;
use tollgate::Request;
use tollgate::limiter::{JointCharge, JointRequest};
use tollgate::policy::Descriptor;
use tollgate::store::{Charge, Limit};
use tonic::Status;

use super::messages::{RateLimitDescriptor, RateLimitRequest};
use super::override_limits::OverrideLimits;
use crate::engine::Engine;
use crate::grpc::limits::{MAX_DESCRIPTORS, MAX_ENTRIES};

/// A validated call.
pub(in crate::grpc) struct RateLimitCall<'a> {
    domain: &'a str,
    descriptors: SmallVec<[CallDescriptor<'a>; 1]>,
}

/// One descriptor.
struct CallDescriptor<'a> {
    entries: SmallVec<[(&'a str, &'a str); 4]>,
    hits: u64,
    is_refund: bool,
    override_limit: Option<CallerLimit>,
}

/// A limit supplied by the gateway.
struct CallerLimit {
    limit: Limit,
    key: Vec<u8>,
    /// Nothing passes a limit of 0.
    is_closed: bool,
}

impl<'a> RateLimitCall<'a> {
    pub(in crate::grpc) fn read(
        request: &'a RateLimitRequest,
        engine: &Engine,
        overrides: &OverrideLimits,
    ) -> Result<RateLimitCall<'a>, Status> {
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
        let read = |descriptor| CallDescriptor::read(&request.domain, descriptor, hits, engine, overrides);
        let descriptors = request.descriptors.iter().map(read).collect::<Result<_, _>>()?;
        Ok(RateLimitCall { domain: &request.domain, descriptors })
    }

    pub(in crate::grpc) fn descriptors(&self) -> SmallVec<[Descriptor<'_>; 1]> {
        let entries = self.descriptors.iter().map(|descriptor| &descriptor.entries);
        entries.map(|entries| Descriptor { domain: self.domain, entries }).collect()
    }

    pub(in crate::grpc) fn joint_requests<'c>(&'c self, descriptors: &'c [Descriptor<'c>]) -> Vec<JointRequest<'c>> {
        self.descriptors.iter().zip(descriptors).map(|(own, descriptor)| own.joint_request(descriptor)).collect()
    }
}

impl<'a> CallDescriptor<'a> {
    fn read(
        domain: &str,
        descriptor: &'a RateLimitDescriptor,
        hits: u64,
        engine: &Engine,
        overrides: &OverrideLimits,
    ) -> Result<CallDescriptor<'a>, Status> {
        if descriptor.entries.len() > MAX_ENTRIES {
            return Err(Status::invalid_argument(format!("a descriptor has more than {MAX_ENTRIES} entries")));
        }
        let override_limit = match descriptor.limit {
            None => None,
            Some(limit) => Some(CallerLimit {
                limit: overrides
                    .get(engine, limit)
                    .ok_or_else(|| Status::invalid_argument("a descriptor's limit has no known unit"))?,
                key: key(domain, descriptor),
                is_closed: limit.requests_per_unit == 0,
            }),
        };
        Ok(CallDescriptor {
            entries: descriptor.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect(),
            hits: descriptor.hits_addend.map_or(hits, |own| own.value),
            is_refund: descriptor.is_negative_hits,
            override_limit,
        })
    }

    fn joint_request<'c>(&'c self, descriptor: &'c Descriptor<'c>) -> JointRequest<'c> {
        let request = Request { cost: self.hits, ..Request::from_descriptor(descriptor) };
        let charge = match &self.override_limit {
            _ if self.is_refund => JointCharge::Refund,
            None => JointCharge::Rules,
            Some(own) => {
                // Twice the smallest limit, so it is never allowed.
                let cost = if own.is_closed && self.hits > 0 { 2 } else { self.hits };
                JointCharge::Custom(Charge::new(&own.limit, &own.key, cost))
            }
        };
        JointRequest { request, charge }
    }
}

/// Returns the key of a gateway-supplied limit: each part with its length, so that no two descriptors share a key.
fn key(domain: &str, descriptor: &RateLimitDescriptor) -> Vec<u8> {
    let entries = descriptor.entries.iter().flat_map(|entry| [&entry.key, &entry.value]);
    let mut key = Vec::new();
    for part in std::iter::once(domain).chain(entries.map(String::as_str)) {
        key.extend_from_slice(&(part.len() as u64).to_le_bytes());
        key.extend_from_slice(part.as_bytes());
    }
    key
}
