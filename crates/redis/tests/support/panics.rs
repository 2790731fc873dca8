use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

static IN_BACKGROUND: AtomicU64 = AtomicU64::new(0);

/// Counts panics of background tasks from now on. A task that is not awaited ends silently with a panic.
pub(crate) fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // The thread of a test has the name of the test, so a failed test is not counted for all tests.
            if thread::current().name().is_some_and(|name| name.starts_with("tokio")) {
                IN_BACKGROUND.fetch_add(1, Ordering::Relaxed);
            }
            previous(panic);
        }));
    });
}

pub(crate) fn assert_no_panics() {
    assert_eq!(IN_BACKGROUND.load(Ordering::Relaxed), 0, "panics of background tasks");
}
