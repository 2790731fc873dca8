/// The name under which a server knows a script: the SHA-1 of its source, in
/// small hexadecimal digits. It guards nothing, so an old hash is good enough
/// and no library is needed for it.
pub(crate) fn sha1_hex(source: &[u8]) -> [u8; 40] {
    let mut state = [0x6745_2301_u32, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    let mut padded = source.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - source.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let length_at = padded.len() - 8;
    padded[length_at..].copy_from_slice(&(source.len() as u64 * 8).to_be_bytes());
    for block in padded.as_chunks::<64>().0 {
        mix(&mut state, block);
    }
    let digit = |index: usize| {
        let nibble = state[index / 8] >> (28 - 4 * (index % 8)) & 0xF;
        b"0123456789abcdef"[nibble as usize]
    };
    std::array::from_fn(digit)
}

fn mix(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for index in 16..80 {
        words[index] = (words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (index, word) in words.into_iter().enumerate() {
        let (choice, constant) = match index / 20 {
            0 => (b & c | !b & d, 0x5A82_7999),
            1 => (b ^ c ^ d, 0x6ED9_EBA1),
            2 => (b & c | b & d | c & d, 0x8F1B_BCDC_u32),
            _ => (b ^ c ^ d, 0xCA62_C1D6),
        };
        let next = a.rotate_left(5).wrapping_add(choice).wrapping_add(e).wrapping_add(constant).wrapping_add(word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_examples_of_the_standard() {
        assert_eq!(&sha1_hex(b"abc"), b"a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(&sha1_hex(b""), b"da39a3ee5e6b4b0d3255bfef95601890afd80709");
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(&sha1_hex(two_blocks), b"84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        assert_eq!(&sha1_hex(&[b'a'; 1_000_000]), b"34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
}
