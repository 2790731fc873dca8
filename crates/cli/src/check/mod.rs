mod text;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::arguments::OutputFormat;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::remote::{HttpCall, PublicArguments};
use crate::request::{NameValue, RequestArguments};

/// Ask a running service for a decision
///
/// The request is charged, as if a client had sent it; with --cost 0 nothing is.
/// Exit code: 0 if the request may pass, 1 if it is refused.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    service: PublicArguments,

    #[command(flatten)]
    request: RequestArguments,

    /// Format of the output: with json, the answer of the service
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "TOLLGATE_CHECK_FORMAT", hide_env_values = true)]
    format: OutputFormat,
}

pub(crate) fn check(arguments: &CheckArguments) -> Result<Exit, Failure> {
    let body = body(&arguments.request);
    let call = HttpCall { method: "POST", path: "/v1/check", body: Some(&body) };
    let service = arguments.service.connection()?;
    let verdict = service.json(call)?;
    let Some(allowed) = verdict["allowed"].as_bool() else {
        return Err(Failure::failed("the service did not answer with a verdict").with_hint(service.listener_hint));
    };
    match arguments.format {
        OutputFormat::Text => output::print(&text::page(&verdict))?,
        OutputFormat::Json => output::print_json(&verdict)?,
    }
    Ok(if allowed { Exit::Done } else { Exit::No })
}

/// Returns the body of the check.
fn body(request: &RequestArguments) -> Value {
    let mut body = json!({ "method": request.method, "path": request.path, "cost": request.cost });
    if let Some(ip) = request.ip {
        body["ip"] = json!(ip);
    }
    if let Some(host) = &request.host {
        body["host"] = json!(host);
    }
    if !request.headers.is_empty() {
        body["headers"] = Value::Object(header_lines(&request.headers));
    }
    let identities: Map<String, Value> =
        request.identities().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    if !identities.is_empty() {
        body["identities"] = Value::Object(identities);
    }
    body
}

/// Returns each header with its value, or with the list of its lines.
fn header_lines(headers: &[NameValue]) -> Map<String, Value> {
    let mut lines = Map::new();
    for (name, value) in headers {
        let known: &mut Value = lines.entry(name.to_ascii_lowercase()).or_insert_with(|| json!([]));
        if let Value::Array(values) = known {
            values.push(json!(value));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        request: RequestArguments,
    }

    fn body_of(arguments: &[&str]) -> Value {
        body(&Line::parse_from([&["check"], arguments].concat()).request)
    }

    #[test]
    fn body_has_the_members_of_given_flags() {
        assert_eq!(body_of(&[]), json!({ "method": "GET", "path": "/", "cost": 1 }));
        let arguments = ["--ip", "203.0.113.9", "--method", "post", "--path", "/a?b", "--host", "h", "--cost", "3"];
        let more = ["--user", "42", "--identity", "team=x", "--header", "X-A: 1", "--header", "x-a: 2"];
        let expected = json!({
            "ip": "203.0.113.9", "method": "POST", "path": "/a?b", "host": "h", "cost": 3,
            "headers": { "x-a": ["1", "2"] }, "identities": { "user": "42", "team": "x" },
        });
        assert_eq!(body_of(&[&arguments[..], &more].concat()), expected);
    }
}
