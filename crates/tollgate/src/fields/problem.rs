//! Problem details (RFC 9457) of a refusal.

use std::fmt::Write;

use crate::verdict::{Action, RuleState, Verdict};

/// The media type of [`Verdict::problem_json`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The value of `WWW-Authenticate` beside the status 401 (RFC 6750).
pub const INVALID_TOKEN: &str = "Bearer error=\"invalid_token\"";

/// The detail for a token that is not usable. The reason is for operators only: an attacker could use it.
pub(crate) const TOKEN_IS_UNUSABLE: &str = "the token cannot be used";

const REGISTRY: &str = "https://iana.org/assignments/http-problem-types#";
/// The detail of a refusal by this instance's share while the shared store is unreachable.
pub(crate) const SHARE_IS_SPENT: &str =
    "capacity is reduced for a time, and this instance's share of the limit is reached";

/// The details of a request that a list denies, and of one that a rule denies.
pub(crate) const CLIENT_DENIED: &str = "requests from here are not accepted";
pub(crate) const REQUEST_DENIED: &str = "this request is not accepted";

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000_000_000;

impl Verdict {
    /// Returns the body of a refusal, of the media type [`PROBLEM_JSON`]. It names only limits that the policy
    /// publishes.
    #[must_use]
    pub fn problem_json(&self) -> String {
        let (kind, title) = self.kind_and_title();
        let jitter_ns = self.jitter_ns();
        let mut object = Object::new();
        match kind {
            Some(kind) => object.text("type", &format!("{REGISTRY}{kind}")),
            None => object.text("type", "about:blank"),
        }
        object.text("title", title);
        object.number("status", u64::from(self.status()));
        object.text("detail", &self.detail(jitter_ns));
        if self.action != Action::Deny {
            object.texts("violated-policies", self.violated());
        }
        if let Some(rule) = self.denied_by().filter(|rule| self.policy.rules[*rule].publish) {
            object.text("rule", &self.policy().rules()[rule].name);
        }
        if let Some(state) = self.told_state() {
            object.text("rule", self.rule_name(state));
            if let Some(tier) = self.tier(state) {
                object.text("tier", tier);
            }
            object.number("limit", state.decision.limit);
            if state.decision.reset_after < u64::MAX {
                let reset_ns = self.now_ns.saturating_add(state.decision.reset_after);
                object.text("reset_at", &rfc3339(reset_ns.div_ceil(S_NS)));
            }
        }
        if let Some(retry_ns) = self.retry_after_ns() {
            object.number("retry_after_ms", retry_ns.saturating_add(jitter_ns).div_ceil(MS_NS));
        }
        object.finish()
    }

    fn kind_and_title(&self) -> (Option<&'static str>, &'static str) {
        match self.action {
            Action::Deny if self.is_unauthorized() => (None, "Unauthorized"),
            Action::Deny => (None, "Forbidden"),
            Action::Block => (Some("abnormal-usage-detected"), "Blocked for a time"),
            _ if self.is_store_failure() => (Some("temporary-reduced-capacity"), "Temporarily reduced capacity"),
            _ => (Some("quota-exceeded"), "Too many requests"),
        }
    }

    fn detail(&self, jitter_ns: u64) -> String {
        if let Some(message) = self.message() {
            return message.to_owned();
        }
        let what = match self.action {
            Action::Deny if self.is_unauthorized() => return TOKEN_IS_UNUSABLE.to_owned(),
            Action::Deny if self.denied_by().is_some() => return REQUEST_DENIED.to_owned(),
            Action::Deny => return CLIENT_DENIED.to_owned(),
            Action::Block => "too many requests beyond the limit",
            _ if self.is_uncounted() => "the request could not be counted",
            _ if self.is_store_failure() => SHARE_IS_SPENT,
            _ if self.is_impossible() => return self.never(),
            _ => "the limit is reached",
        };
        let about = if self.estimated_retry_ns().is_some() { "about " } else { "" };
        match self.retry_after_s(jitter_ns) {
            Some(1) => format!("{what}; try again in {about}1 second"),
            Some(seconds) => format!("{what}; try again in {about}{seconds} seconds"),
            None => what.to_owned(),
        }
    }

    /// Returns the detail of a request that can never pass.
    fn never(&self) -> String {
        match self.told_state() {
            Some(state) => {
                let limit = state.decision.limit;
                format!("the request costs more than the limit of {limit} can ever let pass; ask for less at once")
            }
            None => "the request costs more than the limit can ever let pass; ask for less at once".to_owned(),
        }
    }

    /// Returns the names of the published limits that refuse.
    fn violated(&self) -> impl Iterator<Item = &str> {
        let deciding = self.told_state();
        let refuses = move |state: &&RuleState| {
            let publish = self.policy.rules[state.rule as usize].publish;
            publish && (!state.decision.is_allowed() || deciding == Some(*state))
        };
        self.states.iter().filter(refuses).map(|state| self.limit_name(state))
    }
}

/// Writes a JSON object member by member.
struct Object(String);

impl Object {
    fn new() -> Object {
        Object(String::from("{"))
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        quoted(&mut self.0, value);
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        let _ = write!(self.0, "{value}");
    }

    fn texts<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a str>) {
        self.name(name);
        self.0.push('[');
        for (at, value) in values.enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            quoted(&mut self.0, value);
        }
        self.0.push(']');
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        quoted(&mut self.0, name);
        self.0.push(':');
    }
}

fn quoted(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                json.push('\\');
                json.push(c);
            }
            c if c < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
}

/// Formats a time as RFC 3339 in whole seconds, UTC.
fn rfc3339(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Returns the date of a day since 1970-01-01. Years begin in March, so that the day of a leap year is the last of its
/// year; 400 years have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let since_0000_03_01 = days + 719_468;
    let era = since_0000_03_01 / 146_097;
    let day_of_era = since_0000_03_01 % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Five months from March on have 153 days, and so have the next five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn dates_are_right() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (unix_s, text) in cases {
            assert_eq!(rfc3339(unix_s), text);
        }
    }
}
