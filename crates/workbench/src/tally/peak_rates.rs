//! The most requests of one client in a second, a minute and an hour.

use super::{HOUR_NS, MINUTE_NS, SECOND_NS};

/// The most requests in any second, minute and hour of the clock.
///
/// The spans are aligned to the clock, so that a client takes a fixed number of bytes. A span that is not aligned can
/// contain up to twice as many requests. What a bucket must hold is measured exactly, apart from this.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeakRates {
    spans: [SpanPeak; SPANS_NS.len()],
}

/// The most requests in spans of three lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// The most requests in a second of the clock.
    pub in_second: u32,
    /// The most requests in a minute of the clock.
    pub in_minute: u32,
    /// The most requests in an hour of the clock.
    pub in_hour: u32,
}

const SPANS_NS: [u64; 3] = [SECOND_NS, MINUTE_NS, HOUR_NS];

#[derive(Clone, Copy, Debug, Default)]
struct SpanPeak {
    /// The number of the current span since 1970, modulo 2^32.
    span: u32,
    count: u32,
    max: u32,
}

impl PeakRates {
    /// Counts a request.
    #[inline]
    pub(crate) fn count(&mut self, time_ns: u64) {
        for (peak, length_ns) in self.spans.iter_mut().zip(SPANS_NS) {
            let span = (time_ns / length_ns) as u32;
            peak.count = if peak.span == span { peak.count.saturating_add(1) } else { 1 };
            peak.span = span;
            peak.max = peak.max.max(peak.count);
        }
    }

    /// Returns the peaks so far.
    pub(crate) fn peaks(&self) -> Peaks {
        let [in_second, in_minute, in_hour] = self.spans.map(|span| span.max);
        Peaks { in_second, in_minute, in_hour }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_the_fullest_spans_of_the_clock() {
        let mut rates = PeakRates::default();
        let minute = 29_000_000 * MINUTE_NS;
        for at_s in [0, 0, 1, 1, 1, 59, 60, 61] {
            rates.count(minute + at_s * SECOND_NS);
        }
        assert_eq!(rates.peaks(), Peaks { in_second: 3, in_minute: 6, in_hour: 8 });
    }
}
