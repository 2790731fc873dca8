use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use subtle::{Choice, ConstantTimeEq};

/// What a caller or an operator must send to be admitted. Clones are the same token: who
/// [replaces](AccessToken::replace) one of them has replaced all.
///
/// There may be several that are as good, one on each line: the old and the new one, while callers change theirs.
#[derive(Clone)]
pub struct AccessToken(Arc<RwLock<Tokens>>);

type Tokens = Vec<Box<[u8]>>;

/// Why something cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It can be guessed.
    #[error("a token must have at least {} characters", AccessToken::SHORTEST)]
    TooShort,
    /// It has something in it that an `Authorization` field cannot carry.
    #[error("a token must be one line of letters, digits and signs, without spaces")]
    NotPrintable,
    /// There are more than [`AccessToken::MOST`].
    #[error("there are more than {} tokens", AccessToken::MOST)]
    TooMany,
}

impl AccessToken {
    /// Fewer bytes can be tried out.
    pub const SHORTEST: usize = 16;

    /// More at once are no rotation. All of them are compared with whatever is sent.
    pub const MOST: usize = 8;

    /// Takes tokens as they stand in a file or a variable, one on each line. Empty lines count for nothing.
    pub fn new(text: &str) -> Result<AccessToken, TokenError> {
        let tokens: Tokens = text.lines().filter(|line| !line.is_empty()).map(one).collect::<Result<_, _>>()?;
        match tokens.len() {
            0 => Err(TokenError::TooShort),
            1..=AccessToken::MOST => Ok(AccessToken(Arc::new(RwLock::new(tokens)))),
            _ => Err(TokenError::TooMany),
        }
    }

    /// Lets in only who brings `other` from now on, and says whether that is another token than before.
    #[must_use]
    pub fn replace(&self, other: &AccessToken) -> bool {
        let new = other.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_another = *tokens != new;
        *tokens = new;
        is_another
    }

    /// Whether a caller brought one of the tokens. The time depends on what was brought, and on nothing of the tokens.
    pub(crate) fn is(&self, brought: &[u8]) -> bool {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // All of them are compared, also after a match.
        tokens.iter().fold(Choice::from(0), |is_one, token| is_one | is_equal(token, brought)).into()
    }
}

fn one(line: &str) -> Result<Box<[u8]>, TokenError> {
    if !line.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::NotPrintable);
    }
    if line.len() < AccessToken::SHORTEST {
        return Err(TokenError::TooShort);
    }
    Ok(line.as_bytes().into())
}

/// Comparing the slices as a whole would return at once where the lengths differ, and so tell the token's length.
fn is_equal(token: &[u8], brought: &[u8]) -> Choice {
    let has_its_length = brought.len().ct_eq(&token.len());
    brought.iter().zip(token.iter().cycle()).fold(has_its_length, |equal, (one, other)| equal & one.ct_eq(other))
}

/// Never the token.
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
    fn only_the_whole_token_is_it() {
        let token = AccessToken::new(TEXT).unwrap();
        assert!(token.is(TEXT.as_bytes()));
        for wrong in ["", "0", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", &TEXT.repeat(2)] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        assert!(AccessToken::new(&format!("{TEXT}\r\n")).unwrap().is(TEXT.as_bytes()));
        assert_eq!(format!("{token:?}"), "AccessToken");
    }

    #[test]
    fn a_token_is_replaced_in_all_its_clones() {
        let token = AccessToken::new(TEXT).unwrap();
        let clone = token.clone();
        assert!(!clone.replace(&AccessToken::new(TEXT).unwrap()));
        assert!(clone.replace(&AccessToken::new("another-0123456789").unwrap()));
        assert!(token.is(b"another-0123456789") && !token.is(TEXT.as_bytes()));
    }

    #[test]
    fn the_old_and_the_new_token_are_taken_while_both_stand_there() {
        let token = AccessToken::new(TEXT).unwrap();
        assert!(token.replace(&AccessToken::new(&format!("{TEXT}\r\nanother-0123456789\n")).unwrap()));
        assert!(token.is(TEXT.as_bytes()) && token.is(b"another-0123456789"));
        assert!(!token.is(b"0123456789abcdef\nanother-0123456789") && !token.is(b""));
        assert!(token.replace(&AccessToken::new("another-0123456789").unwrap()));
        assert!(!token.is(TEXT.as_bytes()) && token.is(b"another-0123456789"));
    }

    #[test]
    fn what_can_be_guessed_or_not_be_sent_is_none() {
        assert_eq!(AccessToken::new("").err(), Some(TokenError::TooShort));
        assert_eq!(AccessToken::new("0123456789abcde").err(), Some(TokenError::TooShort));
        assert_eq!(AccessToken::new("0123456789 abcdef").err(), Some(TokenError::NotPrintable));
        assert_eq!(AccessToken::new("0123456789abcdef\nx").err(), Some(TokenError::TooShort));
        assert_eq!(AccessToken::new("\n\n").err(), Some(TokenError::TooShort));
        assert_eq!(AccessToken::new(&format!("{TEXT}\n").repeat(9)).err(), Some(TokenError::TooMany));
        assert_eq!(AccessToken::new("0123456789äbcdef").err(), Some(TokenError::NotPrintable));
    }
}
