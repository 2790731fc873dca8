//! A verdict as text.

use serde_json::Value;

use crate::blocks::push_block;
use crate::workbench::table::{duration, grouped};

const MS_NS: u64 = 1_000_000;

pub(super) fn page(verdict: &Value) -> String {
    let mut page = String::new();
    push_block(&mut page, &heading(verdict), &lines(verdict));
    for rule in verdict["rules"].as_array().into_iter().flatten() {
        page.push('\n');
        push_block(&mut page, &rule_heading(rule), &limit_lines(rule));
    }
    page
}

fn heading(verdict: &Value) -> String {
    let by = verdict["rule"].as_str().map_or_else(String::new, |rule| format!(" by {rule}"));
    match verdict["action"].as_str().unwrap_or_default() {
        "allow" if verdict["rule"].is_null() => "allowed: no rule applies".to_owned(),
        "allow" => "allowed".to_owned(),
        "warn" => format!("allowed, with a warning{by}"),
        "delay" => format!("allowed after {}{by}", time(&verdict["delay_ms"]).unwrap_or_default()),
        "reject" => format!("refused{by}"),
        "block" => format!("blocked{by}"),
        "deny" => format!("denied{by}"),
        other => format!("{other}{by}"),
    }
}

fn lines(verdict: &Value) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(wait) = time(&verdict["retry_after_ms"]) {
        lines.push(("retry", format!("in {wait}")));
    }
    lines.extend(verdict["message"].as_str().map(|message| ("message", message.to_owned())));
    lines.extend(verdict["source"].as_str().map(|source| ("source", source.to_owned())));
    lines
}

fn rule_heading(rule: &Value) -> String {
    let name = rule["rule"].as_str().unwrap_or_default();
    let outcome = if rule["allowed"] == true { "allows" } else { "refuses" };
    match rule["shadow"] == true {
        false => format!("{name} {outcome}"),
        true if rule["allowed"] == true => format!("{name} would allow, as a shadow rule"),
        true => format!("{name} would refuse, as a shadow rule"),
    }
}

fn limit_lines(rule: &Value) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let (Some(remaining), Some(limit)) = (rule["remaining"].as_u64(), rule["limit"].as_u64()) {
        lines.push(("remaining", format!("{} of {}", grouped(remaining), grouped(limit))));
    }
    lines.extend(time(&rule["retry_after_ms"]).map(|wait| ("retry", format!("in {wait}"))));
    lines.extend(time(&rule["reset_after_ms"]).map(|wait| ("full again", format!("in {wait}"))));
    lines
}

/// Returns a number of milliseconds as a duration; `None` for null and 0.
fn time(ms: &Value) -> Option<String> {
    let ms = ms.as_u64().filter(|ms| *ms > 0)?;
    Some(duration(ms.saturating_mul(MS_NS)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusal_names_its_rule_and_the_wait() {
        let verdict = json!({
            "allowed": false, "action": "reject", "rule": "login", "retry_after_ms": 11_800, "source": "exact",
            "rules": [
                { "rule": "login", "allowed": false, "limit": 5, "remaining": 0, "reset_after_ms": 51_800,
                  "retry_after_ms": 11_800, "shadow": false },
                { "rule": "next", "allowed": false, "limit": 2_000, "remaining": 1_999, "reset_after_ms": null,
                  "retry_after_ms": null, "shadow": true },
            ],
        });
        let expected = "refused by login
  retry   in 11.8 s
  source  exact

login refuses
  remaining   0 of 5
  retry       in 11.8 s
  full again  in 51.8 s

next would refuse, as a shadow rule
  remaining  1,999 of 2,000
";
        assert_eq!(page(&verdict), expected);
    }

    #[test]
    fn heading_names_the_action() {
        let heading_of =
            |action: &str, rule: Value| heading(&json!({ "action": action, "rule": rule, "delay_ms": 250 }));
        assert_eq!(heading_of("allow", Value::Null), "allowed: no rule applies");
        assert_eq!(heading_of("allow", json!("a")), "allowed");
        assert_eq!(heading_of("delay", json!("a")), "allowed after 250 ms by a");
        assert_eq!(heading_of("deny", Value::Null), "denied");
        assert_eq!(heading_of("block", json!("a")), "blocked by a");
    }
}
