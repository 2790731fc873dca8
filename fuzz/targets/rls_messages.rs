//! For any message of a gateway, each descriptor has a status or the whole call is refused, and no response has a code
//! that a gateway could misread as allowed.

#![no_main]

mod engine;

use libfuzzer_sys::fuzz_target;
use tollgate_server::fuzzing;

fuzz_target!(|data: &[u8]| {
    if let Some(response) = fuzzing::rls(&engine::ENGINE, data) {
        assert_eq!(response.statuses, response.descriptors);
        assert!([1, 2].contains(&response.overall_code), "{}", response.overall_code);
    }
});
