//! SHA-256 (FIPS 180-4), for the few values that are too long to be keys, and for
//! clients that are told of without being named.
//!
//! Two clients must not be able to find values that share a counter, and every
//! instance of a fleet must find the same key, so it takes a cryptographic hash
//! without a seed. The libraries that have one come with the verification of
//! tokens, which not every program is built with.

const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
];

const START: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// The SHA-256 of a message.
#[must_use]
pub fn sha256(message: &[u8]) -> [u8; 32] {
    finish(START, 0, message)
}

/// The SHA-256 of messages whose first block is the same, which is hashed only once.
#[derive(Clone)]
pub struct Sha256Behind {
    state: [u32; 8],
}

impl Sha256Behind {
    /// The block that all these messages begin with.
    #[must_use]
    pub fn new(block: &[u8; 64]) -> Sha256Behind {
        let mut state = START;
        compress(&mut state, block);
        Sha256Behind { state }
    }

    /// The hash of the message that goes on with `rest`.
    #[must_use]
    pub fn sha256(&self, rest: &[u8]) -> [u8; 32] {
        finish(self.state, 64, rest)
    }
}

/// Hashes what is left of a message after so many bytes of it.
fn finish(mut state: [u32; 8], before: u64, message: &[u8]) -> [u8; 32] {
    let (blocks, rest) = message.as_chunks::<64>();
    for block in blocks {
        compress(&mut state, block);
    }
    let mut last = [0; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    // The length in bits stands at the end of the last block.
    let end = if rest.len() < 56 { 64 } else { 128 };
    last[end - 8..end].copy_from_slice(&((before + message.len() as u64) * 8).to_be_bytes());
    for block in last[..end].as_chunks::<64>().0 {
        compress(&mut state, block);
    }
    let mut hash = [0; 32];
    for (bytes, word) in hash.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    hash
}

fn compress(state: &mut [u32; 8], block: &[u8; 64]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..64 {
        let (before_2, before_15) = (words[at - 2], words[at - 15]);
        let mixed_15 = before_15.rotate_right(7) ^ before_15.rotate_right(18) ^ (before_15 >> 3);
        let mixed_2 = before_2.rotate_right(17) ^ before_2.rotate_right(19) ^ (before_2 >> 10);
        words[at] = words[at - 16].wrapping_add(mixed_15).wrapping_add(words[at - 7]).wrapping_add(mixed_2);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.into_iter().zip(ROUNDS) {
        let mixed_e = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let chosen = (e & f) ^ (!e & g);
        let first = h.wrapping_add(mixed_e).wrapping_add(chosen).wrapping_add(constant).wrapping_add(word);
        let mixed_a = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(mixed_a.wrapping_add(majority)));
    }
    for (word, mixed) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(mixed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(message: &[u8]) -> String {
        sha256(message).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The examples of FIPS 180-4 and of NIST's test vectors.
    #[test]
    fn the_published_examples_come_out() {
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(two_blocks), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        let behind = Sha256Behind::new(&[b'a'; 64]).sha256(&vec![b'a'; 999_936]);
        assert_eq!(behind, sha256(&vec![b'a'; 1_000_000]));
        assert_eq!(hex(&vec![b'a'; 1_000_000]), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}
