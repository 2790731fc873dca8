use std::fmt;

use ipnet::IpNet;

/// Something a client can be known by.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// The name that rules use.
    pub name: String,
    /// Where its value is found.
    pub source: IdentitySource,
    /// Somebody in front has made sure that clients cannot choose it freely.
    pub trusted: bool,
    /// What happens where a token is present and cannot be used.
    pub on_invalid: OnInvalid,
}

impl Identity {
    /// An identity that clients can choose freely.
    #[must_use]
    pub fn new(name: &str, source: IdentitySource) -> Identity {
        Identity { name: name.to_owned(), source, trusted: false, on_invalid: OnInvalid::default() }
    }
}

/// What happens to a request whose token is present and cannot be used: it is
/// forged, expired, too long, or no token at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInvalid {
    /// It is counted under the client's address, among keys that no valid value has.
    #[default]
    Count,
    /// It is refused, with the status 401, by every rule that counts by the identity.
    Refuse,
    /// The identity is absent.
    Absent,
}

/// Where the value of an identity is found. What is absent there is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentitySource {
    /// The address at the other end of the connection, whoever that speaks for.
    Peer,
    /// A request header. Where it occurs several times, the first line counts.
    Header(String),
    /// A cookie, decoded. The first of several.
    Cookie(String),
    /// A segment of the normalised path, counted from 1: of `/v1/users/7` the third is `7`.
    PathSegment(usize),
    /// A query parameter, decoded. The first of several.
    Query(String),
    /// The token of `Authorization: Bearer`.
    Bearer,
    /// A claim of the token of `Authorization: Bearer`. A token that is not
    /// signed as it should be has no claims, unless the identity is `trusted`:
    /// then somebody in front has verified it.
    Jwt(String),
    /// The same for everybody.
    Value(String),
    /// Only what the caller of a limiter or of the service says it is.
    Given,
    /// The first of these identities that is present, kept apart by name.
    First(Vec<String>),
}

/// How the client's address is found, and what part of it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIp {
    /// Who is believed when they say for whom they speak.
    pub trusted_proxies: Vec<IpNet>,
    /// In which field they say it.
    pub forwarded_by: ForwardedBy,
    /// The bits of an IPv6 address that tell clients apart.
    pub ipv6_prefix: u8,
    /// The bits of an IPv4 address that tell clients apart.
    pub ipv4_prefix: u8,
}

impl Default for ClientIp {
    fn default() -> ClientIp {
        ClientIp {
            trusted_proxies: Vec::new(),
            forwarded_by: ForwardedBy::XForwardedFor,
            // A provider hands every customer at least a /64.
            ipv6_prefix: 64,
            ipv4_prefix: 32,
        }
    }
}

/// Where proxies say for whom they speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedBy {
    /// `X-Forwarded-For`, all its lines as one list.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Which tier a client belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Where the tier is found.
    pub source: TierSource,
    /// The tier of everybody whose tier is absent or not known.
    pub default: String,
    /// Somebody in front has made sure that clients cannot choose it freely.
    pub trusted: bool,
}

/// Where a tier is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierSource {
    /// The value of an identity's source is the tier: a header, a claim, a cookie.
    Direct(IdentitySource),
    /// The tier is written down beside the value of another identity.
    Listed {
        /// That identity's name.
        by: String,
        /// Values and tiers.
        tiers: Vec<(String, String)>,
    },
}

/// With what the signature of a token is verified.
#[derive(Clone, PartialEq, Eq)]
pub struct JwtKey {
    /// The only algorithm that is accepted.
    pub algorithm: JwtAlgorithm,
    /// The shared secret, or a public key in PEM.
    pub key: Vec<u8>,
    /// Who must have issued it.
    pub issuer: Option<String>,
    /// For whom it must have been issued.
    pub audience: Option<String>,
}

/// Never shows the key.
impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// How tokens are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of RFC 7518")]
pub enum JwtAlgorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Es256,
    Es384,
    EdDsa,
}
