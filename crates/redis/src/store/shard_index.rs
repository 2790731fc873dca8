/// Which of a number of locks a key is under, the same in every run: tests come again as they were.
///
/// Who chooses keys so that many are under one lock lets them wait for each
/// other for a moment, and gains nothing. So a quick hash will do.
pub(super) fn shard_index(key: &[u8], parts: usize) -> usize {
    let hash = key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    // The upper bits depend on all bytes.
    (hash >> 16) as usize % parts.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_alike_are_spread_evenly() {
        let mut counts = [0; 16];
        for number in 0..16_000 {
            counts[shard_index(format!("user-{number:07}").as_bytes(), 16)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
