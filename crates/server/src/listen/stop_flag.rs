use tokio::sync::watch;

/// Whether the service is about to end, for who asks with every request:
/// reading the channel itself takes a lock.
#[derive(Clone, Debug)]
pub(crate) struct StopFlag {
    /// It was so when somebody first looked.
    has_stopped: bool,
    stopped: watch::Receiver<bool>,
}

impl StopFlag {
    /// Of a channel that says `true` once, and nothing after that.
    pub(crate) fn new(mut stopped: watch::Receiver<bool>) -> StopFlag {
        let has_stopped = *stopped.borrow_and_update();
        StopFlag { has_stopped, stopped }
    }

    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        // Where nobody is left who could say it, the service is gone.
        self.has_stopped || self.stopped.has_changed().unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_up_from_when_the_service_stops() {
        let (stop, stopped) = watch::channel(false);
        let early = StopFlag::new(stopped.clone());
        assert!(!early.is_up() && !early.is_up());
        stop.send_replace(true);
        assert!(early.is_up() && early.is_up(), "looking does not take it down");
        assert!(StopFlag::new(stopped).is_up(), "who comes later sees it too");
    }

    #[test]
    fn it_is_up_when_the_service_is_gone() {
        let (stop, stopped) = watch::channel(false);
        let flag = StopFlag::new(stopped);
        drop(stop);
        assert!(flag.is_up());
    }
}
