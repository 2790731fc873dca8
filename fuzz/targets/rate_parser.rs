//! Parsing any bytes as a rate never panics, the text of a parsed rate parses to the same rate, and an error has a
//! position within the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_core::{Bucket, Quota, Rate, Tick};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match text.parse::<Rate>() {
        Ok(rate) => {
            let shown = rate.to_string();
            assert_eq!(shown.parse::<Rate>().as_ref(), Ok(&rate), "{text:?} is shown as {shown:?}");
            compile(rate);
        }
        Err(error) => {
            assert!(error.column() <= text.chars().count(), "column {} of {text:?}", error.column());
            assert!(!error.expected().is_empty());
            assert!(!error.to_string().is_empty());
        }
    }
});

/// Asserts that a parsed rate can be compiled, or is refused with a message.
fn compile(rate: Rate) {
    match Quota::token_bucket(rate) {
        Ok(quota) => {
            for tick in [Tick::Nanosecond, Tick::Microsecond] {
                assert!(Bucket::new(&quota, tick).is_some());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Err(error) = Quota::sliding_window_log(rate) {
        assert!(!error.to_string().is_empty());
    }
}
