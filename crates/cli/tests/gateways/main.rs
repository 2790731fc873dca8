//! The configurations in `deploy`, each with the real program that it is for.
//!
//! A test needs its program on the path, or where the variable of its name (`NGINX`) says;
//! `scripts/test` installs them. Clients have addresses of their own, all of the loopback.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod caddy;
mod client;
mod envoy;
mod gateway;
mod nginx;
mod nobody;
mod recipe;
mod scenarios;
mod tollgate;
mod traefik;
mod upstream;
