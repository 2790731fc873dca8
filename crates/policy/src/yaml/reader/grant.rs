//! How much a rule grants.

use std::str::FromStr;
use std::time::Duration;

use tollgate_core::{AlgorithmKind, MAX_AMOUNT, Queue, Quota, QuotaError, Rate};

use super::Reader;
use crate::check::codes;
use crate::model::{Grant, quota_of};
use crate::yaml::tree::{Node, Value};

/// How a rule counts, which tells what its figures mean.
#[derive(Clone, Copy)]
pub(super) enum Counting {
    Rates { algorithm: AlgorithmKind, queue: Option<Queue>, max_debt: Option<u64> },
    Permits { lease: Duration },
}

impl Reader<'_> {
    /// A rate, a list of rates, permits, or `unlimited`.
    pub(super) fn grant(&mut self, node: &Node, counting: Counting) -> Option<Grant> {
        if node.scalar().is_some_and(|scalar| scalar.text.eq_ignore_ascii_case("unlimited")) {
            return Some(Grant::Unlimited);
        }
        match counting {
            Counting::Permits { lease } => Some(Grant::Limited(vec![self.permits(node, lease)?])),
            Counting::Rates { .. } => self.rates(node, counting),
        }
    }

    pub(super) fn permits(&mut self, node: &Node, lease: Duration) -> Option<Quota> {
        let permits = self.number(node, 1..=MAX_AMOUNT)?;
        self.built(Quota::concurrency(permits, Some(lease)), node)
    }

    fn rates(&mut self, node: &Node, counting: Counting) -> Option<Grant> {
        if matches!(node.value, Value::Map(_)) {
            self.wrong_type(node, "a rate such as 100/s, a list of rates, or `unlimited`");
            return None;
        }
        self.refuse_empty(node);
        let quotas: Vec<Quota> = node.items().iter().filter_map(|item| self.quota(item, counting)).collect();
        // One that could not be read was told; the others are no grant without it.
        (!quotas.is_empty() && quotas.len() == node.items().len()).then_some(Grant::Limited(quotas))
    }

    fn quota(&mut self, node: &Node, counting: Counting) -> Option<Quota> {
        let Counting::Rates { algorithm, queue, max_debt } = counting else { return None };
        let rate = self.rate(node)?;
        // A queue that does not go with the algorithm was told.
        self.built(quota_of(rate, algorithm, queue, max_debt), node)
    }

    fn rate(&mut self, node: &Node) -> Option<Rate> {
        let text = self.text(node, "a rate such as 100/s or 60/min burst 100")?;
        match Rate::from_str(&text) {
            Ok(rate) => Some(rate),
            Err(error) => {
                let message = format!("not a rate: {}", error.expected());
                self.error(codes::BAD_RATE, node.span_from(error.column()), message, "");
                None
            }
        }
    }

    fn built(&mut self, quota: Result<Quota, QuotaError>, node: &Node) -> Option<Quota> {
        match quota {
            Ok(quota) => Some(quota),
            Err(error) => {
                let about_burst = matches!(error, QuotaError::BurstOnWindow | QuotaError::BurstOnQueue);
                let at = if about_burst { burst_at(node) } else { 0 };
                self.error(codes::BAD_QUOTA, node.span_from(at), error.to_string(), "");
                None
            }
        }
    }
}

/// The character at which the burst of a rate begins.
fn burst_at(node: &Node) -> usize {
    let text = node.scalar().map_or_else(String::new, |scalar| scalar.text.to_ascii_lowercase());
    text.find("burst").map_or(0, |at| text[..at].chars().count())
}
