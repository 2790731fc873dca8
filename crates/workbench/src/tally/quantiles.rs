//! Quantiles of a figure over clients.

/// The quantiles of a figure over clients. Each is the figure of one of the clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// The figure that half of the clients do not exceed.
    pub p50: u64,
    /// The figure that 90 % of the clients do not exceed.
    pub p90: u64,
    /// The figure that 99 % of the clients do not exceed.
    pub p99: u64,
    /// The figure that 99.9 % of the clients do not exceed.
    pub p999: u64,
    /// The largest figure.
    pub max: u64,
}

/// The whole, in the unit of shares: parts per million.
pub(crate) const WHOLE_PPM: u32 = 1_000_000;

impl Quantiles {
    /// Computes the quantiles of figures, which it sorts.
    pub(crate) fn of(figures: &mut [u64]) -> Quantiles {
        figures.sort_unstable();
        let at = |share_ppm| quantile(figures, share_ppm);
        Quantiles { p50: at(500_000), p90: at(900_000), p99: at(990_000), p999: at(999_000), max: at(WHOLE_PPM) }
    }
}

/// Returns the smallest of the sorted figures that at least this share of them do not exceed; 0 if there are none.
pub(crate) fn quantile(sorted: &[u64], share_ppm: u32) -> u64 {
    let count = (sorted.len() as u64 * u64::from(share_ppm)).div_ceil(u64::from(WHOLE_PPM));
    let at = usize::try_from(count.max(1) - 1).unwrap_or(usize::MAX);
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_not_exceeded_by_its_share() {
        let figures: Vec<u64> = (1..=1_000).collect();
        assert_eq!(quantile(&figures, 999_000), 999);
        assert_eq!(quantile(&figures, 999_001), 1_000);
        assert_eq!((quantile(&figures, 0), quantile(&[], 500_000), quantile(&[7], 1)), (1, 0, 7));
        let quantiles = Quantiles::of(&mut [3, 1, 2]);
        assert_eq!((quantiles.p50, quantiles.p90, quantiles.max), (2, 3, 3));
    }
}
