use tollgate_store::{Limit, LimitOptions, OnFailure, Quota, Refusals, Store};

/// A limit of the tests: `amount` a minute, and a burst of as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// The limit of the few keys that are requested all the time.
    Hot,
    /// The limit of many keys that are requested a few times each. One request can use the whole burst of a region.
    Cold,
}

impl Rule {
    pub(crate) fn amount(self) -> u64 {
        match self {
            Rule::Hot => 1_000,
            Rule::Cold => 10,
        }
    }

    pub(crate) fn burst(self) -> u64 {
        self.amount()
    }

    pub(crate) fn limit(self, store: &dyn Store) -> Limit {
        let quota = Quota::token_bucket(format!("{}/min", self.amount()).parse().unwrap()).unwrap();
        assert_eq!(quota.burst(), self.burst());
        let options =
            LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Brief, lease: None, regional: true };
        store.limit(self.name(), quota, options).unwrap()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Rule::Hot => "hot",
            Rule::Cold => "cold",
        }
    }
}

/// A key of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) rule: Rule,
    pub(crate) number: u32,
}

impl Key {
    pub(crate) fn name(self) -> String {
        format!("{}-{}", self.rule.name(), self.number)
    }
}

pub(crate) fn hot(number: u32) -> Key {
    Key { rule: Rule::Hot, number }
}

pub(crate) fn cold(number: u32) -> Key {
    Key { rule: Rule::Cold, number }
}
