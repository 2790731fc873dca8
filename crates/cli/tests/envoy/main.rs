//! The configuration in `deploy/envoy`, with a real Envoy. It needs the program
//! `envoy` on the path, or where `ENVOY` says; `scripts/test` installs it.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod gateway;
mod limited;
mod process;
mod tollgate;
mod upstream;
