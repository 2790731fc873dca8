//! Values that are present and cannot be used. They free no client from a
//! rule, and no client can choose a key with them: they are counted under the
//! client's address.

use std::borrow::Cow;

/// What stands in a request where a value is looked for.
pub(crate) type Read<'a> = Result<Option<Cow<'a, [u8]>>, Unusable>;

/// Why a value cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "jwt"), allow(dead_code, reason = "only tokens that are read can be wrong"))]
pub(crate) enum Unusable {
    TooLong,
    Malformed,
    OtherAlgorithm,
    BadSignature,
    /// It names a signing key that is not there, or one of another algorithm.
    UnknownKey,
    /// Of another issuer, or for another audience.
    NotForUs,
    /// It has an extension that must be understood, and is not.
    Critical,
    Expired,
    NotYetValid,
    /// An empty line, cookie or parameter of the same name stands before it, or another scheme: most backends do
    /// not see it, and some do.
    Hidden,
}

impl Unusable {
    /// For people who ask what became of a request.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Unusable::TooLong => "unusable token: too long; counted under the client's address",
            Unusable::Malformed => "unusable token: malformed; counted under the client's address",
            Unusable::OtherAlgorithm => "unusable token: another algorithm; counted under the client's address",
            Unusable::BadSignature => "unusable token: bad signature; counted under the client's address",
            Unusable::UnknownKey => "unusable token: unknown signing key; counted under the client's address",
            Unusable::NotForUs => "unusable token: another issuer or audience; counted under the client's address",
            Unusable::Critical => "unusable token: a critical extension; counted under the client's address",
            Unusable::Expired => "unusable token: expired; counted under the client's address",
            Unusable::NotYetValid => "unusable token: not yet valid; counted under the client's address",
            Unusable::Hidden => {
                "unusable value: behind an empty one of the same name; counted under the client's address"
            }
        }
    }
}
