use std::fmt;

use ipnet::IpNet;

/// A property of a request that rules count by, such as a user or an API key.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// The name that rules use.
    pub name: String,
    /// The source of its values.
    pub source: IdentitySource,
    /// Whether a gateway or proxy in front ensures that clients cannot choose the value freely.
    pub trusted: bool,
    /// What happens to a request with an invalid token.
    pub on_invalid: OnInvalid,
    /// Whether the values are credentials, which are stored only as hashes: see
    /// [`Policy::secret_key`](super::Policy::secret_key). Values of some sources always are:
    /// [`IdentitySource::is_always_secret`].
    pub secret: bool,
}

impl Identity {
    /// Creates an identity that is neither trusted nor secret.
    #[must_use]
    pub fn new(name: &str, source: IdentitySource) -> Identity {
        Identity { name: name.to_owned(), source, trusted: false, on_invalid: OnInvalid::default(), secret: false }
    }

    /// Whether its values are stored only as hashes.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.secret || self.source.is_always_secret()
    }
}

/// What happens to a request whose token is present and invalid: forged, expired, too long, or malformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInvalid {
    /// The request is counted under the client's address, with keys that no valid value has.
    #[default]
    Count,
    /// Every rule that counts by the identity refuses the request, with the status 401.
    Refuse,
    /// The identity is treated as absent.
    Absent,
}

/// The source of the values of an identity. A request without a value there lacks the identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentitySource {
    /// The address of the connection's peer, without regard to forwarding headers.
    Peer,
    /// A request header. If it occurs several times, the first line is used.
    Header(String),
    /// A cookie, decoded. If it occurs several times, the first one is used.
    Cookie(String),
    /// A segment of the normalised path, counted from 1: segment 3 of `/v1/users/7` is `7`.
    PathSegment(usize),
    /// A query parameter, decoded. If it occurs several times, the first one is used.
    Query(String),
    /// The token of `Authorization: Bearer`.
    Bearer,
    /// A claim of the token of `Authorization: Bearer`. Claims are read only from a token with a valid signature, or
    /// from any token if the identity is `trusted`: then a gateway in front has verified it.
    Jwt(String),
    /// A fixed value, the same for all requests.
    Value(String),
    /// The value that the caller of the limiter or of the service sets.
    Given,
    /// The first of these identities that is present. Equal values of different identities have different counters.
    First(Vec<String>),
}

/// Request headers whose values are credentials, in lower case.
const CREDENTIAL_HEADERS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

impl IdentitySource {
    /// Whether the values of this source are always credentials, whatever [`Identity::secret`] is.
    #[must_use]
    pub fn is_always_secret(&self) -> bool {
        match self {
            IdentitySource::Bearer | IdentitySource::Cookie(_) => true,
            IdentitySource::Header(name) => is_credential_header(name),
            _ => false,
        }
    }
}

/// Whether a request header of this name carries credentials.
pub(crate) fn is_credential_header(name: &str) -> bool {
    CREDENTIAL_HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// How the client's address is determined, and which part of it is the identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIp {
    /// The proxies that are trusted to forward the client's address.
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which they forward it.
    pub forwarded_by: ForwardedBy,
    /// The prefix length of IPv6 addresses. Addresses with the same prefix are one client.
    pub ipv6_prefix: u8,
    /// The prefix length of IPv4 addresses. Addresses with the same prefix are one client.
    pub ipv4_prefix: u8,
}

impl Default for ClientIp {
    fn default() -> ClientIp {
        ClientIp {
            trusted_proxies: Vec::new(),
            forwarded_by: ForwardedBy::XForwardedFor,
            // A provider assigns at least a /64 to every customer.
            ipv6_prefix: 64,
            ipv4_prefix: 32,
        }
    }
}

/// The header in which proxies forward the client's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedBy {
    /// `X-Forwarded-For`. Several lines form one list.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// How a client's tier is determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// The source of the tier.
    pub source: TierSource,
    /// The tier of clients whose tier is absent or unknown.
    pub default: String,
    /// Whether a gateway or proxy in front ensures that clients cannot choose the tier freely.
    pub trusted: bool,
}

/// The source of a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierSource {
    /// A value of the request is the tier: a header, a claim, a cookie.
    Direct(IdentitySource),
    /// A table assigns tiers to the values of an identity.
    Listed {
        /// The name of the identity.
        by: String,
        /// The values, with their tiers.
        tiers: Vec<(String, String)>,
    },
}

/// The most keys that verify tokens. A token without a `kid` is tried with each of them.
pub const MAX_JWT_KEYS: usize = 16;

/// The keys that verify the signatures of tokens, and the required claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// The keys. A token must be signed with one of them.
    pub keys: Vec<JwtKey>,
    /// The required issuer (`iss`).
    pub issuer: Option<String>,
    /// The required audience (`aud`).
    pub audience: Option<String>,
}

/// A key that verifies the signatures of tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct JwtKey {
    /// The key ID in the header of tokens (`kid`). The key is not tried with a token that has another key ID. A key
    /// without an ID is tried with every token of its algorithm.
    pub kid: Option<String>,
    /// The only algorithm of the key.
    pub algorithm: JwtAlgorithm,
    /// The key itself.
    pub key: KeyMaterial,
}

/// The representation of a key.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyMaterial {
    /// The shared secret or the public key in PEM, depending on the algorithm.
    Written(Vec<u8>),
    /// An RSA public key.
    Rsa {
        /// The modulus.
        n: Vec<u8>,
        /// The exponent.
        e: Vec<u8>,
    },
    /// A public key as a point of the algorithm's curve: uncompressed for ECDSA, 32 bytes for `EdDSA`.
    Point(Vec<u8>),
}

/// Omits the key.
impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyMaterial(..)")
    }
}

/// Omits the key.
impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtKey").field("kid", &self.kid).field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// The signature algorithm of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl JwtAlgorithm {
    /// All algorithms with their names in RFC 7518.
    #[cfg(feature = "yaml")]
    pub(crate) const ALL: [(&str, JwtAlgorithm); 9] = [
        ("HS256", JwtAlgorithm::Hs256),
        ("HS384", JwtAlgorithm::Hs384),
        ("HS512", JwtAlgorithm::Hs512),
        ("RS256", JwtAlgorithm::Rs256),
        ("RS384", JwtAlgorithm::Rs384),
        ("RS512", JwtAlgorithm::Rs512),
        ("ES256", JwtAlgorithm::Es256),
        ("ES384", JwtAlgorithm::Es384),
        ("EdDSA", JwtAlgorithm::EdDsa),
    ];
}
