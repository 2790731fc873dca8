use std::fmt;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tollgate::policy::HmacKey;

/// Under fewer bytes of key the addresses of the whole internet could be tried out.
const MIN_KEY_BYTES: usize = 16;

/// The key under which clients are hashed for the log.
pub(in crate::observe) struct LogKey {
    secret: Vec<u8>,
    codes: HmacKey,
    /// Tells keys apart, and nothing about the key.
    id: String,
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogKeyError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Unread(#[source] io::Error),
    /// It is too short to be a secret.
    #[error("it must have at least {MIN_KEY_BYTES} bytes")]
    TooShort,
    /// The system has no random numbers for a key of our own.
    #[error("the system has no random numbers")]
    NoRandom,
}

impl LogKey {
    /// One that nobody knows, for as long as the program runs.
    pub(in crate::observe) fn random() -> Result<LogKey, LogKeyError> {
        let mut secret = vec![0; 32];
        getrandom::fill(&mut secret).map_err(|_| LogKeyError::NoRandom)?;
        Ok(LogKey::new(secret))
    }

    /// What is in a file, without the line end behind it.
    pub(in crate::observe) fn read(file: &Path) -> Result<LogKey, LogKeyError> {
        let mut secret = std::fs::read(file).map_err(LogKeyError::Unread)?;
        while secret.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            secret.pop();
        }
        if secret.len() < MIN_KEY_BYTES {
            return Err(LogKeyError::TooShort);
        }
        Ok(LogKey::new(secret))
    }

    fn new(secret: Vec<u8>) -> LogKey {
        let id = hex(&Sha256::new().chain_update(b"tollgate log key ").chain_update(&secret).finalize()[..3]);
        LogKey { codes: HmacKey::new(&secret), secret, id }
    }

    pub(in crate::observe) fn id(&self) -> &str {
        &self.id
    }

    pub(in crate::observe) fn is_same(&self, other: &LogKey) -> bool {
        self.secret.ct_eq(&other.secret).into()
    }

    /// The id of the key, and the first 8 bytes of the client's HMAC-SHA256.
    pub(in crate::observe) fn name(&self, client: &[u8]) -> String {
        format!("{}:{}", self.id, hex(&self.codes.code(client)[..8]))
    }
}

/// The first bytes of a hash as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Leaves the secret out.
impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogKey").field("id", &self.id).finish_non_exhaustive()
    }
}
