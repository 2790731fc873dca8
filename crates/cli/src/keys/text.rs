//! The state of keys as text.

use serde_json::Value;

use crate::blocks::push_block;
use crate::workbench::table::{duration, grouped, table};

const MS_NS: u64 = 1_000_000;

/// Returns the counters of a key.
pub(super) fn key(answer: &Value) -> String {
    let mut page = String::new();
    let mut lines = vec![("key", text(&answer["key"])), ("client in logs", text(&answer["client"]))];
    if let Some(violations) = answer["violations"].as_u64() {
        lines.push(("violations", grouped(violations)));
    }
    if let Some(ms) = answer["blocked_for_ms"].as_u64() {
        lines.push(("blocked", format!("for {}", time(ms))));
    }
    if answer["override"].is_object() {
        lines.push(("override", override_words(&answer["override"])));
    }
    push_block(&mut page, &text(&answer["rule"]), &lines);
    for counter in answer["counters"].as_array().into_iter().flatten() {
        page.push('\n');
        push_block(&mut page, &counter_heading(counter), &counter_lines(counter));
    }
    page
}

fn counter_heading(counter: &Value) -> String {
    let of = match counter["of"].as_str().unwrap_or_default() {
        "tier" => format!(" (tier {})", text(&counter["which"])),
        "override" => format!(" (override for {})", text(&counter["which"])),
        "hand" => " (override by an operator)".to_owned(),
        _ => String::new(),
    };
    format!("{}, {}{of}", text(&counter["limit"]), text(&counter["algorithm"]))
}

fn counter_lines(counter: &Value) -> Vec<(&'static str, String)> {
    let number = |name: &str| counter[name].as_u64().map(grouped);
    let mut lines = Vec::new();
    lines.extend(number("used").map(|used| ("used", used)));
    if let (Some(remaining), Some(most)) = (number("remaining"), number("most")) {
        lines.push(("remaining", format!("{remaining} of {most}")));
    }
    lines.extend(number("held").map(|held| ("held permits", held)));
    lines.extend(
        counter["reset_after_ms"].as_u64().filter(|ms| *ms > 0).map(|ms| ("full again", format!("in {}", time(ms)))),
    );
    lines
}

/// Returns the sentence about a new override.
pub(super) fn overridden(answer: &Value) -> String {
    let key = text(&answer["key"]);
    let key = if key.is_empty() { String::new() } else { format!(" {key}") };
    format!("{}{key} has the limit {}\n", text(&answer["rule"]), override_words(answer))
}

/// Returns the list of overrides.
pub(super) fn overrides(answer: &Value) -> String {
    let overrides = answer["overrides"].as_array().map(Vec::as_slice).unwrap_or_default();
    if overrides.is_empty() {
        return "no override is in effect\n".to_owned();
    }
    let mut rows = vec![["rule", "key", "limit", "until"].map(str::to_owned).to_vec()];
    rows.extend(overrides.iter().map(|set| ["rule", "key", "limit", "until"].map(|name| text(&set[name])).to_vec()));
    table(&rows, 4)
}

fn override_words(set: &Value) -> String {
    format!("{} until {}", text(&set["limit"]), text(&set["until"]))
}

/// Returns the text of a member. Keys come from requests: control characters are replaced.
fn text(value: &Value) -> String {
    crate::workbench::table::printable(value.as_str().unwrap_or_default())
}

fn time(ms: u64) -> String {
    duration(ms.saturating_mul(MS_NS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn key_has_a_block_for_each_counter() {
        let answer = json!({
            "rule": "per-ip", "key": "203.0.113.9", "client": "c-1", "violations": 3, "blocked_for_ms": 61_000,
            "override": { "limit": "9/s", "until": "2026-01-01T00:00:00Z" },
            "counters": [{
                "name": "per-ip", "of": "tier", "which": "pro", "limit": "200/min", "algorithm": "token-bucket",
                "used": 7, "remaining": 193, "most": 200, "held": null, "reset_after_ms": 2_100,
            }],
        });
        let expected = "per-ip
  key             203.0.113.9
  client in logs  c-1
  violations      3
  blocked         for 1 min 1 s
  override        9/s until 2026-01-01T00:00:00Z

200/min, token-bucket (tier pro)
  used        7
  remaining   193 of 200
  full again  in 2.1 s
";
        assert_eq!(key(&answer), expected);
    }

    #[test]
    fn overrides_are_a_table() {
        let set = json!({ "rule": "per-ip", "key": "a\u{1b}", "limit": "9/s", "until": "x" });
        assert_eq!(overrides(&json!({ "overrides": [] })), "no override is in effect\n");
        let list = overrides(&json!({ "overrides": [set] }));
        assert!(list.contains("per-ip") && list.contains('\u{fffd}') && !list.contains('\u{1b}'), "{list}");
    }
}
