//! One request, looked at no more than necessary: each identity is found when
//! somebody first asks for it, and then remembered.

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;

use super::given::said_by_caller;
use super::source::{CLIENT_IP, Identities, IdentityId, Source};
use super::unusable::{Read, Unusable};
use super::{cookie, header, jwt, query};
use crate::compiled::address::address_text::{WHOLE, push_client};
use crate::compiled::address::{carried, counted};
use crate::compiled::matching::host;
use crate::compiled::path::normal::NormalPath;
use crate::compiled::path::readings::Readings;
use crate::model::OnInvalid;
use crate::request::{REMOTE_ADDRESS, Request};

/// What is said about a request, made comparable.
pub(crate) struct Seen<'a> {
    pub(crate) method: Cow<'a, [u8]>,
    pub(crate) host: Option<Cow<'a, [u8]>>,
    /// `None` where the path is not known.
    pub(crate) readings: Option<Readings<'a>>,
}

impl<'a> Seen<'a> {
    pub(crate) fn new(request: &Request<'a>, identities: &Identities) -> Seen<'a> {
        Seen {
            method: upper_case(request.method),
            host: if identities.uses_host { request.host().and_then(host::normalise) } else { None },
            readings: Readings::of(request.target, identities.paths),
        }
    }
}

/// Methods have a case, but some backends forgive it, and so a rule for POST means `post` as well.
fn upper_case(method: &str) -> Cow<'_, [u8]> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Cow::Owned(method.to_ascii_uppercase().into_bytes());
    }
    Cow::Borrowed(method.as_bytes())
}

/// A value that was found: under which identity (of a list the one that was present), and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) id: IdentityId,
    place: Place<'a>,
    /// Why the value cannot be used, if it cannot. What stands there is then the client's address, if it is known.
    pub(crate) unusable: Option<Unusable>,
}

impl Found<'_> {
    pub(crate) fn is_usable(&self) -> bool {
        self.unusable.is_none()
    }
}

/// What a token says, if there is one.
type Token = Result<Option<jwt::Claims>, Unusable>;

#[derive(Clone, Copy)]
enum Place<'a> {
    Elsewhere(&'a [u8]),
    Here { start: u32, end: u32 },
}

#[derive(Clone, Copy)]
enum Slot<'a> {
    Unasked,
    Known(Option<Found<'a>>),
}

/// A request under inspection.
pub(crate) struct Look<'a> {
    pub(crate) identities: &'a Identities,
    pub(crate) request: &'a Request<'a>,
    pub(crate) seen: &'a Seen<'a>,
    /// The reading of the path that is looked at.
    pub(crate) path: Option<&'a NormalPath<'a>>,
    slots: SmallVec<[Slot<'a>; 12]>,
    /// Values that had to be written anew, one behind the other.
    written: SmallVec<[u8; 64]>,
    client: Option<Option<IpAddr>>,
    tier: Option<Option<u32>>,
    verified: Option<Token>,
    unverified: Option<Token>,
}

impl<'a> Look<'a> {
    pub(crate) fn new(identities: &'a Identities, request: &'a Request<'a>, seen: &'a Seen<'a>) -> Look<'a> {
        Look {
            identities,
            request,
            seen,
            path: seen.readings.as_ref().map(Readings::first),
            slots: SmallVec::from_elem(Slot::Unasked, identities.known.len()),
            written: SmallVec::new(),
            client: None,
            tier: None,
            verified: None,
            unverified: None,
        }
    }

    /// Looks at another reading of the path. What depends on the path is found anew, and nothing else is.
    pub(crate) fn read_as(&mut self, path: &'a NormalPath<'a>) {
        self.path = Some(path);
        self.tier = None;
        for (slot, known) in self.slots.iter_mut().zip(&self.identities.known) {
            if known.per_reading || matches!(known.source, Source::Tier) {
                *slot = Slot::Unasked;
            }
        }
    }

    /// The value of an identity, if it is present; one that cannot be used is present, too. `route` is the pattern that matched for the rule that asks.
    #[inline]
    pub(crate) fn find(&mut self, id: IdentityId, route: Option<&'a [u8]>) -> Option<Found<'a>> {
        if let Slot::Known(found) = self.slots[id.0 as usize] {
            return found;
        }
        let known = self.identities.known(id);
        let found = match self.set_by_caller(id) {
            Some(text) => (!text.is_empty()).then_some(Found { id, place: Place::Elsewhere(text), unusable: None }),
            None => self.look_for(id, route),
        };
        if !known.per_rule {
            self.slots[id.0 as usize] = Slot::Known(found);
        }
        found
    }

    /// The text of a value that was found.
    #[inline]
    pub(crate) fn text(&self, found: Found<'a>) -> &[u8] {
        match found.place {
            Place::Elsewhere(text) => text,
            Place::Here { start, end } => &self.written[start as usize..end as usize],
        }
    }

    /// The value of an identity, if it is present and can be used.
    #[inline]
    pub(crate) fn find_usable(&mut self, id: IdentityId, route: Option<&'a [u8]>) -> Option<Found<'a>> {
        self.find(id, route).filter(Found::is_usable)
    }

    /// The address as it was sent, where its value is the IPv4 address that it carries. Nothing is granted to the
    /// one because it is granted to the other: an address can be chosen for what it carries.
    #[inline]
    pub(crate) fn as_sent(&mut self, found: Found<'a>) -> Option<SmallVec<[u8; 64]>> {
        let address = match self.identities.known(found.id).source {
            Source::ClientIp => self.client()?,
            Source::Peer if self.set_by_caller(found.id).is_none() => self.request.peer?.to_canonical(),
            _ => return None,
        };
        carried(address)?;
        let mut sent = SmallVec::new();
        push_client(&mut sent, address, WHOLE);
        Some(sent)
    }

    /// Whether the value of an identity passes a test, in any way in which it can be read: a rule that limits must
    /// not be avoided by a value in two guises, or by one that cannot be used.
    pub(crate) fn passes(
        &mut self,
        id: IdentityId,
        test: &crate::compiled::matching::texts::Test,
        route: Option<&'a [u8]>,
    ) -> bool {
        let Some(found) = self.find(id, route) else { return test.holds(None) };
        if !found.is_usable() {
            return test.holds_for_unusable();
        }
        test.holds(Some((found.id, self.text(found))))
            || self.as_sent(found).is_some_and(|sent| test.holds(Some((found.id, &sent))))
    }

    /// Whether it passes beyond doubt, which is what an exemption takes.
    pub(crate) fn surely_passes(
        &mut self,
        id: IdentityId,
        test: &crate::compiled::matching::texts::Test,
        route: Option<&'a [u8]>,
    ) -> bool {
        let Some(found) = self.find(id, route) else { return test.holds(None) };
        match self.as_sent(found) {
            _ if !found.is_usable() => false,
            Some(sent) => test.holds(Some((found.id, &sent))),
            None => test.holds(Some((found.id, self.text(found)))),
        }
    }

    /// The whole address of the client.
    #[inline]
    pub(crate) fn client(&mut self) -> Option<IpAddr> {
        if let Some(known) = self.client {
            return known;
        }
        let client = self.identities.client(self.request);
        self.client = Some(client);
        client
    }

    /// The number of the tier: one that the policy knows, else its default.
    #[inline]
    pub(crate) fn tier(&mut self) -> Option<u32> {
        if let Some(known) = self.tier {
            return known;
        }
        let tier = self.identities.tiers.find(self);
        self.tier = Some(tier);
        tier
    }

    /// What a caller set directly. An address and a tier need more than to be copied, so they are read elsewhere.
    #[inline]
    pub(crate) fn set_by_caller(&self, id: IdentityId) -> Option<&'a [u8]> {
        self.identities.known(id).set_by_caller(self.request)
    }

    /// What a caller set under a name.
    pub(crate) fn caller_says(&self, name: &str) -> Option<&'a [u8]> {
        said_by_caller(self.request, name)
    }

    fn look_for(&mut self, id: IdentityId, route: Option<&'a [u8]>) -> Option<Found<'a>> {
        let seen = self.seen;
        let request = self.request;
        let identities = self.identities;
        let text = match &identities.known(id).source {
            Source::ClientIp => match self.client() {
                Some(client) => return Some(self.write_address(id, client)),
                None => Cow::Borrowed(self.address_in_words()?),
            },
            Source::Peer => return Some(self.write_address(id, request.peer?.to_canonical())),
            Source::First(inner) => return inner.iter().find_map(|id| self.find(*id, route)),
            Source::Tier => Cow::Borrowed(identities.tiers.name(self.tier()?).as_bytes()),
            Source::Method => Cow::Borrowed(&*seen.method),
            Source::Host => Cow::Borrowed(seen.host.as_deref()?),
            Source::Path => Cow::Borrowed(&*self.path?.bytes),
            Source::Route => Cow::Borrowed(route?),
            Source::Header(name) if request.descriptor.is_some() => {
                return self.take(id, header::value_of_entry(request.headers, name));
            }
            Source::Header(name) => return self.take(id, header::value(request.headers, name)),
            Source::Cookie(name) => return self.take(id, cookie::value(request.headers, name)),
            Source::PathSegment(at) => Cow::Borrowed(self.path?.segments().nth(at.checked_sub(1)?)?),
            Source::Query(name) => return self.take(id, query::value(request.target, name)),
            Source::Bearer => return self.take(id, header::bearer(request.headers)),
            Source::Jwt { claim, verify } => {
                let read = self.claim(claim, *verify);
                return self.take(id, read);
            }
            Source::Value(text) => Cow::Borrowed(&**text),
            Source::Caller => return None,
        };
        self.keep(id, text)
    }

    /// What a gateway says where a client's address should stand, and is none. Who is called so is counted by
    /// that name: of nobody else could a rule by address make anything but no limit.
    fn address_in_words(&self) -> Option<&'a [u8]> {
        let descriptor = self.request.descriptor?;
        let name = &*self.identities.known(CLIENT_IP).name;
        Some(descriptor.value(name).or_else(|| descriptor.value(REMOTE_ADDRESS))?.trim_ascii().as_bytes())
    }

    #[inline]
    fn take(&mut self, id: IdentityId, read: Read<'a>) -> Option<Found<'a>> {
        match read {
            Ok(text) => self.keep(id, text?),
            Err(reason) => self.unusable(id, reason),
        }
    }

    /// What stands for a value that cannot be used: the client's address, or nothing at all where it is not known.
    #[cold]
    fn unusable(&mut self, id: IdentityId, reason: Unusable) -> Option<Found<'a>> {
        if self.identities.known(id).on_invalid == OnInvalid::Absent {
            return None;
        }
        let client = self.client();
        let start = self.written.len();
        if let Some(client) = client {
            push_client(&mut self.written, counted(client), self.identities.prefixes);
        }
        Some(Found { id, place: self.since(start), unusable: Some(reason) })
    }

    #[inline]
    fn keep(&mut self, id: IdentityId, text: Cow<'a, [u8]>) -> Option<Found<'a>> {
        if text.is_empty() {
            return None;
        }
        let place = match text {
            Cow::Borrowed(text) => Place::Elsewhere(text),
            Cow::Owned(text) => {
                let start = self.written.len();
                self.written.extend_from_slice(&text);
                self.since(start)
            }
        };
        Some(Found { id, place, unusable: None })
    }

    #[inline]
    fn write_address(&mut self, id: IdentityId, address: IpAddr) -> Found<'a> {
        let start = self.written.len();
        push_client(&mut self.written, counted(address), self.identities.prefixes);
        Found { id, place: self.since(start), unusable: None }
    }

    /// What was written from here on. A request has fewer than 2^32 bytes.
    #[inline]
    fn since(&self, start: usize) -> Place<'a> {
        let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Place::Here { start: position(start), end: position(self.written.len()) }
    }

    /// A claim of the token that the request carries. Tokens are read once, however many claims are asked for.
    fn claim(&mut self, claim: &str, verify: bool) -> Read<'a> {
        let request = self.request;
        let token = if verify {
            let Some(verifier) = &self.identities.verifier else { return Ok(None) };
            let read = || match header::bearer(request.headers)? {
                Some(token) => verifier.verified(&token, request.unix_time_s).map(Some),
                None => Ok(None),
            };
            self.verified.get_or_insert_with(read)
        } else {
            let read = || match header::bearer(request.headers)? {
                Some(token) => jwt::unverified(&token).map(Some),
                None => Ok(None),
            };
            self.unverified.get_or_insert_with(read)
        };
        match token {
            Ok(claims) => {
                let text = claims.as_ref().and_then(|claims| claims.text(claim));
                Ok(text.map(|text| Cow::Owned(text.into_bytes())))
            }
            Err(reason) => Err(*reason),
        }
    }
}
