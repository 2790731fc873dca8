//! The values that a request has for identities, where nothing about them is out of the ordinary.

use std::borrow::Cow;
use std::net::IpAddr;

use super::Uncommon;
use crate::compiled::grants::cost::number;
use crate::compiled::identity::{Identities, IdentityId, Source, header, said_by_caller};
use crate::compiled::matching::hosts;
use crate::compiled::path::normal::{segment, settle_plain};
use crate::compiled::path::plain_path::plain;
use crate::model::{Paths, TIER};
use crate::request::Request;

/// A value, by its owner.
#[derive(Clone, Copy)]
pub(super) enum Value<'p, 'r> {
    OfRequest(&'r [u8]),
    OfPolicy(&'p [u8]),
    /// An address, which is a value once it is written.
    Address(IpAddr),
}

/// A value with the identity under which it was found.
type FoundValue<'p, 'r> = Option<(IdentityId, Value<'p, 'r>)>;

/// A path that every server takes for the same.
#[derive(Clone, Copy)]
pub(super) struct RequestPath<'r> {
    /// Where slashes at the end mean nothing, the last one of a longer path is left out.
    pub(super) bytes: &'r [u8],
    /// Whether it ended in a slash.
    pub(super) slash: bool,
}

impl<'r> RequestPath<'r> {
    /// Reads the path of a target. `None` if it is empty: then the path is not known.
    #[inline(always)]
    pub(super) fn read(target: &'r str, paths: Paths) -> Result<Option<RequestPath<'r>>, Uncommon> {
        if target.is_empty() {
            return Ok(None);
        }
        let path = plain(target.as_bytes()).and_then(|path| settle_plain(path, paths));
        path.map(|(bytes, slash)| Some(RequestPath { bytes, slash })).ok_or(Uncommon)
    }
}

/// Reads the values of one request.
pub(super) struct Values<'p, 'r> {
    pub(super) identities: &'p Identities,
    pub(super) request: &'p Request<'r>,
    path: Option<RequestPath<'r>>,
    /// Once it was asked for.
    tier: Option<Option<u32>>,
}

impl<'p, 'r> Values<'p, 'r> {
    #[inline(always)]
    pub(super) fn new(
        identities: &'p Identities,
        request: &'p Request<'r>,
        path: Option<RequestPath<'r>>,
    ) -> Values<'p, 'r> {
        Values { identities, request, path, tier: None }
    }

    /// The whole address of the client.
    #[inline(always)]
    pub(super) fn client(&self) -> Option<IpAddr> {
        self.identities.client(self.request)
    }

    /// The value of an identity if it is present, and under which one it was found: of a list the one that has it.
    /// `route` is the pattern that matched.
    #[inline(always)]
    pub(super) fn find<'v>(&self, id: IdentityId, route: Option<&'v [u8]>) -> Result<FoundValue<'v, 'r>, Uncommon>
    where
        'p: 'v,
    {
        let (known, request) = (self.identities.known(id), self.request);
        if let Some(text) = known.set_by_caller(request) {
            return Ok((!text.is_empty()).then_some((id, Value::OfRequest(text))));
        }
        match &known.source {
            Source::ClientIp => Ok(self.client().map(|client| (id, Value::Address(client)))),
            Source::Header(name) => Ok(of_request(&header::value(request.headers, name))?.map(|value| (id, value))),
            _ => self.find_other(id, route),
        }
    }

    fn find_other<'v>(&self, id: IdentityId, route: Option<&'v [u8]>) -> Result<FoundValue<'v, 'r>, Uncommon>
    where
        'p: 'v,
    {
        let request = self.request;
        let value = match &self.identities.known(id).source {
            Source::First(inner) => {
                let found = inner.iter().map(|id| self.find(*id, route));
                return found.filter_map(Result::transpose).next().transpose();
            }
            Source::Peer => request.peer.map(|peer| Value::Address(peer.to_canonical())),
            Source::Route => route.map(Value::OfPolicy),
            Source::Value(text) => Some(Value::OfPolicy(text)),
            Source::Method => of_request(&Ok::<_, Uncommon>(Some(request.method.as_bytes().into())))?,
            Source::Host => {
                let host = request.host().filter(|_| self.identities.uses_host);
                of_request(&Ok::<_, Uncommon>(host.and_then(hosts::normalise)))?
            }
            Source::Path => self.path.map(|path| Value::OfRequest(path.bytes)),
            Source::PathSegment(at) => {
                let segment = self.path.and_then(|path| segment(path.bytes, *at));
                of_request(&Ok::<_, Uncommon>(segment.map(Cow::Borrowed)))?
            }
            // Steps have none of these parts.
            Source::Tier | Source::Jwt { .. } => return Err(Uncommon),
            source => of_request(&source.read(request))?,
        };
        Ok(value.map(|value| (id, value)))
    }

    /// The number in a header, if it is one.
    pub(super) fn number(&self, header: IdentityId) -> Option<u64> {
        match self.find(header, None) {
            Ok(Some((_, Value::OfRequest(text)))) => number(text),
            // A value that cannot be used is no number.
            _ => None,
        }
    }

    /// The number of the tier: one that the policy knows, else its default.
    pub(super) fn tier(&mut self) -> Result<Option<u32>, Uncommon> {
        if let Some(known) = self.tier {
            return Ok(known);
        }
        let tier = self.find_tier()?;
        self.tier = Some(tier);
        Ok(tier)
    }

    fn find_tier(&self) -> Result<Option<u32>, Uncommon> {
        let tiers = &self.identities.tiers;
        if !self.request.identities.is_empty()
            && let Some(name) = said_by_caller(self.request, TIER)
        {
            return Ok(tiers.of_name(name));
        }
        let Some(source) = tiers.source() else { return Ok(tiers.default_number()) };
        match self.find(source, None)? {
            None => Ok(tiers.default_number()),
            Some((found, Value::OfRequest(text) | Value::OfPolicy(text))) => Ok(tiers.of_value(found, text)),
            // A tier may be meant for the address as it was sent.
            Some((_, Value::Address(_))) => Err(Uncommon),
        }
    }
}

/// A value that was read, if it can be used and stands in the request as it is. An empty one is absent.
#[inline(always)]
fn of_request<'v, 'r>(read: &Result<Option<Cow<'r, [u8]>>, impl Sized>) -> Result<Option<Value<'v, 'r>>, Uncommon> {
    match read {
        Ok(Some(Cow::Borrowed(text))) => Ok((!text.is_empty()).then_some(Value::OfRequest(text))),
        Ok(None) => Ok(None),
        Ok(Some(Cow::Owned(_))) | Err(_) => Err(Uncommon),
    }
}
