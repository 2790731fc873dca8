use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

static IN_BACKGROUND: AtomicU64 = AtomicU64::new(0);

/// Counts panics in the background from now on: a task that nobody waits for ends silently with one.
pub(crate) fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // A test's own thread has its name, so that one test that fails is not all of them.
            if thread::current().name().is_some_and(|name| name.starts_with("tokio")) {
                IN_BACKGROUND.fetch_add(1, Ordering::Relaxed);
            }
            before(panic);
        }));
    });
}

pub(crate) fn assert_no_panics() {
    assert_eq!(IN_BACKGROUND.load(Ordering::Relaxed), 0, "panics in the background");
}
