//! The cost of matching a request against a policy, by the number of rules and by the condition that distinguishes
//! them.
//!
//!     cargo bench -p tollgate-bench --bench policy_plan [-- [--quick] [--common] [--instructions]]
//!
//! In every policy three rules apply: two without conditions, counted by address and by user, and one of the many.
//! Sizes take turns, round after round, and figures are medians. The requests match all rules in turn, so that
//! a large policy pays for its cache misses. With `--instructions` callgrind counts the instructions of simple policies.
//! Tables go to stdout, progress to stderr.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use tollgate_core::Quota;
use tollgate_policy::model::{
    Allowance, Condition, Grant, Identity, IdentitySource, Networks, Rule, TextPattern, Tier, TierSource, When,
};
use tollgate_policy::{Access, CompiledPolicy, Descriptor, Matched, Policy, Request};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
/// The goal for the time of 1,000 rules, as a multiple of that of ten.
const RATIO_MAX: f64 = 2.0;
/// The goal for the three rules of an ordinary policy.
const COMMON_NS_MAX: f64 = 200.0;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, option, scenario, requests] = arguments.as_slice()
        && option == COUNTED
    {
        return run_counted(scenario, requests.parse().unwrap_or(0));
    }
    let given = |option: &str| arguments.iter().any(|argument| argument == option);
    if given("--instructions") {
        return print_instructions();
    }
    let quick = given("--quick");
    let (rounds, requests) = if quick { (5, 5_000) } else { (31, 50_000) };
    println!("## Matching of rules, ns a request\n");
    // Only the small policy, for a profiler.
    if !given("--common") {
        print_sizes(rounds, requests);
    }
    print_common(rounds, requests);
}

/// Simple policies: by header, by address, and three rules of which two or three apply.
const SCENARIOS: [&str; 4] = ["header", "address", "three rules, a page", "three rules, a login"];
/// Runs one scenario under callgrind.
const COUNTED: &str = "--counted";

/// Prints the instructions per request: the difference between two runs, so that the start of the program does not count.
fn print_instructions() {
    println!("| matching | instructions |\n| --- | ---: |");
    for scenario in SCENARIOS {
        match (count(scenario, 1_000), count(scenario, 11_000)) {
            (Some(few), Some(many)) => println!("| {scenario} | {} |", (many - few) / 10_000),
            _ => eprintln!("{scenario}: valgrind is missing"),
        }
    }
}

fn count(scenario: &str, requests: u32) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let output = std::process::Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([COUNTED, scenario, &requests.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, collected) = text.split_once("Collected : ")?;
    collected.split_whitespace().next()?.parse().ok()
}

fn run_counted(scenario: &str, requests: usize) {
    let login = When { methods: vec!["POST".to_owned()], paths: vec!["/auth/login".to_owned()], ..When::default() };
    let (rules, charges) = match scenario {
        "header" => (vec![rule("per-user", &["user"])], 1),
        "address" => (vec![rule("per-ip", &["client_ip"])], 1),
        _ => {
            let login = Rule { when: login, ..rule("login", &["client_ip"]) };
            let charges = if scenario.ends_with("login") { 3 } else { 2 };
            (vec![rule("per-ip", &["client_ip"]), rule("per-user", &["user"]), login], charges)
        }
    };
    let plan = compile(Policy { identities: vec![identity("user", "X-User-ID")], rules, ..Policy::default() });
    let (method, target) = if charges == 3 { ("POST", "/auth/login") } else { ("GET", "/api/v1/items/17") };
    let sent = Sent { method, target: target.to_owned(), ..sent() };
    let request = sent.request(None);
    for _ in 0..requests {
        let mut matched = Matched::new(Access::Rules);
        plan.match_into(black_box(&request), |_, _| None, &mut matched);
        assert_eq!(black_box(&matched).charges.len(), charges, "not as many rules apply as should");
    }
}

fn print_sizes(rounds: usize, requests: usize) {
    println!("| distinguished by | 10 rules | 100 | 1,000 | 10,000 | 1,000 : 10 | at most {RATIO_MAX} |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | --- |");
    for dimension in DIMENSIONS {
        eprintln!("{}", dimension.name);
        let contestants: Vec<Contestant> = SIZES.iter().map(|size| Contestant::new(dimension, *size)).collect();
        let ns = medians(&contestants, rounds, requests);
        let ratio = ns[2] / ns[0];
        let cells: Vec<String> = ns.iter().map(|ns| format!("{ns:.0}")).collect();
        let verdict = if ratio <= RATIO_MAX { "pass" } else { "fall short" };
        println!("| {} | {} | {ratio:.2} | {verdict} |", dimension.name, cells.join(" | "));
    }
}

fn print_common(rounds: usize, requests: usize) {
    println!("\n| three rules: by address, by user and tier, logins | ns | under {COMMON_NS_MAX} |");
    println!("| --- | ---: | --- |");
    let contestants = [Contestant::common("GET", "/api/items/17", 2), Contestant::common("POST", "/auth/login", 3)];
    let ns = medians(&contestants, rounds, requests);
    for (what, ns) in ["a page, two apply", "a login, three apply"].into_iter().zip(ns) {
        println!("| {what} | {ns:.0} | {} |", if ns < COMMON_NS_MAX { "pass" } else { "fall short" });
    }
}

/// Returns the medians of rounds in which every contestant has a turn, in rotating order.
fn medians(contestants: &[Contestant], rounds: usize, requests: usize) -> Vec<f64> {
    let mut samples = vec![Vec::new(); contestants.len()];
    for round in 0..rounds {
        for turn in 0..contestants.len() {
            let at = (turn + round) % contestants.len();
            samples[at].push(contestants[at].ns_per_request(requests));
        }
    }
    let median = |mut samples: Vec<f64>| {
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    };
    samples.into_iter().map(median).collect()
}

/// The condition that distinguishes the rules of a policy.
struct Dimension {
    name: &'static str,
    /// The conditions of rule number `at` among `count`.
    when: fn(at: usize, count: usize) -> When,
    /// A request that matches it.
    sent: fn(at: usize, count: usize) -> Sent,
}

struct Sent {
    peer: IpAddr,
    method: &'static str,
    host: String,
    target: String,
    headers: Vec<(&'static str, String)>,
    domain: Option<String>,
}

const DIMENSIONS: &[Dimension] = &[
    Dimension {
        name: "path",
        when: |at, _| When { paths: vec![format!("/api/v1/resource{at}")], ..When::default() },
        sent: |at, _| Sent { target: format!("/api/v1/resource{at}"), ..sent() },
    },
    Dimension {
        name: "prefix",
        when: |at, _| When { paths: vec![format!("/service{at}/*")], ..When::default() },
        sent: |at, _| Sent { target: format!("/service{at}/v1/items"), ..sent() },
    },
    Dimension {
        name: "prefix after a wildcard",
        when: |at, _| When { paths: vec![format!("/*/service{at}/items")], ..When::default() },
        sent: |at, _| Sent { target: format!("/v1/service{at}/items"), ..sent() },
    },
    Dimension {
        name: "host",
        when: |at, _| When { hosts: vec![format!("host{at}.example.com")], ..When::default() },
        sent: |at, _| Sent { host: format!("host{at}.example.com"), ..sent() },
    },
    Dimension {
        name: "domain",
        when: |at, _| When { hosts: vec![format!("*.customer{at}.example.com")], ..When::default() },
        sent: |at, _| Sent { host: format!("api.customer{at}.example.com"), ..sent() },
    },
    Dimension {
        name: "method and path",
        when: |at, _| When {
            methods: vec![METHODS[at % 4].to_owned()],
            paths: vec![format!("/api/v1/resource{}", at / 4)],
            ..When::default()
        },
        sent: |at, _| Sent { method: METHODS[at % 4], target: format!("/api/v1/resource{}", at / 4), ..sent() },
    },
    Dimension {
        name: "host and path, a square",
        when: |at, count| {
            let side = count.isqrt().max(1);
            When {
                hosts: vec![format!("host{}.example.com", at / side)],
                paths: vec![format!("/api/resource{}", at % side)],
                ..When::default()
            }
        },
        sent: |at, count| {
            let side = count.isqrt().max(1);
            Sent {
                host: format!("host{}.example.com", at / side),
                target: format!("/api/resource{}", at % side),
                ..sent()
            }
        },
    },
    Dimension {
        name: "header's value",
        when: |at, _| When { headers: vec![("X-Plan".to_owned(), one_of(format!("plan{at}")))], ..When::default() },
        sent: |at, _| with_header("X-Plan", format!("plan{at}")),
    },
    Dimension {
        name: "identity's value",
        when: |at, _| When { identities: vec![("org".to_owned(), one_of(format!("org{at}")))], ..When::default() },
        sent: |at, _| with_header("X-Org", format!("org{at}")),
    },
    Dimension {
        name: "network",
        when: |at, _| {
            let network = format!("11.{}.{}.0/24", at / 256, at % 256).parse();
            When { network: Some(Networks::Among(network.into_iter().collect())), ..When::default() }
        },
        sent: |at, _| Sent { peer: Ipv4Addr::new(11, (at / 256) as u8, (at % 256) as u8, 7).into(), ..sent() },
    },
    Dimension {
        name: "descriptor's domain",
        when: |at, _| When { domains: vec![format!("domain{at}")], ..When::default() },
        sent: |at, _| Sent { domain: Some(format!("domain{at}")), ..sent() },
    },
    Dimension {
        name: "descriptor, exactly",
        when: |at, _| When {
            domains: vec!["edge".to_owned()],
            exact_entries: true,
            identities: vec![("org".to_owned(), one_of(format!("org{at}")))],
            ..When::default()
        },
        sent: |at, _| Sent { domain: Some("edge".to_owned()), ..with_header("X-Org", format!("org{at}")) },
    },
];

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

fn sent() -> Sent {
    Sent {
        peer: Ipv4Addr::new(203, 0, 113, 9).into(),
        method: "GET",
        host: "api.example.com".to_owned(),
        target: "/api/v1/items/17".to_owned(),
        headers: vec![
            ("accept", "application/json".to_owned()),
            ("user-agent", "bench/1.0".to_owned()),
            ("x-user-id", "4711".to_owned()),
        ],
        domain: None,
    }
}

fn with_header(name: &'static str, value: String) -> Sent {
    let mut sent = sent();
    sent.headers.push((name, value));
    sent
}

fn one_of(text: String) -> Condition {
    Condition::OneOf(vec![TextPattern(text)])
}

/// A compiled policy, and requests that match as many rules as expected.
struct Contestant {
    plan: CompiledPolicy,
    sent: Vec<Sent>,
    charges: usize,
}

impl Contestant {
    fn new(dimension: &Dimension, size: usize) -> Contestant {
        let count = size - 2;
        let mut rules = vec![rule("per-ip", &["client_ip"]), rule("per-user", &["user"])];
        rules.extend(
            (0..count).map(|at| Rule { when: (dimension.when)(at, count), ..rule(&format!("r{at}"), &["client_ip"]) }),
        );
        let identities = vec![identity("user", "X-User-ID"), identity("org", "X-Org")];
        // The same number of requests for every size, spread over all rules.
        let sent = (0..64).map(|number| (dimension.sent)(number * 7_919 % count, count)).collect();
        Contestant { plan: compile(Policy { identities, rules, ..Policy::default() }), sent, charges: 3 }
    }

    /// The policy of an ordinary API.
    fn common(method: &'static str, target: &str, charges: usize) -> Contestant {
        let tiers = [("free", 60), ("pro", 600), ("team", 6_000)];
        let tiers = tiers.map(|(name, count)| (name.to_owned(), grant(count)));
        let login = When {
            methods: vec!["POST".to_owned()],
            paths: ["/auth/login", "/auth/register", "/auth/reset-password"].map(str::to_owned).to_vec(),
            ..When::default()
        };
        let rules = vec![
            rule("per-ip", &["client_ip"]),
            Rule { allowance: Allowance::Tiers(tiers.to_vec()), ..rule("per-user", &["user"]) },
            Rule { when: login, ..rule("login", &["client_ip"]) },
        ];
        let source = TierSource::Direct(IdentitySource::Header("X-Tier".to_owned()));
        let tier = Some(Tier { source, default: "free".to_owned(), trusted: true });
        let policy = Policy { identities: vec![identity("user", "X-User-ID")], tier, rules, ..Policy::default() };
        let sent = vec![Sent { method, target: target.to_owned(), ..with_header("x-tier", "pro".to_owned()) }];
        Contestant { plan: compile(policy), sent, charges }
    }

    fn ns_per_request(&self, requests: usize) -> f64 {
        let entries: Vec<Vec<(&str, &str)>> = self.sent.iter().map(Sent::entries).collect();
        let described = |(sent, entries)| Sent::descriptor(sent, entries);
        let descriptors: Vec<Option<Descriptor<'_>>> = self.sent.iter().zip(&entries).map(described).collect();
        let request = |(sent, descriptor)| Sent::request(sent, Option::as_ref(descriptor));
        let calls: Vec<Request<'_>> = self.sent.iter().zip(&descriptors).map(request).collect();
        let mut charges = 0;
        let start = Instant::now();
        for request in calls.iter().cycle().take(requests) {
            charges += black_box(self.plan.match_request(black_box(request))).charges.len();
        }
        let ns = start.elapsed().as_nanos() as f64 / requests as f64;
        assert_eq!(charges, requests * self.charges, "not as many rules apply as should");
        ns
    }
}

impl Sent {
    fn entries(&self) -> Vec<(&str, &str)> {
        let mut entries = vec![("remote_address", "203.0.113.9")];
        entries.extend(self.headers.iter().skip(3).map(|(name, value)| (*name, value.as_str())));
        entries
    }

    fn descriptor<'a>(&'a self, entries: &'a Vec<(&'a str, &'a str)>) -> Option<Descriptor<'a>> {
        self.domain.as_deref().map(|domain| Descriptor { domain, entries })
    }

    fn request<'a>(&'a self, descriptor: Option<&'a Descriptor<'a>>) -> Request<'a> {
        Request {
            descriptor,
            method: self.method,
            host: Some(&self.host),
            target: &self.target,
            headers: &self.headers,
            ..Request::from_peer(Some(self.peer))
        }
    }
}

fn compile(policy: Policy) -> CompiledPolicy {
    let checked = policy.check().unwrap_or_else(|errors| panic!("{errors}"));
    CompiledPolicy::new(&checked).unwrap_or_else(|error| panic!("{error}"))
}

fn rule(name: &str, key: &[&str]) -> Rule {
    Rule {
        key: key.iter().map(|name| (*name).to_owned()).collect(),
        allowance: Allowance::Same(grant(100)),
        ..Rule::new(name)
    }
}

fn grant(count: u64) -> Grant {
    let rate = format!("{count}/min").parse().unwrap_or_else(|error| panic!("{error}"));
    Grant::Limited(Quota::token_bucket(rate).into_iter().collect())
}

fn identity(name: &str, header: &str) -> Identity {
    Identity { trusted: true, ..Identity::new(name, IdentitySource::Header(header.to_owned())) }
}
