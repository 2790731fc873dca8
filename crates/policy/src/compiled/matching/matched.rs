//! The rules that a request matches.

use smallvec::SmallVec;

use crate::compiled::key::key_bytes::KeyBuffer;
use crate::compiled::position;

/// The outcome of the access lists, before any rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The rules decide.
    Rules,
    /// The request passes, and no rule is evaluated.
    Allowed,
    /// The request is denied.
    Denied,
    /// The request is denied because its token is unusable, by a rule that counts by a claim of the token.
    Unauthorized,
}

/// The rules that a request matches: the charges to make, all or none. Keys that are unchanged values of the request
/// are borrowed from it.
#[derive(Clone, Debug)]
pub struct Matched<'r> {
    /// The outcome of the access lists. There are no charges unless it is [`Access::Rules`].
    pub access: Access,
    /// The position of the most specific path pattern of any rule that the request's path matches, among
    /// [`CompiledPolicy::endpoints`](crate::CompiledPolicy::endpoints).
    pub endpoint: Option<u32>,
    /// The charges, in the order of the rules.
    pub charges: SmallVec<[MatchedCharge; 4]>,
    /// The positions of the rules that deny the request, among
    /// [`CompiledPolicy::rules`](crate::CompiledPolicy::rules), in the order of the policy. If one of them is enforced,
    /// nothing is charged.
    pub denials: SmallVec<[u32; 2]>,
    /// Whether a rule applies whose grant is unlimited.
    pub unlimited: bool,
    /// The rules that do not apply because other matching rules replace them.
    replaced: SmallVec<[u32; 2]>,
    /// The keys that are not borrowed, one after the other.
    pub(in crate::compiled) keys: KeyBuffer,
    /// The keys that are borrowed from the request, and their number. If the array is full, further keys are copied.
    borrowed: [&'r [u8]; BORROWED_MAX],
    borrowed_count: usize,
}

/// Few policies count by more than three values of a request.
const BORROWED_MAX: usize = 3;

/// A cost to be charged to a key under a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedCharge {
    /// The position of the rule among [`CompiledPolicy::rules`](crate::CompiledPolicy::rules).
    pub rule: u32,
    /// The position of the quota among [`CompiledPolicy::quotas`](crate::CompiledPolicy::quotas).
    pub quota: u32,
    /// The cost; 0 is a peek, which charges nothing.
    pub cost: u64,
    pub(in crate::compiled) key: KeyRef,
}

/// The location of a charge's key: the bytes `start..end` of the written keys, or index `end` of the borrowed keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compiled) struct KeyRef {
    start: u32,
    end: u32,
}

impl KeyRef {
    /// The value of `start` for a borrowed key. No written key begins there.
    const BORROWED: u32 = u32::MAX;

    #[inline]
    pub(in crate::compiled) fn written(start: usize, end: usize) -> KeyRef {
        KeyRef { start: position(start), end: position(end) }
    }
}

impl<'r> Matched<'r> {
    /// Returns an empty result.
    #[must_use]
    #[inline]
    pub fn new(access: Access) -> Matched<'r> {
        Matched {
            access,
            endpoint: None,
            charges: SmallVec::new(),
            denials: SmallVec::new(),
            unlimited: false,
            replaced: SmallVec::new(),
            keys: SmallVec::new(),
            borrowed: [&[]; BORROWED_MAX],
            borrowed_count: 0,
        }
    }

    /// Adds the charges of another request, to be made together with these. The same key under the same quota is
    /// charged once, at the larger cost. Returns the positions of the other request's charges.
    pub fn join(&mut self, other: &Matched<'_>) -> SmallVec<[usize; 4]> {
        self.endpoint = self.endpoint.or(other.endpoint);
        let all = |_: &MatchedCharge| true;
        other.charges.iter().map(|charge| self.join_charge(charge, other.key(charge), all)).collect()
    }

    /// Adds a charge, or joins it with a charge of the same key and quota for which `may_join` returns true. The joined
    /// charge has the larger cost and, among rules that share a budget, the rule with that cost.
    fn join_charge(&mut self, charge: &MatchedCharge, key: &[u8], may_join: impl Fn(&MatchedCharge) -> bool) -> usize {
        let is_same = |known: &MatchedCharge| known.quota == charge.quota && self.key(known) == key && may_join(known);
        if let Some(index) = self.charges.iter().position(is_same) {
            if charge.cost > self.charges[index].cost {
                (self.charges[index].cost, self.charges[index].rule) = (charge.cost, charge.rule);
            }
            return index;
        }
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.charges.push(MatchedCharge { key: KeyRef::written(start, self.keys.len()), ..*charge });
        self.charges.len() - 1
    }

    /// Denies the request because its token is unusable and a rule refuses such tokens. Nothing is charged.
    pub(in crate::compiled) fn refuse_token(&mut self) {
        self.access = Access::Unauthorized;
        self.charges.clear();
        self.unlimited = false;
    }

    /// Adds the rules that the same request matches in another reading of its path. A rule is charged once, as in the
    /// first reading that it matches, unless it charges each reading with another key. Exemptions remain only if both
    /// have them.
    pub(in crate::compiled) fn join_reading(&mut self, other: &Matched<'_>, counts_readings: impl Fn(u32) -> bool) {
        if other.access == Access::Unauthorized {
            self.access = Access::Unauthorized;
        }
        let known = self.charges.len();
        for charge in &other.charges {
            let is_charged = self.charges[..known].iter().any(|known| known.rule == charge.rule);
            if !is_charged || counts_readings(charge.rule) {
                // Rules of one budget are joined later, when it is known which of them are replaced.
                self.join_charge(charge, other.key(charge), |known| known.rule == charge.rule);
            }
        }
        self.charges.sort_by_key(|charge| charge.rule);
        self.denials.extend(other.denials.iter().copied());
        self.denials.sort_unstable();
        self.denials.dedup();
        self.endpoint = self.endpoint.or(other.endpoint);
        self.unlimited &= other.unlimited;
        self.replaced.retain(|rule| other.replaced.contains(rule));
    }

    /// Retains one charge for each key and quota: of rules that share a budget, the one with the largest cost, and
    /// among equal costs the first.
    pub(in crate::compiled) fn charge_budgets_once(&mut self) {
        let all = std::mem::take(&mut self.charges);
        for charge in all {
            let key = self.key(&charge);
            let is_same = |known: &MatchedCharge| known.quota == charge.quota && self.key(known) == key;
            match self.charges.iter().position(is_same) {
                Some(index) if self.charges[index].cost < charge.cost => self.charges[index] = charge,
                Some(_) => {}
                None => self.charges.push(charge),
            }
        }
    }

    /// Adds rules that do not apply because a matching rule replaces them.
    #[inline]
    pub(in crate::compiled) fn add_replaced(&mut self, rules: &[u32]) {
        self.replaced.extend_from_slice(rules);
    }

    /// Adds the rules that another request replaces, which is decided together with this one.
    pub fn replace_as(&mut self, other: &Matched<'_>) {
        self.replaced.extend_from_slice(&other.replaced);
    }

    /// Removes the rules that are replaced by requests that are decided together with this one.
    pub fn without_replaced_by(&mut self, other: &Matched<'_>) {
        self.charges.retain(|charge| !other.replaced.contains(&charge.rule));
        self.denials.retain(|rule| !other.replaced.contains(rule));
    }

    /// Removes the rules that the request itself replaces.
    pub(in crate::compiled) fn remove_replaced(&mut self) {
        let replaced = &self.replaced;
        self.charges.retain(|charge| !replaced.contains(&charge.rule));
        self.denials.retain(|rule| !replaced.contains(rule));
    }

    /// Retains only the charges for which `wanted` returns true.
    pub fn retain(&mut self, wanted: impl Fn(&MatchedCharge) -> bool) {
        self.charges.retain(|charge| wanted(charge));
    }

    /// Returns the key of one of these charges, as readable text. Empty if the rule counts all clients together.
    #[inline]
    #[must_use]
    pub fn key(&self, charge: &MatchedCharge) -> &[u8] {
        self.key_at(charge.key)
    }

    #[inline]
    pub(in crate::compiled) fn key_at(&self, key: KeyRef) -> &[u8] {
        if key.start == KeyRef::BORROWED {
            return self.borrowed.get(key.end as usize).copied().unwrap_or_default();
        }
        self.keys.get(key.start as usize..key.end as usize).unwrap_or_default()
    }

    /// Adds a key that is borrowed from the request.
    #[inline]
    pub(in crate::compiled) fn borrow_key(&mut self, key: &'r [u8]) -> KeyRef {
        let index = self.borrowed_count;
        let Some(slot) = self.borrowed.get_mut(index) else { return self.write_key(key) };
        *slot = key;
        self.borrowed_count += 1;
        KeyRef { start: KeyRef::BORROWED, end: position(index) }
    }

    /// Adds a copy of a key.
    pub(in crate::compiled) fn write_key(&mut self, key: &[u8]) -> KeyRef {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        KeyRef::written(start, self.keys.len())
    }
}
