use std::net::IpAddr;

use crate::compiled::address;

/// A request as a front end passes it to the rules. All values are claims of the client, except the peer's address.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The address of the connection's peer.
    pub peer: Option<IpAddr>,
    /// The method; empty if it is unknown.
    pub method: &'a str,
    /// The host, possibly with a port. If it is `None`, [`Headers::host`] may return it.
    pub host: Option<&'a str>,
    /// The path as it was sent, possibly with a query; empty if it is unknown.
    pub target: &'a str,
    /// The header fields.
    pub headers: &'a dyn Headers,
    /// Identities that the caller sets. They take precedence over the sources in the policy.
    pub identities: &'a [(&'a str, &'a str)],
    /// The cost that the caller states; 0 checks without charging.
    pub cost: u64,
    /// The time in seconds since 1970, for the validity of tokens; `None` for the time of the system.
    pub unix_time_s: Option<u64>,
    /// The descriptor, if a gateway describes the request by one.
    pub descriptor: Option<&'a Descriptor<'a>>,
}

/// A gateway's description of a request: a domain, and entries of a name and a value.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// The domain, which selects rules.
    pub domain: &'a str,
    /// The entries, in the order of the gateway.
    pub entries: &'a [(&'a str, &'a str)],
}

impl<'a> Descriptor<'a> {
    /// Returns the value of the first entry with this name.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        self.entries.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// The entries as headers.
impl Headers for Descriptor<'_> {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        self.entries.line(name, at)
    }

    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        self.entries.first_line(name)
    }
}

/// Parses a client's address as proxies and callers write it: also with a port, in brackets or with a zone. A text that
/// it refuses is not a value of the identity `client_ip`.
#[must_use]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    address::parse(text.as_bytes())
}

/// The name of the entry with the client's address in a gateway's descriptor.
pub(crate) const REMOTE_ADDRESS: &str = "remote_address";

/// The name of a header field that a policy reads, prepared once for all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName {
    /// The name in lower case.
    text: Box<str>,
    #[cfg(feature = "http")]
    header_name: Option<http::HeaderName>,
}

impl FieldName {
    pub(crate) fn new(name: &str) -> FieldName {
        let text: Box<str> = name.to_ascii_lowercase().into();
        #[cfg(feature = "http")]
        let header_name = http::HeaderName::from_bytes(text.as_bytes()).ok();
        FieldName {
            text,
            #[cfg(feature = "http")]
            header_name,
        }
    }

    /// Returns the name in lower case.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the parsed name, for lookups in a header map; `None` if it is not a valid name in HTTP.
    #[cfg(feature = "http")]
    #[must_use]
    #[inline]
    pub fn header_name(&self) -> Option<&http::HeaderName> {
        self.header_name.as_ref()
    }
}

/// Lookup of header fields by name, without regard to case.
pub trait Headers: Sync {
    /// Returns the value of line `at`, counted from 0, of the lines with this name, which is in lower case.
    fn line(&self, name: &str, at: usize) -> Option<&[u8]>;

    /// Returns the first line with this name, and whether there are more. Implement it if one lookup can find both.
    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        let first = self.line(name, 0)?;
        Some((first, self.line(name, 1).is_some()))
    }

    /// Like [`first_line`](Headers::first_line), for a prepared name. Implement it if lookups by it are faster.
    fn first_line_of(&self, name: &FieldName) -> Option<(&[u8], bool)> {
        self.first_line(name.as_str())
    }

    /// Returns the host of the request, if it is known apart from the fields. It is called only if a policy needs the
    /// host.
    fn host(&self) -> Option<&str> {
        None
    }
}

/// Header fields as pairs of name and value.
impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync> Headers for [(N, V)] {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        self.iter().filter(|(known, _)| is_name(known.as_ref(), name)).nth(at).map(|(_, value)| value.as_ref())
    }

    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        let mut lines = self.iter().filter(|(known, _)| is_name(known.as_ref(), name));
        let (_, first) = lines.next()?;
        Some((first.as_ref(), lines.next().is_some()))
    }
}

/// Whether a name is `name`, without regard to case. Most names are in lower case already, so bytes are compared first.
#[inline]
fn is_name(known: &str, name: &str) -> bool {
    known.len() == name.len() && (is_same(known.as_bytes(), name.as_bytes()) || known.eq_ignore_ascii_case(name))
}

/// Whether two texts are equal. Short texts are compared without a call, by their first and last bytes, which may
/// overlap.
#[inline(always)]
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    fn ends<const N: usize>(text: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
        Some((text.first_chunk()?, text.last_chunk()?))
    }
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        4..8 => ends::<4>(one) == ends(other),
        8..=16 => ends::<8>(one) == ends(other),
        _ => one == other,
    }
}

/// Header fields as a list of pairs.
impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync> Headers for Vec<(N, V)> {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        self.as_slice().line(name, at)
    }

    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        self.as_slice().first_line(name)
    }
}

/// Header fields as an array of pairs.
impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync, const COUNT: usize> Headers for [(N, V); COUNT] {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        self.as_slice().line(name, at)
    }

    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        self.as_slice().first_line(name)
    }
}

/// Header fields by reference.
impl<H: Headers + ?Sized> Headers for &H {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        (**self).line(name, at)
    }

    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        (**self).first_line(name)
    }

    fn first_line_of(&self, name: &FieldName) -> Option<(&[u8], bool)> {
        (**self).first_line_of(name)
    }

    fn host(&self) -> Option<&str> {
        (**self).host()
    }
}

/// No header fields.
impl Headers for () {
    fn line(&self, _: &str, _: usize) -> Option<&[u8]> {
        None
    }
}

impl<'a> Request<'a> {
    /// Returns the host, if it is known.
    pub(crate) fn host(&self) -> Option<&'a str> {
        self.host.or_else(|| self.headers.host())
    }

    /// Creates a request with only the peer's address.
    ///
    /// ```
    /// use tollgate_policy::Request;
    ///
    /// let peer = "203.0.113.9".parse().ok();
    /// let request = Request { method: "GET", target: "/search?q=x", ..Request::from_peer(peer) };
    /// assert_eq!(request.cost, 1);
    /// ```
    #[must_use]
    pub fn from_peer(peer: Option<IpAddr>) -> Request<'a> {
        Request {
            peer,
            method: "",
            host: None,
            target: "",
            headers: &(),
            identities: &[],
            cost: 1,
            unix_time_s: None,
            descriptor: None,
        }
    }

    /// Creates the request that a descriptor describes. The entry `remote_address` is the peer's address; `method`, `host`
    /// and `path` are those of the request; every entry is also a header and an identity of its name.
    #[must_use]
    pub fn from_descriptor(descriptor: &'a Descriptor<'a>) -> Request<'a> {
        Request {
            method: descriptor.value("method").unwrap_or_default(),
            host: descriptor.value("host"),
            target: descriptor.value("path").unwrap_or_default(),
            headers: descriptor,
            identities: descriptor.entries,
            descriptor: Some(descriptor),
            ..Request::from_peer(descriptor.value(REMOTE_ADDRESS).and_then(parse_address))
        }
    }
}
