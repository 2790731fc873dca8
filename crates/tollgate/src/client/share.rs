//! The share of a limit that this client uses, if others use the same key.
//!
//! Two states of a limit, with the time between them, show how much all clients have consumed. This client knows how
//! many requests it sent meanwhile. Their ratio is its share. Each client measures its own, and what they measure adds
//! up to one, so together they can send what the server permits without knowing of each other.

/// One in fixed point.
const ONE: u64 = 1 << 20;

/// The share before anything is measured: a quarter. A client alone has its whole share after a few responses, and a
/// large group exceeds the limit for a few responses only.
const PRIOR: (u64, u64) = (ONE / 4, ONE);

/// An older measurement loses one eighth of its weight with each response.
const FORGET: u64 = 8;

/// What is added to a share with each measurement: 1/512. Small shares gain more by it than large ones, so the shares
/// of clients that send as much as they may become equal.
const EQUALISE: u64 = 512;

/// The largest amount of one measurement.
const MAX_AMOUNT: u64 = 1 << 40;

#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    own: u64,
    all: u64,
}

impl Share {
    pub(super) fn unknown() -> Share {
        Share { own: PRIOR.0, all: PRIOR.1 }
    }

    /// Adds a measurement: the requests of this client, and what all clients consumed, in thousandths of a unit.
    /// Servers state whole units, so a single measurement may be too small, or negative; the sum is right.
    pub(super) fn measured(&mut self, own: u64, all_thousandths: i64) {
        let own = i128::from(own.min(MAX_AMOUNT) * ONE);
        let bound = MAX_AMOUNT as i64 * 1_000;
        let all = i128::from(all_thousandths.clamp(-bound, bound)) * i128::from(ONE) / 1_000;
        self.add(own + all.max(own) / i128::from(EQUALISE), all);
    }

    /// Adds that the limit was not used up: the share may double.
    pub(super) fn unused(&mut self, own: u64) {
        let own = own.min(MAX_AMOUNT) * ONE;
        let all = self.times_all(u128::from(own)) / 2;
        self.add(i128::from(own), i128::try_from(all).unwrap_or(i128::MAX / 2).max(i128::from(own)));
    }

    /// Lowers the share to 7/10 after a refusal.
    pub(super) fn refused(&mut self) {
        self.all = self.all.saturating_mul(10) / 7;
        self.keep_bounded();
    }

    /// Returns a time or an amount of all clients as that of this client: `value / share`.
    pub(super) fn times_all(&self, value: u128) -> u128 {
        value.saturating_mul(u128::from(self.all)) / u128::from(self.own)
    }

    /// Returns the part of a value that is not this client's: `value * (1 - share)`.
    pub(super) fn of_others(&self, value: u64) -> u64 {
        let others = u128::from(value) * u128::from(self.all - self.own) / u128::from(self.all);
        u64::try_from(others).unwrap_or(value)
    }

    fn add(&mut self, own: i128, all: i128) {
        let add = |sum: u64, new| {
            i128::from(sum - sum / FORGET).saturating_add(new).clamp(1, i128::from(u64::MAX / 2)) as u64
        };
        self.own = add(self.own, own);
        self.all = add(self.all, all).max(self.own);
        self.keep_bounded();
    }

    /// Keeps both so small that nothing overflows, and the share above one part in a million.
    fn keep_bounded(&mut self) {
        while self.all > u64::MAX / 64 {
            (self.own, self.all) = (self.own / 2, self.all / 2);
        }
        self.own = self.own.max(self.all >> 20).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(share: &Share) -> u64 {
        100 - share.of_others(1_000).div_ceil(10)
    }

    #[test]
    fn share_of_a_client_alone_becomes_the_whole() {
        let mut share = Share::unknown();
        assert_eq!(percent(&share), 25);
        (0..30).for_each(|_| share.measured(1, 1_000));
        assert!(percent(&share) >= 99 && share.times_all(500) <= 503, "{share:?}");
    }

    #[test]
    fn share_is_the_ratio_of_own_and_all_requests() {
        let mut share = Share::unknown();
        (0..60).for_each(|_| share.measured(1, 10_000));
        assert!((10..=11).contains(&percent(&share)), "{}", percent(&share));
        (0..60).for_each(|_| share.measured(3, 4_000));
        assert!((74..=76).contains(&percent(&share)), "{}", percent(&share));
    }

    #[test]
    fn share_grows_while_the_limit_is_not_used_up() {
        let mut share = Share::unknown();
        (0..30).for_each(|_| share.measured(1, 50_000));
        let before = percent(&share);
        (0..60).for_each(|_| share.unused(1));
        assert!(before <= 3 && percent(&share) > 75, "{before} {}", percent(&share));
    }

    #[test]
    fn refusal_lowers_the_share() {
        let mut share = Share::unknown();
        (0..30).for_each(|_| share.measured(1, 1_000));
        share.refused();
        assert!((69..=70).contains(&percent(&share)), "{}", percent(&share));
    }

    #[test]
    fn extreme_amounts_do_not_overflow() {
        let mut share = Share::unknown();
        for (own, all) in
            [(u64::MAX, i64::MAX), (0, 0), (1, i64::MAX), (u64::MAX, i64::MIN), (0, i64::MAX), (1, i64::MIN)]
        {
            for _ in 0..100 {
                share.measured(own, all);
                share.unused(own);
                share.refused();
                assert!(share.own > 0 && share.own <= share.all);
            }
        }
        assert!(share.times_all(1_000) <= 1_000 << 21);
    }
}
