use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::list_field::{ListItem, list_items};

const S_NS: u64 = 1_000_000_000;

/// The most limits that are read from one response. Few servers publish more than three; the rest is ignored.
const MAX_LIMITS: usize = 8;

/// The longest time that a field can state: a year. Longer ones count as this.
const MAX_SPAN_S: u64 = 366 * 24 * 3_600;

/// The largest amount that a field can state: the largest integer of a structured field. Larger ones count as this.
const MAX_COUNT: u64 = 999_999_999_999_999;

/// `X-RateLimit-Reset` from this value on is a time, in seconds since 1970: the year 2001. Smaller ones are seconds
/// from now: as such, this would be 31 years.
const FIRST_EPOCH_S: u64 = 1_000_000_000;

/// From this value on it is in milliseconds since 1970.
const FIRST_EPOCH_MS: u64 = 1_000_000_000_000;

/// The most lines of one field that are read.
const MAX_LINES: usize = 16;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Limit, remaining amount and reset, in the older forms: the usual one, and the first drafts of the standard.
const OLDER: [[HeaderName; 3]; 2] = [
    [
        HeaderName::from_static("x-ratelimit-limit"),
        HeaderName::from_static("x-ratelimit-remaining"),
        HeaderName::from_static("x-ratelimit-reset"),
    ],
    [
        HeaderName::from_static("ratelimit-limit"),
        HeaderName::from_static("ratelimit-remaining"),
        HeaderName::from_static("ratelimit-reset"),
    ],
];

/// What the header fields of a response say about the server's limits.
///
/// Reading never fails: a field that is not valid is ignored, and what is valid is bounded. No field can state a time
/// of more than a year, and a time in the past is no time at all.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tollgate::client::ServerHint;
///
/// let mut headers = http::HeaderMap::new();
/// headers.insert("ratelimit-policy", r#""burst";q=100;w=60"#.parse()?);
/// headers.insert("ratelimit", r#""burst";r=7;t=20"#.parse()?);
/// headers.insert("retry-after", "20".parse()?);
/// let hint = ServerHint::from_headers(&headers, SystemTime::now());
/// assert_eq!(hint.retry_after, Some(Duration::from_secs(20)));
/// assert_eq!((hint.limits[0].remaining, hint.limits[0].quota), (7, Some(100)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerHint {
    /// The time to wait before the next request, from `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The state of each limit, from `RateLimit`, or if it is absent from `X-RateLimit-*` or `RateLimit-*`.
    pub limits: ArrayVec<LimitHint, MAX_LIMITS>,
}

/// The state of one limit of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitHint {
    /// The hash of its name; 0 if it has none. A field of another limit must not be taken for the next state of this
    /// one.
    pub name: u64,
    /// What remains of it.
    pub remaining: u64,
    /// The time until more of it is available.
    pub reset: Option<Duration>,
    /// The whole limit.
    pub quota: Option<u64>,
    /// The time for which it is granted.
    pub window: Option<Duration>,
}

impl ServerHint {
    /// Reads the fields of a response. `now` is used for dates if the response has no `Date`.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap, now: SystemTime) -> ServerHint {
        ServerHint::from_headers_at(headers, || now)
    }

    /// Reads the fields of a response. Few of them need the time, and reading a clock takes as long as the fields.
    pub(super) fn from_headers_at(headers: &HeaderMap, now: impl Fn() -> SystemTime) -> ServerHint {
        let clock = ServerClock { headers, now };
        let retry_after = longest(headers, &header::RETRY_AFTER, |value| clock.retry_after(value));
        let mut limits = structured(headers);
        if limits.is_empty() {
            limits.extend(OLDER.iter().find_map(|names| older(headers, names, &clock)));
        }
        ServerHint { retry_after, limits }
    }

    /// Whether no field says anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.retry_after.is_none() && self.limits.is_empty()
    }
}

/// Reads `RateLimit`, and the policies of the same names in `RateLimit-Policy`.
fn structured(headers: &HeaderMap) -> ArrayVec<LimitHint, MAX_LIMITS> {
    let mut limits = ArrayVec::new();
    for line in headers.get_all(RATELIMIT).iter().take(MAX_LINES) {
        for item in list_items(line.as_bytes()) {
            if let Some(limit) = state_of(&item)
                && limits.try_push(limit).is_err()
            {
                break;
            }
        }
    }
    if !limits.is_empty() {
        for line in headers.get_all(RATELIMIT_POLICY).iter().take(MAX_LINES) {
            list_items(line.as_bytes()).for_each(|item| add_policy(&item, &mut limits));
        }
    }
    limits
}

fn state_of(item: &ListItem<'_>) -> Option<LimitHint> {
    let reset = item.integer(b't').map(seconds);
    let remaining = item.integer(b'r')?.min(MAX_COUNT);
    Some(LimitHint { name: item.name_hash(), remaining, reset, quota: None, window: None })
}

fn add_policy(item: &ListItem<'_>, limits: &mut [LimitHint]) {
    let Some(quota) = item.integer(b'q').filter(|quota| *quota > 0) else { return };
    let name = item.name_hash();
    for limit in limits.iter_mut().filter(|limit| limit.name == name && limit.quota.is_none()) {
        limit.quota = Some(quota.min(MAX_COUNT));
        limit.window = item.integer(b'w').filter(|window| *window > 0).map(seconds);
    }
}

/// Reads a limit from three fields. If a field has several lines, the one with the least permission counts.
fn older(
    headers: &HeaderMap,
    [limit, remaining, reset]: &[HeaderName; 3],
    clock: &ServerClock<'_, impl Fn() -> SystemTime>,
) -> Option<LimitHint> {
    let numbers = |name| lines(headers, name).filter_map(leading_number);
    let remaining = numbers(remaining).min()?.min(MAX_COUNT);
    let quota = numbers(limit).filter(|quota| *quota > 0).min().map(|quota| quota.min(MAX_COUNT));
    let reset = longest(headers, reset, |value| clock.reset(value));
    Some(LimitHint { name: 0, remaining, reset, quota, window: None })
}

/// The clock of the server, by which its dates count.
struct ServerClock<'a, Now> {
    headers: &'a HeaderMap,
    now: Now,
}

impl<Now: Fn() -> SystemTime> ServerClock<'_, Now> {
    /// The server's time when it sent the response. If this clock and ours differ, a date from the same server is only
    /// right by its own.
    fn now(&self) -> SystemTime {
        self.headers.get(header::DATE).and_then(date).unwrap_or_else(&self.now)
    }

    fn retry_after(&self, value: &HeaderValue) -> Option<Duration> {
        let until = |date: SystemTime| date.duration_since(self.now()).ok();
        decimal_seconds(value).or_else(|| until(date(value)?)).map(bounded)
    }

    fn reset(&self, value: &HeaderValue) -> Option<Duration> {
        let value = decimal_seconds(value)?;
        let number = value.as_secs();
        if number < FIRST_EPOCH_S {
            return Some(bounded(value));
        }
        let since_1970 = if number < FIRST_EPOCH_MS { value } else { Duration::from_millis(number) };
        let now = self.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since_1970.checked_sub(now).map(bounded)
    }
}

fn date(value: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(value.to_str().ok()?.trim()).ok()
}

fn lines<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a HeaderValue> {
    headers.get_all(name).iter().take(MAX_LINES)
}

/// Returns the longest time of the lines of a field.
fn longest(
    headers: &HeaderMap,
    name: &HeaderName,
    read: impl Fn(&HeaderValue) -> Option<Duration>,
) -> Option<Duration> {
    lines(headers, name).filter_map(read).max()
}

/// Reads the number at the start: the first drafts of the standard append policies, as `100, 100;w=60`.
fn leading_number(value: &HeaderValue) -> Option<u64> {
    let text = value.as_bytes().trim_ascii();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let ends = text.get(digits).is_none_or(|next| b",;. ".contains(next));
    if ends { saturating_number(&text[..digits]) } else { None }
}

/// Reads seconds, also with a fraction, which some servers send.
fn decimal_seconds(value: &HeaderValue) -> Option<Duration> {
    let text = value.as_bytes().trim_ascii();
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let whole = saturating_number(&text[..point])?;
    let Some(fraction) = text.get(point + 1..) else { return Some(Duration::from_secs(whole)) };
    if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nanos = (0..9).fold(0, |nanos, at| nanos * 10 + u32::from(fraction.get(at).map_or(0, |digit| digit - b'0')));
    Some(Duration::new(whole, nanos))
}

/// Reads digits. A number that is too large is the largest.
pub(super) fn saturating_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0_u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number.min(MAX_SPAN_S))
}

fn bounded(span: Duration) -> Duration {
    span.min(Duration::from_nanos(MAX_SPAN_S * S_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_700_000_000;

    fn read(fields: &[(&'static str, &[u8])]) -> ServerHint {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        }
        ServerHint::from_headers(&headers, UNIX_EPOCH + Duration::from_secs(NOW_S))
    }

    fn retry_after_s(value: &str) -> Option<u64> {
        read(&[("retry-after", value.as_bytes())]).retry_after.map(|span| span.as_secs())
    }

    fn reset_s(value: &str) -> Option<u64> {
        let fields = [("x-ratelimit-remaining", &b"3"[..]), ("x-ratelimit-reset", value.as_bytes())];
        read(&fields).limits[0].reset.map(|span| span.as_secs())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after_s("120"), Some(120));
        assert_eq!(retry_after_s(" 1.5 "), Some(1));
        assert_eq!(retry_after_s("Tue, 14 Nov 2023 22:13:50 GMT"), Some(30));
        assert_eq!(retry_after_s("Tuesday, 14-Nov-23 22:13:50 GMT"), Some(30));
        assert_eq!(retry_after_s("Tue Nov 14 22:13:50 2023"), Some(30));
    }

    #[test]
    fn date_counts_by_the_clock_of_the_server() {
        // The server's clock is ten minutes ahead of ours.
        let fields: [(_, &[u8]); 2] =
            [("date", b"Tue, 14 Nov 2023 22:23:20 GMT"), ("retry-after", b"Tue, 14 Nov 2023 22:23:50 GMT")];
        assert_eq!(read(&fields).retry_after, Some(Duration::from_secs(30)));
    }

    #[test]
    fn hostile_retry_after_is_bounded_or_ignored() {
        let year_s = MAX_SPAN_S;
        for (value, expected) in [
            ("99999999999999999999999999999999", Some(year_s)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(year_s)),
            ("0", Some(0)),
            ("-1", None),
            ("+5", None),
            ("", None),
            ("1e9", None),
            ("1.", None),
            (".5", None),
            ("Thu, 01 Jan 1970 00:00:00 GMT", None),
            ("Mon, 01 Jan 1600 00:00:00 GMT", None),
            ("never", None),
        ] {
            assert_eq!(retry_after_s(value), expected, "{value}");
        }
        assert_eq!(read(&[("retry-after", b"\xff\xfe")]).retry_after, None);
    }

    #[test]
    fn longest_of_several_lines_counts() {
        let hint =
            read(&[("retry-after", b"3"), ("retry-after", b"\xff"), ("retry-after", b"7"), ("retry-after", b"-9")]);
        assert_eq!(hint.retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn structured_fields_are_joined_by_name() {
        let hint = read(&[
            ("ratelimit-policy", br#""burst";q=100;w=60;qu="requests""#),
            ("ratelimit-policy", br#""day, \"all\"";q=1000;w=86400"#),
            ("ratelimit", br#""day, \"all\"";r=999;t=50, "burst";r=5;pk=:YQ==:;t=2"#),
            ("x-ratelimit-remaining", b"0"),
        ]);
        let limits: Vec<_> = hint
            .limits
            .iter()
            .map(|limit| (limit.remaining, limit.quota, limit.reset.map(|span| span.as_secs())))
            .collect();
        assert_eq!(limits, [(999, Some(1000), Some(50)), (5, Some(100), Some(2))]);
        assert_eq!(hint.limits[1].window, Some(Duration::from_secs(60)));
        assert_ne!(hint.limits[0].name, hint.limits[1].name);
    }

    #[test]
    fn reset_is_seconds_from_now_or_since_1970() {
        assert_eq!(reset_s("30"), Some(30));
        assert_eq!(reset_s(&(NOW_S + 30).to_string()), Some(30));
        assert_eq!(reset_s(&((NOW_S + 30) * 1000).to_string()), Some(30));
        assert_eq!(reset_s(&format!("{}.250", NOW_S + 30)), Some(30));
        assert_eq!(reset_s(&(NOW_S - 30).to_string()), None);
        assert_eq!(reset_s("999999999"), Some(MAX_SPAN_S));
        assert_eq!(reset_s("99999999999999999999999999"), Some(MAX_SPAN_S));
        assert_eq!(reset_s("-30"), None);
    }

    #[test]
    fn older_fields_are_read_in_both_spellings() {
        for [limit, remaining, reset] in [
            ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
            ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
        ] {
            let hint = read(&[(limit, b"100, 100;w=10"), (remaining, b"42"), (reset, b"7")]);
            let expected = LimitHint {
                name: 0,
                remaining: 42,
                reset: Some(Duration::from_secs(7)),
                quota: Some(100),
                window: None,
            };
            assert_eq!(&hint.limits[..], [expected]);
        }
    }

    #[test]
    fn least_remaining_of_several_lines_counts() {
        let hint = read(&[
            ("x-ratelimit-remaining", b"9"),
            ("x-ratelimit-remaining", b"4"),
            ("x-ratelimit-remaining", b"x"),
            ("x-ratelimit-reset", b"2"),
            ("x-ratelimit-reset", b"5"),
        ]);
        assert_eq!((hint.limits[0].remaining, hint.limits[0].reset), (4, Some(Duration::from_secs(5))));
    }

    #[test]
    fn invalid_fields_say_nothing() {
        assert!(read(&[]).is_empty());
        for value in [&br#""a""#[..], br#""a";r=-1"#, b"a;r", br#""a"#, b"\xff", b",,;;==", b"\"\\\"", b"()"] {
            assert!(read(&[("ratelimit", value)]).is_empty(), "{value:?}");
        }
        assert!(read(&[("x-ratelimit-remaining", b"-4"), ("x-ratelimit-limit", b"5")]).is_empty());
    }

    #[test]
    fn number_of_limits_is_bounded() {
        let many = (0..10_000).map(|at| format!("\"{at}\";r={at}")).collect::<Vec<_>>().join(",");
        assert_eq!(read(&[("ratelimit", many.as_bytes())]).limits.len(), MAX_LIMITS);
    }

    /// Any text, numbers of any length, and items of lists.
    const VALUES: &str = "[ -~]{0,40}|[0-9]{0,30}|\"a\";[rtqw]=[0-9]{1,25};[rtqw]=[0-9]{1,25}";

    proptest::proptest! {
        #[test]
        fn no_bytes_exceed_the_bounds(
            lines in proptest::collection::vec((0..9_usize, VALUES), 0..12),
            now_s in 0..200_000_000_000_u64,
        ) {
            let newer = [RATELIMIT, RATELIMIT_POLICY, header::RETRY_AFTER];
            let names: Vec<HeaderName> = OLDER.into_iter().flatten().chain(newer).collect();
            let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).ok();
            let headers: HeaderMap =
                lines.iter().filter_map(|(at, text)| Some((names[*at].clone(), value(text)?))).collect();
            let hint = ServerHint::from_headers(&headers, UNIX_EPOCH + Duration::from_secs(now_s));
            let longest = Duration::from_secs(MAX_SPAN_S);
            assert!(hint.retry_after.is_none_or(|span| span <= longest));
            for limit in &hint.limits {
                assert!(limit.remaining <= MAX_COUNT);
                assert!(limit.quota.is_none_or(|quota| (1..=MAX_COUNT).contains(&quota)));
                assert!([limit.reset, limit.window].iter().flatten().all(|span| *span <= longest));
            }
        }
    }
}
