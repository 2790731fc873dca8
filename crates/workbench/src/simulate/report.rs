//! The result of a simulation.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate::Action;
use tollgate::policy::CompiledRule;

use super::changes::{Changes, ClientChange};
use super::counters::{ActionCounters, ClientCounters, ClientRefusals};
use super::policy_run::{PolicyRun, RuleTally};
use crate::tally::client_index::{ClientIndex, ClientName};
use crate::tally::endpoint_index::{EndpointIndex, EndpointName};
use crate::tally::peak_rates::Peaks;
use crate::tally::time_series::TimeSeries;
use crate::tally::to_u32;

/// The largest number of clients and of endpoints that a report lists.
const MAX_LISTED: usize = 20;

/// The number of bins of peak rates: powers of two up to 2^31.
const PEAK_BINS: usize = 32;

/// What a policy would have done to the traffic of a log.
#[derive(Clone, Debug)]
pub struct SimulationReport {
    /// The number of requests.
    pub requests: u64,
    /// The number of clients: addresses, or users where there is no address.
    pub clients: u64,
    /// The number of requests with neither an address nor a user. They count as one client.
    pub without_client: u64,
    /// The number of clients of which at least one request was refused.
    pub clients_refused: u64,
    /// The actions.
    pub actions: ActionCounts,
    /// The longest delay in a queue, in nanoseconds.
    pub longest_delay_ns: u64,
    /// The live keys that the store evicted for others; their clients may have passed more than their limit.
    pub evictions: u64,
    /// Each rule, in the order of the policy.
    pub rules: Vec<RuleReport>,
    /// The endpoints with the most refused requests, then the most requests.
    pub endpoints: Vec<EndpointReport>,
    /// The clients with the most refused requests.
    pub worst_clients: Vec<HurtClient>,
    /// The distribution of the clients' peaks a minute.
    pub peaks: Vec<PeakBin>,
    /// The requests over time, by action; [`intervals`](SimulationReport::intervals) names the actions.
    pub over_time: TimeSeries<ACTION_KINDS>,
    /// The changes against another policy.
    pub changes: Option<ChangeReport>,
}

/// Requests by action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionCounts {
    /// All requests that passed, with the warned and the delayed ones.
    pub allowed: u64,
    /// All requests that did not pass, with the blocked and the denied ones.
    pub refused: u64,
    /// Requests that passed with a warning.
    pub warned: u64,
    /// Requests that passed after a delay.
    pub delayed: u64,
    /// Requests that were refused because of repeated violations.
    pub blocked: u64,
    /// Requests that were denied by a list or a rule.
    pub denied: u64,
}

/// The decisions of a rule about the requests to which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// The name of the rule.
    pub rule: String,
    /// Whether it is a shadow rule, which counts and does not refuse.
    pub shadow: bool,
    /// The requests that it allowed; another rule may have refused them.
    pub allowed: u64,
    /// The requests that it refused, or would have refused as a shadow rule; other rules may have refused them too.
    pub refused: u64,
    /// The requests beyond its limit that it let pass with a warning.
    pub warned: u64,
    /// Those of the allowed requests that it delays.
    pub delayed: u64,
    /// Those of the refused requests that it refused because of repeated violations.
    pub blocked: u64,
    /// The number of clients that it refused at least once.
    pub clients_refused: u64,
}

/// The decisions about an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointReport {
    /// The endpoint.
    pub endpoint: EndpointName,
    /// The actions.
    pub actions: ActionCounts,
}

/// A client with refused requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HurtClient {
    /// The client.
    pub client: ClientName,
    /// Its requests.
    pub requests: u64,
    /// Its refused requests.
    pub refused: u64,
    /// Its requests that passed with a warning.
    pub warned: u64,
    /// Its requests that passed after a delay.
    pub delayed: u64,
    /// Its requests that were refused because of repeated violations.
    pub blocked: u64,
    /// When it was refused first, in nanoseconds since 1970.
    pub first_refused_ns: u64,
    /// Its peak rates.
    pub peaks: Peaks,
    /// The rules that refused it, with the number of requests, the largest first.
    pub rules: Vec<(String, u64)>,
}

/// The clients whose peak is in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakBin {
    /// The smallest peak of the range, in requests a minute.
    pub from: u64,
    /// The largest peak of the range.
    pub to: u64,
    /// The clients that were never refused.
    pub never_refused: u64,
    /// The clients that were refused at least once.
    pub refused: u64,
}

/// The changes from another policy to the simulated one.
#[derive(Clone, Debug)]
pub struct ChangeReport {
    /// The actions of the other policy.
    pub actions: ActionCounts,
    /// The rules of the other policy.
    pub rules: Vec<RuleReport>,
    /// The requests that the other policy allowed and this one refuses.
    pub newly_refused: u64,
    /// The requests that the other policy refused and this one allows.
    pub newly_allowed: u64,
    /// The number of clients with newly refused requests.
    pub clients_newly_refused: u64,
    /// The number of clients with newly allowed requests.
    pub clients_newly_allowed: u64,
    /// The clients with the most changed requests.
    pub clients: Vec<ChangedClient>,
}

/// A client with requests that two policies decide differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedClient {
    /// The client.
    pub client: ClientName,
    /// Its requests.
    pub requests: u64,
    /// Its requests that only the other policy allowed.
    pub newly_refused: u64,
    /// Its requests that only this policy allows.
    pub newly_allowed: u64,
}

/// The kinds of actions in a [`TimeSeries`]. Denied requests are refused ones: policies deny by lists, and not over time.
pub const ACTION_KINDS: usize = 5;

impl ActionCounts {
    /// Returns the kind of an action.
    pub(super) fn kind(action: Action) -> usize {
        match action {
            Action::Allow => 0,
            Action::Warn => 1,
            Action::Delay => 2,
            Action::Reject | Action::Deny => 3,
            Action::Block => 4,
        }
    }

    /// Returns the actions of an interval, without the number of denied requests.
    fn of_kinds([passed, warned, delayed, rejected, blocked]: [u64; ACTION_KINDS]) -> ActionCounts {
        let (allowed, refused) = (passed + warned + delayed, rejected + blocked);
        ActionCounts { allowed, refused, warned, delayed, blocked, denied: 0 }
    }

    #[inline]
    pub(super) fn count(&mut self, action: Action) {
        match action {
            Action::Allow => {}
            Action::Warn => self.warned += 1,
            Action::Delay => self.delayed += 1,
            Action::Reject => {}
            Action::Block => self.blocked += 1,
            Action::Deny => self.denied += 1,
        }
        if action.is_allowed() { self.allowed += 1 } else { self.refused += 1 }
    }
}

impl SimulationReport {
    /// Returns the actions in each interval of [`over_time`](SimulationReport::over_time). Denied requests are among the
    /// refused ones only.
    pub fn intervals(&self) -> impl ExactSizeIterator<Item = ActionCounts> {
        self.over_time.counts().iter().map(|kinds| ActionCounts::of_kinds(*kinds))
    }
}

pub(super) fn report(
    run: &PolicyRun,
    against: Option<&PolicyRun>,
    endpoints: &EndpointIndex,
    counters: ActionCounters,
) -> SimulationReport {
    let ActionCounters {
        clients, client_tallies, over_time, without_client, refusals, refusals_of_other, changes, ..
    } = counters;
    let refused = |at: &u32| client_tallies[*at as usize].refused;
    let mut hurt: Vec<u32> = (0..to_u32(client_tallies.len())).filter(|at| refused(at) > 0).collect();
    hurt.sort_by_key(|at| (Reverse(refused(at)), *at));
    let rules_of = rules_by_client(run, &refusals);
    let worst = hurt.iter().take(MAX_LISTED).map(|at| {
        let rules = rules_of.get(at).cloned().unwrap_or_default();
        hurt_client(clients.name(*at).clone(), &client_tallies[*at as usize], rules)
    });
    let peaks = client_tallies.iter().map(|tally| (tally.peaks.peaks().in_minute, tally.refused > 0));
    SimulationReport {
        requests: run.actions.allowed + run.actions.refused,
        clients: clients.len() as u64,
        without_client,
        clients_refused: hurt.len() as u64,
        actions: run.actions,
        longest_delay_ns: run.longest_delay_ns,
        evictions: run.store_stats().evictions,
        rules: rules(run, &refusals),
        endpoints: most_refused(endpoints, &counters.endpoints),
        worst_clients: worst.collect(),
        peaks: peak_bins(peaks),
        over_time,
        changes: against.map(|other| {
            let requests = |at: u32| client_tallies[at as usize].requests;
            change_report(other, &refusals_of_other, &changes, &clients, requests)
        }),
    }
}

fn hurt_client(client: ClientName, tally: &ClientCounters, rules: Vec<(String, u64)>) -> HurtClient {
    HurtClient {
        client,
        requests: tally.requests,
        refused: tally.refused,
        warned: tally.warned.into(),
        delayed: tally.delayed.into(),
        blocked: tally.blocked.into(),
        first_refused_ns: tally.first_refused_ns,
        peaks: tally.peaks.peaks(),
        rules,
    }
}

/// The endpoints with the most refused requests, then the most requests.
fn most_refused(endpoints: &EndpointIndex, actions: &[ActionCounts]) -> Vec<EndpointReport> {
    let mut reports: Vec<EndpointReport> = (0..)
        .zip(actions)
        .filter(|(_, actions)| actions.allowed + actions.refused > 0)
        .map(|(at, actions)| EndpointReport { endpoint: endpoints.name(at).clone(), actions: *actions })
        .collect();
    reports.sort_by(|one, other| {
        let order = |report: &EndpointReport| (Reverse(report.actions.refused), Reverse(report.actions.allowed));
        order(one).cmp(&order(other)).then_with(|| one.endpoint.cmp(&other.endpoint))
    });
    reports.truncate(MAX_LISTED);
    reports
}

fn rules(run: &PolicyRun, refusals: &ClientRefusals) -> Vec<RuleReport> {
    let mut clients = vec![0; run.rules.len()];
    refusals.keys().for_each(|(_, rule)| clients[*rule as usize] += 1);
    let report = |((rule, tally), clients_refused): ((&CompiledRule, &RuleTally), u64)| RuleReport {
        rule: rule.name.to_string(),
        shadow: rule.shadow,
        allowed: tally.allowed,
        refused: tally.refused,
        warned: tally.warned,
        delayed: tally.delayed,
        blocked: tally.blocked,
        clients_refused,
    };
    run.policy().rules().iter().zip(&run.rules).zip(clients).map(report).collect()
}

/// The enforced rules that refused each client.
fn rules_by_client(run: &PolicyRun, refusals: &ClientRefusals) -> HashMap<u32, Vec<(String, u64)>, RandomState> {
    let mut by_client: HashMap<u32, Vec<(String, u64)>, RandomState> = HashMap::default();
    for ((client, rule), refused) in refusals {
        let rule = &run.policy().rules()[*rule as usize];
        if rule.shadow {
            continue;
        }
        let name = rule.name.to_string();
        by_client.entry(*client).or_default().push((name, *refused));
    }
    for rules in by_client.values_mut() {
        rules.sort_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
    }
    by_client
}

/// Counts clients by their peak, in ranges that double, from the first to the last one with clients.
fn peak_bins(peaks: impl Iterator<Item = (u32, bool)>) -> Vec<PeakBin> {
    let mut counts = [[0; 2]; PEAK_BINS];
    for (peak, is_refused) in peaks {
        counts[peak.max(1).ilog2() as usize][usize::from(is_refused)] += 1;
    }
    let bins = (0..).zip(counts).map(|(at, [never_refused, refused])| PeakBin {
        from: 1 << at,
        to: (2 << at) - 1,
        never_refused,
        refused,
    });
    let is_empty = |bin: &PeakBin| bin.never_refused + bin.refused == 0;
    let mut bins: Vec<PeakBin> = bins.skip_while(is_empty).collect();
    while bins.last().is_some_and(is_empty) {
        bins.pop();
    }
    bins
}

fn change_report(
    other: &PolicyRun,
    refusals: &ClientRefusals,
    changes: &Changes,
    clients: &ClientIndex,
    requests: impl Fn(u32) -> u64,
) -> ChangeReport {
    let changed = |(at, change): (&u32, &ClientChange)| ChangedClient {
        client: clients.name(*at).clone(),
        requests: requests(*at),
        newly_refused: change.newly_refused,
        newly_allowed: change.newly_allowed,
    };
    let mut list: Vec<ChangedClient> = changes.clients.iter().map(changed).collect();
    let most = |client: &ChangedClient| Reverse(client.newly_refused + client.newly_allowed);
    list.sort_by(|one, other| most(one).cmp(&most(other)).then_with(|| one.client.cmp(&other.client)));
    let count = |figure: fn(&ChangedClient) -> u64| {
        list.iter().fold((0, 0), |(sum, clients), client| {
            let figure = figure(client);
            (sum + figure, clients + u64::from(figure > 0))
        })
    };
    let (newly_refused, clients_newly_refused) = count(|client| client.newly_refused);
    let (newly_allowed, clients_newly_allowed) = count(|client| client.newly_allowed);
    list.truncate(MAX_LISTED);
    ChangeReport {
        actions: other.actions,
        rules: rules(other, refusals),
        newly_refused,
        newly_allowed,
        clients_newly_refused,
        clients_newly_allowed,
        clients: list,
    }
}
