//! A request, as a person describes it on the command line.

use std::net::IpAddr;

use clap::Args;
use tollgate::{Descriptor, Request};

#[derive(Debug, Args)]
pub(super) struct RequestArguments {
    /// The address it comes from
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    ip: Option<IpAddr>,

    /// Who sends it: the same as --identity user=USER
    #[arg(long)]
    user: Option<String>,

    /// An identity that is known without looking for it; several times for several
    #[arg(long = "identity", value_name = "NAME=VALUE", value_parser = identity)]
    identities: Vec<Pair>,

    /// Its method
    #[arg(long, default_value = "GET", value_parser = method)]
    method: String,

    /// Its host
    #[arg(long)]
    host: Option<String>,

    /// Its path, perhaps with a query
    #[arg(long, default_value = "/", value_parser = path)]
    path: String,

    /// A header field; several times for several
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<Pair>,

    /// The domain of a gateway's descriptor: what else is known of the request is in --entry
    #[arg(long, conflicts_with_all = ["ip", "user", "identities", "method", "host", "path", "headers"])]
    domain: Option<String>,

    /// An entry of the descriptor; several times for several
    #[arg(long = "entry", value_name = "NAME=VALUE", value_parser = identity, requires = "domain")]
    entries: Vec<Pair>,

    /// What it costs, where a rule has no cost of its own
    #[arg(long, default_value_t = 1, value_parser = cost, allow_negative_numbers = true)]
    cost: u64,
}

impl RequestArguments {
    pub(super) fn identities(&self) -> Vec<(&str, &str)> {
        let user = self.user.iter().map(|user| ("user", user.as_str()));
        user.chain(borrowed(&self.identities)).collect()
    }

    pub(super) fn entries(&self) -> Vec<(&str, &str)> {
        borrowed(&self.entries).collect()
    }

    pub(super) fn descriptor<'a>(&'a self, entries: &'a [(&'a str, &'a str)]) -> Option<Descriptor<'a>> {
        self.domain.as_deref().map(|domain| Descriptor { domain, entries })
    }

    pub(super) fn request<'a>(&'a self, identities: &'a [(&'a str, &'a str)]) -> Request<'a> {
        Request {
            method: &self.method,
            host: self.host.as_deref(),
            target: &self.path,
            headers: &self.headers,
            identities,
            cost: self.cost,
            ..Request::from_peer(self.ip)
        }
    }

    pub(super) fn of_descriptor<'a>(&self, descriptor: &'a Descriptor<'a>) -> Request<'a> {
        Request { cost: self.cost, ..Request::from_descriptor(descriptor) }
    }
}

/// A name and a value.
type Pair = (String, String);

fn borrowed(pairs: &[Pair]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// What an argument should have been.
#[derive(Debug, thiserror::Error)]
#[error("expected {0}")]
pub(super) struct Expected(&'static str);

fn identity(text: &str) -> Result<Pair, Expected> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Expected("a name and a value such as user=42")),
    }
}

fn header(text: &str) -> Result<Pair, Expected> {
    let expected = Expected("a name, a colon and a value such as 'X-Tier: pro'");
    let Some((name, value)) = text.split_once(':') else { return Err(expected) };
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err(expected);
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn address(text: &str) -> Result<IpAddr, Expected> {
    text.parse().map_err(|_| Expected("an IPv4 or IPv6 address without port or brackets, such as 203.0.113.9"))
}

/// People write `post`; on the wire it is POST.
fn method(text: &str) -> Result<String, Expected> {
    let is_word = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_word { Ok(text.to_ascii_uppercase()) } else { Err(Expected("a method such as GET or POST")) }
}

fn path(text: &str) -> Result<String, Expected> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err(Expected("a path that begins with /, such as /auth/login"))
    }
}

fn cost(text: &str) -> Result<u64, Expected> {
    text.parse().map_err(|_| Expected("a whole number from 0 to 18446744073709551615"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> Pair {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn headers_are_a_name_and_a_value() {
        assert_eq!(header("X-Tier: pro").unwrap(), pair("X-Tier", "pro"));
        assert_eq!(header("x:a:b").unwrap(), pair("x", "a:b"));
        assert_eq!(header("x:").unwrap(), pair("x", ""));
        for wrong in ["", ":", ": x", "X-Tier", "X Tier: pro", "X-Tier : pro", "é: x"] {
            assert!(header(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn identities_are_a_name_and_a_value() {
        assert_eq!(identity("user=a=b").unwrap(), pair("user", "a=b"));
        for wrong in ["", "user", "=42"] {
            assert!(identity(wrong).is_err(), "{wrong}");
        }
    }
}
