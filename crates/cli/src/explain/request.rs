//! A request, as a person describes it on the command line.

use std::net::IpAddr;
use std::str::FromStr;

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
    #[arg(long = "identity", value_name = "NAME=VALUE")]
    identities: Vec<IdentityArgument>,

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
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<HeaderArgument>,

    /// The domain of a gateway's descriptor: what else is known of the request is in --entry
    #[arg(long, conflicts_with_all = ["ip", "user", "identities", "method", "host", "path", "headers"])]
    domain: Option<String>,

    /// An entry of the descriptor; several times for several
    #[arg(long = "entry", value_name = "NAME=VALUE", requires = "domain")]
    entries: Vec<IdentityArgument>,

    /// What it costs, where a rule has no cost of its own
    #[arg(long, default_value_t = 1, value_parser = cost, allow_negative_numbers = true)]
    cost: u64,
}

impl RequestArguments {
    pub(super) fn identities(&self) -> Vec<(&str, &str)> {
        let user = self.user.iter().map(|user| ("user", user.as_str()));
        user.chain(self.identities.iter().map(|given| (given.name.as_str(), given.value.as_str()))).collect()
    }

    pub(super) fn entries(&self) -> Vec<(&str, &str)> {
        self.entries.iter().map(|given| (given.name.as_str(), given.value.as_str())).collect()
    }

    pub(super) fn descriptor<'a>(&'a self, entries: &'a [(&'a str, &'a str)]) -> Option<Descriptor<'a>> {
        self.domain.as_deref().map(|domain| Descriptor { domain, entries })
    }

    pub(super) fn request<'a>(&'a self, identities: &'a [(&'a str, &'a str)]) -> Request<'a> {
        Request {
            method: &self.method,
            host: self.host.as_deref(),
            target: &self.path,
            headers: self,
            identities,
            cost: self.cost,
            ..Request::from_peer(self.ip)
        }
    }
}

impl RequestArguments {
    pub(super) fn of_descriptor<'a>(&self, descriptor: &'a Descriptor<'a>) -> Request<'a> {
        Request { cost: self.cost, ..Request::from_descriptor(descriptor) }
    }
}

impl tollgate::Headers for RequestArguments {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        let lines = self.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        lines.map(|header| header.value.as_bytes()).nth(at)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct IdentityArgument {
    name: String,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HeaderArgument {
    name: String,
    value: String,
}

/// What an argument should have been.
#[derive(Debug, thiserror::Error)]
#[error("expected {0}")]
pub(super) struct Expected(&'static str);

impl FromStr for IdentityArgument {
    type Err = Expected;

    fn from_str(text: &str) -> Result<IdentityArgument, Expected> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(IdentityArgument { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err(Expected("a name and a value such as user=42")),
        }
    }
}

impl FromStr for HeaderArgument {
    type Err = Expected;

    fn from_str(text: &str) -> Result<HeaderArgument, Expected> {
        let expected = Expected("a name, a colon and a value such as 'X-Tier: pro'");
        let Some((name, value)) = text.split_once(':') else { return Err(expected) };
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(expected);
        }
        Ok(HeaderArgument { name: name.to_owned(), value: value.trim().to_owned() })
    }
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

    #[test]
    fn headers_are_a_name_and_a_value() {
        let header = |name: &str, value: &str| HeaderArgument { name: name.to_owned(), value: value.to_owned() };
        assert_eq!("X-Tier: pro".parse::<HeaderArgument>().unwrap(), header("X-Tier", "pro"));
        assert_eq!("x:a:b".parse::<HeaderArgument>().unwrap(), header("x", "a:b"));
        assert_eq!("x:".parse::<HeaderArgument>().unwrap(), header("x", ""));
        for wrong in ["", ":", ": x", "X-Tier", "X Tier: pro", "X-Tier : pro", "é: x"] {
            assert!(wrong.parse::<HeaderArgument>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn identities_are_a_name_and_a_value() {
        let given = "user=a=b".parse::<IdentityArgument>().unwrap();
        assert_eq!((given.name.as_str(), given.value.as_str()), ("user", "a=b"));
        for wrong in ["", "user", "=42"] {
            assert!(wrong.parse::<IdentityArgument>().is_err(), "{wrong}");
        }
    }
}
