//! `TOLL.CHECK field value [field value ..] [COST n]`: a request under the policy.

use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate::policy::parse_address;
use tollgate::{Decision, Request, Verdict};

use super::wrong_arity;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use crate::resp::parser::Arguments;
use crate::resp::reply::Reply;

const MS_NS: u64 = 1_000_000;

/// What a command tells of somebody else's request.
#[derive(Default)]
struct Told<'a> {
    ip: Option<IpAddr>,
    method: Option<&'a str>,
    host: Option<&'a str>,
    path: Option<&'a str>,
    cost: Option<u64>,
    identities: SmallVec<[(&'a str, &'a str); 4]>,
}

pub(in crate::resp) async fn check(engine: &Engine, arguments: Arguments<'_>, reply: &mut Reply<'_>) {
    match Told::parse(arguments) {
        Ok(told) => tell(&engine.decide(FrontEnd::Resp, &told.request()).await, reply),
        Err(error) => reply.error(error),
    }
}

impl<'a> Told<'a> {
    fn parse(arguments: Arguments<'a>) -> Result<Told<'a>, String> {
        if arguments.len().is_multiple_of(2) {
            return Err(wrong_arity("TOLL.CHECK"));
        }
        let mut told = Told::default();
        let mut words = arguments.from(1);
        while let (Some(field), Some(value)) = (words.next(), words.next()) {
            // Bytes that are no text are refused, not replaced: else different clients would share a counter.
            let field = str::from_utf8(field).map_err(|_| "ERR the name of a field is not UTF-8".to_owned())?;
            let value = str::from_utf8(value).map_err(|_| format!("ERR the value of '{field}' is not UTF-8"))?;
            if !told.take(field, value)? {
                return Err(format!("ERR '{field}' is given twice"));
            }
        }
        Ok(told)
    }

    /// Takes a field; `false` if it is there already.
    ///
    /// The four that are no identities are known in any case, as is `COST`: an
    /// `IP` that was taken for an identity nobody counts by would limit nothing.
    fn take(&mut self, field: &'a str, value: &'a str) -> Result<bool, String> {
        let is = |name: &str| field.eq_ignore_ascii_case(name);
        Ok(if is("ip") {
            let ip = value.parse().map_err(|_| "ERR ip must be an IPv4 or IPv6 address without port or brackets")?;
            self.ip.replace(ip).is_none()
        } else if is("method") {
            self.method.replace(value).is_none()
        } else if is("host") {
            self.host.replace(value).is_none()
        } else if is("path") {
            self.path.replace(value).is_none()
        } else if is("cost") {
            let cost = value.parse().map_err(|_| "ERR COST must be a whole number from 0 to 18446744073709551615")?;
            self.cost.replace(cost).is_none()
        } else if field == "client_ip" && parse_address(value).is_none() {
            return Err("ERR client_ip must be an IPv4 or IPv6 address".to_owned());
        } else if self.identities.iter().any(|(known, _)| *known == field) {
            false
        } else {
            self.identities.push((field, value));
            true
        })
    }

    fn request(&self) -> Request<'_> {
        Request {
            method: self.method.unwrap_or_default(),
            host: self.host,
            target: self.path.unwrap_or_default(),
            identities: &self.identities,
            cost: self.cost.unwrap_or(1),
            ..Request::from_peer(self.ip)
        }
    }
}

/// Null where there is nothing to tell: no rule decided, or nobody knows when a permit comes back.
fn tell(verdict: &Verdict, reply: &mut Reply<'_>) {
    let decision = verdict.deciding().map(|state| &state.decision);
    let or_null = |value: Option<u64>, reply: &mut Reply<'_>| match value {
        Some(value) => reply.count(value),
        None => reply.null(),
    };
    reply.array(6);
    reply.integer(i64::from(verdict.is_allowed()));
    match verdict.rule() {
        Some(rule) => reply.bulk(rule),
        None => reply.null(),
    }
    or_null(decision.map(|decision| decision.limit), reply);
    or_null(decision.map(|decision| decision.remaining), reply);
    match verdict.retry_after() {
        Some(wait) => reply.count(ms(wait.as_nanos())),
        None => reply.integer(-1),
    }
    or_null(decision.and_then(reset_after_ms), reply);
}

fn reset_after_ms(decision: &Decision) -> Option<u64> {
    (decision.reset_after < u64::MAX).then(|| ms(decision.reset_after.into()))
}

/// Rounds up: who comes back after that many milliseconds does not come too early.
fn ms(ns: u128) -> u64 {
    u64::try_from(ns.div_ceil(MS_NS.into())).unwrap_or(u64::MAX)
}
