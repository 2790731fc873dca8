use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tollgate::policy::HmacKey;

/// The minimum length of the key. With a shorter key, the hashes of all IP addresses could be tried.
const MIN_KEY_BYTES: usize = 16;

/// The format of client IDs in logs, events and lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdentityFormat {
    /// A keyed hash: a client can be followed, but not identified.
    #[default]
    Hashed,
    /// The network of an address (/24, or /48 for IPv6) and the first characters of anything else.
    Truncated,
    /// The plain key.
    Plain,
}

impl IdentityFormat {
    /// Returns the name, as in the flag that selects it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            IdentityFormat::Hashed => "hashed",
            IdentityFormat::Truncated => "truncated",
            IdentityFormat::Plain => "plain",
        }
    }
}

/// The ID of the single key of a global rule.
const GLOBAL_KEY: &str = "*";

/// The longest ID. The rest is cut, and a hash keeps IDs distinct.
const MAX_NAME_BYTES: usize = 192;

/// The maximum number of characters of a value that `truncated` shows.
const SHOWN_CHARACTERS: usize = 4;

/// Derives client IDs.
#[derive(Debug)]
pub(in crate::observe) struct ClientNames {
    identities: IdentityFormat,
    key_file: Option<PathBuf>,
    key: ArcSwap<LogKey>,
}

impl ClientNames {
    /// Uses the key of a file, or a random one.
    pub(in crate::observe) fn new(
        identities: IdentityFormat,
        key_file: Option<PathBuf>,
    ) -> Result<ClientNames, LogKeyError> {
        let key = match &key_file {
            Some(file) => LogKey::read(file)?,
            None => LogKey::random()?,
        };
        Ok(ClientNames { identities, key_file, key: ArcSwap::from_pointee(key) })
    }

    pub(in crate::observe) fn format(&self) -> IdentityFormat {
        self.identities
    }

    /// Reads the key file again. Returns the ID of the new key, if it changed.
    pub(in crate::observe) fn reread_key(&self) -> Result<Option<String>, LogKeyError> {
        let Some(file) = &self.key_file else { return Ok(None) };
        let key = LogKey::read(file)?;
        if key.is_same(&self.key.load()) {
            return Ok(None);
        }
        let id = key.id.clone();
        self.key.store(Arc::new(key));
        Ok(Some(id))
    }

    /// Returns the ID of a client for the key under which a rule counts it: text whose parts are separated by bars,
    /// with everything ambiguous escaped. So no two clients of a rule share an ID, unless identities are truncated.
    pub(in crate::observe) fn name(&self, key: &[u8]) -> Arc<str> {
        if key.is_empty() {
            return GLOBAL_KEY.into();
        }
        match self.identities {
            IdentityFormat::Hashed => self.key.load().name(key).into(),
            IdentityFormat::Truncated => self.cut(truncated(&String::from_utf8_lossy(key)), key),
            IdentityFormat::Plain => self.cut(printable(&String::from_utf8_lossy(key)), key),
        }
    }

    fn cut(&self, name: String, key: &[u8]) -> Arc<str> {
        if name.len() <= MAX_NAME_BYTES {
            return name.into();
        }
        let hash = self.key.load().name(key);
        // Keys are printable ASCII, so every byte is a character.
        let shown = name.get(..MAX_NAME_BYTES - hash.len() - 1).unwrap_or_default();
        format!("{shown}#{hash}").into()
    }
}

/// Replaces unprintable characters. Keys are already printable; this holds even if that changes.
fn printable(key: &str) -> String {
    key.chars().map(|character| if matches!(character, ' '..='~') { character } else { '?' }).collect()
}

fn truncated(key: &str) -> String {
    key.split('|').map(truncated_part).collect::<Vec<_>>().join("|")
}

/// Truncates a part of a key: a value, with the name of its identity if several were possible.
fn truncated_part(part: &str) -> String {
    if let Some(network) = network(part) {
        return network;
    }
    if let Some((identity, value)) = part.split_once('=')
        && let Some(network) = network(value)
    {
        return format!("{identity}={network}");
    }
    // The beginning of a short value would be nearly all of it.
    let shown = SHOWN_CHARACTERS.min(part.chars().count() / 2);
    printable(&part.chars().take(shown).chain("..".chars()).collect::<String>())
}

/// Returns the network of an address or network.
fn network(text: &str) -> Option<String> {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    Some(match address.parse().ok()? {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            format!("{}/48", std::net::Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    })
}

/// The HMAC key of client IDs.
struct LogKey {
    secret: Vec<u8>,
    codes: HmacKey,
    /// Identifies the key without revealing it.
    id: String,
}

/// Why a key is not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogKeyError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Unread(#[source] io::Error),
    /// The key is too short.
    #[error("it must have at least {MIN_KEY_BYTES} bytes")]
    TooShort,
    /// The system has no random numbers for a random key.
    #[error("the system has no random numbers")]
    NoRandom,
}

impl LogKey {
    /// Creates a random key for this process.
    fn random() -> Result<LogKey, LogKeyError> {
        let mut secret = vec![0; 32];
        getrandom::fill(&mut secret).map_err(|_| LogKeyError::NoRandom)?;
        Ok(LogKey::new(secret))
    }

    /// Reads a key file, without trailing line ends.
    fn read(file: &Path) -> Result<LogKey, LogKeyError> {
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

    fn is_same(&self, other: &LogKey) -> bool {
        self.secret.ct_eq(&other.secret).into()
    }

    /// Returns the ID of the key and the first 8 bytes of the client's HMAC-SHA256.
    fn name(&self, client: &[u8]) -> String {
        format!("{}:{}", self.id, hex(&self.codes.code(client)[..8]))
    }
}

/// Formats bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Omits the secret.
impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(identities: IdentityFormat) -> ClientNames {
        ClientNames::new(identities, None).unwrap()
    }

    #[test]
    fn hashes_depend_on_client_and_key() {
        let (one, other) = (names(IdentityFormat::Hashed), names(IdentityFormat::Hashed));
        let name = one.name(b"203.0.113.9");
        assert_eq!(name, one.name(b"203.0.113.9"));
        assert_ne!(name, one.name(b"203.0.113.8"));
        assert_ne!(name, other.name(b"203.0.113.9"));
        let (id, hash) = name.split_once(':').unwrap();
        assert_eq!((id.len(), hash.len()), (6, 16));
        assert!(!format!("{one:?}").contains("secret"));
    }

    #[test]
    fn truncated_names_show_networks_and_beginnings() {
        let names = names(IdentityFormat::Truncated);
        for (key, name) in [
            ("203.0.113.9", "203.0.113.0/24"),
            ("2001:db8:1:2::/64", "2001:db8:1::/48"),
            ("client_ip=203.0.113.9", "client_ip=203.0.113.0/24"),
            ("alice.smith", "alic.."),
            ("bob", "b.."),
            ("x", ".."),
            ("alice.smith|/account/settings", "alic..|/acc.."),
            ("", "*"),
        ] {
            assert_eq!(&*names.name(key.as_bytes()), name, "{key}");
        }
    }

    #[test]
    fn plain_names_are_limited_in_length_and_distinct() {
        let names = names(IdentityFormat::Plain);
        assert_eq!(&*names.name(b"a\\x7cb|c"), "a\\x7cb|c");
        assert_eq!(&*names.name(b"a\r\nb"), "a??b");
        let (one, other) = ([b"a".repeat(300), b"1".to_vec()].concat(), [b"a".repeat(300), b"2".to_vec()].concat());
        assert_eq!(names.name(&one).len(), MAX_NAME_BYTES);
        assert_ne!(names.name(&one), names.name(&other));
    }

    #[test]
    fn changed_key_has_another_id() {
        let file = std::env::temp_dir().join(format!("tollgate-log-key-{}", std::process::id()));
        std::fs::write(&file, "sixteen bytes at least\n").unwrap();
        let names = ClientNames::new(IdentityFormat::Hashed, Some(file.clone())).unwrap();
        let before = names.name(b"alice");
        // The same as: printf alice | openssl dgst -sha256 -hmac 'sixteen bytes at least'
        assert!(before.ends_with(":79518ce5addcf448"), "{before}");
        std::fs::write(&file, "sixteen bytes at least").unwrap();
        assert_eq!(names.reread_key().unwrap(), None);
        std::fs::write(&file, "another one of sixteen bytes").unwrap();
        let id = names.reread_key().unwrap().unwrap();
        let after = names.name(b"alice");
        assert!(after.starts_with(&format!("{id}:")) && !before.starts_with(&id));
        std::fs::write(&file, "short").unwrap();
        assert!(matches!(names.reread_key(), Err(LogKeyError::TooShort)));
        assert_eq!(names.name(b"alice"), after);
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(names.reread_key(), Err(LogKeyError::Unread(_))));
    }
}
