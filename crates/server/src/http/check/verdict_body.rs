//! A verdict as JSON.
//!
//! Written without a serializer: every check needs it, and a serializer takes longer to search member names for characters
//! to escape than the decision takes.

use std::ops::Range;

use tollgate::quota::Decision;
use tollgate::{Action, Verdict};

use crate::receipts::ReceiptName;

const MS_NS: u64 = 1_000_000;

/// The members up to the wait, without a limit.
const NO_LIMIT_STATE: &str = r#","limit":null,"remaining":null,"reset_after_ms":null,"retry_after_ms":"#;

/// Appends a response. If no rule decided, the members of the limit are null.
pub(in crate::http) fn write(out: &mut Vec<u8>, verdict: &Verdict, receipt: Option<ReceiptName>) {
    let mut json = JsonWriter::new(out);
    match verdict.action() {
        // Nearly every response begins like this.
        Action::Allow => json.raw(r#"{"allowed":true,"action":"allow","rule":"#),
        action => {
            let allowed =
                if action.is_allowed() { r#"{"allowed":true,"action":"# } else { r#"{"allowed":false,"action":"# };
            json.raw(allowed).word(action.name()).raw(r#","rule":"#)
        }
    };
    let deciding = verdict.deciding();
    let mut limit_state = 0..0;
    match deciding {
        Some(state) => {
            json.word(verdict.rule_name(state));
            limit_state = write_limit_state(&mut json, &state.decision);
        }
        None => {
            // A rule that denies has a name but no limit.
            match verdict.rule() {
                Some(rule) => json.word(rule),
                None => json.raw("null"),
            };
            json.raw(NO_LIMIT_STATE);
        }
    }
    json.number_or_null(verdict.retry_after().map(|wait| ms(wait.as_nanos())));
    if verdict.action() == Action::Delay {
        // How long the caller must wait before it proceeds.
        json.raw(r#","delay_ms":"#).number(ms(verdict.delay().as_nanos()));
    }
    json.raw(r#","source":"#).word(verdict.source().name());
    if let Some(message) = verdict.message() {
        json.raw(r#","message":"#).text(message);
    }
    if let Some(receipt) = receipt {
        // To refund, settle or release the request.
        json.raw(r#","receipt":"#).word(&receipt.to_string());
    }
    json.raw(r#","rules":["#);
    for (at, state) in verdict.states().iter().enumerate() {
        let decision = &state.decision;
        json.raw(if at == 0 { r#"{"rule":"# } else { r#",{"rule":"# }).word(verdict.rule_name(state));
        json.raw(if decision.is_allowed() { r#","allowed":true"# } else { r#","allowed":false"# });
        if deciding.is_some_and(|deciding| std::ptr::eq(deciding, state)) {
            // The same numbers, which are copied faster than formatted.
            json.copy(limit_state.clone());
        } else {
            write_limit_state(&mut json, decision);
        }
        json.number_or_null(state.retry_after_ns().map(|wait_ns| ms(wait_ns.into())));
        json.raw(if state.shadow { r#","shadow":true}"# } else { r#","shadow":false}"# });
    }
    write_denials(&mut json, verdict);
    json.raw("]}");
}

/// Appends the rules that deny, shadow rules included.
fn write_denials(json: &mut JsonWriter<'_>, verdict: &Verdict) {
    let mut is_first = verdict.states().is_empty();
    for (rule, shadow) in verdict.denials() {
        let Some(rule) = verdict.policy().rules().get(rule) else { continue };
        json.raw(if std::mem::take(&mut is_first) { r#"{"rule":"# } else { r#",{"rule":"# }).word(&rule.name);
        json.raw(r#","allowed":false"#).raw(NO_LIMIT_STATE);
        json.raw(if shadow { r#"null,"shadow":true}"# } else { r#"null,"shadow":false}"# });
    }
}

/// Writes the state of a limit, up to the wait, which a verdict and each of its rules have separately. Returns the
/// written range.
#[inline]
fn write_limit_state(json: &mut JsonWriter<'_>, decision: &Decision) -> Range<usize> {
    let begun = json.written();
    json.raw(r#","limit":"#).number(decision.limit);
    json.raw(r#","remaining":"#).number(decision.remaining);
    json.raw(r#","reset_after_ms":"#).number_or_null(reset_after_ms(decision));
    json.raw(r#","retry_after_ms":"#);
    begun..json.written()
}

/// Returns the time until reset; `None` for a permit without a lease, whose release time is unknown.
fn reset_after_ms(decision: &Decision) -> Option<u64> {
    (decision.reset_after < u64::MAX).then(|| ms(decision.reset_after.into()))
}

/// Rounds up, so that a retry after that time is not too early.
fn ms(ns: u128) -> u64 {
    match u64::try_from(ns) {
        // The common case, with a much faster division.
        Ok(ns) => ns.div_ceil(MS_NS),
        Err(_) => u64::try_from(ns.div_ceil(MS_NS.into())).unwrap_or(u64::MAX),
    }
}

/// Writes JSON piece by piece. Inlined: most pieces are constants, and a call costs more than copying a dozen bytes.
struct JsonWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> JsonWriter<'a> {
    fn new(out: &'a mut Vec<u8>) -> JsonWriter<'a> {
        JsonWriter { out }
    }

    /// Appends text that is already JSON.
    #[inline(always)]
    fn raw(&mut self, json: &str) -> &mut JsonWriter<'a> {
        self.out.extend_from_slice(json.as_bytes());
        self
    }

    /// Returns the length so far.
    fn written(&self) -> usize {
        self.out.len()
    }

    /// Appends a copy of an earlier range.
    fn copy(&mut self, written: Range<usize>) -> &mut JsonWriter<'a> {
        self.out.extend_from_within(written);
        self
    }

    /// Appends a string that needs no escaping: names of rules and receipts, and constants.
    #[inline(always)]
    fn word(&mut self, word: &str) -> &mut JsonWriter<'a> {
        debug_assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{word}");
        self.raw("\"").raw(word).raw("\"")
    }

    /// Appends a string of any characters.
    #[cold]
    fn text(&mut self, text: &str) -> &mut JsonWriter<'a> {
        let json = serde_json::to_string(text).unwrap_or_else(|error| unreachable!("strings are JSON: {error}"));
        self.raw(&json)
    }

    fn number(&mut self, value: u64) -> &mut JsonWriter<'a> {
        self.raw(itoa::Buffer::new().format(value))
    }

    #[inline]
    fn number_or_null(&mut self, value: Option<u64>) -> &mut JsonWriter<'a> {
        match value {
            Some(value) => self.number(value),
            None => self.raw("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::JsonWriter;

    #[test]
    fn numbers_words_and_nulls_are_written() {
        let mut out = Vec::new();
        JsonWriter::new(&mut out)
            .raw("[")
            .number(u64::MAX)
            .raw(",")
            .number_or_null(None)
            .raw(",")
            .word("per-ip")
            .raw("]");
        assert_eq!(String::from_utf8(out).unwrap(), r#"[18446744073709551615,null,"per-ip"]"#);
    }
}
