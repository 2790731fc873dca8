//! Whatever a gateway sends, each descriptor is answered or the whole call is
//! refused, and no answer is one that a gateway takes for yes by mistake.

#![no_main]

mod engine;

use libfuzzer_sys::fuzz_target;
use tollgate_server::fuzzing;

fuzz_target!(|data: &[u8]| {
    if let Some(answered) = fuzzing::rls(&engine::ENGINE, data) {
        assert_eq!(answered.statuses, answered.descriptors);
        assert!([1, 2].contains(&answered.overall_code), "{}", answered.overall_code);
    }
});
