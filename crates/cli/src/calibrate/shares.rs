//! Shares on the command line, in percent.

/// A share that was given in another form.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected {0}")]
pub(super) struct ExpectedShare(&'static str);

const EXPECTED_SHARE: ExpectedShare = ExpectedShare("a share from 50% to 100% with at most 4 decimals, such as 99.9%");
const EXPECTED_MARGIN: ExpectedShare = ExpectedShare("a whole number of percent from 0% to 1000%, such as 20%");

/// Reads a share as parts per million: `99.9%` is 999,000. The sign may be left out.
pub(super) fn share_ppm(text: &str) -> Result<u32, ExpectedShare> {
    let (whole, decimals) = without_sign(text).split_once('.').unwrap_or((without_sign(text), "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || whole.len() > 3 || decimals.len() > 4 {
        return Err(EXPECTED_SHARE);
    }
    // Four decimals of a percent are parts per million.
    let ppm = format!("{whole}{decimals:0<4}").parse().map_err(|_| EXPECTED_SHARE)?;
    if (500_000..=1_000_000).contains(&ppm) { Ok(ppm) } else { Err(EXPECTED_SHARE) }
}

/// Reads a margin in percent. The sign may be left out.
pub(super) fn margin_percent(text: &str) -> Result<u32, ExpectedShare> {
    without_sign(text).parse().ok().filter(|percent| *percent <= 1_000).ok_or(EXPECTED_MARGIN)
}

fn without_sign(text: &str) -> &str {
    text.strip_suffix('%').unwrap_or(text).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_exactly() {
        for (text, ppm) in [("99.9%", 999_000), ("100%", 1_000_000), ("99.9999 %", 999_999), ("50", 500_000)] {
            assert_eq!(share_ppm(text), Ok(ppm), "{text}");
        }
        for invalid in ["", "%", "99.99999%", "100.1%", "49%", "0.999", "-1%", "9e1%", "many", ".5%"] {
            assert_eq!(share_ppm(invalid), Err(EXPECTED_SHARE), "{invalid}");
        }
        assert_eq!((margin_percent("20%"), margin_percent("0")), (Ok(20), Ok(0)));
        assert!(["", "-1%", "1001%", "2.5%"].iter().all(|invalid| margin_percent(invalid).is_err()));
    }
}
