//! A refusal as problem details (RFC 9457).

use super::date::rfc3339;
use super::json::Object;
use crate::verdict::{Action, RuleState, Verdict};

/// The media type of [`Verdict::problem_json`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The value of `WWW-Authenticate` beside the status 401 (RFC 6750).
pub const INVALID_TOKEN: &str = "Bearer error=\"invalid_token\"";

/// What a client with a token that cannot be used is told. Why it cannot is for operators: an attacker could use it.
pub(crate) const TOKEN_IS_UNUSABLE: &str = "the token cannot be used";

const REGISTRY: &str = "https://iana.org/assignments/http-problem-types#";
/// What a refusal says that was counted here, while the store that counts for all did not answer.
pub(crate) const SHARE_IS_SPENT: &str =
    "capacity is reduced for a time, and this instance's share of the limit is reached";

/// What a request is told that a list denies for who sends it, and one that a rule denies.
pub(crate) const CLIENT_DENIED: &str = "requests from here are not accepted";
pub(crate) const REQUEST_DENIED: &str = "this request is not accepted";

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000_000_000;

impl Verdict {
    /// The body of a refusal, of the type [`PROBLEM_JSON`]. It names what the policy publishes.
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
            _ if self.is_trouble() => (Some("temporary-reduced-capacity"), "Temporarily reduced capacity"),
            _ => (Some("quota-exceeded"), "Too many requests"),
        }
    }

    fn detail(&self, jitter_ns: u64) -> String {
        let what = match self.action {
            Action::Deny if self.is_unauthorized() => return TOKEN_IS_UNUSABLE.to_owned(),
            Action::Deny if self.denied_by().is_some() => return REQUEST_DENIED.to_owned(),
            Action::Deny => return CLIENT_DENIED.to_owned(),
            Action::Block => "too many requests beyond the limit",
            _ if self.is_uncounted() => "the request could not be counted",
            _ if self.is_trouble() => SHARE_IS_SPENT,
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

    /// To come back would not help.
    fn never(&self) -> String {
        match self.told_state() {
            Some(state) => {
                let limit = state.decision.limit;
                format!("the request costs more than the limit of {limit} can ever let pass; ask for less at once")
            }
            None => "the request costs more than the limit can ever let pass; ask for less at once".to_owned(),
        }
    }

    /// The names of the limits that refuse, as far as clients may know them.
    fn violated(&self) -> impl Iterator<Item = &str> {
        let deciding = self.told_state();
        let refuses = move |state: &&RuleState| {
            let publish = self.policy.rules[state.rule as usize].publish;
            publish && (!state.decision.is_allowed() || deciding == Some(*state))
        };
        self.states.iter().filter(refuses).map(|state| self.limit_name(state))
    }
}
