//! `tollgate import envoy`: the policy decides as the configuration means.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod examples;
mod importing;
mod messages;
mod random_trees;
mod tree;
