//! Requests alike share a batch: one call to the server, one deadline and one answer, of which each caller takes its
//! own part.

mod answer;
mod coalescer;
mod deadlines;
mod dispatch;
mod entries;
mod remember;
mod request;
mod waiter;

pub(super) use coalescer::Coalescer;
pub(super) use deadlines::Deadlines;
pub(super) use entries::Batch;
pub(super) use request::{Charges, Positions, SlotPart, SlotRequest};
pub(super) use waiter::Waiter;
