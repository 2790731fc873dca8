//! What the tests of the layer share.

mod app;
mod client;
mod fields;
mod reply;
mod server;
mod stores;

pub(crate) use app::{App, S_NS, ask_from, behind, built, changed, clock, get, hello};
pub(crate) use client::Client;
pub(crate) use fields::{check_fields, item, items};
pub(crate) use reply::Reply;
pub(crate) use server::Server;
pub(crate) use stores::{Down, hesitant, hesitant_at};
