use crate::resp_value::Value;
use crate::wire::cluster::directory::{SlotMap, SlotRange};
use crate::wire::cluster::key_slot::SLOTS;
use crate::wire::connection::address::Address;

/// Parses the reply to `CLUSTER SLOTS`: ranges with their primary and its replicas. `None` for a malformed reply, and
/// for a node that knows no slots.
pub(crate) fn parse_cluster_slots(reply: &Value, responder: &Address) -> Option<SlotMap> {
    let Value::Array(Some(ranges)) = reply else { return None };
    let ranges: Vec<_> = ranges.iter().map(|range| parse_range(range, responder)).collect::<Option<_>>()?;
    (!ranges.is_empty()).then_some(SlotMap { ranges })
}

fn parse_range(range: &Value, responder: &Address) -> Option<SlotRange> {
    let Value::Array(Some(fields)) = range else { return None };
    let [Value::Integer(first), Value::Integer(last), Value::Array(Some(primary)), ..] = fields.as_slice() else {
        return None;
    };
    let [host, Value::Integer(port), ..] = primary.as_slice() else { return None };
    let host = match host {
        Value::Bulk(Some(host)) => str::from_utf8(host).ok()?,
        Value::Bulk(None) => "",
        _ => return None,
    };
    let owner = Address { host: host.into(), port: u16::try_from(*port).ok()? };
    let slot = |slot: i64| u16::try_from(slot).ok().filter(|&slot| usize::from(slot) < SLOTS);
    let (first, last) = (slot(*first)?, slot(*last)?);
    (first <= last).then(|| SlotRange { first, last, owner: owner.or_host_of(responder) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Option<&str>, port: i64) -> Value {
        let host = Value::Bulk(host.map(|host| host.as_bytes().to_vec()));
        let primary = Value::Array(Some(vec![host, Value::Integer(port), Value::Bulk(Some(b"id".to_vec()))]));
        Value::Array(Some(vec![Value::Integer(first), Value::Integer(last), primary]))
    }

    #[test]
    fn ranges_are_parsed_and_missing_hosts_completed() {
        let responder = Address::parse("seed:1").unwrap();
        let parse = |ranges: Vec<Value>| parse_cluster_slots(&Value::Array(Some(ranges)), &responder);
        let map = parse(vec![range(0, 99, Some("a"), 7000), range(100, 16_383, None, 7001)]).unwrap();
        assert_eq!(map.ranges[0], SlotRange { first: 0, last: 99, owner: Address::parse("a:7000").unwrap() });
        assert_eq!(map.ranges[1].owner, Address::parse("seed:7001").unwrap());
        assert_eq!(parse(vec![]), None);
        assert_eq!(parse(vec![range(0, 16_384, Some("a"), 1)]), None);
        assert_eq!(parse(vec![range(9, 8, Some("a"), 1)]), None);
        assert_eq!(parse(vec![range(0, 1, Some("a"), 70_000)]), None);
        assert_eq!(parse(vec![Value::Integer(1)]), None);
    }
}
