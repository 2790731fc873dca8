//! Lines of an Application Load Balancer are parsed without panics, and each on its own as in a block.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_workbench::log::{LogFormat, fuzzing};

fuzz_target!(|data: &[u8]| fuzzing::parse_lines(LogFormat::Alb, data));
