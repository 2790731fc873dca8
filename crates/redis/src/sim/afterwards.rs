//! What a caller does with its receipts, and checks while doing it.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_store::Store;

use super::caller::Caller;
use super::plan::{Afterwards, Plan};
use super::world::locked;
use crate::store::{RedisReceipt, SeenReceipt};

impl Caller {
    pub(super) async fn afterwards(&self, plan: &Plan, receipts: Vec<(usize, RedisReceipt)>) {
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
                    if receipt.limit_is_concurrency() {
                        self.give_back(plan, receipt);
                        continue;
                    }
                    self.take_off(plan, &receipt, receipt.cost().saturating_sub(true_cost));
                    let more = true_cost.saturating_sub(receipt.cost());
                    if more > 0 && !matches!(receipt.seen(), SeenReceipt::Server(_)) {
                        let key = receipt.target().key.clone();
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

    fn renew(&self, plan: &Plan, receipt: &RedisReceipt) {
        let renewed = self.stores[plan.instance].renew(receipt);
        if let SeenReceipt::Server(charged) = receipt.seen() {
            let mut world = locked(&self.world);
            let now = world.now_us();
            let (_, told_lost) = world.books.lease(plan.instance, &receipt.target().key, &charged, now);
            let is_permit = receipt.limit_is_concurrency();
            if renewed != (is_permit && !told_lost) {
                world.books.violate(format!("renewed {renewed}, told that it is lost {told_lost}"));
            }
        }
    }

    fn give_back(&self, plan: &Plan, receipt: RedisReceipt) {
        let key = receipt.target().key.clone();
        match receipt.seen() {
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
    fn take_off(&self, plan: &Plan, receipt: &RedisReceipt, amount: u64) {
        let mut seen = self.seen.lock().unwrap();
        let owner = (plan.instance, receipt.target().key.clone());
        if let (SeenReceipt::Here, Some(counted)) = (receipt.seen(), seen.counted_here.get_mut(&owner)) {
            counted.1 -= amount as i64;
        }
    }
}
