//! How long a connection may be idle, and how long a write to it may take.

pub(in crate::listen) mod activity;
pub(in crate::listen) mod activity_stream;
pub(in crate::listen) mod idle_timer;
pub(in crate::listen) mod with_deadline;
