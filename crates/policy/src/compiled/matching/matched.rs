//! The rules that a request matches.

use smallvec::SmallVec;

use crate::compiled::key::key_bytes::Keys;
use crate::compiled::position;

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

/// What a request matches: what is to be charged, all or nothing. Keys that are a value of the request are borrowed
/// from it.
#[derive(Clone, Debug)]
pub struct Matched<'r> {
    /// How it fares before any rule. Unless the rules decide there are no charges.
    pub access: Access,
    /// The most specific path pattern of any rule that the request's path matches, by its position
    /// among [`CompiledPolicy::endpoints`](crate::CompiledPolicy::endpoints).
    pub endpoint: Option<u32>,
    /// The charges, in the order of the rules.
    pub charges: SmallVec<[MatchedCharge; 4]>,
    /// The rules that deny the request, in the order of the policy, by their positions among
    /// [`CompiledPolicy::rules`](crate::CompiledPolicy::rules). Where one of them is enforced, nothing is charged.
    pub denials: SmallVec<[u32; 2]>,
    /// Whether a rule applies that grants an unlimited amount.
    pub unlimited: bool,
    /// The rules that do not apply because others do that replace them.
    replaced: SmallVec<[u32; 2]>,
    /// The keys that had to be written, one behind the other.
    pub(in crate::compiled) keys: Keys,
    /// The keys that stand in the request as they are, and how many there are. Further ones are written.
    borrowed: [&'r [u8]; BORROWED_MAX],
    borrowed_count: usize,
}

/// Few policies count by more values of a request.
const BORROWED_MAX: usize = 3;

/// A cost to be charged to a key under a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedCharge {
    /// The position of the rule among [`CompiledPolicy::rules`](crate::CompiledPolicy::rules).
    pub rule: u32,
    /// The position of the quota among [`CompiledPolicy::quotas`](crate::CompiledPolicy::quotas).
    pub quota: u32,
    /// What it costs; 0 asks without charging.
    pub cost: u64,
    pub(in crate::compiled) key: KeyRef,
}

/// Where the key of a charge stands: `start..end` of the written keys, or number `end` of the borrowed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compiled) struct KeyRef {
    start: u32,
    end: u32,
}

impl KeyRef {
    /// No written key begins there.
    const BORROWED: u32 = u32::MAX;

    #[inline]
    pub(in crate::compiled) fn written(start: usize, end: usize) -> KeyRef {
        KeyRef { start: position(start), end: position(end) }
    }
}

impl<'r> Matched<'r> {
    /// Nothing yet.
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

    /// Adds what another request matches, to be charged together with this: the
    /// same key under the same quota once, at the larger cost. Returns where
    /// its charges are now.
    pub fn join(&mut self, other: &Matched<'_>) -> SmallVec<[usize; 4]> {
        self.endpoint = self.endpoint.or(other.endpoint);
        other.charges.iter().map(|charge| self.join_charge(charge, other.key(charge))).collect()
    }

    fn join_charge(&mut self, charge: &MatchedCharge, key: &[u8]) -> usize {
        let is_same = |known: &MatchedCharge| known.quota == charge.quota && self.key(known) == key;
        if let Some(at) = self.charges.iter().position(is_same) {
            self.charges[at].cost = self.charges[at].cost.max(charge.cost);
            return at;
        }
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.charges.push(MatchedCharge { key: KeyRef::written(start, self.keys.len()), ..*charge });
        self.charges.len() - 1
    }

    /// Its token cannot be used, and a rule refuses such: it is charged nothing.
    pub(in crate::compiled) fn refuse_token(&mut self) {
        self.access = Access::Unauthorized;
        self.charges.clear();
        self.unlimited = false;
    }

    /// Adds what the same request matches in another reading of its path. A rule is charged once, as the first reading
    /// has it that it matches, unless it is one that counts the readings with other keys. What exempts stays only if
    /// it is in both.
    pub(in crate::compiled) fn join_reading(&mut self, other: &Matched<'_>, counts_readings: impl Fn(u32) -> bool) {
        if other.access == Access::Unauthorized {
            self.access = Access::Unauthorized;
        }
        let known = self.charges.len();
        for charge in &other.charges {
            let is_charged = self.charges[..known].iter().any(|known| known.rule == charge.rule);
            if !is_charged || counts_readings(charge.rule) {
                self.join_charge(charge, other.key(charge));
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

    #[inline]
    pub(in crate::compiled) fn replace(&mut self, rules: &[u32]) {
        self.replaced.extend_from_slice(rules);
    }

    /// Notes what another request replaces that is decided together with others.
    pub fn replace_as(&mut self, other: &Matched<'_>) {
        self.replaced.extend_from_slice(&other.replaced);
    }

    /// Takes away what others replace that are decided together with this request.
    pub fn without_replaced_by(&mut self, other: &Matched<'_>) {
        self.charges.retain(|charge| !other.replaced.contains(&charge.rule));
        self.denials.retain(|rule| !other.replaced.contains(rule));
    }

    /// The same for what the request itself replaces.
    pub(in crate::compiled) fn without_replaced(&mut self) {
        let replaced = &self.replaced;
        self.charges.retain(|charge| !replaced.contains(&charge.rule));
        self.denials.retain(|rule| !replaced.contains(rule));
    }

    /// Nothing but these charges.
    pub fn retain(&mut self, wanted: impl Fn(&MatchedCharge) -> bool) {
        self.charges.retain(|charge| wanted(charge));
    }

    /// The key of one of these charges, as text that a person can read. Empty
    /// where a rule counts everybody together.
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

    /// Adds a key that stands in the request.
    #[inline]
    pub(in crate::compiled) fn borrow_key(&mut self, key: &'r [u8]) -> KeyRef {
        let at = self.borrowed_count;
        let Some(place) = self.borrowed.get_mut(at) else { return self.write_key(key) };
        *place = key;
        self.borrowed_count += 1;
        KeyRef { start: KeyRef::BORROWED, end: position(at) }
    }

    /// Adds a key that does not stand there.
    pub(in crate::compiled) fn write_key(&mut self, key: &[u8]) -> KeyRef {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        KeyRef::written(start, self.keys.len())
    }
}
