//! Where logs come from: files and stdin, decompressed, as blocks of whole lines, with their format.

mod block_reader;
mod detect;
mod magic;
mod open;
mod probe;

pub(super) use block_reader::{BlockReader, LineBlock};
pub(super) use open::{open_log, stored_bytes};
pub(super) use probe::{ProbedLog, probe_log};
#[cfg(fuzzing)]
pub(super) use {open::OpenedLog, probe::probe_opened};
