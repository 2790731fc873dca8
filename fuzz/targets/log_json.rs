//! Lines of JSON are parsed without panics, and each on its own as in a block. The first byte chooses the server.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_workbench::log::{LogFormat, fuzzing};

const FORMATS: [LogFormat; 4] =
    [LogFormat::NginxJson, LogFormat::EnvoyJson, LogFormat::CaddyJson, LogFormat::TraefikJson];

fuzz_target!(|data: &[u8]| {
    let Some((&format, lines)) = data.split_first() else { return };
    fuzzing::parse_lines(FORMATS[usize::from(format % 4)], lines);
});
