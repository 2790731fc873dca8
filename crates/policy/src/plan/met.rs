//! What a request meets.

use smallvec::SmallVec;

use super::position;

/// How a request fares before any rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The rules decide.
    Rules,
    /// It passes without meeting any rule.
    Allowed,
    /// It is turned away.
    Denied,
    /// It is turned away because its token cannot be used, by a rule that counts by what the token says.
    Unauthorized,
}

/// What a request meets: what is to be charged, all or nothing.
#[derive(Clone, Debug)]
pub struct Met {
    /// How it fares before any rule. Unless the rules decide there are no charges.
    pub access: Access,
    /// The most specific path pattern of any rule that the request's path matches, by its position
    /// among [`Plan::endpoints`](crate::Plan::endpoints).
    pub endpoint: Option<u32>,
    /// The charges, in the order of the rules.
    pub charges: SmallVec<[PlannedCharge; 4]>,
    /// Whether a rule applies that grants as much as anybody wants.
    pub unlimited: bool,
    /// The rules that do not apply because others do that replace them.
    replaced: SmallVec<[u32; 2]>,
    /// The keys, one behind the other.
    pub(super) keys: SmallVec<[u8; 128]>,
}

/// A cost to be charged to a key under a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedCharge {
    /// The position of the rule among [`Plan::rules`](crate::Plan::rules).
    pub rule: u32,
    /// The position of the quota among [`Plan::quotas`](crate::Plan::quotas).
    pub quota: u32,
    /// What it costs; 0 asks without charging.
    pub cost: u64,
    pub(super) key_start: u32,
    pub(super) key_end: u32,
}

impl Met {
    /// Nothing yet.
    #[must_use]
    #[inline]
    pub fn new(access: Access) -> Met {
        Met {
            access,
            endpoint: None,
            charges: SmallVec::new(),
            unlimited: false,
            replaced: SmallVec::new(),
            keys: SmallVec::new(),
        }
    }

    /// Adds what another request meets, to be charged together with this: the
    /// same key under the same quota once, at the larger cost. Returns where
    /// its charges are now.
    pub fn join(&mut self, other: &Met) -> SmallVec<[usize; 4]> {
        self.endpoint = self.endpoint.or(other.endpoint);
        other.charges.iter().map(|charge| self.join_charge(charge, other.key(charge))).collect()
    }

    fn join_charge(&mut self, charge: &PlannedCharge, key: &[u8]) -> usize {
        let is_same = |known: &PlannedCharge| known.quota == charge.quota && self.key(known) == key;
        if let Some(at) = self.charges.iter().position(is_same) {
            self.charges[at].cost = self.charges[at].cost.max(charge.cost);
            return at;
        }
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.charges.push(PlannedCharge { key_start: position(start), key_end: position(self.keys.len()), ..*charge });
        self.charges.len() - 1
    }

    /// Its token cannot be used, and a rule refuses such: it is charged nothing.
    pub(super) fn refuse_token(&mut self) {
        self.access = Access::Unauthorized;
        self.charges.clear();
        self.unlimited = false;
    }

    #[inline]
    pub(super) fn replace(&mut self, rules: &[u32]) {
        self.replaced.extend_from_slice(rules);
    }

    /// Notes what another request replaces that is decided together with others.
    pub fn replace_as(&mut self, other: &Met) {
        self.replaced.extend_from_slice(&other.replaced);
    }

    /// Takes away what others replace that are decided together with this request.
    pub fn without_replaced_by(&mut self, other: &Met) {
        self.charges.retain(|charge| !other.replaced.contains(&charge.rule));
    }

    /// The same for what the request itself replaces.
    pub(super) fn without_replaced(&mut self) {
        let replaced = &self.replaced;
        self.charges.retain(|charge| !replaced.contains(&charge.rule));
    }

    /// Nothing but these charges.
    pub fn retain(&mut self, wanted: impl Fn(&PlannedCharge) -> bool) {
        self.charges.retain(|charge| wanted(charge));
    }

    /// The key of one of these charges, as text that a person can read. Empty
    /// where a rule counts everybody together.
    #[inline]
    #[must_use]
    pub fn key(&self, charge: &PlannedCharge) -> &[u8] {
        self.keys.get(charge.key_start as usize..charge.key_end as usize).unwrap_or_default()
    }
}
