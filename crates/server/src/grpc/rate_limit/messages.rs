//! The messages of `envoy.service.ratelimit.v3`, and those of other packages that they need. Responses are written
//! without them, see [`status`](super::status); tests decode them.

use prost::{Enumeration, Message};

/// `envoy.service.ratelimit.v3.RateLimitRequest`
#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub(in crate::grpc) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::grpc) descriptors: Vec<RateLimitDescriptor>,
    /// 0 means 1.
    #[prost(uint32, tag = "3")]
    pub(in crate::grpc) hits_addend: u32,
}

/// `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`
#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::grpc) entries: Vec<DescriptorEntry>,
    #[prost(message, optional, tag = "2")]
    pub(in crate::grpc) limit: Option<RateLimitOverride>,
    /// Replaces the request's; 0 is a peek.
    #[prost(message, optional, tag = "3")]
    pub(in crate::grpc) hits_addend: Option<UInt64Value>,
    #[prost(bool, tag = "4")]
    pub(in crate::grpc) is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct DescriptorEntry {
    #[prost(string, tag = "1")]
    pub(in crate::grpc) key: String,
    #[prost(string, tag = "2")]
    pub(in crate::grpc) value: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub(in crate::grpc) struct RateLimitOverride {
    #[prost(uint32, tag = "1")]
    pub(in crate::grpc) requests_per_unit: u32,
    #[prost(enumeration = "RateLimitUnit", tag = "2")]
    pub(in crate::grpc) unit: i32,
}

/// `google.protobuf.UInt64Value`
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(in crate::grpc) struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub(in crate::grpc) value: u64,
}

/// `envoy.service.ratelimit.v3.RateLimitResponse`
#[cfg(any(test, fuzzing))]
#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct RateLimitResponse {
    #[prost(enumeration = "Code", tag = "1")]
    pub(in crate::grpc) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::grpc) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(in crate::grpc) response_headers_to_add: Vec<HeaderValue>,
}

#[cfg(any(test, fuzzing))]
#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct DescriptorStatus {
    #[prost(enumeration = "Code", tag = "1")]
    pub(in crate::grpc) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(in crate::grpc) current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub(in crate::grpc) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(in crate::grpc) duration_until_reset: Option<Duration>,
}

#[cfg(any(test, fuzzing))]
#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub(in crate::grpc) requests_per_unit: u32,
    #[prost(enumeration = "RateLimitUnit", tag = "2")]
    pub(in crate::grpc) unit: i32,
    #[prost(string, tag = "3")]
    pub(in crate::grpc) name: String,
}

/// `envoy.config.core.v3.HeaderValue`
#[cfg(any(test, fuzzing))]
#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(in crate::grpc) key: String,
    #[prost(string, tag = "2")]
    pub(in crate::grpc) value: String,
}

/// `google.protobuf.Duration`, in whole seconds: gateways read no more of it.
#[cfg(any(test, fuzzing))]
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(in crate::grpc) struct Duration {
    #[prost(int64, tag = "1")]
    pub(in crate::grpc) seconds: i64,
}

/// Never `UNKNOWN`, which a gateway treats as OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(in crate::grpc) enum Code {
    Unknown = 0,
    Ok = 1,
    OverLimit = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(in crate::grpc) enum RateLimitUnit {
    Unknown = 0,
    Second = 1,
    Minute = 2,
    Hour = 3,
    Day = 4,
    Month = 5,
    Year = 6,
    Week = 7,
}

impl RateLimitUnit {
    const ALL: [RateLimitUnit; 7] = [
        RateLimitUnit::Second,
        RateLimitUnit::Minute,
        RateLimitUnit::Hour,
        RateLimitUnit::Day,
        RateLimitUnit::Month,
        RateLimitUnit::Year,
        RateLimitUnit::Week,
    ];

    /// Returns the length in seconds; `None` if unknown. A month has 30 days and a year 365, as in policies.
    pub(in crate::grpc) const fn seconds(self) -> Option<u64> {
        const DAY: u64 = 86_400;
        match self {
            RateLimitUnit::Unknown => None,
            RateLimitUnit::Second => Some(1),
            RateLimitUnit::Minute => Some(60),
            RateLimitUnit::Hour => Some(3_600),
            RateLimitUnit::Day => Some(DAY),
            RateLimitUnit::Month => Some(30 * DAY),
            RateLimitUnit::Year => Some(365 * DAY),
            RateLimitUnit::Week => Some(7 * DAY),
        }
    }

    /// Returns the unit of this length; unknown if there is none.
    pub(in crate::grpc) fn lasting(ns: u64) -> RateLimitUnit {
        let has_length =
            |unit: &RateLimitUnit| unit.seconds().is_some_and(|seconds| seconds.checked_mul(1_000_000_000) == Some(ns));
        RateLimitUnit::ALL.into_iter().find(has_length).unwrap_or(RateLimitUnit::Unknown)
    }
}
