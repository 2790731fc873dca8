use crate::problem::{Place, Problem};

/// More are not looked for: nobody reads them.
const MAX_PROBLEMS: usize = 200;

/// What has been found so far.
#[derive(Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    /// An empty hint is none.
    pub(super) fn add(
        &mut self,
        code: &'static str,
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if !self.is_full() {
            let hint = Some(hint.into()).filter(|hint| !hint.is_empty());
            self.0.push(Problem { code, place, message: message.into(), hint });
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MAX_PROBLEMS
    }

    pub(super) fn into_list(self) -> Vec<Problem> {
        self.0
    }
}
