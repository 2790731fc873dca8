//! Path patterns, each compared by itself.

pub(super) use crate::compiled::path::pattern::PathPattern as PatternTest;
