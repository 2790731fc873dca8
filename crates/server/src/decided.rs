use tollgate::{Action, Request, RuleState, Verdict};

use crate::front_end::FrontEnd;

/// A decision, read once for all who count it or look at it.
#[derive(Clone, Copy)]
pub(crate) struct Decided<'a> {
    pub(crate) front_end: FrontEnd,
    pub(crate) request: &'a Request<'a>,
    pub(crate) verdict: &'a Verdict,
    pub(crate) action: Action,
    /// How the rule stands that decided.
    pub(crate) deciding: Option<&'a RuleState>,
    /// The rule that denies, by its position: it decides, and has no limit that could stand anyhow.
    pub(crate) denied_by: Option<usize>,
    /// How each rule stands that was met.
    pub(crate) states: &'a [RuleState],
    /// It is refused because the store could not count it.
    pub(crate) is_uncounted: bool,
}

/// Which limits refuse a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusedBy {
    /// Any limit does, shadow rules included.
    pub(crate) any: bool,
    /// A shadow rule does.
    pub(crate) shadow: bool,
}

impl<'a> Decided<'a> {
    #[inline]
    pub(crate) fn new(front_end: FrontEnd, request: &'a Request<'a>, verdict: &'a Verdict) -> Decided<'a> {
        let (action, deciding, states) = (verdict.action(), verdict.deciding(), verdict.states());
        let is_uncounted = action == Action::Reject && verdict.is_uncounted();
        let denied_by = if action == Action::Deny { verdict.denied_by() } else { None };
        Decided { front_end, request, verdict, action, deciding, denied_by, states, is_uncounted }
    }
}
