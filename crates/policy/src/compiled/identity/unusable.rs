//! Values that are present but unusable. They exempt no client from a rule, and no client can choose a key with them:
//! they are counted under the client's address.

use std::borrow::Cow;

/// The value that was read from a request, if it is present.
pub(crate) type ReadResult<'a> = Result<Option<Cow<'a, [u8]>>, Unusable>;

/// The reason why a value is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "jwt"), allow(dead_code, reason = "only parsed tokens have these faults"))]
pub(crate) enum Unusable {
    TooLong,
    Malformed,
    WrongAlgorithm,
    BadSignature,
    /// The token names a signing key that is unknown, or one of another algorithm.
    UnknownKey,
    /// The token is of another issuer, or for another audience.
    WrongIssuerOrAudience,
    /// The token has a critical extension, and none is supported.
    CriticalExtension,
    Expired,
    NotYetValid,
    /// The value follows an empty line, cookie or parameter of the same name, or another authentication scheme: most
    /// backends ignore it, and some use it.
    Hidden,
}

impl Unusable {
    /// Returns the reason as text for explanations.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Unusable::TooLong => "unusable token: too long; counted under the client's address",
            Unusable::Malformed => "unusable token: malformed; counted under the client's address",
            Unusable::WrongAlgorithm => "unusable token: another algorithm; counted under the client's address",
            Unusable::BadSignature => "unusable token: bad signature; counted under the client's address",
            Unusable::UnknownKey => "unusable token: unknown signing key; counted under the client's address",
            Unusable::WrongIssuerOrAudience => {
                "unusable token: another issuer or audience; counted under the client's address"
            }
            Unusable::CriticalExtension => "unusable token: a critical extension; counted under the client's address",
            Unusable::Expired => "unusable token: expired; counted under the client's address",
            Unusable::NotYetValid => "unusable token: not yet valid; counted under the client's address",
            Unusable::Hidden => {
                "unusable value: after an empty one of the same name; counted under the client's address"
            }
        }
    }
}
