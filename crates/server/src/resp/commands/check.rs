//! `TOLL.CHECK field value [field value ..] [COST n]`: a request under the policy.

use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate::policy::parse_address;
use tollgate::quota::Decision;
use tollgate::{Request, Verdict};

use super::wrong_arity;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use crate::resp::parser::RespArguments;
use crate::resp::reply::RespReply;

const MS_NS: u64 = 1_000_000;

/// The request that a command describes.
#[derive(Default)]
struct CheckArguments<'a> {
    ip: Option<IpAddr>,
    method: Option<&'a str>,
    host: Option<&'a str>,
    path: Option<&'a str>,
    cost: Option<u64>,
    identities: SmallVec<[(&'a str, &'a str); 4]>,
}

pub(in crate::resp) async fn check(engine: &Engine, arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
    match CheckArguments::parse(arguments) {
        Ok(fields) => write_verdict(&engine.check(FrontEnd::Resp, &fields.request()).await, reply),
        Err(error) => reply.error(error),
    }
}

impl<'a> CheckArguments<'a> {
    fn parse(arguments: RespArguments<'a>) -> Result<CheckArguments<'a>, String> {
        if arguments.len().is_multiple_of(2) {
            return Err(wrong_arity("TOLL.CHECK"));
        }
        let mut fields = CheckArguments::default();
        let mut words = arguments.from(1);
        while let (Some(field), Some(value)) = (words.next(), words.next()) {
            // Invalid UTF-8 is refused, not replaced: otherwise different clients would share a counter.
            let field = str::from_utf8(field).map_err(|_| "ERR the name of a field is not UTF-8".to_owned())?;
            let value = str::from_utf8(value).map_err(|_| format!("ERR the value of '{field}' is not UTF-8"))?;
            if !fields.set(field, value)? {
                return Err(format!("ERR '{field}' is given twice"));
            }
        }
        Ok(fields)
    }

    /// Stores a field; `false` if it exists already.
    ///
    /// The four fields that are not identities, and `COST`, are case-insensitive: an `IP` treated as an undeclared
    /// identity would limit nothing.
    fn set(&mut self, field: &'a str, value: &'a str) -> Result<bool, String> {
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

/// Writes a verdict. Members are null if no rule decided, or if the release time of a permit is unknown.
fn write_verdict(verdict: &Verdict, reply: &mut RespReply<'_>) {
    let decision = verdict.deciding().map(|state| &state.decision);
    let or_null = |value: Option<u64>, reply: &mut RespReply<'_>| match value {
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

/// Rounds up, so that a retry after that time is not too early.
fn ms(ns: u128) -> u64 {
    u64::try_from(ns.div_ceil(MS_NS.into())).unwrap_or(u64::MAX)
}
