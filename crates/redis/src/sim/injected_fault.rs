/// A mistake that a seeded test injects in order to see that it finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// What may have been carried out is sent again.
    RetryUnknown,
    /// Where another slot refuses, what was charged is kept.
    ForgetRefund,
    /// What was charged for somebody who has given up is kept.
    KeepLateCharge,
    /// A refusal is believed longer than it holds.
    RememberTooLong,
    /// A refusal that is remembered answers as if every request cost 1.
    AnswerForAnotherCost,
    /// A refusal is remembered where violations are counted.
    RememberWhereCounted,
    /// A refusal is believed although this instance gave something back.
    RememberAcrossRefund,
    /// A debt whose payment may have arrived is paid again.
    DoubleDebt,
    /// A debt stays a debt after it was sent.
    KeepDebt,
    /// Of those who travelled together, the last is given the first one's answer.
    SwapJoinedAnswers,
    /// What is given back is sent again although it may have arrived.
    ResendUnknownRefund,
    /// What is given back is not sent again although it certainly did not arrive.
    NeverResendRefund,
    /// An instance alone lets the whole limit pass.
    WholeLimitInFallback,
    /// Nobody gives up.
    NoDeadline,
    /// A shard that failed is never probed.
    NeverProbe,
    /// Of several slots, one that lets it pass is enough.
    OneSlotIsEnough,
    /// A server carries out a call that has expired.
    RunExpired,
    /// A lease that is known to be lost is renewed all the same.
    ForgetLostLease,
}
