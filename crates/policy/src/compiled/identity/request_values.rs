//! The values of one request, each read when a rule first asks for it, and then remembered.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::net::IpAddr;

use smallvec::SmallVec;

use super::header;
use super::jwt;
use super::source::{CLIENT_IP, Identities, IdentityId, Known, Source};
use super::unusable::{Read, Unusable};
use crate::compiled::address::address_text::{WHOLE, push_client};
use crate::compiled::address::{carried, counted, forwarded, parse};
use crate::compiled::matching::{conditions::Test, hosts};
use crate::compiled::path::normal::{NormalPath, segment};
use crate::compiled::path::readings::Readings;
use crate::compiled::path::routes::MatchedRoutes;
use crate::model::OnInvalid;
use crate::request::{REMOTE_ADDRESS, Request};

/// A value that was found: under which identity (of a list the one that was present), and its text.
#[derive(Clone, Copy)]
pub(crate) struct Found<'v> {
    pub(crate) id: IdentityId,
    pub(crate) text: &'v [u8],
    /// Why the value cannot be used, if it cannot. The text is then the client's address, if it is known.
    pub(crate) unusable: Option<Unusable>,
}

impl Found<'_> {
    pub(crate) fn is_usable(&self) -> bool {
        self.unusable.is_none()
    }
}

/// Room for the longest address.
pub(crate) type Written = SmallVec<[u8; 40]>;

/// What is known of an identity.
#[derive(Clone, Copy)]
enum Slot<'a> {
    Unread,
    Read(Option<Value<'a>>),
}

/// A value that is present.
#[derive(Clone, Copy)]
struct Value<'a> {
    text: Text<'a>,
    unusable: Option<Unusable>,
}

/// A text by where it stands.
#[derive(Clone, Copy)]
enum Text<'a> {
    /// In the request or in the policy.
    Borrowed(&'a [u8]),
    /// Among those that had to be written anew, by number.
    Owned(usize),
    /// The client's address, or nothing where it is not known.
    Client,
    /// The address of the other end.
    Peer,
}

/// A text that had to be written anew, and those after it. Few requests have one.
struct OwnedText {
    text: Vec<u8>,
    next: OnceCell<Box<OwnedText>>,
}

/// What a token says, if there is one.
type Token = Result<Option<jwt::Claims>, Unusable>;

/// A request, made comparable, with the values that it has for identities.
pub(crate) struct RequestValues<'a> {
    pub(crate) identities: &'a Identities,
    pub(crate) request: &'a Request<'a>,
    /// In upper case.
    pub(crate) method: Cow<'a, [u8]>,
    pub(crate) host: Option<Cow<'a, [u8]>>,
    /// `None` where the path is not known.
    readings: Option<Readings<'a>>,
    /// The number of the reading that is compared.
    reading: usize,
    /// The path patterns that this reading matches.
    pub(crate) routes: MatchedRoutes,
    slots: SmallVec<[Cell<Slot<'a>>; 12]>,
    owned: OnceCell<Box<OwnedText>>,
    client: OnceCell<Option<IpAddr>>,
    /// The parts that count of the client's address, and of the other end's.
    client_text: OnceCell<Written>,
    peer_text: OnceCell<Written>,
    tier: Cell<Option<Option<u32>>>,
    verified: OnceCell<Token>,
    unverified: OnceCell<Token>,
}

impl<'a> RequestValues<'a> {
    #[inline(always)]
    pub(crate) fn new(identities: &'a Identities, request: &'a Request<'a>) -> RequestValues<'a> {
        RequestValues {
            identities,
            request,
            method: upper_case(request.method),
            host: if identities.uses_host { request.host().and_then(hosts::normalise) } else { None },
            readings: Readings::of(request.target, identities.paths),
            reading: 0,
            routes: MatchedRoutes::new(),
            slots: SmallVec::from_elem(Cell::new(Slot::Unread), identities.known.len()),
            owned: OnceCell::new(),
            client: OnceCell::new(),
            client_text: OnceCell::new(),
            peer_text: OnceCell::new(),
            tier: Cell::new(None),
            verified: OnceCell::new(),
            unverified: OnceCell::new(),
        }
    }

    /// How many readings the path has; 1 where it is not known.
    pub(crate) fn reading_count(&self) -> usize {
        self.readings.as_ref().map_or(1, Readings::count)
    }

    /// The path in the reading that is compared.
    #[inline]
    pub(crate) fn path(&self) -> Option<&NormalPath<'a>> {
        self.readings.as_ref().map(|readings| readings.get(self.reading))
    }

    /// Compares another reading of the path. What depends on the path is read anew, and nothing else is.
    pub(crate) fn read_as(&mut self, reading: usize) {
        self.reading = reading;
        self.tier.set(None);
        for (slot, known) in self.slots.iter_mut().zip(&self.identities.known) {
            if matches!(known.source, Source::Path | Source::PathSegment(_)) {
                slot.set(Slot::Unread);
            }
        }
    }

    /// The value of an identity, if it is present; one that cannot be used is present, too. `route` is the pattern that
    /// matched for the rule that asks.
    #[inline]
    pub(crate) fn find<'v>(&'v self, id: IdentityId, route: Option<&'v [u8]>) -> Option<Found<'v>> {
        let found = |text| Found { id, text, unusable: None };
        match &self.identities.known(id).source {
            Source::Route => return route.map(found),
            Source::Tier => return Some(found(self.identities.tiers.name(self.tier()?).as_bytes())),
            Source::First(inner) if self.set_by_caller(id).is_none() => {
                return inner.iter().find_map(|id| self.find(*id, route));
            }
            _ => {}
        }
        let slot = &self.slots[id.0 as usize];
        let value = match slot.get() {
            Slot::Read(value) => value?,
            Slot::Unread => {
                let value = self.read(id);
                slot.set(Slot::Read(value));
                value?
            }
        };
        let text = match value.text {
            Text::Borrowed(text) => text,
            Text::Owned(number) => self.owned_text(number),
            Text::Client => self.client_text.get_or_init(|| self.counted(self.client())).as_slice(),
            Text::Peer => self.peer_text.get_or_init(|| self.counted(self.peer())).as_slice(),
        };
        Some(Found { id, text, unusable: value.unusable })
    }

    /// The value of an identity, if it is present and can be used.
    #[inline]
    pub(crate) fn find_usable<'v>(&'v self, id: IdentityId, route: Option<&'v [u8]>) -> Option<Found<'v>> {
        self.find(id, route).filter(Found::is_usable)
    }

    /// The address as it was sent, where its value is the IPv4 address that it carries. Nothing is granted to the
    /// one because it is granted to the other: an address can be chosen for what it carries.
    #[inline]
    pub(crate) fn as_sent(&self, found: Found<'_>) -> Option<Written> {
        let address = match self.identities.known(found.id).source {
            Source::ClientIp => self.client()?,
            Source::Peer if self.set_by_caller(found.id).is_none() => self.peer()?,
            _ => return None,
        };
        carried(address)?;
        let mut sent = SmallVec::new();
        push_client(&mut sent, address, WHOLE);
        Some(sent)
    }

    /// Whether the value of an identity passes a test, in any way in which it can be read: a rule that limits must
    /// not be avoided by a value in two guises, or by one that cannot be used.
    pub(crate) fn passes(&self, id: IdentityId, test: &Test, route: Option<&[u8]>) -> bool {
        let Some(found) = self.find(id, route) else { return test.holds(None) };
        if !found.is_usable() {
            return test.holds_for_unusable();
        }
        test.holds(Some((found.id, found.text)))
            || self.as_sent(found).is_some_and(|sent| test.holds(Some((found.id, &sent))))
    }

    /// Whether it passes beyond doubt, which is what an exemption takes.
    pub(crate) fn surely_passes(&self, id: IdentityId, test: &Test, route: Option<&[u8]>) -> bool {
        let Some(found) = self.find(id, route) else { return test.holds(None) };
        let sent = self.as_sent(found);
        found.is_usable() && test.holds(Some((found.id, sent.as_deref().unwrap_or(found.text))))
    }

    /// The whole address of the client.
    #[inline]
    pub(crate) fn client(&self) -> Option<IpAddr> {
        *self.client.get_or_init(|| self.identities.client(self.request))
    }

    /// The number of the tier: one that the policy knows, else its default.
    #[inline]
    pub(crate) fn tier(&self) -> Option<u32> {
        if let Some(known) = self.tier.get() {
            return known;
        }
        let tier = self.identities.tiers.find(self);
        self.tier.set(Some(tier));
        tier
    }

    /// The address of the other end.
    fn peer(&self) -> Option<IpAddr> {
        self.request.peer.map(|peer| peer.to_canonical())
    }

    /// The part of an address that counts.
    #[inline]
    fn counted(&self, address: Option<IpAddr>) -> Written {
        let mut text = Written::new();
        if let Some(address) = address {
            push_client(&mut text, counted(address), self.identities.prefixes);
        }
        text
    }

    #[inline(always)]
    fn set_by_caller(&self, id: IdentityId) -> Option<&'a [u8]> {
        self.identities.known(id).set_by_caller(self.request)
    }

    fn read(&self, id: IdentityId) -> Option<Value<'a>> {
        let known = self.identities.known(id);
        if let Some(text) = self.set_by_caller(id) {
            return self.kept(Cow::Borrowed(text));
        }
        let text = match &known.source {
            Source::ClientIp => match self.client() {
                Some(_) => return Some(Value { text: Text::Client, unusable: None }),
                None => Cow::Borrowed(self.address_in_words()?),
            },
            Source::Peer => return self.peer().map(|_| Value { text: Text::Peer, unusable: None }),
            Source::Method => self.method.clone(),
            Source::Host => self.host.clone()?,
            Source::Path => self.path()?.bytes.clone(),
            Source::PathSegment(at) => match &self.path()?.bytes {
                Cow::Borrowed(path) => Cow::Borrowed(segment(path, *at)?),
                Cow::Owned(path) => Cow::Owned(segment(path, *at)?.to_vec()),
            },
            Source::Value(text) => Cow::Borrowed(&**text),
            Source::Jwt { claim, verify } => return self.usable(known, self.claim(claim, *verify)),
            source => return self.usable(known, source.read(self.request)),
        };
        self.kept(text)
    }

    /// What a gateway says where a client's address should stand, and is none. Who is called so is counted by
    /// that name: of nobody else could a rule by address make anything but no limit.
    fn address_in_words(&self) -> Option<&'a [u8]> {
        let descriptor = self.request.descriptor?;
        let name = &*self.identities.known(CLIENT_IP).name;
        Some(descriptor.value(name).or_else(|| descriptor.value(REMOTE_ADDRESS))?.trim_ascii().as_bytes())
    }

    /// A value that was read. The client's address stands for one that cannot be used.
    #[inline]
    fn usable(&self, known: &Known, read: Read<'a>) -> Option<Value<'a>> {
        match read {
            Ok(text) => self.kept(text?),
            Err(_) if known.on_invalid == OnInvalid::Absent => None,
            Err(reason) => Some(Value { text: Text::Client, unusable: Some(reason) }),
        }
    }

    /// A value that is empty is absent.
    #[inline]
    fn kept(&self, text: Cow<'a, [u8]>) -> Option<Value<'a>> {
        let text = match text {
            Cow::Borrowed(text) if !text.is_empty() => Text::Borrowed(text),
            Cow::Owned(text) if !text.is_empty() => Text::Owned(self.keep(text)),
            _ => return None,
        };
        Some(Value { text, unusable: None })
    }

    #[cold]
    fn keep(&self, text: Vec<u8>) -> usize {
        let (mut cell, mut number) = (&self.owned, 0);
        while let Some(known) = cell.get() {
            (cell, number) = (&known.next, number + 1);
        }
        cell.get_or_init(|| Box::new(OwnedText { text, next: OnceCell::new() }));
        number
    }

    #[cold]
    fn owned_text(&self, number: usize) -> &[u8] {
        let all = std::iter::successors(self.owned.get(), |known| known.next.get());
        all.skip(number).map(|known| known.text.as_slice()).next().unwrap_or_default()
    }

    /// A claim of the token that the request carries. Tokens are read once, however many claims are asked for.
    fn claim(&self, claim: &str, verify: bool) -> Read<'a> {
        let request = self.request;
        let read = |claims: &dyn Fn(&[u8]) -> Result<jwt::Claims, Unusable>| match header::bearer(request.headers)? {
            Some(token) => claims(&token).map(Some),
            None => Ok(None),
        };
        let token = if verify {
            let Some(verifier) = &self.identities.verifier else { return Ok(None) };
            self.verified.get_or_init(|| read(&|token| verifier.verified(token, request.unix_time_s)))
        } else {
            self.unverified.get_or_init(|| read(&jwt::unverified))
        };
        let claims = token.as_ref().map_err(|reason| *reason)?;
        let text = claims.as_ref().and_then(|claims| claims.text(claim));
        Ok(text.map(|text| Cow::Owned(text.into_bytes())))
    }
}

/// Methods have a case, but some backends forgive it, and so a rule for POST means `post` as well.
fn upper_case(method: &str) -> Cow<'_, [u8]> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Cow::Owned(method.to_ascii_uppercase().into_bytes());
    }
    Cow::Borrowed(method.as_bytes())
}

/// What a caller set under a name.
pub(crate) fn said_by_caller<'r>(request: &Request<'r>, name: &str) -> Option<&'r [u8]> {
    let set = request.identities.iter().find(|(known, _)| *known == name)?;
    // An entry of a descriptor is what the gateway sends, to the last space.
    let text = if request.descriptor.is_some() { set.1 } else { set.1.trim_ascii() };
    Some(text.as_bytes())
}

impl Source {
    /// What stands in a request by itself. Nothing for sources that need more than that.
    #[inline]
    pub(crate) fn read<'r>(&self, request: &Request<'r>) -> Read<'r> {
        match self {
            Source::Header(name) if request.descriptor.is_some() => header::value_of_entry(request.headers, name),
            Source::Header(name) => header::value(request.headers, name),
            Source::Cookie(name) => header::cookie(request.headers, name),
            Source::Query(name) => header::query(request.target, name),
            Source::Bearer => header::bearer(request.headers),
            _ => Ok(None),
        }
    }
}

impl Known {
    /// What a caller set directly. An address and a tier need more than to be copied, so they are read elsewhere.
    #[inline]
    pub(crate) fn set_by_caller<'r>(&self, request: &Request<'r>) -> Option<&'r [u8]> {
        if request.identities.is_empty() || !self.settable || matches!(self.source, Source::ClientIp | Source::Tier) {
            return None;
        }
        said_by_caller(request, &self.name)
    }
}

impl Identities {
    /// The whole address of the client: what a caller says, if it is an address, else what the connection tells.
    #[inline]
    pub(crate) fn client(&self, request: &Request<'_>) -> Option<IpAddr> {
        if !request.identities.is_empty()
            && let Some((_, text)) = request.identities.iter().find(|(known, _)| *known == self.known(CLIENT_IP).name)
            && let Some(address) = parse(text.as_bytes())
        {
            return Some(address);
        }
        // An IPv4 client of a socket for both kinds is unmapped before anything is made of the address.
        let peer = request.peer?.to_canonical();
        if self.trusted.is_empty() {
            return Some(peer);
        }
        Some(forwarded::client(peer, &self.trusted, self.forwarded_by, request.headers))
    }
}
