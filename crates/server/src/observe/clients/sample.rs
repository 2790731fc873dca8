use std::cell::Cell;

use super::rule_clients::SAMPLED_ONE_IN;

thread_local! {
    /// What is drawn next for the sample of all requests.
    static DRAWN: Cell<u32> = const { Cell::new(0x2545_F491) };
}

/// Draws one in 16. By chance and not by turns, so that nobody who asks in turns is never drawn.
pub(in crate::observe) fn is_drawn() -> bool {
    let drawn = DRAWN.try_with(|cell| {
        let mut number = cell.get();
        number ^= number << 13;
        number ^= number >> 17;
        number ^= number << 5;
        cell.set(number);
        number
    });
    drawn.is_ok_and(|number| u64::from(number) & (SAMPLED_ONE_IN - 1) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_sixteen_is_drawn() {
        let drawn = (0..160_000).filter(|_| is_drawn()).count();
        assert!((9_500..10_500).contains(&drawn), "{drawn}");
    }
}
