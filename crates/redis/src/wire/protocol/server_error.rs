use crate::transport::{Cause, Executed, Slot, Trouble};
use crate::wire::connection::address::Address;

/// What a server's refusal means for the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerError {
    /// The slot belongs to another node.
    Moved(Slot, Address),
    /// This one call is to be made at another node.
    Ask(Address),
    /// The script is not known.
    NoScript,
    /// The server cannot serve at present.
    NotNow,
    /// The server has become a replica.
    ReadOnly,
    OutOfMemory,
    Authentication,
    /// A key is of another type.
    WrongType,
    /// The script ended by itself, with a value that it cannot read.
    ScriptFailed,
    /// Whatever else.
    Other,
}

impl ServerError {
    /// Reads the code at the beginning of an error.
    pub(crate) fn read(text: &str) -> ServerError {
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
                ServerError::NotNow
            }
            "READONLY" => ServerError::ReadOnly,
            "OOM" => ServerError::OutOfMemory,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => ServerError::Authentication,
            "WRONGTYPE" => ServerError::WrongType,
            // So says Redis since 7.0, and Valkey, of an error that no command has made.
            "ERR" if text.starts_with("ERR user_script:") => ServerError::ScriptFailed,
            // So says a script whose user may not do what it does: Redis up to 7.0, and later ones and Valkey.
            "ERR"
                if text.starts_with("ERR The user executing the script")
                    || text.starts_with("ERR ACL failure in script") =>
            {
                ServerError::Authentication
            }
            _ => ServerError::Other,
        }
    }

    /// What a call hears that is not sent again.
    pub(crate) fn trouble(&self, text: &str) -> Trouble {
        // An error within a script names the script. It comes in the middle: something may be written already.
        let within_script = text.contains(" script: ");
        let executed = if within_script { Executed::Unknown } else { Executed::No };
        match self {
            // Also within a script these come only while nothing is written: the server looks before the first
            // write, and not again after it.
            ServerError::OutOfMemory => Trouble { cause: Cause::OutOfMemory, executed: Executed::No },
            ServerError::NotNow | ServerError::ReadOnly | ServerError::Moved(..) | ServerError::Ask(_) => {
                Trouble { cause: Cause::Unavailable, executed: Executed::No }
            }
            ServerError::Authentication => Trouble { cause: Cause::Authentication, executed },
            // Only reading finds another type, and a script reads all keys before it writes the first.
            ServerError::WrongType => Trouble { cause: Cause::WrongType, executed: Executed::No },
            ServerError::ScriptFailed => Trouble { cause: Cause::Unreadable, executed: Executed::Unknown },
            ServerError::NoScript => Trouble { cause: Cause::Protocol, executed: Executed::No },
            ServerError::Other => Trouble { cause: Cause::Protocol, executed: Executed::Unknown },
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
    fn reads_what_servers_say() {
        let address = Address::parse("127.0.0.1:7001").unwrap();
        let read = ServerError::read;
        assert_eq!(read("MOVED 3999 127.0.0.1:7001"), ServerError::Moved(Slot(3999), address.clone()));
        assert_eq!(read("ASK 3999 127.0.0.1:7001"), ServerError::Ask(address));
        assert_eq!(read("MOVED 16384 127.0.0.1:7001"), ServerError::Other);
        assert_eq!(read("MOVED"), ServerError::Other);
        assert_eq!(read("NOSCRIPT No matching script. Please use EVAL."), ServerError::NoScript);
        assert_eq!(read("CLUSTERDOWN Hash slot not served"), ServerError::NotNow);
        assert_eq!(read("ERR unknown command"), ServerError::Other);
        let wrong_type =
            "WRONGTYPE Operation against a key holding the wrong kind of value script: d8f7, on @user_script:1.";
        assert_eq!(read(wrong_type), ServerError::WrongType);
        let unreadable = "ERR user_script:89: bad argument #2 to 'unpack' script: d8f7, on @user_script:89.";
        assert_eq!(read(unreadable), ServerError::ScriptFailed);
        assert_eq!(read(""), ServerError::Other);
    }

    #[test]
    fn an_error_in_the_middle_of_a_script_leaves_the_outcome_open() {
        let executed = |text: &str| ServerError::read(text).trouble(text).executed;
        assert_eq!(executed("NOPERM this user has no permissions to run the 'evalsha' command"), Executed::No);
        let within =
            "ERR The user executing the script can't run this command or subcommand script: d8f7, on @user_script:1.";
        assert_eq!(executed(within), Executed::Unknown);
        let by_valkey = "ERR ACL failure in script: User gate has no permissions to run the 'del' command script: on @user_script:1.";
        for text in [within, by_valkey] {
            let unknown = Trouble { cause: Cause::Authentication, executed: Executed::Unknown };
            assert_eq!(ServerError::read(text).trouble(text), unknown);
        }
        assert_eq!(executed("ERR wrong type script: d8f7, on @user_script:1."), Executed::Unknown);
        assert_eq!(executed("OOM command not allowed. script: 67ed, on @user_script:1."), Executed::No);
    }
}
