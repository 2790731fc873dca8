/// CRC-32C. It detects every burst of up to 32 damaged bits, and misses one in four billion of any other damage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checksum(u32);

impl Checksum {
    pub(super) fn of(bytes: &[u8]) -> u32 {
        crc32c::crc32c(bytes)
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    pub(super) fn value(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_matches_known_crc32c_values() {
        assert_eq!(Checksum::of(b""), 0);
        assert_eq!(Checksum::of(b"123456789"), 0xe306_9283);
        assert_eq!(Checksum::of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(Checksum::of(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn checksum_does_not_depend_on_how_bytes_are_split() {
        let bytes: Vec<u8> = (0..100).collect();
        for cut in 0..=bytes.len() {
            let mut checksum = Checksum::default();
            checksum.update(&bytes[..cut]);
            checksum.update(&bytes[cut..]);
            assert_eq!(checksum.value(), Checksum::of(&bytes));
        }
    }
}
