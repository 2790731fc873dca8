//! The result of a simulation.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate::Action;

use super::changes::Changes;
use super::policy_run::PolicyRun;
use super::{ALLOWED, REFUSED, Simulation};
use crate::tally::client_index::{ClientIndex, ClientName};
use crate::tally::endpoint_index::EndpointName;
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
    /// Allowed and refused requests over time.
    pub over_time: TimeSeries<2>,
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
    /// The number of clients that it refused at least once.
    pub clients_refused: u64,
}

/// The decisions about an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointReport {
    /// The endpoint.
    pub endpoint: EndpointName,
    /// The allowed requests.
    pub allowed: u64,
    /// The refused requests.
    pub refused: u64,
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

impl ActionCounts {
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

pub(super) fn report(simulation: Simulation) -> SimulationReport {
    let Simulation { run, against, clients, client_tallies, endpoints, endpoint_counts, over_time, .. } = simulation;
    let rules_of = rules_by_client(&run);
    let client = |at: u32| {
        let tally = &client_tallies[at as usize];
        HurtClient {
            client: clients.name(at).clone(),
            requests: tally.requests,
            refused: tally.refused,
            first_refused_ns: tally.first_refused_ns,
            peaks: tally.peaks.peaks(),
            rules: rules_of.get(&at).cloned().unwrap_or_default(),
        }
    };
    let refused = |at: &u32| client_tallies[*at as usize].refused;
    let mut hurt: Vec<u32> = (0..to_u32(client_tallies.len())).filter(|at| refused(at) > 0).collect();
    hurt.sort_by_key(|at| (Reverse(refused(at)), *at));
    let mut by_endpoint: Vec<EndpointReport> = (0..)
        .zip(&endpoint_counts)
        .filter(|(_, counts)| **counts != [0, 0])
        .map(|(at, counts)| EndpointReport {
            endpoint: endpoints.name(at).clone(),
            allowed: counts[ALLOWED],
            refused: counts[REFUSED],
        })
        .collect();
    by_endpoint.sort_by(|one, other| {
        let order = |report: &EndpointReport| (Reverse(report.refused), Reverse(report.allowed));
        order(one).cmp(&order(other)).then_with(|| one.endpoint.cmp(&other.endpoint))
    });
    by_endpoint.truncate(MAX_LISTED);
    let peaks = client_tallies.iter().map(|tally| (tally.peaks.peaks().in_minute, tally.refused > 0));
    SimulationReport {
        requests: run.actions.allowed + run.actions.refused,
        clients: clients.len() as u64,
        without_client: simulation.without_client,
        clients_refused: hurt.len() as u64,
        actions: run.actions,
        longest_delay_ns: run.longest_delay_ns,
        evictions: run.store_stats().evictions,
        rules: rules(&run),
        endpoints: by_endpoint,
        worst_clients: hurt.iter().take(MAX_LISTED).map(|at| client(*at)).collect(),
        peaks: peak_bins(peaks),
        over_time,
        changes: against.map(|(other, changes)| {
            let requests = |at: u32| client_tallies[at as usize].requests;
            change_report(&other, &changes, &clients, requests)
        }),
    }
}

fn rules(run: &PolicyRun) -> Vec<RuleReport> {
    let report = |(rule, tally): (&tollgate::policy::CompiledRule, &super::policy_run::RuleTally)| RuleReport {
        rule: rule.name.to_string(),
        shadow: rule.shadow,
        allowed: tally.allowed,
        refused: tally.refused,
        warned: tally.warned,
        clients_refused: tally.clients_refused,
    };
    run.policy().rules().iter().zip(&run.rules).map(report).collect()
}

/// The enforced rules that refused each client.
fn rules_by_client(run: &PolicyRun) -> HashMap<u32, Vec<(String, u64)>, RandomState> {
    let mut by_client: HashMap<u32, Vec<(String, u64)>, RandomState> = HashMap::default();
    for ((client, rule), refused) in &run.refused_by {
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
    changes: &Changes,
    clients: &ClientIndex,
    requests: impl Fn(u32) -> u64,
) -> ChangeReport {
    let changed = |(at, change): (&u32, &super::changes::ClientChange)| ChangedClient {
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
        rules: rules(other),
        newly_refused,
        newly_allowed,
        clients_newly_refused,
        clients_newly_allowed,
        clients: list,
    }
}
