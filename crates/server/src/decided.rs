use tollgate::{Request, RuleState, Verdict};

use crate::front_end::FrontEnd;

/// A decision, for all who count it or look at it.
#[derive(Clone, Copy)]
pub(crate) struct Decided<'a> {
    pub(crate) front_end: FrontEnd,
    pub(crate) request: &'a Request<'a>,
    pub(crate) verdict: &'a Verdict,
    /// How the rule stands that decided.
    pub(crate) deciding: Option<&'a RuleState>,
}

/// Which limits refuse a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusedBy {
    /// Any limit does, shadow rules included.
    pub(crate) any: bool,
    /// A shadow rule does.
    pub(crate) shadow: bool,
}
