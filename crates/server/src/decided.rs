use tollgate::verdict::RuleState;
use tollgate::{Request, Verdict};

use crate::front_end::FrontEnd;

/// A decided request, as metrics and the observer receive it.
#[derive(Clone, Copy)]
pub(crate) struct DecidedRequest<'a> {
    pub(crate) front_end: FrontEnd,
    pub(crate) request: &'a Request<'a>,
    pub(crate) verdict: &'a Verdict,
    /// The state of the rule that decided.
    pub(crate) deciding: Option<&'a RuleState>,
}

/// Which kinds of limits refuse a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusedBy {
    /// Any limit refuses, shadow rules included.
    pub(crate) any: bool,
    /// A shadow rule refuses.
    pub(crate) shadow: bool,
}
