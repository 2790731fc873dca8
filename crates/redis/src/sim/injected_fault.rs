//! Mistakes that a seeded test injects, and those of them that live in what surrounds the store: its transport, its
//! settings and the options of its limits.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_store::{LimitOptions, OnFailure, Refusals};

use super::world::{Link, locked};
use crate::call::{Answer, Call, Line, Reply};
use crate::store::{BreakerSettings, StoreSettings};
use crate::transport::{Answered, Cause, Done, Executed, Slot, Trouble};

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

/// Settings under which the store makes a mistake.
pub(super) fn settings(fault: Option<InjectedFault>, settings: StoreSettings) -> StoreSettings {
    const NEVER: Duration = Duration::from_secs(3_600);
    match fault {
        Some(InjectedFault::NoDeadline) => StoreSettings { deadline: Duration::from_secs(10), ..settings },
        Some(InjectedFault::NeverProbe) => {
            let breaker = BreakerSettings { first_pause: NEVER, longest_pause: NEVER, ..settings.breaker };
            StoreSettings { breaker, ..settings }
        }
        _ => settings,
    }
}

/// Options of a limit under which the store makes a mistake.
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
    /// Sends a call through a transport that makes a mistake.
    pub(super) fn send_faulty(&self, fault: InjectedFault, slot: Slot, call: Call, deadline: Instant, done: Done) {
        if self.swallows(fault, &call) {
            let now = locked(&self.world).now_us();
            return done.hear(Ok(Reply { now, answers: call.lines.iter().map(|_| Answer::GivenBack).collect() }));
        }
        let (link, again) = (self.clone(), call.clone());
        let faulty = Done::new(move |answered: Answered| match (fault, answered) {
            (
                InjectedFault::RetryUnknown | InjectedFault::ResendUnknownRefund,
                Err(Trouble { executed: Executed::Unknown, .. }),
            ) if sends_again(fault, &again) => link.send_call(slot, again, deadline, done),
            (InjectedFault::NeverResendRefund, Err(trouble)) if is_refund(&again) => {
                // A call that fails because of its key is not sent again.
                done.hear(Err(Trouble { cause: Cause::WrongType, ..trouble }));
            }
            (InjectedFault::DoubleDebt, Err(trouble)) if pays_debts(&again) => {
                done.hear(Err(Trouble { executed: Executed::No, ..trouble }));
            }
            (InjectedFault::ForgetLostLease, Ok(mut reply)) => {
                for answer in &mut reply.answers {
                    if let Answer::Renewed { held } = answer {
                        *held = true;
                    }
                }
                done.hear(Ok(reply));
            }
            (_, answered) => {
                // A refund that is sent meanwhile is of a charge whose caller does not wait any more.
                locked(&link.world).is_handing_out = true;
                done.hear(answered);
                locked(&link.world).is_handing_out = false;
            }
        });
        self.send_call(slot, call, deadline, faulty);
    }

    /// Whether a refund does not reach the server, although the store takes it for done.
    fn swallows(&self, fault: InjectedFault, call: &Call) -> bool {
        let world = locked(&self.world);
        let is_of_store = is_refund(call) && !world.is_giving_back;
        match fault {
            InjectedFault::KeepLateCharge => is_of_store && world.is_handing_out,
            InjectedFault::ForgetRefund => is_of_store && !world.is_handing_out,
            _ => false,
        }
    }
}

fn sends_again(fault: InjectedFault, call: &Call) -> bool {
    match fault {
        InjectedFault::RetryUnknown => call.lines.iter().any(|line| matches!(line, Line::Decide { .. })),
        _ => is_refund(call),
    }
}

fn is_refund(call: &Call) -> bool {
    call.lines.iter().any(|line| matches!(line, Line::GiveBack { .. }))
}

fn pays_debts(call: &Call) -> bool {
    call.lines.iter().any(|line| matches!(line, Line::Force { .. }))
}
