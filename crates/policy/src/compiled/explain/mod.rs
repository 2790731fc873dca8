//! A request explained: which rules match it, and why the others do not.

pub(in crate::compiled) mod explainer;
pub(in crate::compiled) mod explanation;
