/// CRC-32C, eight bytes at a time: it notices every burst of up to 32 damaged
/// bits, and lets one in four billion of any other damage pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checksum(u32);

/// Castagnoli's polynomial, lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What each byte adds, at each of eight distances from the end.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        tables[0][byte] = rest;
        byte += 1;
    }
    let mut distance = 1;
    while distance < 8 {
        let mut byte = 0;
        while byte < 256 {
            let nearer = tables[distance - 1][byte];
            tables[distance][byte] = nearer >> 8 ^ tables[0][(nearer & 0xff) as usize];
            byte += 1;
        }
        distance += 1;
    }
    tables
}

impl Checksum {
    pub(super) fn new() -> Checksum {
        Checksum(!0)
    }

    pub(super) fn of(bytes: &[u8]) -> u32 {
        let mut checksum = Checksum::new();
        checksum.update(bytes);
        checksum.value()
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            let word = u64::from_le_bytes(*eight) ^ u64::from(self.0);
            let bytes = word.to_le_bytes();
            self.0 = (0..8).fold(0, |sum, at| sum ^ TABLES[7 - at][usize::from(bytes[at])]);
        }
        for byte in rest {
            self.0 = self.0 >> 8 ^ TABLES[0][usize::from(self.0 as u8 ^ byte)];
        }
    }

    pub(super) fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_checksum_that_others_compute() {
        assert_eq!(Checksum::of(b""), 0);
        assert_eq!(Checksum::of(b"123456789"), 0xe306_9283);
        assert_eq!(Checksum::of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(Checksum::of(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_are_cut() {
        let bytes: Vec<u8> = (0..100).collect();
        for cut in 0..=bytes.len() {
            let mut checksum = Checksum::new();
            checksum.update(&bytes[..cut]);
            checksum.update(&bytes[cut..]);
            assert_eq!(checksum.value(), Checksum::of(&bytes));
        }
    }
}
