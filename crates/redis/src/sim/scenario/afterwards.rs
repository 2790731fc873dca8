//! What a caller does with its receipts, and checks while doing it.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_store::{Receipt, Store};

use super::caller::Caller;
use super::plan::{Afterwards, Plan};
use crate::sim::world::locked;
use crate::store::{SeenReceipt, is_concurrency, key_name, seen_receipt};

impl Caller {
    pub(in crate::sim) async fn afterwards(&self, plan: &Plan, receipts: Vec<(usize, Receipt)>) {
        let store = &self.stores[plan.instance];
        match plan.afterwards {
            Afterwards::Keep => {}
            Afterwards::GiveBack(pause) => {
                sleep(pause).await;
                for (_, receipt) in receipts {
                    self.give_back(plan, receipt);
                }
            }
            Afterwards::Settle(pause, true_cost) => {
                sleep(pause).await;
                for (_, receipt) in receipts {
                    if is_concurrency(receipt.limit()) {
                        self.give_back(plan, receipt);
                        continue;
                    }
                    self.take_off(plan, &receipt, receipt.cost().saturating_sub(true_cost));
                    let more = true_cost.saturating_sub(receipt.cost());
                    if more > 0 && !matches!(seen_receipt(&receipt), SeenReceipt::Server(_)) {
                        let key = key_name(&receipt);
                        locked(&self.world).books.passed_uncounted(plan.instance, &key, more);
                    }
                    let began = Instant::now();
                    store.settle(receipt, true_cost).await;
                    if began.elapsed() > self.deadline + Duration::from_millis(2) {
                        self.violate(format!("settling took {:?}", began.elapsed()));
                    }
                }
            }
            Afterwards::Renew(first, second) => {
                for pause in [first, second] {
                    sleep(pause).await;
                    receipts.iter().for_each(|(_, receipt)| self.renew(plan, receipt));
                }
                sleep(first).await;
                receipts.iter().for_each(|(_, receipt)| self.renew(plan, receipt));
            }
        }
    }

    fn renew(&self, plan: &Plan, receipt: &Receipt) {
        let renewed = self.stores[plan.instance].renew(receipt);
        if let SeenReceipt::Server(charged) = seen_receipt(receipt) {
            let mut world = locked(&self.world);
            let now = world.now_us();
            let (_, told_lost) = world.books.lease(plan.instance, &key_name(receipt), &charged, now);
            let is_permit = is_concurrency(receipt.limit());
            if renewed != (is_permit && !told_lost) {
                world.books.violate(format!("renewed {renewed}, told that it is lost {told_lost}"));
            }
        }
    }

    fn give_back(&self, plan: &Plan, receipt: Receipt) {
        let key = key_name(&receipt);
        match seen_receipt(&receipt) {
            SeenReceipt::Server(charged) => {
                locked(&self.world).books.returned(plan.instance, &key, &charged);
                let mut seen = self.seen.lock().unwrap();
                let held = seen.held.entry(key).or_default();
                if let Some(at) = held.iter().position(|held| *held == (plan.instance, charged)) {
                    held.swap_remove(at);
                }
            }
            SeenReceipt::Here => self.take_off(plan, &receipt, receipt.cost()),
            SeenReceipt::Nowhere => {}
        }
        locked(&self.world).is_giving_back = true;
        self.stores[plan.instance].give_back(receipt);
        locked(&self.world).is_giving_back = false;
    }

    /// Something is given back to this instance's own count.
    fn take_off(&self, plan: &Plan, receipt: &Receipt, amount: u64) {
        let mut seen = self.seen.lock().unwrap();
        let owner = (plan.instance, key_name(receipt));
        if let (SeenReceipt::Here, Some(counted)) = (seen_receipt(receipt), seen.counted_here.get_mut(&owner)) {
            counted.1 -= amount as i64;
        }
    }
}
