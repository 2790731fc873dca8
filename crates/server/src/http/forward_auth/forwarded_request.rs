use std::net::IpAddr;

use axum::http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use tollgate::Request;
use tollgate::policy::Headers;

use crate::http::problem::ProblemDetails;

const FORWARDED_METHOD: &str = "x-forwarded-method";
const FORWARDED_URI: &str = "x-forwarded-uri";
const FORWARDED_HOST: &str = "x-forwarded-host";
/// The fields with address lists; the policy selects one.
const ADDRESS_LISTS: [&str; 2] = ["x-forwarded-for", "forwarded"];
const ORIGINAL_METHOD: &str = "x-original-method";
const ORIGINAL_URI: &str = "x-original-uri";
const REAL_IP: &str = "x-real-ip";

/// Returns the request that a trusted gateway describes; an untrusted peer is the client itself. The other header
/// fields are the client's, forwarded by the gateway.
///
/// There are two descriptions: Traefik's and Caddy's `X-Forwarded-*`, and nginx's `X-Original-*` with `X-Real-IP`. A
/// gateway forwards the client's fields beside its own. So a request with both descriptions is refused: the client
/// wrote one of them.
pub(super) fn forwarded_request<'a>(
    parts: &'a Parts,
    headers: &'a HttpHeaders<'a>,
    caller: IpAddr,
    is_trusted: bool,
) -> Result<Request<'a>, ProblemDetails> {
    let own_request = Request {
        method: parts.method.as_str(),
        host: text(&parts.headers, HOST.as_str())?,
        target: parts.uri.path(),
        headers,
        ..Request::from_peer(Some(caller))
    };
    if !is_trusted {
        return Ok(own_request);
    }
    let fields = &parts.headers;
    let has = |name: &str| fields.contains_key(name);
    let is_forwarded = has(FORWARDED_METHOD) || has(FORWARDED_URI);
    let is_original = has(ORIGINAL_METHOD) || has(ORIGINAL_URI);
    if is_forwarded && is_original {
        return Err(ProblemDetails::described_twice());
    }
    let (method, target) =
        if is_original { (ORIGINAL_METHOD, ORIGINAL_URI) } else { (FORWARDED_METHOD, FORWARDED_URI) };
    // X-Real-IP is used without an address list, or for gateways that send none.
    let real_ip = if is_original || !ADDRESS_LISTS.into_iter().any(has) { parse_real_ip(fields)? } else { None };
    Ok(Request {
        method: text(fields, method)?.unwrap_or_default(),
        host: text(fields, FORWARDED_HOST)?.filter(|_| !is_original).or(own_request.host),
        target: text(fields, target)?.unwrap_or_default(),
        headers,
        ..Request::from_peer(Some(real_ip.unwrap_or(caller)))
    })
}

/// Returns whether the peer describes the request of another client, as gateways do.
pub(super) fn describes_another_request(fields: &HeaderMap) -> bool {
    [FORWARDED_METHOD, FORWARDED_URI, ORIGINAL_METHOD, ORIGINAL_URI].into_iter().any(|name| fields.contains_key(name))
}

fn parse_real_ip(fields: &HeaderMap) -> Result<Option<IpAddr>, ProblemDetails> {
    let Some(text) = text(fields, REAL_IP)? else { return Ok(None) };
    let address =
        text.trim().parse::<IpAddr>().map_err(|_| ProblemDetails::bad_field(REAL_IP, "an IPv4 or IPv6 address"))?;
    Ok(Some(address))
}

/// Returns the value of a field that occurs once. With two it is unknown which one the gateway wrote.
fn text<'a>(fields: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ProblemDetails> {
    let Ok(key) = HeaderName::from_bytes(name.as_bytes()) else { return Ok(None) };
    let mut values = fields.get_all(key).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ProblemDetails::bad_field(name, "sent once"));
    }
    value.to_str().map(Some).map_err(|_| ProblemDetails::bad_field(name, "plain text"))
}

/// The header fields of an HTTP request.
pub(in crate::http) struct HttpHeaders<'a>(pub(in crate::http) &'a HeaderMap);

impl Headers for HttpHeaders<'_> {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        self.0.get_all(name).iter().nth(at).map(HeaderValue::as_bytes)
    }
}
