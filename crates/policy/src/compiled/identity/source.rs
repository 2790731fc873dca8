//! Identities by number, with their sources resolved.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::jwt;
use crate::check::names::Names;
use crate::compiled::address;
use crate::compiled::address::address_text::{Prefixes, WHOLE, push_client};
use crate::compiled::address::carried;
use crate::compiled::address::networks::NetworkMap;
use crate::compiled::grants::tier::Tiers;
use crate::compiled::key::key_bytes::{self, Keys};
use crate::compiled::key::secrets::Secrets;
use crate::compiled::matching::conditions::Pattern;
use crate::compiled::matching::hosts;
use crate::compiled::path::normal;
use crate::compiled::{CompileError, lossy};
use crate::model::{
    BUILT_IN_IDENTITIES, ForwardedBy, IdentitySource, OnInvalid, Paths, Policy, TIER, TextPattern, TierSource,
    is_credential_header,
};
use crate::request::FieldName;

/// An identity's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdentityId(pub(super) u32);

/// Where a value is found.
#[derive(Debug)]
pub(crate) enum Source {
    ClientIp,
    Method,
    Host,
    Path,
    Route,
    Tier,
    Peer,
    Header(FieldName),
    Cookie(String),
    PathSegment(usize),
    Query(String),
    Bearer,
    Jwt {
        claim: String,
        verify: bool,
    },
    Value(Vec<u8>),
    /// Flat: none of these is itself a list.
    First(Vec<IdentityId>),
    /// Only a caller can set it.
    Caller,
}

#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) source: Source,
    /// Whether callers may set it directly.
    pub(crate) settable: bool,
    /// Whether its values are credentials, which keys show only as hashes.
    pub(crate) secret: bool,
    /// What happens where its value is present and cannot be used.
    pub(crate) on_invalid: OnInvalid,
}

impl Known {
    /// Whether a key never shows its values as they are: those of a list stand behind the name of the one that was
    /// found, and a credential is hashed.
    #[inline]
    pub(crate) fn needs_writing(&self) -> bool {
        self.secret || matches!(self.source, Source::First(_))
    }
}

/// All identities of a policy, and the header fields that it asks for.
#[derive(Debug)]
pub(crate) struct Identities {
    pub(super) known: Vec<Known>,
    by_name: HashMap<String, IdentityId, FixedState>,
    by_header: HashMap<String, IdentityId, FixedState>,
    pub(crate) trusted: NetworkMap<()>,
    pub(crate) forwarded_by: ForwardedBy,
    pub(crate) prefixes: Prefixes,
    pub(crate) paths: Paths,
    pub(crate) verifier: Option<jwt::Verifier>,
    pub(crate) tiers: Tiers,
    pub(crate) secrets: Secrets,
    /// Whether anything asks for the host.
    pub(crate) uses_host: bool,
}

pub(crate) const CLIENT_IP: IdentityId = IdentityId(0);

impl Identities {
    pub(crate) fn compile(policy: &Policy) -> Result<Identities, CompileError> {
        let mut trusted = NetworkMap::new();
        for network in &policy.client_ip.trusted_proxies {
            trusted.entry(*network);
        }
        let prefixes = Prefixes { v4: policy.client_ip.ipv4_prefix.min(32), v6: policy.client_ip.ipv6_prefix.min(128) };
        let verifier = if verifies(policy) { policy.jwt.as_ref().map(jwt::Verifier::new).transpose()? } else { None };
        let mut identities = Identities {
            known: Vec::new(),
            by_name: HashMap::default(),
            by_header: HashMap::default(),
            trusted,
            forwarded_by: policy.client_ip.forwarded_by,
            prefixes,
            paths: policy.paths,
            verifier,
            tiers: Tiers::default(),
            secrets: Secrets::new(policy.secret_key.as_ref()),
            uses_host: false,
        };
        identities.declare_built_in();
        identities.declare(policy);
        identities.tiers = Tiers::compile(policy, &mut identities);
        Ok(identities)
    }

    fn declare_built_in(&mut self) {
        let sources = [Source::ClientIp, Source::Method, Source::Host, Source::Path, Source::Route];
        for (name, source) in BUILT_IN_IDENTITIES.into_iter().zip(sources) {
            let settable = matches!(source, Source::ClientIp);
            self.add(name, source, settable);
        }
        self.add(TIER, Source::Tier, true);
    }

    /// Names first, so that `first` may refer to what stands further down.
    fn declare(&mut self, policy: &Policy) {
        for identity in &policy.identities {
            self.add(&identity.name, Source::Caller, true);
        }
        let names = Names::of(policy);
        for identity in &policy.identities {
            let source = match &identity.source {
                IdentitySource::First(listed) => {
                    let listed = names.spread(listed.iter().map(String::as_str));
                    Source::First(listed.into_iter().map(|name| self.id(name)).collect())
                }
                source => single(source, identity.trusted),
            };
            let id = self.id(&identity.name);
            let known = &mut self.known[id.0 as usize];
            (known.source, known.on_invalid, known.secret) = (source, identity.on_invalid, identity.is_secret());
        }
        // A caller may set a list to a value of any that is in it.
        for at in 0..self.known.len() {
            if let Source::First(inner) = &self.known[at].source {
                self.known[at].secret = inner.iter().any(|id| self.known(*id).secret);
            }
        }
    }

    fn add(&mut self, name: &str, source: Source, settable: bool) -> IdentityId {
        let id = self.add_nameless(name, source, settable);
        self.by_name.insert(name.to_owned(), id);
        id
    }

    fn add_nameless(&mut self, name: &str, source: Source, settable: bool) -> IdentityId {
        let id = IdentityId(u32::try_from(self.known.len()).unwrap_or(u32::MAX));
        self.known.push(Known { name: name.to_owned(), source, settable, secret: false, on_invalid: OnInvalid::Count });
        id
    }

    /// The identity of this name. One that nobody declared is one that only callers set.
    pub(crate) fn id(&mut self, name: &str) -> IdentityId {
        match self.by_name.get(name) {
            Some(id) => *id,
            None => self.add(name, Source::Caller, true),
        }
    }

    /// A request header that a rule asks for by its own name. No caller can set it.
    pub(crate) fn header(&mut self, name: &str) -> IdentityId {
        let name = name.to_ascii_lowercase();
        if let Some(known) = self.by_header.get(&name) {
            return *known;
        }
        let is_same =
            |known: &Known| known.secret && matches!(&known.source, Source::Header(other) if other.as_str() == name);
        let secret = is_credential_header(&name) || self.known.iter().any(is_same);
        let id = self.add_nameless(&name, Source::Header(FieldName::new(&name)), false);
        self.known[id.0 as usize].secret = secret;
        self.by_header.insert(name, id);
        id
    }

    /// The source of a tier that is found directly.
    pub(crate) fn tier_source(&mut self, source: &IdentitySource, trusted: bool) -> IdentityId {
        self.add_nameless(TIER, single(source, trusted), false)
    }

    pub(crate) fn known(&self, id: IdentityId) -> &Known {
        &self.known[id.0 as usize]
    }

    /// Whether its value may be one of these sources, by itself or in a list.
    pub(crate) fn may_be(&self, id: IdentityId, is_one: fn(&Source) -> bool) -> bool {
        self.places(id).any(|place| is_one(&self.known(place).source))
    }

    /// Whether it is a list of others.
    pub(crate) fn is_list(&self, id: IdentityId) -> bool {
        matches!(self.known(id).source, Source::First(_))
    }

    /// Whether a value of it may be present and of no use.
    pub(crate) fn can_be_unusable(&self, id: IdentityId) -> bool {
        let known = self.known(id);
        match known.source {
            Source::Header(_) | Source::Cookie(_) | Source::Query(_) => true,
            Source::Bearer | Source::Jwt { .. } => known.on_invalid == OnInvalid::Count,
            _ => false,
        }
    }

    /// Writes a value that was found under this identity into a key: a credential as its hash.
    #[inline]
    pub(crate) fn push_value(&self, keys: &mut Keys, found: IdentityId, value: &[u8]) {
        if self.known(found).secret { self.secrets.push(keys, value) } else { key_bytes::push_value(keys, value) }
    }

    /// A value that was found under this identity as it may be shown: a credential as its hash.
    pub(crate) fn shown(&self, found: IdentityId, value: &[u8]) -> String {
        if self.known(found).secret { self.secrets.hashed(value) } else { lossy(value) }
    }

    /// Under which identities a value of this one may be found: of a list under
    /// those in it, or under itself if a caller sets it.
    pub(crate) fn places(&self, id: IdentityId) -> impl Iterator<Item = IdentityId> {
        let inner = match &self.known(id).source {
            Source::First(inner) => inner.as_slice(),
            _ => &[],
        };
        inner.iter().copied().chain(std::iter::once(id))
    }

    /// Those that come from a header, with its name in lower case.
    pub(crate) fn with_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named().filter_map(|id| match &self.known(id).source {
            Source::Header(header) => Some((self.known(id).name.as_str(), header.as_str())),
            _ => None,
        })
    }

    /// All of them that people know by name.
    pub(crate) fn named(&self) -> impl Iterator<Item = IdentityId> {
        let named = |at: usize| self.by_name.get(&self.known[at].name).is_some_and(|id| id.0 as usize == at);
        (0..self.known.len()).filter(move |at| named(*at)).filter_map(|at| u32::try_from(at).ok()).map(IdentityId)
    }

    /// Whether the address of the other end decides what this is.
    pub(crate) fn needs_peer(&self, id: IdentityId) -> bool {
        self.may_be(id, |source| matches!(source, Source::ClientIp | Source::Peer))
    }

    /// Whether the host is one of these values, or of those that a declared list has.
    pub(crate) fn has_host(&self, mut asked: impl Iterator<Item = IdentityId>) -> bool {
        let mut lists = self.named().filter(|id| self.is_list(*id));
        let is_host = |id| self.may_be(id, |source| matches!(source, Source::Host));
        asked.any(is_host) || lists.any(is_host)
    }

    /// Whether it depends on the rule that asks: the pattern that matched is the rule's own.
    pub(crate) fn is_per_rule(&self, id: IdentityId) -> bool {
        self.may_be(id, |source| matches!(source, Source::Route))
    }

    /// A pattern for the values of an identity, written as its values are. For a
    /// list of identities `name=..` means only the one of that name; without a
    /// name there is only `*`, or else one identity would get what is granted to another.
    pub(crate) fn pattern(&self, id: IdentityId, pattern: &TextPattern) -> Pattern {
        if self.is_list(id) {
            for only in self.places(id) {
                let text = pattern.0.strip_prefix(&self.known(only).name).and_then(|rest| rest.strip_prefix('='));
                if let Some(text) = text {
                    return Pattern { only: Some(only), text: TextPattern(self.canonical(only, text)) };
                }
            }
            return Pattern { only: None, text: pattern.clone() };
        }
        Pattern { only: None, text: TextPattern(self.canonical(id, &pattern.0)) }
    }

    /// A text as the value of this identity would be written.
    fn canonical(&self, id: IdentityId, text: &str) -> String {
        match &self.known(id).source {
            Source::ClientIp | Source::Peer => self.canonical_address(text),
            Source::Method => text.to_ascii_uppercase(),
            Source::Host => hosts::normalise(text).map_or_else(String::new, |host| lossy(&host)),
            Source::Path | Source::Route if !text.contains('*') => {
                normal::normalise(text, self.paths).map_or_else(String::new, |path| lossy(&path.bytes))
            }
            Source::Path | Source::Route if self.paths.ignore_case => text.to_ascii_lowercase(),
            _ => text.to_owned(),
        }
    }

    fn canonical_address(&self, text: &str) -> String {
        let Some(address) = address::parse(text.as_bytes()) else { return text.to_owned() };
        let mut canonical = SmallVec::<[u8; 64]>::new();
        // One that carries an IPv4 address is compared as it is sent.
        let prefixes = if carried(address).is_some() { WHOLE } else { self.prefixes };
        push_client(&mut canonical, address, prefixes);
        lossy(&canonical)
    }
}

/// A source that is no list.
fn single(source: &IdentitySource, trusted: bool) -> Source {
    match source {
        IdentitySource::Peer => Source::Peer,
        IdentitySource::Header(name) => Source::Header(FieldName::new(name)),
        IdentitySource::Cookie(name) => Source::Cookie(name.clone()),
        IdentitySource::PathSegment(at) => Source::PathSegment(*at),
        IdentitySource::Query(name) => Source::Query(name.clone()),
        IdentitySource::Bearer => Source::Bearer,
        IdentitySource::Jwt(claim) => Source::Jwt { claim: claim.clone(), verify: !trusted },
        IdentitySource::Value(text) => Source::Value(text.clone().into_bytes()),
        IdentitySource::First(_) | IdentitySource::Given => Source::Caller,
    }
}

/// Whether any token has to be verified.
fn verifies(policy: &Policy) -> bool {
    let identities = policy.identities.iter().map(|identity| (&identity.source, identity.trusted));
    let tier = policy.tier.iter().filter_map(|tier| match &tier.source {
        TierSource::Direct(source) => Some((source, tier.trusted)),
        TierSource::Listed { .. } => None,
    });
    identities.chain(tier).any(|(source, trusted)| matches!(source, IdentitySource::Jwt(_)) && !trusted)
}
