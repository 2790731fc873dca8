//! What clients are hashed with: HMAC-SHA256, as for the values of secret identities.

pub(in crate::observe) use tollgate::policy::HmacKey;

/// The first bytes of a hash, for people.
pub(in crate::observe) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}
