mod text;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::arguments::OutputFormat;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::remote::{AdminServiceArguments, HttpCall, HttpResponse, ServiceConnection, path_segment};

/// Inspect, reset or override keys of a running service
///
/// A key is the one that `tollgate explain` shows for a request, or the value that
/// the request has: an address, a user, with a bar between several parts.
#[derive(Debug, Args)]
pub(crate) struct KeysArguments {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Show the counters of a key. Nothing is charged
    Inspect(KeyArguments),
    /// Delete the usage of a key, its violations and a block
    Reset(KeyArguments),
    /// Replace the limit of a key for a time
    Override(OverrideArguments),
    /// End the override of a key: the limit of the policy applies again
    EndOverride(KeyArguments),
    /// List the overrides that are in effect
    Overrides(ListArguments),
}

/// A key, and the service that has it.
#[derive(Debug, Args)]
struct KeyArguments {
    /// Name of the rule
    rule: String,

    /// Key; left out for a rule with one counter for all requests
    #[arg(default_value = "", hide_default_value = true)]
    key: String,

    #[command(flatten)]
    list: ListArguments,
}

#[derive(Debug, Args)]
struct OverrideArguments {
    #[command(flatten)]
    key: KeyArguments,

    /// Limit of the key, such as 200/min or unlimited; several are separated by commas
    #[arg(long, value_name = "LIMIT", env = "TOLLGATE_KEYS_LIMIT", hide_env_values = true)]
    limit: String,

    /// How long the override lasts, such as 30min
    #[arg(long = "for", value_name = "DURATION", env = "TOLLGATE_KEYS_FOR", hide_env_values = true)]
    duration: String,
}

#[derive(Debug, Args)]
struct ListArguments {
    #[command(flatten)]
    service: AdminServiceArguments,

    /// Format of the output: with json, the answer of the service
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "TOLLGATE_KEYS_FORMAT", hide_env_values = true)]
    format: OutputFormat,
}

pub(crate) fn keys(arguments: &KeysArguments) -> Result<Exit, Failure> {
    match &arguments.command {
        KeysCommand::Inspect(key) => key.call("GET", "/api/keys", None, text::key),
        KeysCommand::Reset(key) => key.call("DELETE", "/api/keys", None, |_| key.sentence("is reset")),
        KeysCommand::Override(set) => {
            let body = json!({ "limit": set.limit, "for": set.duration });
            set.key.call("PUT", "/api/keys", Some(&body), text::overridden)
        }
        KeysCommand::EndOverride(key) => {
            key.call("DELETE", "/api/overrides", None, |_| key.sentence("has the limit of the policy again"))
        }
        KeysCommand::Overrides(list) => {
            let answer = list.service.connection()?.json(HttpCall::get("/api/overrides"))?;
            list.print(&answer, text::overrides)
        }
    }
}

impl KeyArguments {
    /// Makes a call for the key, and prints the answer. What the service refuses is a negative result.
    fn call(
        &self,
        method: &str,
        resource: &str,
        body: Option<&Value>,
        page: impl FnOnce(&Value) -> String,
    ) -> Result<Exit, Failure> {
        let path = format!("{resource}/{}/{}", path_segment(&self.rule), path_segment(&self.key));
        let path = path.trim_end_matches('/');
        let connection = self.list.service.connection()?;
        let call = HttpCall { method, path, body };
        let response = connection.call(call)?;
        let answer = answer(&connection, call, &response)?;
        self.list.print(&answer, page)
    }

    fn sentence(&self, what: &str) -> String {
        let key = if self.key.is_empty() { String::new() } else { format!(" {}", self.key) };
        format!("{}{key} {what}\n", self.rule)
    }
}

/// Returns the answer to a call; the service refuses unknown rules, impossible keys and invalid limits.
fn answer(connection: &ServiceConnection, call: HttpCall<'_>, response: &HttpResponse) -> Result<Value, Failure> {
    match response.status {
        200 => serde_json::from_str(&response.body)
            .map_err(|_| Failure::failed(format!("{}{} returned no JSON", connection.url, call.path))),
        400 | 404 | 409 => Err(Failure { exit: Exit::No, ..connection.problem(call, response) }),
        _ => Err(connection.problem(call, response)),
    }
}

impl ListArguments {
    fn print(&self, answer: &Value, page: impl FnOnce(&Value) -> String) -> Result<Exit, Failure> {
        match self.format {
            OutputFormat::Text => output::print(&page(answer))?,
            OutputFormat::Json => output::print_json(answer)?,
        }
        Ok(Exit::Done)
    }
}
