//! Tests of the configurations in `deploy` with the real gateways.
//!
//! A test needs its gateway on the PATH, or at the path in the variable of its name (`NGINX`);
//! `scripts/test` installs them. Each client has its own loopback address.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod caddy;
mod client;
mod closed_port;
mod envoy;
mod gateway;
mod haproxy;
mod kong;
mod kubernetes;
mod nginx;
mod recipe;
mod scenarios;
mod tollgate;
mod traefik;
mod upstream;
