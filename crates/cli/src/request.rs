//! A request from flags: the one that `tollgate explain` explains and `tollgate check` sends.

use std::net::IpAddr;

use clap::Args;
use tollgate::Request;

#[derive(Debug, Args)]
pub(crate) struct RequestArguments {
    /// Address of the client
    #[arg(long, value_name = "ADDRESS", value_parser = address, env = "TOLLGATE_REQUEST_IP", hide_env_values = true)]
    pub(crate) ip: Option<IpAddr>,

    /// User: the same as --identity user=USER
    #[arg(long, env = "TOLLGATE_REQUEST_USER", hide_env_values = true)]
    pub(crate) user: Option<String>,

    /// Identity set by the caller; may be repeated
    ///
    /// The variable holds one in each line.
    #[arg(
        long = "identity",
        value_name = "NAME=VALUE",
        value_parser = name_and_value,
        env = "TOLLGATE_REQUEST_IDENTITY",
        hide_env_values = true,
        value_delimiter = '\n'
    )]
    pub(crate) identities: Vec<NameValue>,

    /// Method
    #[arg(long, default_value = "GET", value_parser = method, env = "TOLLGATE_REQUEST_METHOD", hide_env_values = true)]
    pub(crate) method: String,

    /// Host
    #[arg(long, env = "TOLLGATE_REQUEST_HOST", hide_env_values = true)]
    pub(crate) host: Option<String>,

    /// Path, with or without a query
    #[arg(long, default_value = "/", value_parser = path, env = "TOLLGATE_REQUEST_PATH", hide_env_values = true)]
    pub(crate) path: String,

    /// Header field; may be repeated
    ///
    /// The variable holds one in each line.
    #[arg(
        long = "header",
        value_name = "NAME: VALUE",
        value_parser = header,
        env = "TOLLGATE_REQUEST_HEADER",
        hide_env_values = true,
        value_delimiter = '\n'
    )]
    pub(crate) headers: Vec<NameValue>,

    /// Cost, where a rule does not set it
    #[arg(
        long,
        default_value_t = 1,
        value_parser = cost,
        allow_negative_numbers = true,
        env = "TOLLGATE_REQUEST_COST",
        hide_env_values = true
    )]
    pub(crate) cost: u64,
}

impl RequestArguments {
    pub(crate) fn identities(&self) -> Vec<(&str, &str)> {
        let user = self.user.iter().map(|user| ("user", user.as_str()));
        user.chain(borrowed(&self.identities)).collect()
    }

    pub(crate) fn request<'a>(&'a self, identities: &'a [(&'a str, &'a str)]) -> Request<'a> {
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
}

/// A name and a value.
pub(crate) type NameValue = (String, String);

pub(crate) fn borrowed(pairs: &[NameValue]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// The expected form of an argument that was given in another.
#[derive(Debug, thiserror::Error)]
#[error("expected {0}")]
pub(crate) struct ExpectedArgument(&'static str);

pub(crate) fn name_and_value(text: &str) -> Result<NameValue, ExpectedArgument> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(ExpectedArgument("a name and a value such as user=42")),
    }
}

fn header(text: &str) -> Result<NameValue, ExpectedArgument> {
    let expected = ExpectedArgument("a name, a colon and a value such as 'X-Tier: pro'");
    let Some((name, value)) = text.split_once(':') else { return Err(expected) };
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err(expected);
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn address(text: &str) -> Result<IpAddr, ExpectedArgument> {
    text.parse().map_err(|_| ExpectedArgument("an IPv4 or IPv6 address without port or brackets, such as 203.0.113.9"))
}

/// Reads a method in any case: `post` is POST.
fn method(text: &str) -> Result<String, ExpectedArgument> {
    let is_method = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_method { Ok(text.to_ascii_uppercase()) } else { Err(ExpectedArgument("a method such as GET or POST")) }
}

fn path(text: &str) -> Result<String, ExpectedArgument> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err(ExpectedArgument("a path that begins with /, such as /auth/login"))
    }
}

fn cost(text: &str) -> Result<u64, ExpectedArgument> {
    text.parse().map_err(|_| ExpectedArgument("a whole number from 0 to 18446744073709551615"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> NameValue {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn header_is_a_token_a_colon_and_a_value() {
        assert_eq!(header("X-Tier: pro").unwrap(), pair("X-Tier", "pro"));
        assert_eq!(header("x:a:b").unwrap(), pair("x", "a:b"));
        assert_eq!(header("x:").unwrap(), pair("x", ""));
        for invalid in ["", ":", ": x", "X-Tier", "X Tier: pro", "X-Tier : pro", "é: x"] {
            assert!(header(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn identity_is_a_name_and_a_value() {
        assert_eq!(name_and_value("user=a=b").unwrap(), pair("user", "a=b"));
        for invalid in ["", "user", "=42"] {
            assert!(name_and_value(invalid).is_err(), "{invalid}");
        }
    }
}
