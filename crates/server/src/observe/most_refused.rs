//! The clients that are refused most often, over all rules.

use std::cmp::Reverse;
use std::sync::Arc;

use super::observer::Observer;
use crate::observe::clients::client_names::IdentityFormat;
use crate::observe::clients::rule_clients::WINDOW_NS;
use crate::observe::clients::tally::FrequentClient;

const MINUTE_NS: u64 = 60_000_000_000;

/// A client that a rule refused often.
#[derive(Clone, Debug)]
pub(crate) struct RefusedClient {
    pub(crate) rule: Arc<str>,
    pub(crate) known: FrequentClient,
    /// The count as a rate, for the windows in which it was counted.
    pub(crate) per_minute: u64,
}

impl Observer {
    /// Returns the clients that any rule refused most often in the last 30 to 60 seconds.
    pub(crate) fn most_refused(&self, max: usize) -> Vec<RefusedClient> {
        let now_ns = self.clock.now_ns();
        // The windows are aligned: the recent ones are the current and the one before it.
        let span_ns = WINDOW_NS + now_ns % WINDOW_NS;
        let per_minute = |count: u64| {
            let rate = u128::from(count) * u128::from(MINUTE_NS) / u128::from(span_ns);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let of_rule = |(rule, known): (&Arc<str>, FrequentClient)| RefusedClient {
            rule: Arc::clone(rule),
            per_minute: per_minute(known.count),
            known,
        };
        let tallies = self.refused();
        let top = tallies.iter().flat_map(|(rule, tally)| tally.top(max).into_iter().map(move |known| (rule, known)));
        let mut clients: Vec<RefusedClient> = top.map(of_rule).collect();
        clients.sort_by(|one, other| {
            let order = |client: &RefusedClient| Reverse(client.known.count - client.known.error);
            let names = |client: &RefusedClient| (Arc::clone(&client.rule), Arc::clone(&client.known.client));
            order(one).cmp(&order(other)).then_with(|| names(one).cmp(&names(other)))
        });
        clients.truncate(max);
        clients
    }

    /// Returns the format of client IDs.
    pub(crate) fn identity_format(&self) -> IdentityFormat {
        self.names.format()
    }
}
