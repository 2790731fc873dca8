//! Any bytes: reading a rate never panics, what is read is written so that it
//! reads the same, and an error points into the text.

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

/// What can be read can be compiled, or is refused with a reason.
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
