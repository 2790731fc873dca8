use std::net::IpAddr;

use crate::compiled::address;

/// What a front end knows about a request. All of it is what the other end
/// says, except for the peer's address.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The address at the other end of the connection.
    pub peer: Option<IpAddr>,
    /// The method; empty if it is not known.
    pub method: &'a str,
    /// The host, perhaps with a port. Where it is not given, the [header fields](Headers::host) may know it.
    pub host: Option<&'a str>,
    /// The path as it was sent, perhaps with a query; empty if it is not known.
    pub target: &'a str,
    /// The header fields.
    pub headers: &'a dyn Headers,
    /// Identities that the caller sets directly, before any is looked for.
    pub identities: &'a [(&'a str, &'a str)],
    /// What the caller says it costs; 0 asks without charging.
    pub cost: u64,
    /// The time of day in seconds since 1970, for the validity of tokens; the system's where it is not given.
    pub unix_time_s: Option<u64>,
    /// What a gateway says about it, if that is how it is known.
    pub descriptor: Option<&'a Descriptor<'a>>,
}

/// What a gateway says about a request: entries, each a name and a value, under a domain.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Whose rules are meant.
    pub domain: &'a str,
    /// The entries, in the order of the gateway.
    pub entries: &'a [(&'a str, &'a str)],
}

impl<'a> Descriptor<'a> {
    /// The value of the first entry of a name.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        self.entries.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Its entries, by name.
impl Headers for Descriptor<'_> {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        self.entries.line(name, at)
    }

    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        self.entries.first_line(name)
    }
}

/// Reads a client's address as proxies and callers write it: also with a port, in
/// brackets or with a zone. What this does not read, no identity `client_ip` is made of.
#[must_use]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    address::parse(text.as_bytes())
}

/// The entry with the client's address, as gateways call it.
pub(crate) const REMOTE_ADDRESS: &str = "remote_address";

/// The name of a header field that a policy asks for, prepared once for all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName {
    /// In lower case.
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

    /// The name in lower case.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name as a header map takes it without reading it again; `None` if HTTP has no such name.
    #[cfg(feature = "http")]
    #[must_use]
    #[inline]
    pub fn header_name(&self) -> Option<&http::HeaderName> {
        self.header_name.as_ref()
    }
}

/// Header fields, by name without regard to case.
pub trait Headers: Sync {
    /// The value of the line number `at`, counted from 0, among those of this name (given in lower case).
    fn line(&self, name: &str, at: usize) -> Option<&[u8]>;

    /// The first line of this name, and whether there are more. For those who can tell in one go.
    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        let first = self.line(name, 0)?;
        Some((first, self.line(name, 1).is_some()))
    }

    /// The same for a name that was prepared. For front ends that look names up faster by it.
    fn first_line_of(&self, name: &FieldName) -> Option<(&[u8], bool)> {
        self.first_line(name.as_str())
    }

    /// The host that a request is for, where it is known beside the fields. It is asked for only if a policy needs it.
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

/// Most names are in lower case already, and then they are the same bytes.
#[inline]
fn is_name(known: &str, name: &str) -> bool {
    known.len() == name.len() && (is_same(known.as_bytes(), name.as_bytes()) || known.eq_ignore_ascii_case(name))
}

/// Whether two short texts are the same, without a call: what the ends of them have in common is compared twice.
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

/// Header fields as so many pairs.
impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync, const COUNT: usize> Headers for [(N, V); COUNT] {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        self.as_slice().line(name, at)
    }

    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        self.as_slice().first_line(name)
    }
}

/// Somebody else's header fields.
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
    /// The host that it is for, if that is known.
    pub(crate) fn host(&self) -> Option<&'a str> {
        self.host.or_else(|| self.headers.host())
    }

    /// A request of which nothing is known but where it comes from.
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

    /// The request that a descriptor tells of. `remote_address` is where it
    /// comes from; `method`, `host` and `path` are what they are called; every
    /// entry is a header and an identity of its name.
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
