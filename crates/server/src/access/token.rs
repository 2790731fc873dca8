use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use subtle::{Choice, ConstantTimeEq};

/// A secret that a caller must send. Clones share the token: [replacing](AccessToken::replace) one replaces all.
///
/// It may have several valid values, one on each line: the old and the new one, while callers rotate.
#[derive(Clone)]
pub struct AccessToken(Arc<RwLock<Tokens>>);

type Tokens = Vec<Box<[u8]>>;

/// Why a text is not a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is short enough to be guessed.
    #[error("a token must have at least {} characters", AccessToken::MIN_LENGTH)]
    TooShort,
    /// It has characters that an `Authorization` field cannot carry.
    #[error("a token must be one line of printable ASCII without spaces")]
    NotPrintable,
    /// There are more than [`AccessToken::MAX_TOKENS`].
    #[error("there are more than {} tokens", AccessToken::MAX_TOKENS)]
    TooMany,
}

impl AccessToken {
    /// Shorter tokens can be guessed.
    pub const MIN_LENGTH: usize = 16;

    /// A rotation needs no more. All of them are compared with every token that is sent.
    pub const MAX_TOKENS: usize = 8;

    /// Parses tokens from a file or variable, one on each line. Empty lines are ignored.
    pub fn new(text: &str) -> Result<AccessToken, TokenError> {
        let tokens: Tokens = text.lines().filter(|line| !line.is_empty()).map(parse_line).collect::<Result<_, _>>()?;
        match tokens.len() {
            0 => Err(TokenError::TooShort),
            1..=AccessToken::MAX_TOKENS => Ok(AccessToken(Arc::new(RwLock::new(tokens)))),
            _ => Err(TokenError::TooMany),
        }
    }

    /// Replaces the tokens, and returns whether they changed.
    #[must_use]
    pub fn replace(&self, other: &AccessToken) -> bool {
        let new = other.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_another = *tokens != new;
        *tokens = new;
        is_another
    }

    /// Returns whether `sent` is one of the tokens. The time depends only on what was sent, not on the tokens.
    pub(crate) fn matches(&self, sent: &[u8]) -> bool {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // All tokens are compared, even after a match.
        tokens.iter().fold(Choice::from(0), |is_one, token| is_one | is_equal(token, sent)).into()
    }
}

fn parse_line(line: &str) -> Result<Box<[u8]>, TokenError> {
    if !line.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::NotPrintable);
    }
    if line.len() < AccessToken::MIN_LENGTH {
        return Err(TokenError::TooShort);
    }
    Ok(line.as_bytes().into())
}

/// Comparing whole slices would return early if the lengths differ, and so reveal the token's length.
fn is_equal(token: &[u8], sent: &[u8]) -> Choice {
    let equal_length = sent.len().ct_eq(&token.len());
    sent.iter().zip(token.iter().cycle()).fold(equal_length, |equal, (one, other)| equal & one.ct_eq(other))
}

/// Omits the token.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0123456789abcdef";

    #[test]
    fn only_the_complete_token_matches() {
        let token = AccessToken::new(TEXT).unwrap();
        assert!(token.matches(TEXT.as_bytes()));
        for wrong in ["", "0", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", &TEXT.repeat(2)] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong}");
        }
        assert!(AccessToken::new(&format!("{TEXT}\r\n")).unwrap().matches(TEXT.as_bytes()));
        assert_eq!(format!("{token:?}"), "AccessToken");
    }

    #[test]
    fn replacing_a_token_replaces_it_in_all_clones() {
        let token = AccessToken::new(TEXT).unwrap();
        let clone = token.clone();
        assert!(!clone.replace(&AccessToken::new(TEXT).unwrap()));
        assert!(clone.replace(&AccessToken::new("another-0123456789").unwrap()));
        assert!(token.matches(b"another-0123456789") && !token.matches(TEXT.as_bytes()));
    }

    #[test]
    fn old_and_new_tokens_match_during_rotation() {
        let token = AccessToken::new(TEXT).unwrap();
        assert!(token.replace(&AccessToken::new(&format!("{TEXT}\r\nanother-0123456789\n")).unwrap()));
        assert!(token.matches(TEXT.as_bytes()) && token.matches(b"another-0123456789"));
        assert!(!token.matches(b"0123456789abcdef\nanother-0123456789") && !token.matches(b""));
        assert!(token.replace(&AccessToken::new("another-0123456789").unwrap()));
        assert!(!token.matches(TEXT.as_bytes()) && token.matches(b"another-0123456789"));
    }

    #[test]
    fn short_or_unprintable_tokens_are_rejected() {
        assert_eq!(AccessToken::new("").err(), Some(TokenError::TooShort));
        assert_eq!(AccessToken::new("0123456789abcde").err(), Some(TokenError::TooShort));
        assert_eq!(AccessToken::new("0123456789 abcdef").err(), Some(TokenError::NotPrintable));
        assert_eq!(AccessToken::new("0123456789abcdef\nx").err(), Some(TokenError::TooShort));
        assert_eq!(AccessToken::new("\n\n").err(), Some(TokenError::TooShort));
        assert_eq!(AccessToken::new(&format!("{TEXT}\n").repeat(9)).err(), Some(TokenError::TooMany));
        assert_eq!(AccessToken::new("0123456789äbcdef").err(), Some(TokenError::NotPrintable));
    }
}
