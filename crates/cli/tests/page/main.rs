//! The page of the admin listener in a real browser.
//!
//! The tests need Chromium and Node.js with the modules of `scripts/pinned/chromium`; `scripts/test` installs them. Each
//! test runs a script of `script/` against a service of its own.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]
#![allow(clippy::print_stdout, reason = "shows what the scripts report")]

mod chromium;
mod service;
