//! Envoy's messages, written down a second time, from its documentation.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ask {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<Described>,
    #[prost(uint32, tag = "3")]
    pub(crate) hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Described {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<Pair>,
    #[prost(message, optional, tag = "2")]
    pub(crate) limit: Option<PerUnit>,
    #[prost(message, optional, tag = "3")]
    pub(crate) hits_addend: Option<Number>,
    #[prost(bool, tag = "4")]
    pub(crate) is_negative_hits: bool,
}

/// A header is one, too.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pair {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PerUnit {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Number {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(int32, tag = "1")]
    pub(crate) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) statuses: Vec<Status>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) response_headers_to_add: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) current_limit: Option<PerUnit>,
    #[prost(uint32, tag = "3")]
    pub(crate) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) duration_until_reset: Option<Span>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

pub(crate) const OK: i32 = 1;
pub(crate) const OVER_LIMIT: i32 = 2;
pub(crate) const SECOND: i32 = 1;
pub(crate) const MINUTE: i32 = 2;
pub(crate) const HOUR: i32 = 3;

/// A descriptor of these entries.
pub(crate) fn descriptor(entries: &[(&str, &str)]) -> Described {
    let pair = |(key, value): &(&str, &str)| Pair { key: (*key).to_owned(), value: (*value).to_owned() };
    Described { entries: entries.iter().map(pair).collect(), ..Described::default() }
}

/// The same, taking so many.
pub(crate) fn taking(hits: u64, entries: &[(&str, &str)]) -> Described {
    Described { hits_addend: Some(Number { value: hits }), ..descriptor(entries) }
}

/// A question about these, in the domain `edge`.
pub(crate) fn ask(descriptors: &[Described]) -> Ask {
    Ask { domain: "edge".to_owned(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

impl Answer {
    pub(crate) fn codes(&self) -> Vec<i32> {
        self.statuses.iter().map(|status| status.code).collect()
    }

    pub(crate) fn remaining(&self) -> Vec<u32> {
        self.statuses.iter().map(|status| status.limit_remaining).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response_headers_to_add.iter().find(|header| header.key == name).map(|header| header.value.as_str())
    }
}
