//! Requests alike share a batch: one call to the server, one deadline and one answer, of which each caller takes its
//! own part.

mod answer;
mod coalescer;
mod deadlines;
mod dispatch;
mod remember;
mod shared;
mod slot_request;
mod waiter;

pub(super) use coalescer::Coalescer;
pub(super) use deadlines::Deadlines;
pub(super) use shared::Batch;
pub(super) use slot_request::{Charges, SlotPart, SlotParts, SlotRequest};
pub(super) use waiter::{Waiter, Waiters};
