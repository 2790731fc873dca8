use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::quality::{FoldHasher, SeedableRandomState};

/// What a limit is counted by: a user, an address, or several parts together.
///
/// Parts are kept apart: `("a_b", "c")` is another key than `("a", "b_c")`.
pub trait Key {
    /// Gives the parts, in order.
    fn feed(&self, hasher: &mut KeyHasher<'_>);
}

/// Takes the parts of a key.
///
/// Each part after the first goes in with its length, so that the boundaries
/// between parts count.
pub struct KeyHasher<'a> {
    hasher: FoldHasher<'a>,
    parts: u32,
}

impl KeyHasher<'_> {
    /// A part of any bytes.
    #[inline]
    pub fn bytes(&mut self, part: &[u8]) {
        if self.parts > 0 {
            self.hasher.write_u64(part.len() as u64);
        }
        self.parts += 1;
        self.hasher.write(part);
    }

    /// A part that is a number.
    #[inline]
    pub fn number(&mut self, part: u64) {
        if self.parts > 0 {
            self.hasher.write_u64(u64::MAX);
        }
        self.parts += 1;
        self.hasher.write_u64(part);
    }
}

/// Hashes the keys of one scope. The seed is secret to the process, so that
/// nobody outside can choose keys that meet.
#[derive(Clone, Debug)]
pub(crate) struct ScopeHasher(SeedableRandomState);

impl ScopeHasher {
    pub(crate) fn new(scope: &str) -> ScopeHasher {
        let secret = process_secret();
        let scope_seed = SeedableRandomState::with_seed(secret.scopes, &secret.shared).hash_one(scope);
        ScopeHasher(SeedableRandomState::with_seed(scope_seed, &secret.shared))
    }

    #[inline]
    pub(crate) fn hash<K: Key + ?Sized>(&self, key: &K) -> u64 {
        let mut hasher = KeyHasher { hasher: self.0.build_hasher(), parts: 0 };
        key.feed(&mut hasher);
        hasher.hasher.finish()
    }
}

struct Secret {
    scopes: u64,
    shared: SharedSeed,
}

/// Drawn once from the operating system, through the standard library's `RandomState`.
fn process_secret() -> &'static Secret {
    static SECRET: OnceLock<Secret> = OnceLock::new();
    SECRET.get_or_init(|| {
        let draw = || std::hash::RandomState::new().hash_one(0_u64);
        Secret { scopes: draw(), shared: SharedSeed::from_u64(draw()) }
    })
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

/// One counter for everybody.
impl Key for () {
    fn feed(&self, _: &mut KeyHasher<'_>) {}
}

impl<K: Key + ?Sized> Key for &K {
    #[inline]
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        (**self).feed(hasher);
    }
}

/// As many parts as there are.
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
    use super::*;

    #[test]
    fn boundaries_between_parts_count() {
        let scope = ScopeHasher::new("rule");
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
    fn scopes_are_apart() {
        assert_ne!(ScopeHasher::new("login").hash("x"), ScopeHasher::new("api").hash("x"));
        assert_eq!(ScopeHasher::new("login").hash("x"), ScopeHasher::new("login").hash("x"));
    }
}
