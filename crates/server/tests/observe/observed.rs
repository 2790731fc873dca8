//! An engine whose log a test can read.

use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tollgate::policy::parse;
use tollgate::{ManualClock, Request, Verdict};
use tollgate_server::observe::{Identities, Log, LogFormat, Observer, ObserverSettings};
use tollgate_server::{Engine, FrontEnd};

pub(crate) const S_NS: u64 = 1_000_000_000;

/// A whole minute, so that windows of the clock begin here.
pub(crate) const BEGIN_NS: u64 = 1_700_000_040 * S_NS;

/// What was written.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) struct Observed {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: ManualClock,
    written: Written,
}

impl Observed {
    pub(crate) fn under(policy: &str) -> Observed {
        Observed::with(policy, Identities::Plain, LogFormat::Json)
    }

    pub(crate) fn with(policy: &str, identities: Identities, format: LogFormat) -> Observed {
        let (engine, clock, written) = Observed::engine(policy, identities, format);
        Observed { engine: Arc::new(engine), clock, written }
    }

    /// The parts, for a test that serves the engine.
    pub(crate) fn engine(policy: &str, identities: Identities, format: LogFormat) -> (Engine, ManualClock, Written) {
        let clock = ManualClock::at(BEGIN_NS);
        let written = Written::default();
        let log = Log::start(format, written.clone()).unwrap();
        let settings = ObserverSettings { identities, key_file: None, log: Some(log) };
        let observer = Observer::new(settings, Arc::new(clock.clone())).unwrap();
        let loaded = parse(policy, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
        let engine = Engine::observed(&loaded.policy, Arc::new(clock.clone()), Arc::new(observer), |_| {}).unwrap();
        (engine, clock, written)
    }

    pub(crate) fn observer(&self) -> &Observer {
        self.engine.observer()
    }

    pub(crate) fn decide(&self, request: &Request<'_>) -> Verdict {
        block_on(self.engine.decide(FrontEnd::Http, request))
    }

    /// A request of which only the address is known.
    pub(crate) fn ask(&self, address: impl Into<IpAddr>) -> Verdict {
        self.decide(&Request::from_peer(Some(address.into())))
    }

    /// Everything that was written so far.
    pub(crate) fn log(&self) -> String {
        log_of(self.observer(), &self.written)
    }

    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.log()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// The lines about violations.
    pub(crate) fn violations(&self) -> Vec<Value> {
        self.json_lines().into_iter().filter(|line| line["event"] == "violation").collect()
    }
}

pub(crate) fn log_of(observer: &Observer, written: &Written) -> String {
    observer.flush(Duration::from_secs(20));
    String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
}

/// The engine of a test keeps its counters in memory, and so never waits.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(ready) => ready,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
