//! The values that a request has for identities, where nothing about them is out of the ordinary.

use std::borrow::Cow;
use std::net::IpAddr;

use super::Uncommon;
use crate::compiled::grants::cost::number;
use crate::compiled::identity::{Identities, IdentityId, Source, said_by_caller};
use crate::compiled::matching::hosts;
use crate::compiled::path::normal::segment;
use crate::compiled::path::plain_path::plain;
use crate::model::{Paths, TIER, TrailingSlash};
use crate::request::Request;

/// A value, by its owner.
#[derive(Clone, Copy)]
pub(super) enum Value<'p, 'r> {
    OfRequest(&'r [u8]),
    OfPolicy(&'p [u8]),
    /// An address, which is a value once it is written.
    Address(IpAddr),
}

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
        let bytes = plain(target.as_bytes()).ok_or(Uncommon)?;
        if paths.ignore_case && bytes.iter().any(u8::is_ascii_uppercase) {
            return Err(Uncommon);
        }
        let slash = bytes.last() == Some(&b'/');
        let is_dropped = slash && bytes.len() > 1 && paths.trailing_slash == TrailingSlash::Ignore;
        Ok(Some(RequestPath { bytes: &bytes[..bytes.len() - usize::from(is_dropped)], slash }))
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
    #[inline]
    pub(super) fn find<'v>(
        &self,
        id: IdentityId,
        route: Option<&'v [u8]>,
    ) -> Result<Option<(IdentityId, Value<'v, 'r>)>, Uncommon>
    where
        'p: 'v,
    {
        let (known, request) = (self.identities.known(id), self.request);
        let text = match (known.set_by_caller(request), &known.source) {
            (Some(text), _) => Some(text),
            (None, Source::ClientIp) => return Ok(self.client().map(|client| (id, Value::Address(client)))),
            (None, Source::Peer) => {
                return Ok(request.peer.map(|peer| (id, Value::Address(peer.to_canonical()))));
            }
            (None, Source::First(inner)) => {
                let found = inner.iter().map(|id| self.find(*id, route));
                return found.filter_map(Result::transpose).next().transpose();
            }
            (None, Source::Route) => return Ok(route.map(|route| (id, Value::OfPolicy(route)))),
            (None, Source::Value(text)) => return Ok(Some((id, Value::OfPolicy(text)))),
            (None, Source::Method) => Some(request.method.as_bytes()),
            (None, Source::Host) => {
                let host = request.host.filter(|_| self.identities.uses_host).and_then(hosts::normalise);
                host.map(|host| borrowed(&host)).transpose()?
            }
            (None, Source::Path) => self.path.map(|path| path.bytes),
            (None, Source::PathSegment(at)) => self.path.and_then(|path| segment(path.bytes, *at)),
            // Steps have none of these parts.
            (None, Source::Tier | Source::Jwt { .. }) => return Err(Uncommon),
            (None, source) => match source.read(request) {
                Ok(text) => text.map(|text| borrowed(&text)).transpose()?,
                Err(_) => return Err(Uncommon),
            },
        };
        Ok(text.filter(|text| !text.is_empty()).map(|text| (id, Value::OfRequest(text))))
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

/// A value that stands in the request as it is.
#[inline]
fn borrowed<'r>(text: &Cow<'r, [u8]>) -> Result<&'r [u8], Uncommon> {
    match text {
        Cow::Borrowed(text) => Ok(text),
        Cow::Owned(_) => Err(Uncommon),
    }
}
