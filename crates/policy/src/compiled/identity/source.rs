//! The identities of a policy by number, with their sources resolved.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::jwt;
use crate::check::names::IdentityNames;
use crate::compiled::address;
use crate::compiled::address::address_text::{Prefixes, WHOLE, push_client};
use crate::compiled::address::embedded_v4;
use crate::compiled::address::networks::NetworkMap;
use crate::compiled::grants::tier::Tiers;
use crate::compiled::key::key_bytes::{self, KeyBuffer};
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

/// The number of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdentityId(pub(super) u32);

/// The source of a value.
#[derive(Debug)]
pub(crate) enum ValueSource {
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
    /// The first identity of a list that is present. The list is flat: none of its members is a list.
    First(Vec<IdentityId>),
    /// Only a caller can set it.
    Caller,
}

#[derive(Debug)]
pub(crate) struct CompiledIdentity {
    pub(crate) name: String,
    pub(crate) source: ValueSource,
    /// Whether callers may set the value directly.
    pub(crate) settable: bool,
    /// Whether the values are credentials, which keys contain only as hashes.
    pub(crate) secret: bool,
    /// The treatment of values that are present but unusable.
    pub(crate) on_invalid: OnInvalid,
}

impl CompiledIdentity {
    /// Whether keys never contain the unchanged values: those of a list follow the name of the identity that was found,
    /// and credentials are hashed.
    #[inline]
    pub(crate) fn needs_encoding(&self) -> bool {
        self.secret || matches!(self.source, ValueSource::First(_))
    }
}

/// All identities of a policy, and the header fields that it uses.
#[derive(Debug)]
pub(crate) struct IdentityTable {
    pub(super) entries: Vec<CompiledIdentity>,
    pub(super) by_name: HashMap<String, IdentityId, FixedState>,
    by_header: HashMap<String, IdentityId, FixedState>,
    pub(crate) trusted: NetworkMap<()>,
    pub(crate) forwarded_by: ForwardedBy,
    pub(crate) prefixes: Prefixes,
    pub(crate) paths: Paths,
    pub(crate) verifier: Option<jwt::Verifier>,
    pub(crate) tiers: Tiers,
    pub(crate) secrets: Secrets,
    /// Whether the policy uses the host.
    pub(crate) uses_host: bool,
}

pub(crate) const CLIENT_IP: IdentityId = IdentityId(0);

impl IdentityTable {
    pub(crate) fn compile(policy: &Policy) -> Result<IdentityTable, CompileError> {
        let mut trusted = NetworkMap::new();
        for network in &policy.client_ip.trusted_proxies {
            trusted.entry(*network);
        }
        let prefixes = Prefixes { v4: policy.client_ip.ipv4_prefix.min(32), v6: policy.client_ip.ipv6_prefix.min(128) };
        let verifier =
            if needs_verifier(policy) { policy.jwt.as_ref().map(jwt::Verifier::new).transpose()? } else { None };
        let mut identities = IdentityTable {
            entries: Vec::new(),
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
        let sources =
            [ValueSource::ClientIp, ValueSource::Method, ValueSource::Host, ValueSource::Path, ValueSource::Route];
        for (name, source) in BUILT_IN_IDENTITIES.into_iter().zip(sources) {
            let settable = matches!(source, ValueSource::ClientIp);
            self.add(name, source, settable);
        }
        self.add(TIER, ValueSource::Tier, true);
    }

    /// Declares the policy's identities: all names first, so that `first` may refer to later declarations.
    fn declare(&mut self, policy: &Policy) {
        for identity in &policy.identities {
            self.add(&identity.name, ValueSource::Caller, true);
        }
        let names = IdentityNames::of(policy);
        for identity in &policy.identities {
            let source = match &identity.source {
                IdentitySource::First(listed) => {
                    let listed = names.expand_lists(listed.iter().map(String::as_str));
                    ValueSource::First(listed.into_iter().map(|name| self.id(name)).collect())
                }
                source => single_source(source, identity.trusted),
            };
            let id = self.id(&identity.name);
            let entry = &mut self.entries[id.0 as usize];
            (entry.source, entry.on_invalid, entry.secret) = (source, identity.on_invalid, identity.is_secret());
        }
        // A caller may set a list to a value of any of its members.
        for index in 0..self.entries.len() {
            if let ValueSource::First(inner) = &self.entries[index].source {
                self.entries[index].secret = inner.iter().any(|id| self.get(*id).secret);
            }
        }
    }

    fn add(&mut self, name: &str, source: ValueSource, settable: bool) -> IdentityId {
        let id = self.add_unnamed(name, source, settable);
        self.by_name.insert(name.to_owned(), id);
        id
    }

    fn add_unnamed(&mut self, name: &str, source: ValueSource, settable: bool) -> IdentityId {
        let id = IdentityId(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        self.entries.push(CompiledIdentity {
            name: name.to_owned(),
            source,
            settable,
            secret: false,
            on_invalid: OnInvalid::Count,
        });
        id
    }

    /// Returns the identity of this name. An undeclared identity is added as one that only callers set.
    pub(crate) fn id(&mut self, name: &str) -> IdentityId {
        match self.by_name.get(name) {
            Some(id) => *id,
            None => self.add(name, ValueSource::Caller, true),
        }
    }

    /// Returns the identity for a request header that a rule names directly. Callers cannot set it.
    pub(crate) fn header(&mut self, name: &str) -> IdentityId {
        let name = name.to_ascii_lowercase();
        if let Some(known) = self.by_header.get(&name) {
            return *known;
        }
        let is_same = |known: &CompiledIdentity| {
            known.secret && matches!(&known.source, ValueSource::Header(other) if other.as_str() == name)
        };
        let secret = is_credential_header(&name) || self.entries.iter().any(is_same);
        let id = self.add_unnamed(&name, ValueSource::Header(FieldName::new(&name)), false);
        self.entries[id.0 as usize].secret = secret;
        self.by_header.insert(name, id);
        id
    }

    /// Adds the source of a tier whose value is the tier's name.
    pub(crate) fn tier_source(&mut self, source: &IdentitySource, trusted: bool) -> IdentityId {
        self.add_unnamed(TIER, single_source(source, trusted), false)
    }

    pub(crate) fn get(&self, id: IdentityId) -> &CompiledIdentity {
        &self.entries[id.0 as usize]
    }

    /// Whether the value may come from such a source, directly or through a list.
    pub(crate) fn may_come_from(&self, id: IdentityId, is_source: fn(&ValueSource) -> bool) -> bool {
        self.candidates(id).any(|candidate| is_source(&self.get(candidate).source))
    }

    /// Whether the identity is a list of others.
    pub(crate) fn is_list(&self, id: IdentityId) -> bool {
        matches!(self.get(id).source, ValueSource::First(_))
    }

    /// Whether a value of the identity may be present but unusable.
    pub(crate) fn can_be_unusable(&self, id: IdentityId) -> bool {
        let entry = self.get(id);
        match entry.source {
            ValueSource::Header(_) | ValueSource::Cookie(_) | ValueSource::Query(_) => true,
            ValueSource::Bearer | ValueSource::Jwt { .. } => entry.on_invalid == OnInvalid::Count,
            _ => false,
        }
    }

    /// Writes a value that was found under this identity into a key: a credential as its hash.
    #[inline]
    pub(crate) fn push_value(&self, keys: &mut KeyBuffer, found: IdentityId, value: &[u8]) {
        if self.get(found).secret { self.secrets.push(keys, value) } else { key_bytes::push_value(keys, value) }
    }

    /// Returns a value that was found under this identity as it may be displayed: a credential as its hash.
    pub(crate) fn display_value(&self, found: IdentityId, value: &[u8]) -> String {
        if self.get(found).secret { self.secrets.hashed(value) } else { lossy(value) }
    }

    /// Returns the identities under which a value of this one may be found: the members of a list, and the identity
    /// itself, which a caller may set.
    pub(crate) fn candidates(&self, id: IdentityId) -> impl Iterator<Item = IdentityId> {
        let inner = match &self.get(id).source {
            ValueSource::First(inner) => inner.as_slice(),
            _ => &[],
        };
        inner.iter().copied().chain(std::iter::once(id))
    }

    /// Returns the identities that are read from a header, with the header's name in lower case.
    pub(crate) fn with_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named().filter_map(|id| match &self.get(id).source {
            ValueSource::Header(header) => Some((self.get(id).name.as_str(), header.as_str())),
            _ => None,
        })
    }

    /// Returns the identities that a policy can name.
    pub(crate) fn named(&self) -> impl Iterator<Item = IdentityId> {
        let named = |index: usize| self.by_name.get(&self.entries[index].name).is_some_and(|id| id.0 as usize == index);
        (0..self.entries.len())
            .filter(move |index| named(*index))
            .filter_map(|index| u32::try_from(index).ok())
            .map(IdentityId)
    }

    /// Whether the value depends on the peer's address.
    pub(crate) fn needs_peer(&self, id: IdentityId) -> bool {
        self.may_come_from(id, |source| matches!(source, ValueSource::ClientIp | ValueSource::Peer))
    }

    /// Whether the host may be the value of one of these identities, or of a declared list.
    pub(crate) fn may_read_host(&self, mut ids: impl Iterator<Item = IdentityId>) -> bool {
        let mut lists = self.named().filter(|id| self.is_list(*id));
        let is_host = |id| self.may_come_from(id, |source| matches!(source, ValueSource::Host));
        ids.any(is_host) || lists.any(is_host)
    }

    /// Whether the value differs between rules: the matched pattern is the rule's own.
    pub(crate) fn is_per_rule(&self, id: IdentityId) -> bool {
        self.may_come_from(id, |source| matches!(source, ValueSource::Route))
    }

    /// Returns a pattern for the values of an identity, in their canonical form. For a list of identities, `name=..`
    /// matches only the identity of that name. Without a name only `*` is possible, because otherwise one identity
    /// would have the grant of another.
    pub(crate) fn pattern(&self, id: IdentityId, pattern: &TextPattern) -> Pattern {
        if self.is_list(id) {
            for only in self.candidates(id) {
                let text = pattern.0.strip_prefix(&self.get(only).name).and_then(|rest| rest.strip_prefix('='));
                if let Some(text) = text {
                    return Pattern { only: Some(only), text: TextPattern(self.canonical(only, text)) };
                }
            }
            return Pattern { only: None, text: pattern.clone() };
        }
        Pattern { only: None, text: TextPattern(self.canonical(id, &pattern.0)) }
    }

    /// Returns a text in the canonical form of this identity's values.
    fn canonical(&self, id: IdentityId, text: &str) -> String {
        match &self.get(id).source {
            ValueSource::ClientIp | ValueSource::Peer => self.canonical_address(text),
            ValueSource::Method => text.to_ascii_uppercase(),
            ValueSource::Host => hosts::normalise(text).map_or_else(String::new, |host| lossy(&host)),
            ValueSource::Path | ValueSource::Route if !text.contains('*') => {
                normal::normalise(text, self.paths).map_or_else(String::new, |path| lossy(&path.bytes))
            }
            ValueSource::Path | ValueSource::Route if self.paths.ignore_case => text.to_ascii_lowercase(),
            _ => text.to_owned(),
        }
    }

    fn canonical_address(&self, text: &str) -> String {
        let Some(address) = address::parse(text.as_bytes()) else { return text.to_owned() };
        let mut canonical = SmallVec::<[u8; 64]>::new();
        // An address that embeds an IPv4 address is compared as it is sent.
        let prefixes = if embedded_v4(address).is_some() { WHOLE } else { self.prefixes };
        push_client(&mut canonical, address, prefixes);
        lossy(&canonical)
    }
}

/// Returns the source of an identity that is not a list.
fn single_source(source: &IdentitySource, trusted: bool) -> ValueSource {
    match source {
        IdentitySource::Peer => ValueSource::Peer,
        IdentitySource::Header(name) => ValueSource::Header(FieldName::new(name)),
        IdentitySource::Cookie(name) => ValueSource::Cookie(name.clone()),
        IdentitySource::PathSegment(number) => ValueSource::PathSegment(*number),
        IdentitySource::Query(name) => ValueSource::Query(name.clone()),
        IdentitySource::Bearer => ValueSource::Bearer,
        IdentitySource::Jwt(claim) => ValueSource::Jwt { claim: claim.clone(), verify: !trusted },
        IdentitySource::Value(text) => ValueSource::Value(text.clone().into_bytes()),
        IdentitySource::First(_) | IdentitySource::Given => ValueSource::Caller,
    }
}

/// Whether any token has to be verified.
fn needs_verifier(policy: &Policy) -> bool {
    let identities = policy.identities.iter().map(|identity| (&identity.source, identity.trusted));
    let tier = policy.tier.iter().filter_map(|tier| match &tier.source {
        TierSource::Direct(source) => Some((source, tier.trusted)),
        TierSource::Listed { .. } => None,
    });
    identities.chain(tier).any(|(source, trusted)| matches!(source, IdentitySource::Jwt(_)) && !trusted)
}
