//! The identity values of a request on the fast path. A request with a value that cannot be used as it is sent is
//! matched by the indexes instead.

use std::borrow::Cow;
use std::net::IpAddr;

use super::NotOnFastPath;
use crate::compiled::grants::cost::{PathCosts, parse_number};
use crate::compiled::identity::{IdentityId, IdentityTable, ValueSource, caller_value, header};
use crate::compiled::matching::hosts;
use crate::compiled::path::normal::{NormalPath, apply_settings_to_plain, segment};
use crate::compiled::path::plain_path::plain;
use crate::model::{Paths, TIER};
use crate::request::Request;

/// A value, borrowed from the request or the policy.
#[derive(Clone, Copy)]
pub(super) enum FastValue<'p, 'r> {
    OfRequest(&'r [u8]),
    OfPolicy(&'p [u8]),
    /// An address that is not formatted yet.
    Address(IpAddr),
}

/// A value with the identity under which it was found.
type MaybeValue<'p, 'r> = Option<(IdentityId, FastValue<'p, 'r>)>;

/// An unambiguous path, which every server reads in the same way ([`plain`]).
#[derive(Clone, Copy)]
pub(super) struct RequestPath<'r> {
    /// The path, without a trailing slash if the policy ignores it. The root stays `/`.
    pub(super) bytes: &'r [u8],
    /// Whether the path was sent with a trailing slash.
    pub(super) slash: bool,
}

impl<'r> RequestPath<'r> {
    /// Reads the path of a target. `None` if the target is empty: the path is then unknown. Fails if it is ambiguous.
    #[inline(always)]
    pub(super) fn read(target: &'r str, paths: Paths) -> Result<Option<RequestPath<'r>>, NotOnFastPath> {
        if target.is_empty() {
            return Ok(None);
        }
        let path = plain(target.as_bytes()).and_then(|path| apply_settings_to_plain(path, paths));
        path.map(|(bytes, slash)| Some(RequestPath { bytes, slash })).ok_or(NotOnFastPath)
    }
}

/// Reads the values of one request.
pub(super) struct Values<'p, 'r> {
    pub(super) identities: &'p IdentityTable,
    pub(super) request: &'p Request<'r>,
    path: Option<RequestPath<'r>>,
    /// The tier, once it was looked up.
    tier: Option<Option<u32>>,
}

impl<'p, 'r> Values<'p, 'r> {
    #[inline(always)]
    pub(super) fn new(
        identities: &'p IdentityTable,
        request: &'p Request<'r>,
        path: Option<RequestPath<'r>>,
    ) -> Values<'p, 'r> {
        Values { identities, request, path, tier: None }
    }

    /// Returns the full address of the client.
    #[inline(always)]
    pub(super) fn client(&self) -> Option<IpAddr> {
        self.identities.client(self.request)
    }

    /// Returns the value of an identity, if it is present, and the identity under which it was found. For a `first`
    /// identity, that is the first of its members that is present. `route` is the matched pattern.
    #[inline(always)]
    pub(super) fn find<'v>(&self, id: IdentityId, route: Option<&'v [u8]>) -> Result<MaybeValue<'v, 'r>, NotOnFastPath>
    where
        'p: 'v,
    {
        let (identity, request) = (self.identities.get(id), self.request);
        if let Some(text) = identity.set_by_caller(request) {
            return Ok((!text.is_empty()).then_some((id, FastValue::OfRequest(text))));
        }
        match &identity.source {
            ValueSource::ClientIp => Ok(self.client().map(|client| (id, FastValue::Address(client)))),
            ValueSource::Header(name) => {
                Ok(borrowed_only(&header::value(request.headers, name))?.map(|value| (id, value)))
            }
            _ => self.find_other(id, route),
        }
    }

    fn find_other<'v>(&self, id: IdentityId, route: Option<&'v [u8]>) -> Result<MaybeValue<'v, 'r>, NotOnFastPath>
    where
        'p: 'v,
    {
        let request = self.request;
        let value = match &self.identities.get(id).source {
            ValueSource::First(inner) => {
                // The first value that is present, or the first error.
                let found = inner.iter().map(|id| self.find(*id, route));
                return found.filter_map(Result::transpose).next().transpose();
            }
            ValueSource::Peer => request.peer.map(|peer| FastValue::Address(peer.to_canonical())),
            ValueSource::Route => route.map(FastValue::OfPolicy),
            ValueSource::Value(text) => Some(FastValue::OfPolicy(text)),
            ValueSource::Method => borrowed_only(&Ok::<_, NotOnFastPath>(Some(request.method.as_bytes().into())))?,
            ValueSource::Host => {
                let host = request.host().filter(|_| self.identities.uses_host);
                borrowed_only(&Ok::<_, NotOnFastPath>(host.and_then(hosts::normalise)))?
            }
            ValueSource::Path => self.path.map(|path| FastValue::OfRequest(path.bytes)),
            ValueSource::PathSegment(number) => {
                let segment = self.path.and_then(|path| segment(path.bytes, *number));
                borrowed_only(&Ok::<_, NotOnFastPath>(segment.map(Cow::Borrowed)))?
            }
            // Policies with a fast path do not use these sources.
            ValueSource::Tier | ValueSource::Jwt { .. } => return Err(NotOnFastPath),
            source => borrowed_only(&source.read(request))?,
        };
        Ok(value.map(|value| (id, value)))
    }

    /// Returns the value of a header as a number, if it is one.
    pub(super) fn number(&self, header: IdentityId) -> Option<u64> {
        match self.find(header, None) {
            Ok(Some((_, FastValue::OfRequest(text)))) => parse_number(text),
            // An unusable value is not a number.
            _ => None,
        }
    }

    /// Returns the cost of the path, which is unambiguous.
    pub(super) fn path_cost(&self, costs: &PathCosts) -> u64 {
        let path = self.path.map(|path| NormalPath { bytes: Cow::Borrowed(path.bytes), slash: path.slash });
        costs.largest(path.iter())
    }

    /// Returns the number of the request's tier; of the default tier, if it is absent or unknown.
    pub(super) fn tier(&mut self) -> Result<Option<u32>, NotOnFastPath> {
        if let Some(known) = self.tier {
            return Ok(known);
        }
        let tier = self.find_tier()?;
        self.tier = Some(tier);
        Ok(tier)
    }

    fn find_tier(&self) -> Result<Option<u32>, NotOnFastPath> {
        let tiers = &self.identities.tiers;
        if !self.request.identities.is_empty()
            && let Some(name) = caller_value(self.request, TIER)
        {
            return Ok(tiers.for_name(name));
        }
        let Some(source) = tiers.source() else { return Ok(tiers.default_number()) };
        match self.find(source, None)? {
            None => Ok(tiers.default_number()),
            Some((found, FastValue::OfRequest(text) | FastValue::OfPolicy(text))) => Ok(tiers.for_value(found, text)),
            // The list of tiers may name an IPv6 address whose key is the IPv4 address embedded in it.
            Some((_, FastValue::Address(_))) => Err(NotOnFastPath),
        }
    }
}

/// Accepts a value only if it is usable and borrowed from the request; otherwise it is not on the fast path. An empty
/// value is absent.
#[inline(always)]
fn borrowed_only<'v, 'r>(
    read: &Result<Option<Cow<'r, [u8]>>, impl Sized>,
) -> Result<Option<FastValue<'v, 'r>>, NotOnFastPath> {
    match read {
        Ok(Some(Cow::Borrowed(text))) => Ok((!text.is_empty()).then_some(FastValue::OfRequest(text))),
        Ok(None) => Ok(None),
        Ok(Some(Cow::Owned(_))) | Err(_) => Err(NotOnFastPath),
    }
}
