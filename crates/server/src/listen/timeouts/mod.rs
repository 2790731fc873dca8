//! How long a connection may be idle, and how long a write to it may take.

pub(in crate::listen) mod activity;
pub(in crate::listen) mod silence;
pub(in crate::listen) mod watched;
pub(in crate::listen) mod with_watch;
