//! `tollgate import envoy`: the policy decides the same as the configuration.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod examples;
mod importing;
mod messages;
mod random_trees;
mod tree;
