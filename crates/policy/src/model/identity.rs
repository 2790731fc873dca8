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
    /// Its values are credentials: they become keys only as hashes, see [`Policy::secret_key`](super::Policy).
    /// Values of some sources are in any case, see [`IdentitySource::is_always_secret`].
    pub secret: bool,
}

impl Identity {
    /// An identity that clients can choose freely.
    #[must_use]
    pub fn new(name: &str, source: IdentitySource) -> Identity {
        Identity { name: name.to_owned(), source, trusted: false, on_invalid: OnInvalid::default(), secret: false }
    }

    /// Whether its values become keys only as hashes.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.secret || self.source.is_always_secret()
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

/// Request headers whose values are credentials, in lower case.
const CREDENTIAL_HEADERS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

impl IdentitySource {
    /// Whether values from here are credentials, whatever the policy says.
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

/// More keys than this are not taken: a token that does not say which one signed it is tried with each.
pub const MAX_JWT_KEYS: usize = 16;

/// With what the signatures of tokens are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// The keys; a token needs one of them.
    pub keys: Vec<JwtKey>,
    /// Who must have issued it.
    pub issuer: Option<String>,
    /// For whom it must have been issued.
    pub audience: Option<String>,
}

/// One key that signatures are verified with.
#[derive(Clone, PartialEq, Eq)]
pub struct JwtKey {
    /// Its name, as tokens say it (`kid`). A token that names another key is not tried with this one; a key without a
    /// name is tried with every token of its algorithm.
    pub kid: Option<String>,
    /// The only algorithm that it is for.
    pub algorithm: JwtAlgorithm,
    /// The key itself.
    pub key: KeyMaterial,
}

/// A key as it is written down.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyMaterial {
    /// The shared secret, or a public key in PEM, as the algorithm has it.
    Written(Vec<u8>),
    /// A public key for RSA: modulus and exponent.
    Rsa {
        /// The modulus.
        n: Vec<u8>,
        /// The exponent.
        e: Vec<u8>,
    },
    /// A public key that is a point of the algorithm's curve: uncompressed for ECDSA, 32 bytes for `EdDSA`.
    Point(Vec<u8>),
}

/// Never shows the key.
impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyMaterial(..)")
    }
}

/// Never shows the key.
impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtKey").field("kid", &self.kid).field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// How tokens are signed.
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
    /// All of them, by the names of RFC 7518.
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
