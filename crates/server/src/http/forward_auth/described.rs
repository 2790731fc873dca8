use std::net::IpAddr;

use axum::http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use tollgate::{Headers, Request};

use crate::http::problem::Problem;

const FORWARDED_METHOD: &str = "x-forwarded-method";
const FORWARDED_URI: &str = "x-forwarded-uri";
const FORWARDED_HOST: &str = "x-forwarded-host";
/// Where lists of addresses stand; the policy says which of the two it reads.
const ADDRESS_LISTS: [&str; 2] = ["x-forwarded-for", "forwarded"];
const ORIGINAL_METHOD: &str = "x-original-method";
const ORIGINAL_URI: &str = "x-original-uri";
const REAL_IP: &str = "x-real-ip";

/// Somebody else's request, as a gateway describes it. Who is not trusted speaks for nobody but themselves. Its other
/// header fields are the client's, which the gateway has passed on.
///
/// There are two ways to describe one: Traefik's and Caddy's `X-Forwarded-*`,
/// and nginx's `X-Original-*` with `X-Real-IP`. A gateway passes on what the
/// client sent beside what it writes itself. So a request that is described
/// in both ways is refused: one of them was written by the client.
pub(super) fn described<'a>(
    parts: &'a Parts,
    headers: &'a HeaderLines<'a>,
    caller: IpAddr,
    is_trusted: bool,
) -> Result<Request<'a>, Problem> {
    let itself = Request {
        method: parts.method.as_str(),
        host: text(&parts.headers, HOST.as_str())?,
        target: parts.uri.path(),
        headers,
        ..Request::from_peer(Some(caller))
    };
    if !is_trusted {
        return Ok(itself);
    }
    let fields = &parts.headers;
    let has = |name: &str| fields.contains_key(name);
    let is_forwarded = has(FORWARDED_METHOD) || has(FORWARDED_URI);
    let is_original = has(ORIGINAL_METHOD) || has(ORIGINAL_URI);
    if is_forwarded && is_original {
        return Err(Problem::described_twice());
    }
    let (method, target) =
        if is_original { (ORIGINAL_METHOD, ORIGINAL_URI) } else { (FORWARDED_METHOD, FORWARDED_URI) };
    // Without a list of addresses, or where the gateway is of those that write none, there is the one it saw.
    let real = if is_original || !ADDRESS_LISTS.into_iter().any(has) { real_ip(fields)? } else { None };
    Ok(Request {
        method: text(fields, method)?.unwrap_or_default(),
        host: text(fields, FORWARDED_HOST)?.filter(|_| !is_original).or(itself.host),
        target: text(fields, target)?.unwrap_or_default(),
        headers,
        ..Request::from_peer(Some(real.unwrap_or(caller)))
    })
}

fn real_ip(fields: &HeaderMap) -> Result<Option<IpAddr>, Problem> {
    let Some(text) = text(fields, REAL_IP)? else { return Ok(None) };
    let address = text.trim().parse::<IpAddr>().map_err(|_| Problem::bad_field(REAL_IP, "an IPv4 or IPv6 address"))?;
    Ok(Some(address))
}

/// The one value of a field. Two are one too many: who wrote which?
fn text<'a>(fields: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let Ok(key) = HeaderName::from_bytes(name.as_bytes()) else { return Ok(None) };
    let mut values = fields.get_all(key).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::bad_field(name, "there once"));
    }
    value.to_str().map(Some).map_err(|_| Problem::bad_field(name, "plain text"))
}

/// Header fields as HTTP has them.
pub(in crate::http) struct HeaderLines<'a>(pub(in crate::http) &'a HeaderMap);

impl Headers for HeaderLines<'_> {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        self.0.get_all(name).iter().nth(at).map(HeaderValue::as_bytes)
    }
}
