//! Runs what the documentation says: the commands, the policies and the JSON of every page. CONTRIBUTING.md describes how
//! a page marks what cannot run.
//!
//! `TOLLGATE_PAGE=docs/service.md` runs a single page.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]
#![allow(clippy::print_stdout, reason = "the report of a test that fails: what was not run, and how long pages took")]

mod blocks;
mod commands;
mod elsewhere;
mod links;
mod page;
mod pages;
mod policies;
mod promises;
mod rust_examples;
mod session;
