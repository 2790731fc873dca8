//! Hints for texts that are almost rates.

use tollgate_core::Rate;

/// Notations of other rate limiters, and what to write for them. The order matters: later ones see the result.
const NOTATIONS: [(&str, &str); 20] = [
    ("requests", ""),
    ("request", ""),
    ("reqs", ""),
    ("req", ""),
    ("hits", ""),
    ("calls", ""),
    ("rps", "/s"),
    ("qps", "/s"),
    ("rpm", "/min"),
    ("rph", "/h"),
    ("r/s", "/s"),
    ("r/m", "/min"),
    ("hourly", "h"),
    ("daily", "day"),
    ("burst=", "burst "),
    ("burst:", "burst "),
    (", burst", " burst"),
    ("per a ", "per "),
    (" an ", " per "),
    (" every ", " per "),
];

/// Words of other rate limiters for "no limit".
const NO_LIMIT: [&str; 6] = ["none", "-1", "infinite", "infinity", "inf", "off"];

/// The beginning of the hint for a number without a period.
pub(crate) const ADD_PERIOD: &str = "add the period: ";

/// Returns a hint for a text that is not a rate, empty if there is none.
pub(crate) fn rate_hint(text: &str) -> String {
    let text = text.trim();
    if NO_LIMIT.contains(&text.to_ascii_lowercase().as_str()) {
        return "write `unlimited` for no limit".to_owned();
    }
    if text == "0" || text.starts_with("0/") {
        return "to refuse all requests, write `deny: true` instead of `limit`".to_owned();
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        return format!("{ADD_PERIOD}{text}/s, {text}/min or {text}/h");
    }
    corrected(text).map_or_else(String::new, |rate| format!("write {rate}"))
}

/// Returns the rate that was probably intended, if one is found.
fn corrected(text: &str) -> Option<String> {
    // No rate that a person writes is longer.
    if text.len() > 64 {
        return None;
    }
    let mut rate = without_separators(text).to_ascii_lowercase();
    for (from, to) in NOTATIONS {
        rate = rate.replace(from, to);
    }
    let rate = rate.split_whitespace().collect::<Vec<_>>().join(" ").replace(" /", "/");
    (rate != text && rate.parse::<Rate>().is_ok()).then_some(rate)
}

/// Removes the separators between groups of three digits: `1,000` becomes `1000`.
fn without_separators(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let separates = |at: usize| {
        matches!(chars[at], ',' | '.' | ' ' | '\'')
            && at > 0
            && is_digit(at - 1)
            && (1..=3).all(|next| is_digit(at + next))
            && !is_digit(at + 4)
    };
    chars.iter().enumerate().filter(|(at, _)| !separates(*at)).map(|(_, c)| *c).collect()
}

#[cfg(test)]
mod tests {
    use super::rate_hint;

    #[test]
    fn notations_of_other_limiters_are_corrected() {
        for (text, hint) in [
            ("1,000/min", "write 1000/min"),
            ("1,000,000/day", "write 1000000/day"),
            ("10 000/min", "write 10000/min"),
            ("100rps", "write 100/s"),
            ("5r/s", "write 5/s"),
            ("100 requests per minute", "write 100 per minute"),
            ("5/min burst=10", "write 5/min burst 10"),
            ("100/hourly", "write 100/h"),
            ("100", "add the period: 100/s, 100/min or 100/h"),
            ("0", "to refuse all requests, write `deny: true` instead of `limit`"),
            ("none", "write `unlimited` for no limit"),
            ("5/fortnight", ""),
            ("1.5/s", ""),
        ] {
            assert_eq!(rate_hint(text), hint, "{text}");
        }
    }
}
