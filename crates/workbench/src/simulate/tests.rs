use tollgate::policy::parse;
use tollgate::{Limiter, ManualClock, Request};

use super::*;
use crate::traffic::Population;

const SECOND_NS: u64 = 1_000_000_000;
const START_NS: u64 = 1_767_225_600 * SECOND_NS;

fn policy(text: &str) -> CheckedPolicy {
    parse(text, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}")).policy
}

fn get(second: u64, ip: &str) -> LogRecord<'static> {
    LogRecord {
        time_ns: START_NS + second * SECOND_NS,
        client_ip: Some(ip.parse().unwrap()),
        method: "GET",
        target: "/",
        ..LogRecord::default()
    }
}

fn simulate<'a>(text: &str, records: impl IntoIterator<Item = LogRecord<'a>>) -> SimulationReport {
    let mut simulation = Simulation::new(&policy(text)).unwrap();
    for record in records {
        simulation.request(&record);
    }
    simulation.finish()
}

/// Every algorithm, an escalation, a shadow rule and several rules for a request.
const MIXED: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 60/min burst 30 }
  - { name: counted, key: client_ip, limit: 500/h, algorithm: sliding-window-counter }
  - name: login
    when: { method: POST, path: /auth/login }
    key: client_ip
    limit: 5/min
    algorithm: sliding-window-log
    on_limit: [ { first: 2, action: warn }, { then: reject }, { after: 20 in 10min, action: block 5min } ]
  - { name: cart, when: { path: /cart/* }, key: client_ip, limit: 3/min, algorithm: leaky-bucket, queue: { size: 3 } }
  - { name: watched, key: client_ip, limit: 10/min, algorithm: fixed-window, shadow: true }
";

#[test]
fn decisions_are_those_of_the_library_at_the_same_times() {
    let population = Population {
        seed: 11,
        poisson_clients: 30,
        on_off_clients: 30,
        scrapers: 2,
        stuffers: 2,
        start_ns: START_NS,
        duration_s: 1_200,
    };
    let requests = population.requests();
    let clock = ManualClock::at(0);
    let limiter = Limiter::with_clock(&policy(MIXED), clock.clone()).unwrap();
    let mut simulation = Simulation::new(&policy(MIXED)).unwrap();
    let mut actions = ActionCounts::default();
    for request in &requests {
        clock.set(request.time_ns);
        let asked =
            Request { method: request.method, target: &request.path, ..Request::from_peer(Some(request.client_ip)) };
        let verdict = limiter.check(&asked);
        actions.count(verdict.action());
        assert_eq!(simulation.request(&request.record()), verdict.is_allowed(), "{request:?}");
    }
    let report = simulation.finish();
    assert_eq!(report.actions, actions);
    assert_eq!((report.requests, report.clients), (requests.len() as u64, 64));
    let ActionCounts { allowed, refused, warned, delayed, blocked, .. } = actions;
    assert!([allowed, refused, warned, delayed, blocked].iter().all(|count| *count > 0), "{actions:?}");
    assert!(report.rules.iter().all(|rule| rule.refused > 0 && rule.allowed > 0), "{:?}", report.rules);
    assert!(report.longest_delay_ns > SECOND_NS);
    let sum = |figure: fn(&ActionCounts) -> u64| report.intervals().map(|actions| figure(&actions)).sum::<u64>();
    let figures: [fn(&ActionCounts) -> u64; 5] =
        [|one| one.allowed, |one| one.refused, |one| one.warned, |one| one.delayed, |one| one.blocked];
    for figure in figures {
        assert_eq!(sum(figure), figure(&actions), "over time");
        assert_eq!(report.endpoints.iter().map(|endpoint| figure(&endpoint.actions)).sum::<u64>(), figure(&actions));
    }
    let login = report.rules.iter().find(|rule| rule.rule == "login").unwrap();
    assert_eq!((login.warned, login.blocked), (warned, blocked), "only this rule warns and blocks");
    let worst: u64 = report.worst_clients.iter().map(|client| client.blocked).sum();
    assert_eq!(worst, blocked, "the stuffers are among the worst");
}

#[test]
fn rules_count_their_own_refusals_and_shadow_rules_refuse_nothing() {
    let text = "version: 1
rules:
  - { name: two, key: client_ip, limit: 2/min, algorithm: sliding-window-log }
  - { name: one, key: client_ip, limit: 1/min, algorithm: sliding-window-log, shadow: true }
";
    let report = simulate(text, [get(0, "10.0.0.1"), get(1, "10.0.0.1"), get(2, "10.0.0.1"), get(3, "10.0.0.2")]);
    let rule = |at: usize| {
        let rule = &report.rules[at];
        (rule.rule.as_str(), rule.shadow, rule.allowed, rule.refused, rule.clients_refused)
    };
    assert_eq!(rule(0), ("two", false, 3, 1, 1));
    assert_eq!(rule(1), ("one", true, 2, 2, 1));
    assert_eq!((report.actions.allowed, report.actions.refused), (3, 1));
    assert_eq!(report.worst_clients[0].rules, [("two".to_owned(), 1)]);
}

#[test]
fn rule_with_several_limits_counts_a_request_once() {
    let text = "version: 1
rules: [ { name: both, key: client_ip, limit: [3/min, 2/s burst 2] } ]";
    let report = simulate(text, (0..4).map(|_| get(0, "10.0.0.1")));
    let rule = &report.rules[0];
    assert_eq!((rule.allowed, rule.refused, rule.clients_refused), (2, 2, 1));
}

#[test]
fn worst_clients_come_first_with_their_peaks() {
    let text = "version: 1\nrules: [ { name: per-ip, key: client_ip, limit: 5/min } ]";
    let flood = (0..20).map(|_| get(10, "10.0.0.1"));
    let mild = (0..7).map(|second| get(10 + second, "10.0.0.2"));
    let report = simulate(text, flood.chain(mild).chain([get(60, "10.0.0.3")]));
    assert_eq!((report.clients, report.clients_refused, report.worst_clients.len()), (3, 2, 2));
    let worst = &report.worst_clients[0];
    assert_eq!((worst.client.to_string().as_str(), worst.requests, worst.refused), ("10.0.0.1", 20, 15));
    assert_eq!((worst.peaks.in_second, worst.peaks.in_minute, worst.peaks.in_hour), (20, 20, 20));
    assert_eq!(report.worst_clients[1].peaks.in_second, 1);
    let expected = [(1, 1, 0), (4, 0, 1), (16, 0, 1)].map(|(from, never, refused)| (from, never, refused));
    let bins: Vec<_> = report.peaks.iter().map(|bin| (bin.from, bin.never_refused, bin.refused)).collect();
    assert!(expected.iter().all(|bin| bins.contains(bin)), "{bins:?}");
}

#[test]
fn changes_are_counted_by_client_in_both_directions() {
    let burst = "version: 1\nrules: [ { name: r, key: client_ip, limit: 1/min burst 3 } ]";
    let window = "version: 1\nrules: [ { name: r, key: client_ip, limit: 2/min, algorithm: fixed-window } ]";
    let mut simulation = Simulation::new(&policy(window)).unwrap().against(&policy(burst)).unwrap();
    // At once only the burst allows the third; in the next minute only the window allows two.
    for second in [0, 0, 0, 61, 61] {
        simulation.request(&get(second, "10.0.0.1"));
    }
    simulation.request(&get(61, "10.0.0.2"));
    let changes = simulation.finish().changes.unwrap();
    assert_eq!((changes.newly_refused, changes.newly_allowed), (1, 1));
    assert_eq!((changes.clients_newly_refused, changes.clients_newly_allowed), (1, 1));
    assert_eq!(changes.clients.len(), 1);
    assert_eq!((changes.actions.allowed, changes.rules[0].refused), (5, 1));
}

#[test]
fn address_of_the_log_is_the_client_also_for_trusted_proxies() {
    let text = "version: 1
identity: { client_ip: { trusted_proxies: [10.0.0.0/8] } }
store: { redis: { nodes: [127.0.0.1:1], consistency: leased } }
rules: [ { name: per-ip, key: client_ip, limit: 1/min } ]";
    let forwarded = [("x-forwarded-for", "203.0.113.9")];
    let record = LogRecord { fields: &forwarded, ..get(0, "10.0.0.1") };
    let report = simulate(text, [record, get(0, "10.0.0.2"), get(1, "10.0.0.1")]);
    assert_eq!((report.actions.allowed, report.actions.refused), (2, 1));
}

#[test]
fn users_and_named_columns_are_identities() {
    let text = "version: 1
identity: { user: { header: x-user, trusted: true }, team: { header: x-team, trusted: true } }
rules:
  - { name: per-user, key: user, limit: 1/min }
  - { name: per-team, key: team, limit: 2/min }";
    let team = [("team", "blue"), ("other", "value")];
    let of = |user: &'static str| LogRecord { user: Some(user), fields: &team, ..get(0, "10.0.0.1") };
    let mut simulation = Simulation::new(&policy(text)).unwrap();
    let passed: Vec<bool> = ["ann", "ann", "ben", "eve"].iter().map(|user| simulation.request(&of(user))).collect();
    assert_eq!(passed, [true, false, true, false]);
    let report = simulation.finish();
    assert_eq!((report.rules[0].refused, report.rules[1].refused), (1, 1));
}

#[test]
fn denied_clients_and_budgets_are_simulated() {
    let text = "version: 1
deny: { client_ip: [10.9.0.0/16] }
budgets: { shared: { key: client_ip, limit: 3/min } }
rules:
  - { name: cheap, when: { method: GET }, budget: shared }
  - { name: never, when: { path: /admin/* }, deny: true }";
    let admin = LogRecord { target: "/admin/x", ..get(0, "10.0.0.2") };
    let report = simulate(text, [get(0, "10.9.0.1"), admin, get(0, "10.0.0.1")]);
    assert_eq!((report.actions.allowed, report.actions.refused, report.actions.denied), (1, 2, 2));
    assert_eq!((report.rules[1].refused, report.rules[1].clients_refused), (1, 1));
}

#[test]
fn clock_that_goes_back_refills_nothing_and_requests_without_a_client_count() {
    let text = "version: 1\nrules: [ { name: all, limit: 1/h } ]";
    let late = get(3_000, "10.0.0.1");
    let nameless = LogRecord { client_ip: None, ..get(0, "10.0.0.1") };
    let report = simulate(text, [late, get(0, "10.0.0.1"), nameless]);
    assert_eq!((report.actions.allowed, report.without_client, report.clients), (1, 1, 2));
}

#[test]
fn batches_are_decided_as_single_requests() {
    let requests =
        Population { seed: 2, poisson_clients: 5, on_off_clients: 5, scrapers: 1, stuffers: 1, ..BATCHED }.requests();
    let records: Vec<LogRecord<'_>> = requests.iter().map(crate::traffic::GeneratedRequest::record).collect();
    let (mut single, mut batched) =
        (Simulation::new(&policy(MIXED)).unwrap(), Simulation::new(&policy(MIXED)).unwrap());
    for record in &records {
        single.request(record);
    }
    records.chunks(333).for_each(|batch| batched.requests(batch));
    let (single, batched) = (single.finish(), batched.finish());
    assert_eq!((single.actions, single.rules), (batched.actions, batched.rules));
    assert_eq!(single.worst_clients, batched.worst_clients);
}

const BATCHED: Population = Population {
    seed: 0,
    poisson_clients: 0,
    on_off_clients: 0,
    scrapers: 0,
    stuffers: 0,
    start_ns: START_NS,
    duration_s: 300,
};
