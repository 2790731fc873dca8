//! An engine with a log that a test can read.

use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tollgate::policy::parse;
use tollgate::{ManualClock, Request, Verdict};
use tollgate_server::observe::{EventFormat, EventLog, IdentityFormat, Observer, ObserverSettings};
use tollgate_server::{Engine, FrontEnd};

pub(crate) const S_NS: u64 = 1_000_000_000;

/// A whole minute, so that windows aligned to the clock begin here.
pub(crate) const BEGIN_NS: u64 = 1_700_000_040 * S_NS;

/// The bytes of the log.
#[derive(Clone, Default)]
pub(crate) struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) struct ObservedEngine {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: ManualClock,
    log_buffer: LogBuffer,
}

impl ObservedEngine {
    pub(crate) fn with_policy(policy: &str) -> ObservedEngine {
        ObservedEngine::with(policy, IdentityFormat::Plain, EventFormat::Json)
    }

    pub(crate) fn with(policy: &str, identities: IdentityFormat, format: EventFormat) -> ObservedEngine {
        let (engine, clock, log_buffer) = ObservedEngine::engine(policy, identities, format);
        ObservedEngine { engine: Arc::new(engine), clock, log_buffer }
    }

    /// Creates the parts, for a test that serves the engine.
    pub(crate) fn engine(
        policy: &str,
        identities: IdentityFormat,
        format: EventFormat,
    ) -> (Engine, ManualClock, LogBuffer) {
        let clock = ManualClock::at(BEGIN_NS);
        let log_buffer = LogBuffer::default();
        let log = EventLog::start(format, log_buffer.clone()).unwrap();
        let settings = ObserverSettings { identities, key_file: None, log: Some(log) };
        let observer = Observer::new(settings, Arc::new(clock.clone())).unwrap();
        let loaded = parse(policy, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
        let engine =
            Engine::with_observer(&loaded.policy, Arc::new(clock.clone()), Arc::new(observer), |_| {}).unwrap();
        (engine, clock, log_buffer)
    }

    pub(crate) fn observer(&self) -> &Observer {
        self.engine.observer()
    }

    pub(crate) fn check(&self, request: &Request<'_>) -> Verdict {
        block_on(self.engine.check(FrontEnd::Http, request))
    }

    /// Checks a request of which only the address is known.
    pub(crate) fn check_from(&self, address: impl Into<IpAddr>) -> Verdict {
        self.check(&Request::from_peer(Some(address.into())))
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        log_of(self.observer(), &self.log_buffer)
    }

    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.log()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// Returns the lines of violations.
    pub(crate) fn violations(&self) -> Vec<Value> {
        self.json_lines().into_iter().filter(|line| line["event"] == "violation").collect()
    }
}

pub(crate) fn log_of(observer: &Observer, log_buffer: &LogBuffer) -> String {
    observer.flush(Duration::from_secs(20));
    String::from_utf8(log_buffer.0.lock().unwrap().clone()).unwrap()
}

/// Runs a future that is ready at once: the counters of the engine are in memory, so it never waits.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(ready) => ready,
        std::task::Poll::Pending => panic!("the future is not ready"),
    }
}
