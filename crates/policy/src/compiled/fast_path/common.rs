//! What most rules do: they charge one quota at a known cost, and count by the client's address or by a header.

use crate::compiled::grants::cost::CompiledCost;
use crate::compiled::grants::rule_grants::Base;
use crate::compiled::identity::{CLIENT_IP, Identities, IdentityId, Source};
use crate::compiled::key::key_bytes;
use crate::compiled::matching::matched::{KeyRef, Matched};
use crate::request::{FieldName, Request};

/// A step with nothing left to look up but the key.
#[derive(Debug)]
pub(super) struct CommonStep {
    pub(super) quota: u32,
    /// For a request of cost 1.
    pub(super) cost: u64,
    key: CommonKey,
}

#[derive(Debug)]
enum CommonKey {
    /// A whole IPv4 address.
    Client,
    /// The value of a header, as it is.
    Header(FieldName),
}

impl CommonStep {
    pub(super) fn new(
        key: &[IdentityId],
        base: &Base,
        cost: &CompiledCost,
        identities: &Identities,
    ) -> Option<CommonStep> {
        let (&[id], Base::Same(quotas)) = (key, base) else { return None };
        let &[quota] = quotas.as_slice() else { return None };
        let cost = match *cost {
            CompiledCost::OfTheRequest { .. } => 1,
            CompiledCost::Fixed(cost) => cost,
            CompiledCost::Header { .. } | CompiledCost::Methods { .. } => return None,
        };
        let known = identities.known(id);
        let key = match &known.source {
            _ if known.needs_writing() => return None,
            Source::ClientIp if id == CLIENT_IP && identities.prefixes.v4 >= 32 => CommonKey::Client,
            Source::Header(name) => CommonKey::Header(name.clone()),
            _ => return None,
        };
        Some(CommonStep { quota, cost, key })
    }

    pub(super) fn is_by_client(&self) -> bool {
        matches!(self.key, CommonKey::Client)
    }

    /// The key of a request whose caller sets no identities. `None` if it has another than a common one, or none.
    #[inline(always)]
    pub(super) fn key<'r>(&self, request: &Request<'r>, matched: &mut Matched<'r>) -> Option<KeyRef> {
        match &self.key {
            CommonKey::Client => matched.client_key(),
            CommonKey::Header(name) => header_key(request, name).map(|key| matched.borrow_key(key)),
        }
    }

    /// The bytes of that key, where those of the client's address are known.
    #[inline(always)]
    pub(super) fn key_bytes<'a>(&self, request: &Request<'a>, client: &'a [u8]) -> Option<&'a [u8]> {
        match &self.key {
            CommonKey::Client => (!client.is_empty()).then_some(client),
            CommonKey::Header(name) => header_key(request, name),
        }
    }
}

/// The value of a header, if it is a key as it is.
#[inline(always)]
fn header_key<'r>(request: &Request<'r>, name: &FieldName) -> Option<&'r [u8]> {
    let (value, _) = request.headers.first_line_of(name)?;
    let is_trimmed = value.first()? > &b' ' && value.last()? > &b' ';
    if is_trimmed && key_bytes::is_written_plain(value) { Some(value) } else { None }
}
