//! Faults that a seeded test injects, and the implementation of those outside the store: in its transport, its settings
//! and the options of its limits.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_store::{LimitOptions, OnFailure, Refusals};

use super::world::{Link, locked};
use crate::call::{Answer, Call, ScriptOp, ScriptReply};
use crate::store::{BreakerSettings, RedisStoreSettings};
use crate::transport::{CallError, CallResult, Cause, Done, Executed, Slot};

/// A fault that a seeded test injects to verify that it detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// A decision that may have been executed is resent.
    RetryUnknown,
    /// Charges are kept although another slot refused.
    ForgetRefund,
    /// Charges for a caller that has given up are kept.
    KeepLateCharge,
    /// A refusal is cached longer than it is valid.
    RememberTooLong,
    /// A cached refusal decides as if every request cost 1.
    AnswerForAnotherCost,
    /// A refusal is cached where violations are counted.
    RememberWhereCounted,
    /// A cached refusal is used although this instance made a refund.
    RememberAcrossRefund,
    /// A debt whose payment may have been executed is paid again.
    DoubleDebt,
    /// A debt remains after it was paid.
    KeepDebt,
    /// The callers of a batch get the answers in reverse order.
    SwapJoinedAnswers,
    /// A refund is resent although it may have been executed.
    ResendUnknownRefund,
    /// A refund is not resent although it was certainly not executed.
    NeverResendRefund,
    /// The fallback of an instance allows the whole limit.
    WholeLimitInFallback,
    /// Checks have no deadline.
    NoDeadline,
    /// A shard that failed is never probed.
    NeverProbe,
    /// A request passes if one of several slots lets it pass.
    OneSlotIsEnough,
    /// A server executes an expired call.
    RunExpired,
    /// A lease that is known to be lost is renewed.
    ForgetLostLease,
    /// Leased tokens are charged like spent ones, so that they refill while they are leased.
    RefillWhileLeased,
    /// Tokens reported as spent are charged as of the last change of their key.
    ReportsBeforeRefill,
    /// A call that returned tokens, or may have, is sent again.
    ResendReturn,
    /// A region uses a loan for a time instead of until the epoch ends.
    LoanByTime,
    /// A region takes back what it has lent before the epoch ends.
    EarlyReturn,
    /// Reports are accepted after their epoch, when loans have been computed from them.
    LateReports,
    /// A region does not know after a restart that it may have offered its share.
    ForgetOffer,
    /// A region in memory enforces its whole share at once after a start.
    FullStart,
    /// The larger rate holds while it is uncertain which epoch it is.
    LargerRateBetween,
    /// Time since a key was written counts at the present rate.
    RefillAtOneRate,
    /// A region changes its weights without the votes of the others.
    OwnWeights,
    /// A holder counts a lease twice.
    DoubleGrant,
    /// A settlement of a generation that has ended is applied to the current one.
    SettleAnyGeneration,
    /// A key's leases are dropped when its state expires.
    ValueEndsBeforeLeases,
    /// A holder spends a lease after its generation has ended.
    LeaseOutlivesGeneration,
}

/// Returns the settings that implement a fault.
pub(super) fn settings(fault: Option<InjectedFault>, settings: RedisStoreSettings) -> RedisStoreSettings {
    const NEVER: Duration = Duration::from_secs(3_600);
    match fault {
        Some(InjectedFault::NoDeadline) => RedisStoreSettings { deadline: Duration::from_secs(10), ..settings },
        Some(InjectedFault::NeverProbe) => {
            let breaker = BreakerSettings { first_pause: NEVER, longest_pause: NEVER, ..settings.breaker };
            RedisStoreSettings { breaker, ..settings }
        }
        _ => settings,
    }
}

/// Returns the options of a limit that implement a fault.
pub(super) fn options(fault: Option<InjectedFault>, options: LimitOptions) -> LimitOptions {
    match (fault, options.on_failure, options.refusals) {
        (Some(InjectedFault::WholeLimitInFallback), OnFailure::Local { .. }, _) => {
            LimitOptions { on_failure: OnFailure::Local { share: (1, 1) }, ..options }
        }
        (Some(InjectedFault::RememberWhereCounted), _, Refusals::Counted | Refusals::Guarded) => {
            LimitOptions { refusals: Refusals::Brief, ..options }
        }
        (Some(InjectedFault::RememberTooLong), _, Refusals::Brief) => {
            LimitOptions { refusals: Refusals::Final, ..options }
        }
        _ => options,
    }
}

impl Link {
    /// Sends a call through a faulty transport.
    pub(super) fn send_faulty(&self, fault: InjectedFault, slot: Slot, call: Call, deadline: Instant, done: Done) {
        if fault == InjectedFault::SettleAnyGeneration && returns_tokens(&call) {
            // Returns arrive after their generation, as they rarely do in other runs.
            let link = self.clone();
            tokio::spawn(async move {
                sleep(Duration::from_millis(250)).await;
                link.send_call(slot, call, Instant::now() + Duration::from_secs(1), done);
            });
            return;
        }
        if self.swallows(fault, &call) {
            let now = locked(&self.world).now_us();
            return done
                .complete(Ok(ScriptReply { now, answers: call.ops.iter().map(|_| Answer::Refunded).collect() }));
        }
        let (link, again) = (self.clone(), call.clone());
        let faulty = Done::new(move |answered: CallResult| match (fault, answered) {
            (
                InjectedFault::RetryUnknown | InjectedFault::ResendUnknownRefund,
                Err(CallError { executed: Executed::Unknown, .. }),
            ) if sends_again(fault, &again) => link.send_call(slot, again, deadline, done),
            (InjectedFault::NeverResendRefund, Err(error)) if is_refund(&again) => {
                // A call that fails because of its key is not resent.
                done.complete(Err(CallError { cause: Cause::WrongType, ..error }));
            }
            (InjectedFault::DoubleDebt, Err(error)) if pays_debts(&again) => {
                done.complete(Err(CallError { executed: Executed::No, ..error }));
            }
            (InjectedFault::ResendReturn, Ok(_) | Err(CallError { executed: Executed::Unknown, .. }))
                if returns_tokens(&again) =>
            {
                link.send_call(slot, again, Instant::now() + Duration::from_secs(1), done);
            }
            (InjectedFault::DoubleGrant, Ok(mut reply)) => {
                for answer in &mut reply.answers {
                    if let Answer::Leased(lease) = answer {
                        lease.granted *= 2;
                    }
                }
                done.complete(Ok(reply));
            }
            (InjectedFault::ForgetLostLease, Ok(mut reply)) => {
                for answer in &mut reply.answers {
                    if let Answer::Renewed { held } = answer {
                        *held = true;
                    }
                }
                done.complete(Ok(reply));
            }
            (_, answered) => {
                // A refund sent meanwhile is for a caller that does not wait any more.
                locked(&link.world).is_delivering = true;
                done.complete(answered);
                locked(&link.world).is_delivering = false;
            }
        });
        self.send_call(slot, call, deadline, faulty);
    }

    /// Returns whether a refund is dropped although the store gets a reply to it.
    fn swallows(&self, fault: InjectedFault, call: &Call) -> bool {
        let world = locked(&self.world);
        let is_of_store = is_refund(call) && !world.is_caller_refunding;
        match fault {
            InjectedFault::KeepLateCharge => is_of_store && world.is_delivering,
            InjectedFault::ForgetRefund => is_of_store && !world.is_delivering,
            _ => false,
        }
    }
}

fn sends_again(fault: InjectedFault, call: &Call) -> bool {
    match fault {
        InjectedFault::RetryUnknown => call.ops.iter().any(|op| matches!(op, ScriptOp::Decide { .. })),
        _ => is_refund(call),
    }
}

fn is_refund(call: &Call) -> bool {
    call.ops.iter().any(|op| matches!(op, ScriptOp::Refund { .. }))
}

fn returns_tokens(call: &Call) -> bool {
    let returns = |op: &ScriptOp| match op {
        ScriptOp::Lease(request) => request.settlements.iter().any(|settlement| settlement.returned > 0),
        _ => false,
    };
    call.ops.iter().any(returns)
}

fn pays_debts(call: &Call) -> bool {
    call.ops.iter().any(|op| matches!(op, ScriptOp::Force { .. }))
}
