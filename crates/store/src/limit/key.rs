//! Keys, and the keyed hash that represents them in the memory store.
//!
//! The hash is foldhash under a secret of 128 bits, drawn when the process starts and kept in a snapshot. It
//! distributes the keys of callers that do not know the secret. It is *not* designed to keep the secret from a caller
//! that chooses keys and observes which of them collide; a hash that is (SipHash-1-3) takes 4 to 7 ns more for keys of
//! 8 to 40 bytes. `docs/state.md` describes what such a caller could do with the secret, and what learning it would
//! take.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// The key of a counter: a user, an address, or several parts together.
///
/// Parts are separate: `("a_b", "c")` and `("a", "b_c")` are different keys.
///
/// ```
/// use tollgate_store::{Key, KeyHasher};
///
/// struct UserOfTenant {
///     tenant: u64,
///     user: String,
/// }
///
/// impl Key for UserOfTenant {
///     fn feed(&self, hasher: &mut KeyHasher<'_>) {
///         hasher.number(self.tenant);
///         hasher.bytes(self.user.as_bytes());
///     }
/// }
/// ```
pub trait Key {
    /// Feeds the parts of the key to the hasher, in order.
    fn feed(&self, hasher: &mut KeyHasher<'_>);
}

/// Hashes the parts of a key.
///
/// A text is hashed with its length, and several parts with the order of their kinds, so that the boundaries between
/// parts and the difference between text and number are part of the key. (The hasher mixes texts and numbers
/// separately.) A first part of up to 15 bytes is hashed as a [`ShortText`]; a longer first part needs no length.
#[derive(Clone)]
pub struct KeyHasher<'a> {
    hasher: FoldHasher<'a>,
    /// A leading 1, followed by one bit for each part: 1 for a number.
    kinds: u64,
    texts: TextHashing,
}

/// How the first part of a key is hashed if it is a short text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextHashing {
    /// As one number: see [`ShortText`].
    Short,
    /// As its bytes, like in the previous version. Stores that were restored from snapshots of that version continue
    /// with it.
    Bytes,
}

/// A text of up to 15 bytes as a number: its bytes from the lowest on, and its length plus 1 in the highest byte. So a
/// key that was assembled in registers is hashed without being written to memory first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortText(u128);

impl ShortText {
    /// The largest length in bytes.
    pub const MAX_BYTES: usize = 15;

    /// Creates the text whose bytes are the lowest `length` bytes of `bytes`; the others must be 0.
    #[inline(always)]
    #[must_use]
    pub fn from_parts(bytes: u128, length: usize) -> ShortText {
        debug_assert!(length <= ShortText::MAX_BYTES && bytes >> (8 * length) == 0);
        ShortText(bytes | (length as u128 + 1) << 120)
    }

    #[inline(always)]
    fn new(text: &[u8]) -> Option<ShortText> {
        let length = text.len();
        let bytes = if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
            if length > ShortText::MAX_BYTES {
                return None;
            }
            // The bytes that both chunks contain are shifted out of the second.
            let last = u64::from_le_bytes(*last).unbounded_shr(8 * (16 - length as u32));
            u128::from(u64::from_le_bytes(*first)) | u128::from(last) << 64
        } else if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
            let last = u64::from(u32::from_le_bytes(*last)) << (8 * (length - 4));
            u128::from(u64::from(u32::from_le_bytes(*first)) | last)
        } else {
            text.iter().rev().fold(0, |bytes, byte| bytes << 8 | u128::from(*byte))
        };
        Some(ShortText::from_parts(bytes, length))
    }
}

impl Key for ShortText {
    #[inline(always)]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        if hasher.is_first_short() {
            return hasher.short(*self);
        }
        let length = (self.0 >> 120) as usize - 1;
        hasher.bytes(&self.0.to_le_bytes()[..length]);
    }
}

impl KeyHasher<'_> {
    const NO_PARTS: u64 = 1;

    /// Adds a part of arbitrary bytes.
    #[inline(always)]
    pub fn bytes(&mut self, part: &[u8]) {
        if self.is_first_short()
            && let Some(short) = ShortText::new(part)
        {
            return self.short(short);
        }
        // By value: a hasher that is borrowed by a call is kept in memory, even where the call is not made.
        *self = self.clone().with_bytes(part);
    }

    #[inline(never)]
    fn with_bytes(mut self, part: &[u8]) -> Self {
        if self.kinds != Self::NO_PARTS {
            self.hasher.write_u64(part.len() as u64);
        }
        self.note_kind(0);
        self.hasher.write(part);
        self
    }

    /// Returns whether this is the first part and short texts are hashed as numbers.
    #[inline(always)]
    fn is_first_short(&self) -> bool {
        self.kinds == Self::NO_PARTS && self.texts == TextHashing::Short
    }

    /// Adds a short text as the first part. Its highest byte is never 0, so no number hashes like a short text.
    #[inline(always)]
    fn short(&mut self, text: ShortText) {
        self.note_kind(0);
        self.hasher.write_u128(text.0);
    }

    /// Adds a part that is a number.
    #[inline]
    pub fn number(&mut self, part: u64) {
        self.note_kind(1);
        self.hasher.write_u64(part);
    }

    /// Records the kind of a part. The top bit stays set once it is reached: a key with 63 parts or more still counts
    /// as one of several parts.
    #[inline]
    fn note_kind(&mut self, kind: u64) {
        self.kinds = self.kinds & 1 << 63 | self.kinds << 1 | kind;
    }

    #[inline]
    fn finish(mut self) -> u64 {
        let is_one_part = self.kinds >> 1 <= Self::NO_PARTS;
        if !is_one_part {
            self.hasher.write_u64(self.kinds);
        }
        self.hasher.finish()
    }
}

/// Hashes the keys of one scope.
#[derive(Clone)]
pub(crate) struct ScopeHasher {
    seed: u64,
    texts: TextHashing,
    shared: Arc<SharedSeed>,
}

impl ScopeHasher {
    pub(crate) fn new(scope: &str, secret: &HashSecret) -> ScopeHasher {
        let mut hasher = FoldHasher::with_seed(secret.scope_seed, &secret.shared);
        hasher.write(scope.as_bytes());
        ScopeHasher { seed: hasher.finish(), texts: secret.texts, shared: Arc::clone(&secret.shared) }
    }

    #[inline(always)]
    pub(crate) fn hash<K: Key + ?Sized>(&self, key: &K) -> u64 {
        let hasher = FoldHasher::with_seed(self.seed, &self.shared);
        let mut hasher = KeyHasher { hasher, kinds: KeyHasher::NO_PARTS, texts: self.texts };
        key.feed(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Debug for ScopeHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeHasher")
    }
}

/// The secret with which a store hashes keys. Without it, colliding keys cannot be chosen.
#[derive(Clone)]
pub(crate) struct HashSecret {
    /// The seed under which names of scopes are hashed.
    scope_seed: u64,
    /// The seed of `shared`.
    seed: u64,
    texts: TextHashing,
    shared: Arc<SharedSeed>,
}

impl HashSecret {
    pub(crate) fn new(scope_seed: u64, seed: u64, texts: TextHashing) -> HashSecret {
        HashSecret { scope_seed, seed, texts, shared: Arc::new(SharedSeed::from_u64(seed)) }
    }

    /// Returns the secret of the process, drawn once from the operating system through the standard library's
    /// `RandomState`.
    pub(crate) fn of_process() -> HashSecret {
        static SECRET: OnceLock<HashSecret> = OnceLock::new();
        let draw = || std::hash::RandomState::new().hash_one(0_u64);
        SECRET.get_or_init(|| HashSecret::new(draw(), draw(), TextHashing::Short)).clone()
    }

    /// Returns how short texts are hashed.
    pub(crate) fn texts(&self) -> TextHashing {
        self.texts
    }

    /// Returns the two numbers of the secret.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        (self.scope_seed, self.seed)
    }
}

impl Key for str {
    #[inline]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        hasher.bytes(self.as_bytes());
    }
}

impl Key for String {
    #[inline]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        hasher.bytes(self.as_bytes());
    }
}

impl Key for [u8] {
    #[inline]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        hasher.bytes(self);
    }
}

impl Key for u64 {
    #[inline]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        hasher.number(*self);
    }
}

impl Key for Ipv4Addr {
    #[inline]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        hasher.bytes(&self.octets());
    }
}

impl Key for Ipv6Addr {
    #[inline]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        hasher.bytes(&self.octets());
    }
}

impl Key for IpAddr {
    #[inline]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        match self {
            IpAddr::V4(ip) => ip.feed(hasher),
            IpAddr::V6(ip) => ip.feed(hasher),
        }
    }
}

/// The empty key: one counter for all requests.
impl Key for () {
    fn feed(&self, _: &mut KeyHasher<'_>) {}
}

impl<K: Key + ?Sized> Key for &K {
    #[inline]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        (**self).feed(hasher);
    }
}

/// A key with any number of parts.
impl<K: Key> Key for [K] {
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        self.iter().for_each(|part| part.feed(hasher));
    }
}

macro_rules! key_of_several_parts {
    ($($part:ident)+) => {
        impl<$($part: Key),+> Key for ($($part,)+) {
            #[allow(non_snake_case)]
            fn feed(&self, hasher: &mut KeyHasher<'_>) {
                let ($($part,)+) = self;
                $($part.feed(hasher);)+
            }
        }
    };
}

key_of_several_parts!(A);
key_of_several_parts!(A B);
key_of_several_parts!(A B C);
key_of_several_parts!(A B C D);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn scope(name: &str) -> ScopeHasher {
        ScopeHasher::new(name, &HashSecret::of_process())
    }

    #[test]
    fn keys_with_different_part_boundaries_hash_differently() {
        let scope = scope("rule");
        let same = scope.hash(&("a", "b"));
        assert_eq!(same, scope.hash(["a", "b"].as_slice()));
        for other in
            [scope.hash(&("ab",)), scope.hash(&("a", "b", "")), scope.hash(&("", "ab")), scope.hash(&("b", "a"))]
        {
            assert_ne!(same, other);
        }
        assert_ne!(scope.hash(&("a_b", "c")), scope.hash(&("a", "b_c")));
        assert_ne!(scope.hash("a\0"), scope.hash("a"));
        assert_ne!(scope.hash(""), scope.hash(&("", "")));
    }

    #[test]
    fn numbers_and_texts_hash_by_kind_and_order() {
        let scope = scope("rule");
        assert_ne!(scope.hash(&(u64::MAX, "_")), scope.hash(&("_", 1)));
        assert_ne!(scope.hash(&(1, "_")), scope.hash(&("_", 1)));
        assert_ne!(scope.hash(&(1, "a", 2)), scope.hash(&(1, 2, "a")));
        assert_ne!(scope.hash(&7), scope.hash(&(7, 0)));
    }

    #[test]
    fn scopes_hash_the_same_key_differently() {
        assert_ne!(scope("login").hash("x"), scope("api").hash("x"));
        assert_eq!(scope("login").hash("x"), scope("login").hash("x"));
    }

    /// A measurement, not a test: prints the time of a key in nanoseconds until the next can begin. For a release
    /// build.
    #[test]
    #[ignore = "a measurement"]
    #[allow(clippy::print_stdout)]
    fn print_hash_time_of_foldhash_and_siphash() {
        fn fastest(hash: impl Fn(&str) -> u64, keys: &[String]) -> f64 {
            const ROUNDS: usize = 200_000;
            let round = || {
                let (begun, mut at) = (std::time::Instant::now(), 0);
                (0..ROUNDS).for_each(|_| at = hash(&keys[at]) as usize % keys.len());
                std::hint::black_box(at);
                begun.elapsed().as_nanos() as f64 / ROUNDS as f64
            };
            (0..50).map(|_| round()).fold(f64::MAX, f64::min)
        }
        let (scope, sip) = (scope("rule"), std::hash::RandomState::new());
        for length in [4, 8, 11, 16, 24, 40] {
            let keys: Vec<String> = (0..1024).map(|key| format!("{key:0length$}")).collect();
            let sip_of = |key: &str| {
                let mut hasher = sip.build_hasher();
                hasher.write(key.as_bytes());
                hasher.finish()
            };
            let (ours, siphash) = (fastest(|key| scope.hash(key), &keys), fastest(sip_of, &keys));
            println!("{length} bytes: {ours:.1}, SipHash-1-3 {siphash:.1}");
        }
    }

    #[test]
    fn equal_secrets_hash_alike_and_different_ones_do_not() {
        for texts in [TextHashing::Short, TextHashing::Bytes] {
            let hash = |scope_seed, seed| ScopeHasher::new("rule", &HashSecret::new(scope_seed, seed, texts)).hash("x");
            assert_eq!(hash(1, 2), hash(1, 2));
            assert_ne!(hash(1, 2), hash(1, 3));
            assert_ne!(hash(1, 2), hash(3, 2));
        }
    }

    #[test]
    fn short_texts_in_registers_hash_like_their_bytes() {
        let text: Vec<u8> = (1..=15).collect();
        for texts in [TextHashing::Short, TextHashing::Bytes] {
            let scope = ScopeHasher::new("rule", &HashSecret::new(1, 2, texts));
            for length in 0..=15 {
                let mut bytes = [0; 16];
                bytes[..length].copy_from_slice(&text[..length]);
                let short = ShortText::from_parts(u128::from_le_bytes(bytes), length);
                assert_eq!(scope.hash(&short), scope.hash(&text[..length]), "{length} bytes");
            }
        }
    }

    #[test]
    fn short_texts_differ_from_numbers_and_from_texts_with_zeros() {
        let scope = scope("rule");
        for length in 0..16 {
            let zeros = vec![0_u8; length];
            let longer = vec![0_u8; length + 1];
            assert_ne!(scope.hash(&zeros[..]), scope.hash(&longer[..]));
            assert_ne!(scope.hash(&zeros[..]), scope.hash(&0_u64));
        }
    }

    /// Of 2^16 random values in 2^16 slots, 63 % of the slots are hit.
    #[test]
    fn hashes_of_short_texts_are_spread_in_both_halves() {
        let scope = scope("rule");
        let addresses = (0..1_u32 << 16).map(|at| std::net::Ipv4Addr::from(0x0a00_0000 | at).to_string());
        let users = (0..1_u32 << 16).map(|at| format!("user-{at:08}"));
        for texts in [addresses.collect::<Vec<_>>(), users.collect()] {
            let hashes: HashSet<u64> = texts.iter().map(|text| scope.hash(text.as_str())).collect();
            assert_eq!(hashes.len(), texts.len());
            for half in [48, 16, 0] {
                let places: HashSet<u16> = hashes.iter().map(|hash| (hash >> half) as u16).collect();
                assert!(places.len() > 40_000, "{} of 65,536 places by bits from {half} on", places.len());
            }
        }
    }
}
