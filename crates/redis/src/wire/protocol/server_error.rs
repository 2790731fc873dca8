use crate::transport::{CallError, Cause, Executed, Slot};
use crate::wire::connection::address::Address;

/// An error reply of a server, by its meaning for the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerError {
    /// The slot belongs to another node.
    Moved(Slot, Address),
    /// This one call must be sent to another node, after `ASKING`.
    Ask(Address),
    /// The server does not have the script.
    NoScript,
    /// The server is temporarily unavailable.
    Unavailable,
    /// The server is a replica.
    ReadOnly,
    OutOfMemory,
    /// The password or a permission is missing or wrong.
    Authentication,
    /// The server belongs to a cluster, and the keys are in several slots.
    CrossSlot,
    /// A key has another type.
    WrongType,
    /// The script itself failed, because it cannot read a value.
    ScriptFailed,
    /// Any other error.
    Other,
}

impl ServerError {
    /// Parses the code at the beginning of an error.
    pub(crate) fn parse(text: &str) -> ServerError {
        let mut words = text.split(' ');
        let code = words.next().unwrap_or_default();
        match code {
            "MOVED" => match (words.next().and_then(slot), words.next().and_then(Address::from_server)) {
                (Some(slot), Some(address)) => ServerError::Moved(slot, address),
                _ => ServerError::Other,
            },
            "ASK" => match words.nth(1).and_then(Address::from_server) {
                Some(address) => ServerError::Ask(address),
                None => ServerError::Other,
            },
            "NOSCRIPT" => ServerError::NoScript,
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "BUSY" | "NOREPLICAS" | "MISCONF" => {
                ServerError::Unavailable
            }
            "READONLY" => ServerError::ReadOnly,
            "OOM" => ServerError::OutOfMemory,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => ServerError::Authentication,
            "CROSSSLOT" => ServerError::CrossSlot,
            "WRONGTYPE" => ServerError::WrongType,
            // Redis since 7.0 and Valkey begin an error like this that comes from the script, not from a command.
            "ERR" if text.starts_with("ERR user_script:") => ServerError::ScriptFailed,
            // The user lacks a permission that the script needs: in Redis up to 7.0, and in later versions and Valkey.
            "ERR"
                if text.starts_with("ERR The user executing the script")
                    || text.starts_with("ERR ACL failure in script") =>
            {
                ServerError::Authentication
            }
            _ => ServerError::Other,
        }
    }

    /// Returns the error of a call that is not sent again.
    pub(crate) fn call_error(&self, text: &str) -> CallError {
        // An error of a command within a script names the script. The script may have written something before it.
        let within_script = text.contains(" script: ");
        let executed = if within_script { Executed::Unknown } else { Executed::No };
        match self {
            // Within a script too, these occur only before anything is written: the server checks before the first
            // write, and not again after it.
            ServerError::OutOfMemory => CallError { cause: Cause::OutOfMemory, executed: Executed::No },
            ServerError::Unavailable | ServerError::ReadOnly | ServerError::Moved(..) | ServerError::Ask(_) => {
                CallError { cause: Cause::Unavailable, executed: Executed::No }
            }
            ServerError::Authentication => CallError { cause: Cause::Authentication, executed },
            // Only a read fails with another type, and a script reads all keys before it writes the first.
            ServerError::WrongType => CallError { cause: Cause::WrongType, executed: Executed::No },
            ServerError::ScriptFailed => CallError { cause: Cause::Unreadable, executed: Executed::Unknown },
            ServerError::CrossSlot => CallError { cause: Cause::WrongMode, executed },
            ServerError::NoScript => CallError { cause: Cause::Protocol, executed: Executed::No },
            ServerError::Other => CallError { cause: Cause::Protocol, executed: Executed::Unknown },
        }
    }
}

fn slot(text: &str) -> Option<Slot> {
    text.parse().ok().filter(|&slot| usize::from(slot) < crate::wire::cluster::key_slot::SLOTS).map(Slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_replies_are_parsed_by_their_code() {
        let address = Address::parse("127.0.0.1:7001").unwrap();
        let parse = ServerError::parse;
        assert_eq!(parse("MOVED 3999 127.0.0.1:7001"), ServerError::Moved(Slot(3999), address.clone()));
        assert_eq!(parse("ASK 3999 127.0.0.1:7001"), ServerError::Ask(address));
        assert_eq!(parse("MOVED 16384 127.0.0.1:7001"), ServerError::Other);
        assert_eq!(parse("MOVED"), ServerError::Other);
        assert_eq!(parse("NOSCRIPT No matching script. Please use EVAL."), ServerError::NoScript);
        assert_eq!(parse("CLUSTERDOWN Hash slot not served"), ServerError::Unavailable);
        assert_eq!(parse("CROSSSLOT Keys in request don't hash to the same slot"), ServerError::CrossSlot);
        assert_eq!(parse("ERR unknown command"), ServerError::Other);
        let wrong_type =
            "WRONGTYPE Operation against a key holding the wrong kind of value script: d8f7, on @user_script:1.";
        assert_eq!(parse(wrong_type), ServerError::WrongType);
        let unreadable = "ERR user_script:89: bad argument #2 to 'unpack' script: d8f7, on @user_script:89.";
        assert_eq!(parse(unreadable), ServerError::ScriptFailed);
        assert_eq!(parse(""), ServerError::Other);
    }

    #[test]
    fn errors_within_a_script_have_an_unknown_outcome_except_out_of_memory() {
        let executed = |text: &str| ServerError::parse(text).call_error(text).executed;
        assert_eq!(executed("NOPERM this user has no permissions to run the 'evalsha' command"), Executed::No);
        let within =
            "ERR The user executing the script can't run this command or subcommand script: d8f7, on @user_script:1.";
        assert_eq!(executed(within), Executed::Unknown);
        let by_valkey = "ERR ACL failure in script: User gate has no permissions to run the 'del' command script: on @user_script:1.";
        for text in [within, by_valkey] {
            let unknown = CallError { cause: Cause::Authentication, executed: Executed::Unknown };
            assert_eq!(ServerError::parse(text).call_error(text), unknown);
        }
        assert_eq!(executed("ERR wrong type script: d8f7, on @user_script:1."), Executed::Unknown);
        assert_eq!(executed("OOM command not allowed. script: 67ed, on @user_script:1."), Executed::No);
    }
}
