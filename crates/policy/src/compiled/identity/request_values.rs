//! The identity values of one request, each read when it is first needed, and then cached.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::net::IpAddr;

use smallvec::SmallVec;

use super::header;
use super::jwt;
use super::source::{CLIENT_IP, CompiledIdentity, IdentityId, IdentityTable, ValueSource};
use super::unusable::{ReadResult, Unusable};
use crate::compiled::address::address_text::{WHOLE, push_client};
use crate::compiled::address::{embedded_v4, forwarded, key_address, parse};
use crate::compiled::matching::{conditions::Test, hosts};
use crate::compiled::path::normal::{NormalPath, segment};
use crate::compiled::path::readings::Readings;
use crate::compiled::path::routes::MatchedRoutes;
use crate::model::OnInvalid;
use crate::request::{REMOTE_ADDRESS, Request};

/// A value that was found: its text, and the identity under which it was found (for a `first` identity, the member that
/// is present).
#[derive(Clone, Copy)]
pub(crate) struct FoundValue<'v> {
    pub(crate) id: IdentityId,
    pub(crate) text: &'v [u8],
    /// The reason why the value is unusable, if it is. The text is then the client's address, if it is known.
    pub(crate) unusable: Option<Unusable>,
}

impl FoundValue<'_> {
    pub(crate) fn is_usable(&self) -> bool {
        self.unusable.is_none()
    }
}

/// The text of an address. The longest address fits without an allocation.
pub(crate) type AddressText = SmallVec<[u8; 40]>;

/// The cached value of an identity.
#[derive(Clone, Copy)]
enum CachedValue<'a> {
    Unread,
    Read(Option<PresentValue<'a>>),
}

/// A value that is present.
#[derive(Clone, Copy)]
struct PresentValue<'a> {
    text: ValueText<'a>,
    unusable: Option<Unusable>,
}

/// The location of a text.
#[derive(Clone, Copy)]
enum ValueText<'a> {
    /// Borrowed from the request or the policy.
    Borrowed(&'a [u8]),
    /// The number of an owned text.
    Owned(usize),
    /// The client's address; empty if it is unknown.
    Client,
    /// The peer's address.
    Peer,
}

/// A linked list of owned texts. Few requests have any.
struct OwnedText {
    text: Vec<u8>,
    next: OnceCell<Box<OwnedText>>,
}

/// The claims of the token, if the request has one.
type Token = Result<Option<jwt::Claims>, Unusable>;

/// A request in normalised form, with its identity values.
pub(crate) struct RequestValues<'a> {
    pub(crate) identities: &'a IdentityTable,
    pub(crate) request: &'a Request<'a>,
    /// The method in upper case.
    pub(crate) method: Cow<'a, [u8]>,
    pub(crate) host: Option<Cow<'a, [u8]>>,
    /// The readings of the path; `None` if it is unknown.
    readings: Option<Readings<'a>>,
    /// The number of the selected reading.
    reading: usize,
    /// The path patterns that the selected reading matches.
    pub(crate) routes: MatchedRoutes,
    slots: SmallVec<[Cell<CachedValue<'a>>; 12]>,
    owned: OnceCell<Box<OwnedText>>,
    client: OnceCell<Option<IpAddr>>,
    /// The addresses of the client and of the peer as they are written in keys.
    client_text: OnceCell<AddressText>,
    peer_text: OnceCell<AddressText>,
    tier: Cell<Option<Option<u32>>>,
    verified: OnceCell<Token>,
    unverified: OnceCell<Token>,
}

impl<'a> RequestValues<'a> {
    #[inline(always)]
    pub(crate) fn new(identities: &'a IdentityTable, request: &'a Request<'a>) -> RequestValues<'a> {
        RequestValues {
            identities,
            request,
            method: upper_case(request.method),
            host: if identities.uses_host { request.host().and_then(hosts::normalise) } else { None },
            readings: Readings::of(request.target, identities.paths),
            reading: 0,
            routes: MatchedRoutes::new(),
            slots: SmallVec::from_elem(Cell::new(CachedValue::Unread), identities.entries.len()),
            owned: OnceCell::new(),
            client: OnceCell::new(),
            client_text: OnceCell::new(),
            peer_text: OnceCell::new(),
            tier: Cell::new(None),
            verified: OnceCell::new(),
            unverified: OnceCell::new(),
        }
    }

    /// Returns the number of readings of the path; 1 if it is unknown.
    pub(crate) fn reading_count(&self) -> usize {
        self.readings.as_ref().map_or(1, Readings::count)
    }

    /// Returns all readings of the path; none if it is unknown.
    pub(crate) fn all_readings(&self) -> impl Iterator<Item = &NormalPath<'a>> {
        self.readings.iter().flat_map(Readings::iter)
    }

    /// Returns the path in the selected reading.
    #[inline]
    pub(crate) fn path(&self) -> Option<&NormalPath<'a>> {
        self.readings.as_ref().map(|readings| readings.get(self.reading))
    }

    /// Selects another reading of the path. Only values that depend on the path are read again.
    pub(crate) fn select_reading(&mut self, reading: usize) {
        self.reading = reading;
        self.tier.set(None);
        for (slot, identity) in self.slots.iter_mut().zip(&self.identities.entries) {
            if matches!(identity.source, ValueSource::Path | ValueSource::PathSegment(_)) {
                slot.set(CachedValue::Unread);
            }
        }
    }

    /// Returns the value of an identity, if it is present. An unusable value is present, too. `route` is the matched
    /// pattern of the rule.
    #[inline]
    pub(crate) fn find<'v>(&'v self, id: IdentityId, route: Option<&'v [u8]>) -> Option<FoundValue<'v>> {
        let found = |text| FoundValue { id, text, unusable: None };
        match &self.identities.get(id).source {
            ValueSource::Route => return route.map(found),
            ValueSource::Tier => return Some(found(self.identities.tiers.name(self.tier()?).as_bytes())),
            ValueSource::First(inner) if self.set_by_caller(id).is_none() => {
                return inner.iter().find_map(|id| self.find(*id, route));
            }
            _ => {}
        }
        let slot = &self.slots[id.0 as usize];
        let value = match slot.get() {
            CachedValue::Read(value) => value?,
            CachedValue::Unread => {
                let value = self.read(id);
                slot.set(CachedValue::Read(value));
                value?
            }
        };
        let text = match value.text {
            ValueText::Borrowed(text) => text,
            ValueText::Owned(number) => self.owned_text(number),
            ValueText::Client => self.client_text.get_or_init(|| self.key_text(self.client())).as_slice(),
            ValueText::Peer => self.peer_text.get_or_init(|| self.key_text(self.peer())).as_slice(),
        };
        Some(FoundValue { id, text, unusable: value.unusable })
    }

    /// Returns the value of an identity, if it is present and usable.
    #[inline]
    pub(crate) fn find_usable<'v>(&'v self, id: IdentityId, route: Option<&'v [u8]>) -> Option<FoundValue<'v>> {
        self.find(id, route).filter(FoundValue::is_usable)
    }

    /// Returns the address as it was sent, if the value is the IPv4 address that it embeds. A grant to one is not a
    /// grant to the other, because a client can choose an address for the IPv4 address that it embeds.
    #[inline]
    pub(crate) fn as_sent(&self, found: FoundValue<'_>) -> Option<AddressText> {
        let address = match self.identities.get(found.id).source {
            ValueSource::ClientIp => self.client()?,
            ValueSource::Peer if self.set_by_caller(found.id).is_none() => self.peer()?,
            _ => return None,
        };
        embedded_v4(address)?;
        let mut sent = SmallVec::new();
        push_client(&mut sent, address, WHOLE);
        Some(sent)
    }

    /// Whether the value of an identity passes a test in any of its forms: a rule that limits must not be avoidable by
    /// a value with two forms, or by an unusable one.
    pub(crate) fn passes(&self, id: IdentityId, test: &Test, route: Option<&[u8]>) -> bool {
        let Some(found) = self.find(id, route) else { return test.holds(None) };
        if !found.is_usable() {
            return test.holds_for_unusable();
        }
        test.holds(Some((found.id, found.text)))
            || self.as_sent(found).is_some_and(|sent| test.holds(Some((found.id, &sent))))
    }

    /// Whether the value passes a test strictly, as exemptions require: it is usable and passes as it was sent.
    pub(crate) fn passes_strictly(&self, id: IdentityId, test: &Test, route: Option<&[u8]>) -> bool {
        let Some(found) = self.find(id, route) else { return test.holds(None) };
        let sent = self.as_sent(found);
        found.is_usable() && test.holds(Some((found.id, sent.as_deref().unwrap_or(found.text))))
    }

    /// Returns the full address of the client.
    #[inline]
    pub(crate) fn client(&self) -> Option<IpAddr> {
        *self.client.get_or_init(|| self.identities.client(self.request))
    }

    /// Returns the number of the tier: one of the policy's, else its default.
    #[inline]
    pub(crate) fn tier(&self) -> Option<u32> {
        if let Some(known) = self.tier.get() {
            return known;
        }
        let tier = self.identities.tiers.find(self);
        self.tier.set(Some(tier));
        tier
    }

    /// Returns the peer's address.
    fn peer(&self) -> Option<IpAddr> {
        self.request.peer.map(|peer| peer.to_canonical())
    }

    /// Returns an address as it is written in keys.
    #[inline]
    fn key_text(&self, address: Option<IpAddr>) -> AddressText {
        let mut text = AddressText::new();
        if let Some(address) = address {
            push_client(&mut text, key_address(address), self.identities.prefixes);
        }
        text
    }

    #[inline(always)]
    fn set_by_caller(&self, id: IdentityId) -> Option<&'a [u8]> {
        self.identities.get(id).set_by_caller(self.request)
    }

    fn read(&self, id: IdentityId) -> Option<PresentValue<'a>> {
        let identity = self.identities.get(id);
        if let Some(text) = self.set_by_caller(id) {
            return self.present_value(Cow::Borrowed(text));
        }
        let text = match &identity.source {
            ValueSource::ClientIp => match self.client() {
                Some(_) => return Some(PresentValue { text: ValueText::Client, unusable: None }),
                None => Cow::Borrowed(self.unparsed_address()?),
            },
            ValueSource::Peer => return self.peer().map(|_| PresentValue { text: ValueText::Peer, unusable: None }),
            ValueSource::Method => self.method.clone(),
            ValueSource::Host => self.host.clone()?,
            ValueSource::Path => self.path()?.bytes.clone(),
            ValueSource::PathSegment(number) => match &self.path()?.bytes {
                Cow::Borrowed(path) => Cow::Borrowed(segment(path, *number)?),
                Cow::Owned(path) => Cow::Owned(segment(path, *number)?.to_vec()),
            },
            ValueSource::Value(text) => Cow::Borrowed(&**text),
            ValueSource::Jwt { claim, verify } => return self.value_or_address(identity, self.claim(claim, *verify)),
            source => return self.value_or_address(identity, source.read(self.request)),
        };
        self.present_value(text)
    }

    /// Returns the text that a gateway sends as the client's address, if it is not an address. The client is counted by
    /// this text, because otherwise rules by address would not limit it.
    fn unparsed_address(&self) -> Option<&'a [u8]> {
        let descriptor = self.request.descriptor?;
        let name = &*self.identities.get(CLIENT_IP).name;
        Some(descriptor.value(name).or_else(|| descriptor.value(REMOTE_ADDRESS))?.trim_ascii().as_bytes())
    }

    /// Returns a value that was read. An unusable value is replaced by the client's address, or absent by `on_invalid`.
    #[inline]
    fn value_or_address(&self, identity: &CompiledIdentity, read: ReadResult<'a>) -> Option<PresentValue<'a>> {
        match read {
            Ok(text) => self.present_value(text?),
            Err(_) if identity.on_invalid == OnInvalid::Absent => None,
            Err(reason) => Some(PresentValue { text: ValueText::Client, unusable: Some(reason) }),
        }
    }

    /// Returns a value, unless it is empty: an empty value is absent.
    #[inline]
    fn present_value(&self, text: Cow<'a, [u8]>) -> Option<PresentValue<'a>> {
        let text = match text {
            Cow::Borrowed(text) if !text.is_empty() => ValueText::Borrowed(text),
            Cow::Owned(text) if !text.is_empty() => ValueText::Owned(self.store_owned(text)),
            _ => return None,
        };
        Some(PresentValue { text, unusable: None })
    }

    /// Appends an owned text to the list and returns its number.
    #[cold]
    fn store_owned(&self, text: Vec<u8>) -> usize {
        let (mut cell, mut number) = (&self.owned, 0);
        while let Some(entry) = cell.get() {
            (cell, number) = (&entry.next, number + 1);
        }
        cell.get_or_init(|| Box::new(OwnedText { text, next: OnceCell::new() }));
        number
    }

    #[cold]
    fn owned_text(&self, number: usize) -> &[u8] {
        let all = std::iter::successors(self.owned.get(), |entry| entry.next.get());
        all.skip(number).map(|entry| entry.text.as_slice()).next().unwrap_or_default()
    }

    /// Returns a claim of the request's token. The token is parsed once, whatever the number of claims that are read.
    fn claim(&self, claim: &str, verify: bool) -> ReadResult<'a> {
        let request = self.request;
        let read = |claims: &dyn Fn(&[u8]) -> Result<jwt::Claims, Unusable>| match header::bearer(request.headers)? {
            Some(token) => claims(&token).map(Some),
            None => Ok(None),
        };
        let token = if verify {
            let Some(verifier) = &self.identities.verifier else { return Ok(None) };
            self.verified.get_or_init(|| read(&|token| verifier.verify(token, request.unix_time_s)))
        } else {
            self.unverified.get_or_init(|| read(&jwt::decode_unverified))
        };
        let claims = token.as_ref().map_err(|reason| *reason)?;
        let text = claims.as_ref().and_then(|claims| claims.text(claim));
        Ok(text.map(|text| Cow::Owned(text.into_bytes())))
    }
}

/// Returns a method in upper case. Methods are case-sensitive, but some backends ignore the case, so a rule for POST
/// matches `post`, too.
fn upper_case(method: &str) -> Cow<'_, [u8]> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Cow::Owned(method.to_ascii_uppercase().into_bytes());
    }
    Cow::Borrowed(method.as_bytes())
}

/// Returns the value that the caller set for the identity of a name.
pub(crate) fn caller_value<'r>(request: &Request<'r>, name: &str) -> Option<&'r [u8]> {
    let set = request.identities.iter().find(|(other, _)| *other == name)?;
    // A descriptor's entry is used exactly as the gateway sends it, including white space.
    let text = if request.descriptor.is_some() { set.1 } else { set.1.trim_ascii() };
    Some(text.as_bytes())
}

impl ValueSource {
    /// Reads the value from the request. `None` for sources that need more than the request.
    #[inline]
    pub(crate) fn read<'r>(&self, request: &Request<'r>) -> ReadResult<'r> {
        match self {
            ValueSource::Header(name) if request.descriptor.is_some() => header::entry_value(request.headers, name),
            ValueSource::Header(name) => header::value(request.headers, name),
            ValueSource::Cookie(name) => header::cookie(request.headers, name),
            ValueSource::Query(name) => header::query(request.target, name),
            ValueSource::Bearer => header::bearer(request.headers),
            _ => Ok(None),
        }
    }
}

impl CompiledIdentity {
    /// Returns the value that the caller set directly. Addresses and tiers are not copied verbatim, so they are read
    /// elsewhere.
    #[inline]
    pub(crate) fn set_by_caller<'r>(&self, request: &Request<'r>) -> Option<&'r [u8]> {
        if request.identities.is_empty()
            || !self.settable
            || matches!(self.source, ValueSource::ClientIp | ValueSource::Tier)
        {
            return None;
        }
        caller_value(request, &self.name)
    }
}

impl IdentityTable {
    /// Whether a caller may set the identity of this name.
    pub(crate) fn is_settable(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|id| self.get(*id).settable)
    }

    /// Returns the full address of the client: the one that the caller set, if it is an address, else the one that a
    /// trusted proxy forwarded, else the peer's.
    #[inline]
    pub(crate) fn client(&self, request: &Request<'_>) -> Option<IpAddr> {
        if !request.identities.is_empty()
            && let Some((_, text)) = request.identities.iter().find(|(name, _)| *name == self.get(CLIENT_IP).name)
            && let Some(address) = parse(text.as_bytes())
        {
            return Some(address);
        }
        // An IPv4 client of a dual-stack socket has an IPv4-mapped address, which is converted first.
        let peer = request.peer?.to_canonical();
        if self.trusted.is_empty() {
            return Some(peer);
        }
        Some(forwarded::client(peer, &self.trusted, self.forwarded_by, request.headers))
    }
}
