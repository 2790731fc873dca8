//! Matching a common request does not allocate.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(unsafe_code, reason = "the allocator trait is unsafe to implement")]

mod matching_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use matching_support::{compile, header, identity, limited, paths, rule, rule_for, strings, with_rules};
use tollgate_policy::model::{Allowance, ClientIp, Grant, Rule, Tier, TierSource, When};
use tollgate_policy::{Policy, Request};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls are passed on to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract, which is the same for both functions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract, which is the same for both functions.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns a typical policy: limits by address, by user and tier, and for logins.
fn policy() -> Policy {
    let tiers = vec![
        ("free".to_owned(), limited(60)),
        ("pro".to_owned(), limited(600)),
        ("enterprise".to_owned(), Grant::Unlimited),
    ];
    Policy {
        identities: vec![identity("user", header("X-User-ID"))],
        client_ip: ClientIp { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..ClientIp::default() },
        tier: Some(Tier { source: TierSource::Direct(header("X-Tier")), default: "free".into(), trusted: true }),
        ..with_rules(vec![
            rule("per-ip", &["client_ip"]),
            Rule { allowance: Allowance::Tiers(tiers), ..rule("per-user", &["user"]) },
            rule_for("login", &["client_ip", "route"], When { methods: strings(&["POST"]), ..paths(&["/auth/login"]) }),
        ])
    }
}

#[test]
fn matching_a_common_request_does_not_allocate() {
    let mut filled = policy();
    for at in 0..300 {
        filled.rules.push(rule_for(
            &format!("r{at}"),
            &["client_ip"],
            paths(&[&format!("/api/{at}"), &format!("/more/{at}/*")]),
        ));
    }
    let headers = [
        ("Host", "example.com"),
        ("X-User-ID", "4711"),
        ("X-Tier", "pro"),
        ("X-Forwarded-For", "6.6.6.6, 203.0.113.9"),
    ];
    let (simple, filled) = (compile(policy()), compile(filled));
    assert!(simple.has_fast_path() && !filled.has_fast_path());
    for compiled in [simple, filled] {
        for peer in ["10.0.0.1", "203.0.113.9", "2001:db8::1"] {
            for target in ["/auth/login", "/auth/login/?next=%2F", "/more/17/x"] {
                let request = Request {
                    method: "POST",
                    host: Some("example.com"),
                    target,
                    headers: &headers,
                    ..Request::from_peer(Some(peer.parse().unwrap()))
                };
                let before = ALLOCATIONS.with(Cell::get);
                let matched = compiled.match_request(&request);
                let after = ALLOCATIONS.with(Cell::get);
                assert!(matched.charges.len() >= 2);
                assert_eq!(after - before, 0, "{peer} {target}");
            }
        }
    }
}

/// Guards against an allocator that counts nothing.
#[test]
fn counting_allocator_counts_allocations() {
    let before = ALLOCATIONS.with(Cell::get);
    drop(std::hint::black_box(vec![1_u8]));
    assert!(ALLOCATIONS.with(Cell::get) > before);
}
