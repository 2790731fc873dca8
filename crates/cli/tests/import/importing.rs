//! Runs the import on a configuration and loads the policy.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use tollgate::limiter::{JointCharge, JointRequest, JointVerdict};
use tollgate::policy::Descriptor;
use tollgate::policy::parse;
use tollgate::{Limiter, ManualClock, Request};

/// The start of a day, so that fixed windows start here.
pub(crate) const START_NS: u64 = 20_000 * 86_400 * 1_000_000_000;

/// The output for a configuration on stdin.
pub(crate) fn output(configuration: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["import", "envoy", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(configuration.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The imported policy.
pub(crate) fn policy(configuration: &str) -> String {
    let output = output(configuration);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}\n{configuration}");
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
        Imported { limiter: Limiter::with_clock(&loaded.policy, clock.clone()).unwrap(), clock }
    }

    /// The verdict on a call with these descriptors.
    pub(crate) fn call(&self, domain: &str, descriptors: &[&[(&str, &str)]]) -> JointVerdict {
        let descriptors: Vec<Descriptor<'_>> =
            descriptors.iter().map(|entries| Descriptor { domain, entries }).collect();
        let requests: Vec<JointRequest<'_>> = descriptors
            .iter()
            .map(|descriptor| JointRequest {
                request: Request::from_descriptor(descriptor),
                charge: JointCharge::Rules,
            })
            .collect();
        let answer = std::pin::pin!(self.limiter.check_all(&requests));
        match answer.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(together) => together,
            std::task::Poll::Pending => panic!("the memory store decides at once"),
        }
    }

    /// The number of calls that pass.
    pub(crate) fn passing(&self, domain: &str, entries: &[(&str, &str)], calls: usize) -> usize {
        (0..calls).filter(|_| self.call(domain, &[entries]).overall.is_allowed()).count()
    }
}
