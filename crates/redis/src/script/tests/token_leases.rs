//! Tokens leased on a server: the stored value, its expiry, and the ends of generations.

use tollgate_core::{Decision, Quota};
use tollgate_store::ChargeMode;
use tollgate_testbed::RedisServer;

use super::client::Client;
use super::debt::varint;
use super::values::{charge, decide, target, writes};
use crate::call::{Answer, Call, LeaseAnswer, LeaseRequest, LeaseSettlement, ScriptOp, SlotCharge, Target};
use crate::script::replay;

/// The start of an hour.
const TODAY: u64 = 1_787_500_800_000_000;
const MS: u64 = 1_000;
const S: u64 = 1_000_000;

fn lease_op(target: &Target, wanted: u64, generation_ms: u64, settlements: &[LeaseSettlement]) -> ScriptOp {
    let (target, max_outstanding, settlements) = (target.clone(), u64::MAX, settlements.into());
    ScriptOp::Lease(Box::new(LeaseRequest { target, wanted, max_outstanding, generation_ms, settlements }))
}

fn call(op: ScriptOp) -> Call {
    Call { ops: smallvec::smallvec![op] }
}

fn leased(mut answers: impl Iterator<Item = Answer>) -> LeaseAnswer {
    match answers.next() {
        Some(Answer::Leased(answer)) => *answer,
        other => panic!("not a lease: {other:?}"),
    }
}

/// A key on a server, and the length of its generations.
struct Key {
    client: Client,
    target: Target,
    generation_ms: u64,
}

impl Key {
    fn new(server: &RedisServer, quota: Quota, generation_ms: u64) -> Key {
        Key { client: Client::connect(server), target: target("key", quota), generation_ms }
    }

    fn lease(&mut self, wanted: u64, now: Option<u64>) -> LeaseAnswer {
        self.settle(wanted, &[], now)
    }

    fn settle(&mut self, wanted: u64, settlements: &[LeaseSettlement], now: Option<u64>) -> LeaseAnswer {
        let op = lease_op(&self.target, wanted, self.generation_ms, settlements);
        leased(self.client.call(&call(op), now).answers.into_iter())
    }

    /// Reports or returns tokens of a lease, and leases none.
    fn report(&mut self, lease: &LeaseAnswer, spent: u64, returned: u64, now: u64) -> LeaseAnswer {
        self.settle(0, &[LeaseSettlement { generation: lease.generation, spent, returned }], Some(now))
    }

    fn decide(&mut self, cost: u64, mode: ChargeMode, now: u64) -> Decision {
        let charges = [SlotCharge { mode, ..charge(&self.target, cost) }];
        let reply = self.client.call(&call(ScriptOp::Decide { times: 1, charges: charges.clone().into() }), Some(now));
        let Answer::Decided { passed, states_before } = &reply.answers[0] else { panic!("no decision: {reply:?}") };
        replay(&charges, 1, now, *passed, states_before).unwrap().decisions(0)[0]
    }

    fn remaining(&mut self, now: u64) -> u64 {
        self.decide(0, ChargeMode::Peek, now).remaining
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        self.client.get(b"key")
    }
}

fn token_families(rate: &str) -> [Quota; 4] {
    let rate = rate.parse().unwrap();
    [
        Quota::token_bucket(rate).unwrap(),
        Quota::fixed_window(rate).unwrap(),
        Quota::sliding_window_counter(rate).unwrap(),
        Quota::sliding_window_log(rate).unwrap(),
    ]
}

#[test]
fn leased_tokens_wrap_the_value_that_the_key_has_without_them() {
    let server = RedisServer::start(&[]).unwrap();
    for quota in token_families("100/h") {
        let mut key = Key::new(&server, quota, 2_000);
        key.decide(5, ChargeMode::Enforce, TODAY);
        let value = key.value().unwrap();
        key.lease(3, Some(TODAY + 2 * S));
        key.lease(4, Some(TODAY + 4 * S));
        let wrapped = key.value().unwrap();
        let mut rest = &wrapped[..];
        let (tag, expires_ms) = (varint(&mut rest), varint(&mut rest));
        assert!(tag == 9 && expires_ms >= TODAY / MS + 6_000, "{quota:?}: {expires_ms}");
        assert_eq!([(); 3].map(|()| varint(&mut rest)), [0, 5 + 3 + 4, 0], "{quota:?}");
        assert_eq!([(); 4].map(|()| varint(&mut rest)), [2_000, TODAY / S / 2 + 3, 3, 4], "{quota:?}");
        assert_eq!(rest, value, "{quota:?}");
        // Once all tokens are settled, the value is as before.
        let generation = TODAY / S / 2;
        let settled = |generation, returned| LeaseSettlement { generation, spent: 0, returned };
        key.settle(0, &[settled(generation + 1, 3), settled(generation + 2, 4)], Some(TODAY + 5 * S));
        assert_eq!(key.value().unwrap(), value, "{quota:?}");
        key.client.command(&[b"DEL", b"key"]);
    }
}

/// Such a version reads an unknown tag as that of a fixed window, which it parses as this version does.
#[test]
fn versions_without_leases_count_leased_tokens_as_used() {
    let server = RedisServer::start(&[]).unwrap();
    for quota in token_families("100/h") {
        let mut key = Key::new(&server, quota, 2_000);
        key.decide(5, ChargeMode::Enforce, TODAY);
        let lease = key.lease(3, Some(TODAY));
        let mut value = key.value().unwrap();
        value[0] = 3;
        // Also after the leases have ended and nothing has settled them.
        for now in [TODAY, TODAY + lease.expires_in_us] {
            key.client.command(&[b"SET", b"key", &value]);
            assert_eq!(key.remaining(now), 100 - 5 - 3, "{quota:?}");
            assert_eq!(key.decide(2, ChargeMode::Enforce, now).remaining, 100 - 5 - 3 - 2, "{quota:?}");
            assert_ne!(key.value().unwrap()[0], 9, "{quota:?}");
        }
        key.client.command(&[b"DEL", b"key"]);
    }
}

#[test]
fn tokens_leased_of_an_unused_key_keep_it_until_they_are_settled() {
    let server = RedisServer::start(&[]).unwrap();
    for quota in token_families("100/h") {
        let mut key = Key::new(&server, quota, 1_000);
        let lease = key.lease(7, Some(TODAY));
        let first_window = (lease.granted, lease.generation, lease.expires_in_us, lease.outstanding);
        assert_eq!(first_window, (7, TODAY / S, 2 * S, 7), "{quota:?}");
        assert_eq!(key.remaining(TODAY + S), 93, "{quota:?}");
        assert_eq!(key.value().unwrap().last_chunk(), Some(&[0, 7]), "nothing follows the tokens");
        // What is reported as spent is charged, and what is returned is not.
        assert_eq!(key.report(&lease, 2, 4, TODAY + S).outstanding, 1, "{quota:?}");
        assert_eq!(key.remaining(TODAY + S), 97, "{quota:?}");
        key.report(&lease, 0, 1, TODAY + S);
        assert_eq!(key.remaining(TODAY + S), 98, "{quota:?}");
        key.client.command(&[b"DEL", b"key"]);
        let lease = key.lease(7, Some(TODAY));
        key.report(&lease, 0, 8, TODAY);
        assert_eq!(key.value(), None, "{quota:?}");
    }
}

#[test]
fn value_outlives_its_leases() {
    let server = RedisServer::start(&[]).unwrap();
    // Quotas under which ten tokens refill within a hundredth of a generation.
    for quota in token_families("1000/s") {
        let mut key = Key::new(&server, quota, 100_000);
        let lease = key.lease(10, None);
        let lives_ms = key.client.integer(&[b"PTTL", b"key"]);
        let lease_ms = i64::try_from(lease.expires_in_us / MS).unwrap();
        // The tokens count as spent at the end of the lease.
        assert!((lease_ms..=lease_ms + 2_001).contains(&lives_ms), "{quota:?}: {lives_ms} {lease_ms}");
        // A reset keeps the time as well.
        key.client.call(&call(ScriptOp::Reset { target: key.target.clone() }), None);
        let lives_ms = key.client.integer(&[b"PTTL", b"key"]);
        assert!((lease_ms - 10_000..=lease_ms + 2_001).contains(&lives_ms), "{quota:?}: {lives_ms} {lease_ms}");
        key.client.command(&[b"DEL", b"key"]);
    }
    // A quota under which they refill later than the lease ends.
    let mut key = Key::new(&server, Quota::token_bucket("10/h".parse().unwrap()).unwrap(), 1_000);
    let lease = key.lease(10, None);
    let lives_ms = u64::try_from(key.client.integer(&[b"PTTL", b"key"])).unwrap();
    assert!(lives_ms > 3_600_000 + (lease.expires_in_us - S) / MS, "{lives_ms}");
}

#[test]
fn reset_keeps_leased_tokens() {
    let server = RedisServer::start(&[]).unwrap();
    for quota in token_families("10/h") {
        let mut key = Key::new(&server, quota, 1_000);
        let reset = ScriptOp::Reset { target: key.target.clone() };
        key.decide(5, ChargeMode::Enforce, TODAY);
        let lease = key.lease(3, Some(TODAY));
        key.client.call(&call(reset.clone()), Some(TODAY));
        assert_eq!(key.remaining(TODAY), 7, "{quota:?}");
        // In one call with other operations on the key.
        let other = ScriptOp::Decide { times: 1, charges: [charge(&key.target, 4)].into() };
        let ops = smallvec::smallvec![other.clone(), lease_op(&key.target, 2, 1_000, &[]), reset.clone(), other];
        key.client.call(&Call { ops }, Some(TODAY));
        assert_eq!(key.remaining(TODAY), 10 - 4 - 5, "{quota:?}");
        // Nothing is left of a key whose tokens are settled, or whose leases have ended.
        let settlement = LeaseSettlement { generation: lease.generation, spent: 0, returned: 5 };
        let ops = smallvec::smallvec![reset.clone(), lease_op(&key.target, 0, 1_000, &[settlement])];
        key.client.call(&Call { ops }, Some(TODAY));
        assert_eq!(key.value(), None, "{quota:?}");
        key.lease(3, Some(TODAY));
        key.client.call(&call(reset.clone()), Some(TODAY + lease.expires_in_us));
        assert_eq!(key.value(), None, "{quota:?}");
        key.client.command(&[b"DEL", b"key"]);
    }
    // As before, a reset removes a key of another type.
    let mut key = Key::new(&server, token_families("10/h")[0], 1_000);
    key.client.command(&[b"LPUSH", b"key", b"entry"]);
    key.client.call(&call(ScriptOp::Reset { target: key.target.clone() }), None);
    assert_eq!(key.client.integer(&[b"DBSIZE"]), 0);
}

#[test]
fn settlement_of_a_generation_that_is_gone_does_nothing() {
    let server = RedisServer::start(&[]).unwrap();
    for quota in token_families("10/h") {
        let mut key = Key::new(&server, quota, 1_000);
        let first = key.lease(4, Some(TODAY));
        let later = TODAY + first.expires_in_us;
        // Its tokens count as spent from its end on.
        assert_eq!(key.lease(3, Some(later - 1)).outstanding, 7, "{quota:?}");
        assert_eq!(key.report(&first, 1, 3, later).outstanding, 3, "{quota:?}");
        assert_eq!(key.remaining(later), 3, "{quota:?}");
        let future = LeaseAnswer { generation: first.generation + 3, ..first };
        assert_eq!(key.report(&future, 1, 3, later).outstanding, 3, "{quota:?}");
        key.client.command(&[b"DEL", b"key"]);
    }
}

#[test]
fn no_token_refills_before_it_is_reported() {
    let server = RedisServer::start(&[]).unwrap();
    let mut key = Key::new(&server, Quota::token_bucket("1/s burst 10".parse().unwrap()).unwrap(), 10_000);
    let lease = key.lease(10, Some(TODAY));
    let settlement = LeaseSettlement { generation: lease.generation, spent: 10, returned: 0 };
    // All ten are spent just now. Were they charged at the time of the lease, ten more would pass.
    let next = key.settle(10, &[settlement], Some(TODAY + 10 * S));
    assert_eq!((next.granted, next.outstanding), (0, 0));
    assert_eq!(key.remaining(TODAY + 11 * S), 1);
}

#[test]
fn each_generation_is_charged_at_its_own_end() {
    let server = RedisServer::start(&[]).unwrap();
    let mut key = Key::new(&server, Quota::token_bucket("1/s burst 8".parse().unwrap()).unwrap(), 1_000);
    assert_eq!(key.lease(4, Some(TODAY + 500 * MS)).granted, 4);
    assert_eq!(key.lease(4, Some(TODAY + 1_500 * MS)).granted, 4);
    // 4 used after 2 s, 3 + 4 after 3 s.
    assert_eq!(key.remaining(TODAY + 3 * S - 1), 0);
    assert_eq!(key.remaining(TODAY + 3 * S), 1);
    assert_eq!(key.remaining(TODAY + 4 * S - 1), 1);
    assert_eq!(key.remaining(TODAY + 4 * S), 2);
    // A fixed window counts what was spent before it began in the window before.
    let mut key = Key::new(&server, Quota::fixed_window("8 per 5s".parse().unwrap()).unwrap(), 1_000);
    key.target.key = b"window".as_slice().into();
    key.lease(4, Some(TODAY + 2_500 * MS));
    key.lease(4, Some(TODAY + 3_500 * MS));
    assert_eq!(key.remaining(TODAY + 5 * S - 1), 0);
    assert_eq!(key.remaining(TODAY + 5 * S), 4);
    assert_eq!(key.remaining(TODAY + 10 * S), 8);
}

#[test]
fn leases_end_soon_after_the_clock_went_back() {
    let server = RedisServer::start(&[]).unwrap();
    let mut key = Key::new(&server, Quota::fixed_window("10/h".parse().unwrap()).unwrap(), 1_000);
    let noon = TODAY + 1_800 * S;
    key.lease(3, Some(noon));
    let last = key.lease(4, Some(noon + S));
    // All are now of the generation that follows the one of the clock.
    let back = key.lease(1, Some(noon - 10 * S));
    assert_eq!((back.granted, back.generation, back.expires_in_us), (1, noon / S - 9, 2 * S));
    assert_eq!(key.report(&last, 0, 4, noon - 10 * S).outstanding, 8);
    assert_eq!(key.lease(0, Some(noon - 7 * S - 1)).outstanding, 8);
    assert_eq!(key.lease(0, Some(noon - 7 * S)).outstanding, 0);
    assert_eq!(key.remaining(noon - 7 * S), 2);
}

#[test]
fn leased_tokens_count_as_used_for_all_requests() {
    let server = RedisServer::start(&[]).unwrap();
    for quota in token_families("10/h") {
        let mut key = Key::new(&server, quota, 1_000);
        key.lease(4, Some(TODAY));
        assert!(!key.decide(7, ChargeMode::Enforce, TODAY).is_allowed(), "{quota:?}");
        assert_eq!(key.decide(5, ChargeMode::Enforce, TODAY).remaining, 1, "{quota:?}");
        let reply = key.client.call(&call(ScriptOp::Force { target: key.target.clone(), cost: 3 }), Some(TODAY));
        assert_eq!(reply.answers[0], Answer::Forced { unpaid: 2 }, "{quota:?}");
        let refused = key.lease(1, Some(TODAY));
        assert_eq!((refused.granted, refused.outstanding), (0, 4), "{quota:?}");
        key.client.command(&[b"DEL", b"key"]);
    }
}

#[test]
fn key_with_leased_tokens_that_is_only_read_is_not_written() {
    let server = RedisServer::start(&[]).unwrap();
    for quota in token_families("10/h") {
        let mut key = Key::new(&server, quota, 1_000);
        let lease = key.lease(4, Some(TODAY));
        let before = writes(&mut key.client);
        for now in [TODAY, TODAY + lease.expires_in_us, TODAY + 60 * S] {
            assert_eq!(key.remaining(now), if quota.burst() > 0 { 6.max(key.remaining(now)) } else { 6 }, "{quota:?}");
        }
        assert_eq!(writes(&mut key.client), before, "{quota:?}");
        key.client.command(&[b"DEL", b"key"]);
    }
}

#[test]
fn one_call_can_read_leased_tokens_under_two_families() {
    let server = RedisServer::start(&[]).unwrap();
    let [_, window, _, log] = token_families("10/h");
    let mut key = Key::new(&server, window, 1_000);
    key.decide(2, ChargeMode::Enforce, TODAY);
    key.lease(3, Some(TODAY));
    let decide_one = |quota, cost| ScriptOp::Decide { times: 1, charges: [charge(&target("key", quota), cost)].into() };
    let ops = smallvec::smallvec![decide_one(window, 0), decide_one(log, 1), decide_one(window, 1)];
    let reply = key.client.call(&Call { ops }, Some(TODAY));
    let passed = |answer: &Answer| matches!(answer, Answer::Decided { passed: 1, .. });
    assert!(reply.answers.iter().all(passed));
    assert_eq!(key.remaining(TODAY), 3);
    // In one operation.
    let charges = [charge(&target("key", window), 1), charge(&target("key", log), 0)].into();
    key.client.call(&call(ScriptOp::Decide { times: 1, charges }), Some(TODAY));
    assert!(key.remaining(TODAY) <= 3);
}

#[test]
fn value_that_another_window_wrote_is_kept_in_the_wrapper() {
    let server = RedisServer::start(&[]).unwrap();
    let kinds = [Quota::fixed_window, Quota::sliding_window_counter];
    // Of usual lengths, whose values are digits, and of others.
    for (own, other) in [("10/h", "3/min"), ("10 per 7001ms", "3 per 5003ms")] {
        for make in kinds {
            let [own, other] = [own, other].map(|rate: &str| make(rate.parse().unwrap()).unwrap());
            let mut key = Key::new(&server, own, 1_000);
            key.decide(4, ChargeMode::Enforce, TODAY);
            let value = key.value().unwrap();
            key.lease(3, Some(TODAY));
            // The first charge only watches, so the second is refused on a state that nothing has converted.
            let watch = SlotCharge { mode: ChargeMode::Peek, ..charge(&target("key", other), 1) };
            let charges = [watch, charge(&key.target, 7)].into();
            key.client.call(&call(ScriptOp::Decide { times: 1, charges }), Some(TODAY));
            assert!(key.value().unwrap().ends_with(&value), "{own:?}");
            assert_eq!(key.remaining(TODAY), 3, "{own:?}");
            key.client.command(&[b"DEL", b"key"]);
        }
    }
}

#[test]
fn permits_replace_leased_tokens() {
    let server = RedisServer::start(&[]).unwrap();
    let mut key = Key::new(&server, token_families("10/h")[0], 1_000);
    key.lease(4, Some(TODAY));
    let permits = Quota::concurrency(3, Some(std::time::Duration::from_secs(60))).unwrap();
    let reply = key.client.call(&decide(&target("key", permits), 3), Some(TODAY));
    assert!(matches!(reply.answers[0], Answer::Decided { passed: 1, .. }));
    assert_eq!(key.value().unwrap()[0], 6);
    assert_eq!(key.remaining(TODAY), 10);
    // But not if they are only read.
    key.client.command(&[b"DEL", b"key"]);
    key.lease(4, Some(TODAY));
    let read = ScriptOp::Decide { times: 1, charges: [charge(&target("key", permits), 0)].into() };
    let ops = smallvec::smallvec![read, ScriptOp::Reset { target: key.target.clone() }];
    key.client.call(&Call { ops }, Some(TODAY));
    assert_eq!(key.remaining(TODAY), 6);
}

#[test]
fn only_calls_that_lease_tokens_expire() {
    let target = target("key", token_families("10/h")[0]);
    let settlement = LeaseSettlement { generation: 1, spent: 1, returned: 0 };
    assert!(call(lease_op(&target, 1, 1_000, &[])).expires());
    assert!(!call(lease_op(&target, 0, 1_000, &[settlement])).expires());
}
