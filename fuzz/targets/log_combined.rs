//! Lines of the Common and the Combined Log Format are parsed without panics, and each on its own as in a block.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_workbench::log::{LogFormat, fuzzing};

fuzz_target!(|data: &[u8]| fuzzing::parse_lines(LogFormat::Combined, data));
