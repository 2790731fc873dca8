use super::RestoreError;
use super::checksum::Checksum;
use super::decoder::Decoder;
use super::encoder::Encoder;
use super::time_shift::Moment;
use crate::limit::key::{HashSecret, ScopeHasher, TextHashing};

const MAGIC: &[u8; 8] = b"tollgate";
/// The versions differ only in how keys are hashed. A store that was restored from a file of the first version
/// continues to hash like that, and writes such files.
const VERSIONS: [TextHashing; 2] = [TextHashing::Bytes, TextHashing::Short];

/// The header before the records.
pub(super) struct Header {
    pub(super) secret: HashSecret,
    pub(super) begun: Moment,
}

impl Header {
    pub(super) fn write(&self, encoder: &mut Encoder<'_>) {
        let mut preface = [0; 12];
        preface[..8].copy_from_slice(MAGIC);
        preface[8..].copy_from_slice(&version_of(self.secret.texts()).to_le_bytes());
        encoder.bytes(&preface);
        encoder.bytes(&Checksum::of(&preface).to_le_bytes());
        let (scopes, seed) = self.secret.numbers();
        encoder.word(scopes);
        encoder.word(seed);
        encoder.word(probe(&self.secret));
        encoder.word(self.begun.store_ns);
        encoder.word(self.begun.wall_ns);
    }

    pub(super) fn read(decoder: &mut Decoder<'_>) -> Result<Header, RestoreError> {
        let preface: [u8; 12] = decoder.bytes()?;
        if !preface.starts_with(MAGIC) {
            return Err(RestoreError::NotASnapshot);
        }
        // A damaged version must not be mistaken for a later one.
        if u32::from_le_bytes(decoder.bytes()?) != Checksum::of(&preface) {
            return Err(RestoreError::Damaged("the checksum of its head is wrong"));
        }
        let [.., a, b, c, d] = preface;
        let version = u32::from_le_bytes([a, b, c, d]);
        let texts = match version.checked_sub(1) {
            Some(at) => *VERSIONS.get(at as usize).ok_or(RestoreError::NewerVersion { version })?,
            None => return Err(RestoreError::Damaged("there is no such version")),
        };
        let secret = HashSecret::new(decoder.word()?, decoder.word()?, texts);
        if decoder.word()? != probe(&secret) {
            return Err(RestoreError::HashMismatch);
        }
        let begun = Moment { store_ns: decoder.word()?, wall_ns: decoder.word()? };
        Ok(Header { secret, begun })
    }
}

fn version_of(texts: TextHashing) -> u32 {
    (1..).zip(VERSIONS).find(|(_, known)| *known == texts).map_or(0, |(version, _)| version)
}

/// Returns the hash of a known key, with texts longer and shorter than a word, and a number.
fn probe(secret: &HashSecret) -> u64 {
    ScopeHasher::new("tollgate", secret).hash(&("a key that is longer than what is mixed at once", "short", 1))
}
