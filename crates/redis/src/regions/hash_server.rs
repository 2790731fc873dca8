//! The operations of exchange.lua in this process: for the hashes of a region in memory, for simulations, and the
//! reference that the script is tested against.

use std::collections::{BTreeMap, HashMap};

use super::exchange::{HashOp, HashReply};
use crate::resp_value::Value;

/// A server of hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct HashServer {
    hashes: HashMap<String, Hash>,
    /// Whether reports are accepted after their epoch: an injected fault.
    pub(crate) accepts_late_reports: bool,
}

#[derive(Clone, Debug, Default)]
struct Hash {
    fields: BTreeMap<String, Vec<u8>>,
    /// When it expires; `None` for never.
    until_ms: Option<u64>,
}

impl Hash {
    fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(|value| str::from_utf8(value).ok())
    }

    fn set(&mut self, field: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.fields.insert(field.into(), value.into());
    }

    fn expire(&mut self, now_ms: u64, ttl_ms: u64) {
        if ttl_ms > 0 {
            self.until_ms = Some(now_ms + ttl_ms);
        }
    }

    /// The time by which epochs are counted.
    fn epoch_time(&mut self, now_ms: u64) -> u64 {
        let latest = self.text("latest").and_then(|text| text.parse().ok()).unwrap_or(0).max(now_ms);
        self.set("latest", latest.to_string());
        latest
    }

    fn fields_from(&self, prefix: &str) -> HashReply {
        let matching = self.fields.iter().filter(|(name, _)| name.starts_with(prefix));
        matching.flat_map(|(name, value)| [bulk(name.as_bytes()), bulk(value)]).collect()
    }

    /// Restores what a server has lost, as a region knows it. All regions that were part of it have to vote again.
    fn restore(&mut self, [agreed, previous]: [&str; 2]) {
        if agreed.is_empty() || self.fields.contains_key("agreed") {
            return;
        }
        self.set("agreed", agreed);
        if !previous.is_empty() {
            self.set("previous", previous);
        }
        let vote = format!("0 {}", agreed.split_once(' ').map_or("", |(_, division)| division));
        let words = agreed.split(' ').chain(previous.split(' '));
        for (region, _) in words.filter_map(|word| word.split_once('=')) {
            self.fields.entry(format!("vote:{region}")).or_insert_with(|| vote.clone().into_bytes());
        }
    }

    fn vote(&mut self, region: &str, number: u64, division: &str, now_ms: u64) -> HashReply {
        let now_ms = self.epoch_time(now_ms);
        let field = format!("vote:{region}");
        let mut last = self.text(&field).and_then(|vote| vote.split_once(' ')?.0.parse().ok()).unwrap_or(0);
        if number > last {
            self.set(field, format!("{number} {division}"));
            last = number;
        }
        let stored = self.text("agreed").and_then(|text| text.split_once(' '));
        let stored = stored.map(|(since, agreed)| (since.parse().unwrap_or(0), agreed.to_owned()));
        match stored {
            None => self.set("agreed", format!("0 {division}")),
            Some((since_ms, agreed))
                if agreed != division
                    && since_ms <= now_ms
                    && last == number
                    && self.all_vote_for(division, &agreed) =>
            {
                let length =
                    |division: &str| division.split(' ').next().and_then(|ms| ms.parse().ok()).unwrap_or(1_u64);
                let ends_ms = (now_ms / length(&agreed) + 2) * length(&agreed);
                let since_ms = ends_ms.div_ceil(length(division)) * length(division);
                self.set("previous", agreed);
                self.set("agreed", format!("{since_ms} {division}"));
            }
            Some(_) => {}
        }
        let text = |field: &str| bulk(self.fields.get(field).map_or(&[][..], |value| value));
        vec![integer(last), text("agreed"), text("previous")]
    }

    fn all_vote_for(&self, division: &str, agreed: &str) -> bool {
        let votes = self.fields.iter().filter_map(|(field, value)| Some((field.strip_prefix("vote:")?, value)));
        votes.filter(|(region, _)| [division, agreed].iter().any(|text| text.contains(&format!(" {region}=")))).all(
            |(_, vote)| {
                str::from_utf8(vote)
                    .ok()
                    .and_then(|vote| vote.split_once(' '))
                    .is_some_and(|(_, vote)| vote == division)
            },
        )
    }

    fn report(
        &mut self,
        region: &str,
        epoch: std::ops::Range<u64>,
        text: &str,
        now_ms: u64,
        accepts_late: bool,
    ) -> HashReply {
        let now_ms = self.epoch_time(now_ms);
        let (start_ms, length_ms) = (epoch.start, epoch.end - epoch.start);
        let is_in_time = epoch.contains(&now_ms) || accepts_late;
        if is_in_time {
            self.set(format!("report:{start_ms}:{region}"), text);
        }
        let start_of = |field: &str| field.strip_prefix("report:")?.split_once(':')?.0.parse::<u64>().ok();
        self.fields.retain(|field, _| start_of(field).is_none_or(|start_ms| start_ms + 3 * length_ms >= now_ms));
        vec![integer(u64::from(is_in_time))]
    }
}

impl HashServer {
    /// Runs an operation at a time of the server's clock.
    pub(crate) fn run(&mut self, name: &str, op: HashOp, now_us: u64) -> HashReply {
        let now_ms = now_us / 1_000;
        // There are only a few: those of the last epochs.
        self.hashes.retain(|_, hash| hash.until_ms.is_none_or(|until_ms| now_ms < until_ms));
        let hash = self.hashes.entry(name.to_owned()).or_default();
        match op {
            HashOp::Put { ttl_ms, fields } => {
                hash.fields.extend(fields);
                hash.expire(now_ms, ttl_ms);
                Vec::new()
            }
            HashOp::Claim { ttl_ms, field, owner, lease_ms } => {
                let ends_ms = hash.text(field).and_then(|claim| claim.rsplit_once(' ')?.1.parse::<u64>().ok());
                let is_taken = ends_ms.is_some_and(|ends_ms| ends_ms == 0 || now_ms < ends_ms);
                if !is_taken {
                    hash.set(field, format!("{owner} {}", if lease_ms > 0 { now_ms + lease_ms } else { 0 }));
                    hash.expire(now_ms, ttl_ms);
                }
                vec![integer(u64::from(!is_taken))]
            }
            HashOp::Get { fields } => fields.iter().map(|field| Value::Bulk(hash.fields.get(field).cloned())).collect(),
            HashOp::All { prefix } => hash.fields_from(&prefix),
            HashOp::Swap { field, expected, value } => {
                let current = hash.text(field).unwrap_or_default().to_owned();
                let is_expected = current == expected;
                if is_expected {
                    hash.set(field, value);
                }
                vec![integer(u64::from(is_expected)), bulk(current.as_bytes())]
            }
            HashOp::Vote { region, number, division, known } => {
                hash.restore(known.each_ref().map(String::as_str));
                hash.vote(&region, number, &division, now_ms)
            }
            HashOp::Report { region, start_ms, length_ms, text } => {
                hash.report(&region, start_ms..start_ms + length_ms, &text, now_ms, self.accepts_late_reports)
            }
            HashOp::Read { start_ms, length_ms } => {
                let has_ended = hash.epoch_time(now_ms) >= start_ms + length_ms;
                let mut reply = vec![integer(u64::from(has_ended))];
                if has_ended {
                    reply.extend(hash.fields_from(&format!("report:{start_ms}:")));
                }
                reply
            }
        }
    }
}

fn bulk(bytes: &[u8]) -> Value {
    Value::Bulk(Some(bytes.to_vec()))
}

fn integer(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S_US: u64 = 1_000_000;

    fn vote(server: &mut HashServer, region: &str, number: u64, division: &str, at_s: u64) -> String {
        let op = HashOp::Vote { region: region.into(), number, division: division.into(), known: Default::default() };
        match server.run("g", op, at_s * S_US).as_slice() {
            [_, Value::Bulk(Some(agreed)), _] => String::from_utf8(agreed.clone()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn first_vote_is_agreed_and_a_change_needs_all_votes_and_two_epochs() {
        let mut server = HashServer::default();
        let (old, new) = ("10000 a=1 b=1", "10000 a=1 b=3");
        assert_eq!(vote(&mut server, "a", 1, old, 100), format!("0 {old}"));
        assert_eq!(vote(&mut server, "b", 1, old, 101), format!("0 {old}"));
        assert_eq!(vote(&mut server, "b", 2, new, 102), format!("0 {old}"));
        assert_eq!(vote(&mut server, "a", 2, new, 103), format!("120000 {new}"));
        // No other change before that.
        assert_eq!(vote(&mut server, "a", 3, old, 104), format!("120000 {new}"));
        assert_eq!(vote(&mut server, "b", 3, old, 105), format!("120000 {new}"));
        assert_eq!(vote(&mut server, "b", 3, old, 125), format!("140000 {old}"));
    }

    #[test]
    fn region_that_leaves_votes_last_and_is_not_asked_again() {
        let mut server = HashServer::default();
        let (both, one) = ("10000 a=1 b=1", "10000 a=1");
        vote(&mut server, "a", 1, both, 100);
        vote(&mut server, "b", 1, both, 100);
        assert_eq!(vote(&mut server, "a", 2, one, 100), format!("0 {both}"));
        assert_eq!(vote(&mut server, "b", 2, one, 100), format!("120000 {one}"));
        assert_eq!(vote(&mut server, "a", 3, "10000 a=1 c=1", 130), "150000 10000 a=1 c=1");
    }

    #[test]
    fn lost_division_is_restored_and_changes_when_all_its_regions_have_voted_again() {
        let mut server = HashServer::default();
        let (old, new) = ("10000 a=1 b=1", "10000 a=1 c=3");
        let vote = |server: &mut HashServer, region: &str, number, division: &str, at_s: u64| {
            let known = [format!("7 {old}"), "10000 d=1".to_owned()];
            let op = HashOp::Vote { region: region.into(), number, division: division.into(), known };
            match server.run("g", op, at_s * S_US).as_slice() {
                [Value::Integer(number), Value::Bulk(Some(agreed)), Value::Bulk(Some(previous))] => {
                    (*number, [agreed, previous].map(|text| String::from_utf8(text.clone()).unwrap()))
                }
                other => panic!("{other:?}"),
            }
        };
        let stays = [format!("7 {old}"), "10000 d=1".to_owned()];
        assert_eq!(vote(&mut server, "a", 3, new, 100), (3, stays.clone()));
        assert_eq!(vote(&mut server, "c", 1, new, 101), (1, stays));
        // What has been restored stays, whatever others know.
        assert_eq!(vote(&mut server, "b", 9, new, 102), (9, [format!("120000 {new}"), old.to_owned()]));
    }

    #[test]
    fn older_votes_do_not_count() {
        let mut server = HashServer::default();
        vote(&mut server, "a", 5, "10000 a=1", 100);
        assert_eq!(vote(&mut server, "a", 4, "10000 a=2", 100), "0 10000 a=1");
    }

    #[test]
    fn reports_are_accepted_while_their_epoch_lasts_and_read_afterwards() {
        let mut server = HashServer::default();
        let report = |server: &mut HashServer, at_ms: u64| {
            let op = HashOp::Report { region: "a".into(), start_ms: 10_000, length_ms: 5_000, text: "x".into() };
            server.run("g", op, at_ms * 1_000) == [Value::Integer(1)]
        };
        let read = |server: &mut HashServer, at_ms: u64| {
            server.run("g", HashOp::Read { start_ms: 10_000, length_ms: 5_000 }, at_ms * 1_000).len()
        };
        assert!(!report(&mut server, 9_999));
        assert!(report(&mut server, 10_000));
        assert_eq!(read(&mut server, 14_999), 1);
        assert_eq!(read(&mut server, 15_000), 3);
        // The clock went back: the epoch stays ended.
        assert!(!report(&mut server, 12_000));
        assert_eq!(read(&mut server, 12_000), 3);
    }

    #[test]
    fn claims_end_with_their_lease() {
        let mut server = HashServer::default();
        let claim = |server: &mut HashServer, lease_ms, at_ms: u64| {
            let op = HashOp::Claim { ttl_ms: 0, field: "f", owner: "x".into(), lease_ms };
            server.run("h", op, at_ms * 1_000) == [Value::Integer(1)]
        };
        assert!(claim(&mut server, 100, 1_000));
        assert!(!claim(&mut server, 100, 1_099));
        assert!(claim(&mut server, 0, 1_100));
        assert!(!claim(&mut server, 100, 9_999_999));
    }
}
