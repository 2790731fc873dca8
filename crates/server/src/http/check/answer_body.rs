//! A verdict as callers read it.
//!
//! It is written by hand: every check is answered so, and a serialiser takes
//! longer to look for what must be escaped in the names of members than the
//! decision took.

use std::ops::Range;

use tollgate::{Action, Decision, Verdict};

use crate::receipts::ReceiptName;

const MS_NS: u64 = 1_000_000;

/// What is said up to the wait where there is no limit.
const NO_STANDING: &str = r#","limit":null,"remaining":null,"reset_after_ms":null,"retry_after_ms":"#;

/// Writes an answer behind what is there. Where no rule decided, there is no limit to tell.
pub(in crate::http) fn write(out: &mut Vec<u8>, verdict: &Verdict, receipt: Option<ReceiptName>) {
    let mut json = Json::new(out);
    match verdict.action() {
        // Nearly every answer begins so.
        Action::Allow => json.raw(r#"{"allowed":true,"action":"allow","rule":"#),
        action => {
            let allowed =
                if action.is_allowed() { r#"{"allowed":true,"action":"# } else { r#"{"allowed":false,"action":"# };
            json.raw(allowed).word(action.name()).raw(r#","rule":"#)
        }
    };
    let deciding = verdict.deciding();
    let mut standing = 0..0;
    match deciding {
        Some(state) => {
            json.word(verdict.rule_name(state));
            standing = write_standing(&mut json, &state.decision);
        }
        None => {
            // A rule that denies has a name and no limit.
            match verdict.rule() {
                Some(rule) => json.word(rule),
                None => json.raw("null"),
            };
            json.raw(NO_STANDING);
        }
    }
    json.number_or_null(verdict.retry_after().map(|wait| ms(wait.as_nanos())));
    if verdict.action() == Action::Delay {
        // How long the caller waits before it goes on.
        json.raw(r#","delay_ms":"#).number(ms(verdict.delay().as_nanos()));
    }
    json.raw(r#","source":"#).word(verdict.source().name());
    if let Some(receipt) = receipt {
        // With what to refund, settle or release it.
        json.raw(r#","receipt":"#).word(&receipt.to_string());
    }
    json.raw(r#","rules":["#);
    for (at, state) in verdict.states().iter().enumerate() {
        let decision = &state.decision;
        json.raw(if at == 0 { r#"{"rule":"# } else { r#",{"rule":"# }).word(verdict.rule_name(state));
        json.raw(if decision.is_allowed() { r#","allowed":true"# } else { r#","allowed":false"# });
        if deciding.is_some_and(|deciding| std::ptr::eq(deciding, state)) {
            // The same numbers, which take longer to write than to copy.
            json.again(standing.clone());
        } else {
            write_standing(&mut json, decision);
        }
        json.number_or_null(state.retry_after_ns().map(|wait_ns| ms(wait_ns.into())));
        json.raw(if state.shadow { r#","shadow":true}"# } else { r#","shadow":false}"# });
    }
    write_denials(&mut json, verdict);
    json.raw("]}");
}

/// Behind the rules with limits those that deny, shadows included.
fn write_denials(json: &mut Json<'_>, verdict: &Verdict) {
    let mut is_first = verdict.states().is_empty();
    for (rule, shadow) in verdict.denials() {
        let Some(rule) = verdict.policy().rules().get(rule) else { continue };
        json.raw(if std::mem::take(&mut is_first) { r#"{"rule":"# } else { r#",{"rule":"# }).word(&rule.name);
        json.raw(r#","allowed":false"#).raw(NO_STANDING);
        json.raw(if shadow { r#"null,"shadow":true}"# } else { r#"null,"shadow":false}"# });
    }
}

/// Writes how a limit stands, up to the wait, which a verdict and each of its rules have their own. Returns where.
#[inline]
fn write_standing(json: &mut Json<'_>, decision: &Decision) -> Range<usize> {
    let begun = json.written();
    json.raw(r#","limit":"#).number(decision.limit);
    json.raw(r#","remaining":"#).number(decision.remaining);
    json.raw(r#","reset_after_ms":"#).number_or_null(reset_after_ms(decision));
    json.raw(r#","retry_after_ms":"#);
    begun..json.written()
}

/// Nobody knows when a permit without a lease comes back.
fn reset_after_ms(decision: &Decision) -> Option<u64> {
    (decision.reset_after < u64::MAX).then(|| ms(decision.reset_after.into()))
}

/// Rounds up: who comes back after that many milliseconds does not come too early.
fn ms(ns: u128) -> u64 {
    match u64::try_from(ns) {
        // Nearly always, and divided far sooner.
        Ok(ns) => ns.div_ceil(MS_NS),
        Err(_) => u64::try_from(ns.div_ceil(MS_NS.into())).unwrap_or(u64::MAX),
    }
}

/// Writes JSON, piece by piece. Pieces are inlined: most are known where they
/// are written, and to call for a dozen bytes costs more than to copy them.
struct Json<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Json<'a> {
    fn new(out: &'a mut Vec<u8>) -> Json<'a> {
        Json { out }
    }

    /// What is JSON already.
    #[inline(always)]
    fn raw(&mut self, json: &str) -> &mut Json<'a> {
        self.out.extend_from_slice(json.as_bytes());
        self
    }

    /// How much is written.
    fn written(&self) -> usize {
        self.out.len()
    }

    /// What was written there before.
    fn again(&mut self, written: Range<usize>) -> &mut Json<'a> {
        self.out.extend_from_within(written);
        self
    }

    /// A string that has nothing to be escaped: names of rules and receipts, and words of our own.
    #[inline(always)]
    fn word(&mut self, word: &str) -> &mut Json<'a> {
        debug_assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{word}");
        self.raw("\"").raw(word).raw("\"")
    }

    fn number(&mut self, value: u64) -> &mut Json<'a> {
        self.raw(itoa::Buffer::new().format(value))
    }

    #[inline]
    fn number_or_null(&mut self, value: Option<u64>) -> &mut Json<'a> {
        match value {
            Some(value) => self.number(value),
            None => self.raw("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn numbers_words_and_what_is_absent() {
        let mut out = Vec::new();
        Json::new(&mut out).raw("[").number(u64::MAX).raw(",").number_or_null(None).raw(",").word("per-ip").raw("]");
        assert_eq!(String::from_utf8(out).unwrap(), r#"[18446744073709551615,null,"per-ip"]"#);
    }
}
