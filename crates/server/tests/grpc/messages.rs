//! Envoy's messages, declared independently of the server, from Envoy's documentation.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<RateLimitDescriptor>,
    #[prost(uint32, tag = "3")]
    pub(crate) hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<KeyValue>,
    #[prost(message, optional, tag = "2")]
    pub(crate) limit: Option<RateLimit>,
    #[prost(message, optional, tag = "3")]
    pub(crate) hits_addend: Option<UInt64Value>,
    #[prost(bool, tag = "4")]
    pub(crate) is_negative_hits: bool,
}

/// An entry of a descriptor, or a header.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    pub(crate) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) response_headers_to_add: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub(crate) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) duration_until_reset: Option<ProtoDuration>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtoDuration {
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

/// Creates a descriptor with these entries.
pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let pair = |(key, value): &(&str, &str)| KeyValue { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(pair).collect(), ..RateLimitDescriptor::default() }
}

/// Creates a descriptor with these entries and a `hits_addend`.
pub(crate) fn descriptor_with_hits(hits: u64, entries: &[(&str, &str)]) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(UInt64Value { value: hits }), ..descriptor(entries) }
}

/// Creates a request with these descriptors, in the domain `edge`.
pub(crate) fn rate_limit_request(descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: "edge".to_owned(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

impl RateLimitResponse {
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
