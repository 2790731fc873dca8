//! The names that servers give to the members of their JSON logs.

/// The meaning of a member. Where several members have one meaning, the one with the highest rank counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log::formats) enum JsonRole {
    /// The time.
    Time(u8),
    /// The address of the client, possibly with a port.
    Client(u8),
    /// The authenticated user.
    User(u8),
    /// The method.
    Method(u8),
    /// The path, possibly with a query.
    Target(u8),
    /// The host.
    Host(u8),
    /// The status.
    Status(u8),
    /// The request line.
    RequestLine,
    /// An object with more of these members.
    Nested,
    /// An object with header fields, whose values are arrays.
    Headers,
    /// A header field: what follows this many letters of the name, in lower case and with dashes.
    Header(usize),
    /// Another value, which is delivered under its name in lower case.
    Field,
    /// The kind of an event.
    Event,
    /// Nothing of interest.
    Ignored,
}

use JsonRole::{
    Client, Event, Field, Header, Headers, Host, Ignored, Method, Nested, RequestLine, Status, Target, Time, User,
};

/// The member names of one server.
pub(in crate::log::formats) trait JsonDialect {
    /// Returns the meaning of a member.
    fn role(name: &[u8]) -> JsonRole;

    /// Whether lines without a request are messages of the server rather than mistakes.
    const HAS_MESSAGES: bool = false;
}

/// nginx: a `log_format` with `escape=json` whose names are those of the variables.
pub(in crate::log::formats) struct NginxDialect;

impl JsonDialect for NginxDialect {
    fn role(name: &[u8]) -> JsonRole {
        match name {
            b"msec" => Time(3),
            b"time_iso8601" => Time(2),
            b"time_local" | b"time" | b"timestamp" | b"@timestamp" | b"ts" | b"date" => Time(1),
            b"remote_addr" => Client(2),
            b"client_ip" | b"clientip" | b"remote_ip" | b"client" | b"ip" => Client(1),
            b"remote_user" => User(2),
            b"user" => User(1),
            b"request" => RequestLine,
            b"request_method" => Method(2),
            b"method" => Method(1),
            b"request_uri" => Target(3),
            b"uri" | b"path" | b"url" => Target(1),
            b"host" => Host(3),
            b"http_host" => Host(2),
            b"server_name" => Host(1),
            b"status" => Status(1),
            b"user_agent" | b"referer" => Header(0),
            b"request_time"
            | b"bytes_sent"
            | b"body_bytes_sent"
            | b"request_length"
            | b"connection"
            | b"connection_requests"
            | b"pid"
            | b"pipe"
            | b"server_protocol"
            | b"scheme"
            | b"protocol"
            | b"level"
            | b"message" => Ignored,
            _ if name.starts_with(b"http_") => Header(5),
            _ if name.starts_with(b"x_") => Header(0),
            _ if [b"upstream_".as_slice(), b"sent_http_", b"ssl_"].iter().any(|start| name.starts_with(start)) => {
                Ignored
            }
            _ => Field,
        }
    }
}

/// Envoy: a `json_format` whose names are those of the documentation.
pub(in crate::log::formats) struct EnvoyDialect;

impl JsonDialect for EnvoyDialect {
    fn role(name: &[u8]) -> JsonRole {
        match name {
            b"start_time" => Time(1),
            b"downstream_remote_address" => Client(3),
            b"downstream_remote_address_without_port" => Client(2),
            b"downstream_direct_remote_address" => Client(1),
            b"method" | b":method" => Method(1),
            // The third is the name in the default log of Envoy Gateway.
            b"x_envoy_original_path" | b"x-envoy-original-path" | b"x-envoy-origin-path" | b"original_path" => {
                Target(2)
            }
            b"path" | b":path" => Target(1),
            b"authority" | b":authority" => Host(2),
            b"host" => Host(1),
            b"response_code" | b"status" => Status(1),
            b"user" | b"remote_user" => User(1),
            b"duration"
            | b"bytes_received"
            | b"bytes_sent"
            | b"response_flags"
            | b"response_code_details"
            | b"protocol"
            | b"connection_termination_details"
            | b"route_name"
            | b"requested_server_name" => Ignored,
            _ if name.starts_with(b"upstream_") || name.starts_with(b"downstream_") => Ignored,
            _ => Header(0),
        }
    }
}

/// Caddy: its access log as it is.
pub(in crate::log::formats) struct CaddyDialect;

impl JsonDialect for CaddyDialect {
    fn role(name: &[u8]) -> JsonRole {
        match name {
            b"ts" => Time(1),
            b"request" => Nested,
            b"client_ip" => Client(3),
            b"remote_ip" => Client(2),
            b"remote_addr" => Client(1),
            b"method" => Method(1),
            b"uri" => Target(1),
            b"host" => Host(1),
            b"headers" => Headers,
            b"user_id" => User(1),
            b"status" => Status(1),
            _ => Ignored,
        }
    }

    const HAS_MESSAGES: bool = true;
}

/// Traefik: its access log with `format: json`.
pub(in crate::log::formats) struct TraefikDialect;

impl JsonDialect for TraefikDialect {
    fn role(name: &[u8]) -> JsonRole {
        match name {
            b"StartUTC" => Time(3),
            b"StartLocal" => Time(2),
            b"time" => Time(1),
            b"ClientHost" => Client(2),
            b"ClientAddr" => Client(1),
            b"ClientUsername" => User(1),
            b"RequestMethod" => Method(1),
            b"RequestPath" => Target(1),
            b"RequestHost" => Host(2),
            b"RequestAddr" => Host(1),
            b"DownstreamStatus" => Status(2),
            b"OriginStatus" => Status(1),
            _ if name.starts_with(b"request_") => Header(8),
            _ => Ignored,
        }
    }
}

/// `tollgate serve --log-format json`.
pub(in crate::log::formats) struct EventsDialect;

impl JsonDialect for EventsDialect {
    fn role(name: &[u8]) -> JsonRole {
        match name {
            b"event" => Event,
            b"time" => Time(1),
            b"client" => Client(1),
            b"method" => Method(1),
            b"route" => Target(1),
            b"rule" | b"action" | b"front_end" => Field,
            _ => Ignored,
        }
    }
}
