//! Refunds, settlements and renewals of a caller, with their checks.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_store::{ChargeReceipt, Store};

use super::caller::Caller;
use super::plan::{FollowUp, Plan};
use crate::sim::world::locked;
use crate::store::{ReceiptKind, is_concurrency, key_name, receipt_kind};

impl Caller {
    pub(in crate::sim) async fn follow_up(&self, plan: &Plan, receipts: Vec<(usize, ChargeReceipt)>) {
        let store = &self.stores[plan.instance];
        match plan.follow_up {
            FollowUp::Keep => {}
            FollowUp::Refund(pause) => {
                sleep(pause).await;
                for (_, receipt) in receipts {
                    self.refund(plan, receipt);
                }
            }
            FollowUp::Settle(pause, true_cost) => {
                sleep(pause).await;
                for (_, receipt) in receipts {
                    if is_concurrency(receipt.limit()) {
                        self.refund(plan, receipt);
                        continue;
                    }
                    self.subtract_local(plan, &receipt, receipt.cost().saturating_sub(true_cost));
                    let more = true_cost.saturating_sub(receipt.cost());
                    if more > 0 && !matches!(receipt_kind(&receipt), ReceiptKind::Server(_)) {
                        let key = key_name(&receipt);
                        locked(&self.world).ledger.record_fallback_usage(plan.instance, &key, more);
                    }
                    let started = Instant::now();
                    store.settle(receipt, true_cost).await;
                    if started.elapsed() > self.deadline + Duration::from_millis(2) {
                        self.violate(format!("settling took {:?}", started.elapsed()));
                    }
                }
            }
            FollowUp::Renew(first, second) => {
                for pause in [first, second] {
                    sleep(pause).await;
                    receipts.iter().for_each(|(_, receipt)| self.renew(plan, receipt));
                }
                sleep(first).await;
                receipts.iter().for_each(|(_, receipt)| self.renew(plan, receipt));
            }
        }
    }

    fn renew(&self, plan: &Plan, receipt: &ChargeReceipt) {
        let renewed = self.stores[plan.instance].renew(receipt);
        if let ReceiptKind::Server(charged) = receipt_kind(receipt) {
            let mut world = locked(&self.world);
            let now = world.now_us();
            let (_, lost_acknowledged) = world.ledger.lease(plan.instance, &key_name(receipt), &charged, now);
            let is_permit = is_concurrency(receipt.limit());
            if renewed != (is_permit && !lost_acknowledged) {
                world.ledger.violate(format!("renewed {renewed}, loss acknowledged {lost_acknowledged}"));
            }
        }
    }

    fn refund(&self, plan: &Plan, receipt: ChargeReceipt) {
        let key = key_name(&receipt);
        match receipt_kind(&receipt) {
            ReceiptKind::Server(charged) => {
                locked(&self.world).ledger.record_refund(plan.instance, &key, &charged);
                let mut observations = self.observations.lock().unwrap();
                let held = observations.held.entry(key).or_default();
                if let Some(at) = held.iter().position(|held| *held == (plan.instance, charged)) {
                    held.swap_remove(at);
                }
            }
            ReceiptKind::Fallback => self.subtract_local(plan, &receipt, receipt.cost()),
            ReceiptKind::Lease | ReceiptKind::FailOpen => {}
        }
        locked(&self.world).is_caller_refunding = true;
        self.stores[plan.instance].refund(receipt);
        locked(&self.world).is_caller_refunding = false;
    }

    /// Subtracts a refund from the fallback count of the instance.
    fn subtract_local(&self, plan: &Plan, receipt: &ChargeReceipt, amount: u64) {
        let mut observations = self.observations.lock().unwrap();
        let owner = (plan.instance, key_name(receipt));
        if let (ReceiptKind::Fallback, Some(counted)) =
            (receipt_kind(receipt), observations.counted_locally.get_mut(&owner))
        {
            counted.1 -= amount as i64;
        }
    }
}
