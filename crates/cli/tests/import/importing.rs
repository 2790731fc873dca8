//! The program, run on a configuration, and the policy that it writes.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use tollgate::policy::parse;
use tollgate::{AskedTogether, Descriptor, Limiter, ManualClock, Part, Request, Together};

/// A whole day, so that windows of the clock begin here.
pub(crate) const START_NS: u64 = 20_000 * 86_400 * 1_000_000_000;

/// What it answers to a configuration on stdin.
pub(crate) fn output(configuration: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["import", "envoy", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(configuration.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The policy that it writes.
pub(crate) fn policy(configuration: &str) -> String {
    let output = output(configuration);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}\n{configuration}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) struct Imported {
    pub(crate) limiter: Limiter,
    pub(crate) clock: ManualClock,
}

impl Imported {
    pub(crate) fn from(configuration: &str) -> Imported {
        let policy = policy(configuration);
        let loaded = parse(&policy, "imported", None).unwrap_or_else(|report| panic!("{report}\n{policy}"));
        let clock = ManualClock::at(START_NS);
        Imported { limiter: Limiter::in_memory(&loaded.policy, clock.clone()).unwrap(), clock }
    }

    /// The answer to a call with these descriptors.
    pub(crate) fn call(&self, domain: &str, descriptors: &[&[(&str, &str)]]) -> Together {
        let told: Vec<Descriptor<'_>> = descriptors.iter().map(|entries| Descriptor { domain, entries }).collect();
        let asked: Vec<AskedTogether<'_>> = told
            .iter()
            .map(|descriptor| AskedTogether { request: Request::from_descriptor(descriptor), part: Part::Charge })
            .collect();
        let answer = std::pin::pin!(self.limiter.decide_together(&asked));
        match answer.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(together) => together,
            std::task::Poll::Pending => panic!("memory answers at once"),
        }
    }

    /// How many calls in a row pass, of so many.
    pub(crate) fn passing(&self, domain: &str, entries: &[(&str, &str)], calls: usize) -> usize {
        (0..calls).filter(|_| self.call(domain, &[entries]).overall.is_allowed()).count()
    }
}
