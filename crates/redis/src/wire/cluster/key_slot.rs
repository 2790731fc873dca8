use crate::transport::Slot;

/// The number of slots of a cluster.
pub(crate) const SLOTS: usize = 16_384;

/// Returns the slot of keys with this hash tag.
pub(crate) fn slot_of_tag(tag: &[u8]) -> Slot {
    Slot(crc16(tag) % SLOTS as u16)
}

/// Computes CRC16/XMODEM, as the Redis Cluster specification requires.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_agree_with_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of_tag(b"foo"), Slot(12_182));
    }
}
