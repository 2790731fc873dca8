//! What a request says without being searched: the values that its caller sets, and where it comes from.

use std::net::IpAddr;

use super::source::{CLIENT_IP, Identities, Known, Source};
use crate::compiled::address;
use crate::compiled::address::forwarded;
use crate::request::Request;

/// What a caller set under a name.
pub(crate) fn said_by_caller<'r>(request: &Request<'r>, name: &str) -> Option<&'r [u8]> {
    let set = request.identities.iter().find(|(known, _)| *known == name)?;
    // An entry of a descriptor is what the gateway sends, to the last space.
    let text = if request.descriptor.is_some() { set.1 } else { set.1.trim_ascii() };
    Some(text.as_bytes())
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
            && let Some(address) = address::parse(text.as_bytes())
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
