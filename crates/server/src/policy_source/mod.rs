//! The policy file as operators may see it, and the outcomes of reloads.

mod redaction;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::policy::CheckedPolicy;

use crate::observe::Timestamp;
use redaction::SecretValues;

/// The largest text that is kept. A longer one is cut.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// The most outcomes of reloads that are kept.
const MAX_OUTCOMES: usize = 8;

/// The longest message of an outcome.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// The file of the active policy, without credentials.
#[derive(Clone, Debug)]
pub struct PolicySource {
    pub(crate) name: String,
    pub(crate) text: PolicyText,
    /// The credentials of the policy, which messages must not show either.
    secrets: SecretValues,
}

/// What is shown of a policy's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PolicyText {
    /// The text, in which credentials are replaced.
    Shown { text: String, is_cut: bool },
    /// The text has credentials in a form that cannot be replaced reliably.
    Withheld,
}

/// The outcome of a reload.
#[derive(Clone, Debug)]
pub(crate) struct ReloadOutcome {
    pub(crate) time: Timestamp,
    pub(crate) done: bool,
    pub(crate) message: String,
}

/// The source of the active policy, and the recent reloads.
#[derive(Debug, Default)]
pub(crate) struct PolicyHistory(Mutex<HistoryState>);

#[derive(Clone, Debug, Default)]
pub(crate) struct HistoryState {
    pub(crate) source: Option<Arc<PolicySource>>,
    /// The newest first.
    pub(crate) outcomes: VecDeque<ReloadOutcome>,
}

impl PolicySource {
    /// Creates the source of a policy from the name and the text of its file. Credentials in the text are replaced at
    /// once, and not kept.
    #[must_use]
    pub fn new(name: &str, text: &str, policy: &CheckedPolicy) -> PolicySource {
        let secrets = SecretValues::of(policy);
        let text = match secrets.redacted(text) {
            Some(text) => PolicyText::Shown { is_cut: text.len() > MAX_TEXT_BYTES, text: cut(&text, MAX_TEXT_BYTES) },
            None => PolicyText::Withheld,
        };
        PolicySource { name: name.to_owned(), text, secrets }
    }
}

impl PolicyHistory {
    /// Sets the source of the active policy.
    pub(crate) fn set_source(&self, source: PolicySource) {
        self.lock().source = Some(Arc::new(source));
    }

    /// Records the outcome of a reload. The message may quote the file.
    pub(crate) fn note(&self, time: Timestamp, done: bool, message: &str) {
        let mut state = self.lock();
        let message = match &state.source {
            Some(source) => source.secrets.redacted_message(message),
            None => SecretValues::default().redacted_message(message),
        };
        state.outcomes.truncate(MAX_OUTCOMES - 1);
        state.outcomes.push_front(ReloadOutcome { time, done, message: cut(&message, MAX_MESSAGE_BYTES) });
    }

    pub(crate) fn state(&self) -> HistoryState {
        self.lock().clone()
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, HistoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cut(text: &str, max_bytes: usize) -> String {
    text[..text.floor_char_boundary(max_bytes)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_bounded_and_the_newest_is_first() {
        let history = PolicyHistory::default();
        for at in 0..20 {
            history.note(Timestamp(at), at % 2 == 0, &"é".repeat(MAX_MESSAGE_BYTES));
        }
        let state = history.state();
        assert_eq!((state.outcomes.len(), state.outcomes[0].time, state.outcomes[0].done), (8, Timestamp(19), false));
        assert!(state.outcomes.iter().all(|outcome| outcome.message.len() <= MAX_MESSAGE_BYTES));
    }
}
