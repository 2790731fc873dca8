//! The interface through which the store sends calls to the servers.

use tokio::time::Instant;

use crate::call::{Call, ScriptReply};

/// Sends calls to the shards that own their slots.
///
/// A call is sent again only if the server has reported that it did not execute it: slot moved, loading, unknown
/// script, expired. (An expired call may have a new attempt before its deadline, because it expires by the server's
/// clock: if that clock was set, the expiry was computed wrongly, and the reply has the new time.) A call that may have
/// been executed is never sent again.
pub(crate) trait Transport: Send + Sync + 'static {
    /// Sends a call and returns immediately. `done` is called with the result, on any thread and possibly before this
    /// function returns, so the caller must not hold a lock that `done` takes.
    ///
    /// A call that is not written by `deadline` is not sent. After a call is written, `done` gets its reply, however
    /// late, or the loss of its connection; the caller enforces its own timeout. A call that [expires](Call::expires)
    /// is not executed if the server reads it later than `deadline` plus a margin; the server reports that.
    fn send(&self, slot: Slot, call: Call, deadline: Instant, done: Done);

    /// Returns the slot of the keys with this hash tag. Without a cluster all keys are in slot 0.
    fn slot(&self, tag: &[u8]) -> Slot;

    /// Returns whether the servers are a cluster. If not, all keys are in slot 0, and no hash tag has to be found.
    fn is_cluster(&self) -> bool {
        true
    }

    /// Returns the shard that owns a slot at present. Failures are tracked for each shard.
    fn shard(&self, slot: Slot) -> ShardId;

    /// Returns the host and port of a server for messages, if they are known.
    fn server(&self, _shard: ShardId) -> Option<String> {
        None
    }

    /// Returns every server that owns a slot, with one of its slots. Empty while no server is known.
    fn shards(&self) -> Vec<(ShardId, Slot)> {
        Vec::new()
    }

    /// Returns the hosts and ports of all servers, and of those that are unreachable at present.
    fn servers(&self) -> Servers {
        Servers::default()
    }
}

/// The servers as `host:port`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Servers {
    pub(crate) all: Vec<String>,
    pub(crate) unreachable: Vec<String>,
}

/// A hash slot of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u16);

/// The number of a server. A number is not reused for another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ShardId(pub(crate) u32);

pub(crate) type CallResult = Result<ScriptReply, CallError>;

/// The callback for the result of a call. If it is dropped without a result, it is called with an unknown outcome.
pub(crate) struct Done(Option<Box<dyn FnOnce(CallResult) + Send>>);

impl Done {
    pub(crate) fn new(on_result: impl FnOnce(CallResult) + Send + 'static) -> Done {
        Done(Some(Box::new(on_result)))
    }

    /// Calls the callback with the result.
    pub(crate) fn complete(mut self, result: CallResult) {
        if let Some(on_result) = self.0.take() {
            on_result(result);
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(on_result) = self.0.take() {
            on_result(Err(CallError { cause: Cause::Connection, executed: Executed::Unknown }));
        }
    }
}

/// The failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    pub(crate) cause: Cause,
    pub(crate) executed: Executed,
}

/// Whether a call that failed was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executed {
    /// It was not executed: it was never sent, or the server reported so.
    No,
    /// It may have been executed. It must not be sent again.
    Unknown,
}

/// The cause of a failure, for metrics and log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// There was no reply in time.
    Timeout,
    /// There is no connection, or it was lost.
    Connection,
    /// The server rejected the user or password, or the user lacks a permission.
    Authentication,
    /// The server is out of memory.
    OutOfMemory,
    /// The server is loading its data, is read-only, or its cluster is down.
    Unavailable,
    /// The connection already has its maximum number of calls.
    Overloaded,
    /// The reply was malformed or unexpected.
    Protocol,
    /// A key has another Redis type than tollgate writes.
    WrongType,
    /// The script failed because a value has another format than tollgate writes.
    Unreadable,
    /// The server belongs to a cluster, and the keys of the call are in several slots.
    WrongMode,
    /// The circuit breaker of the server is open, so the call was not sent.
    BreakerOpen,
}

impl Cause {
    /// All causes, in the order of their declaration.
    pub(crate) const ALL: [Cause; 11] = [
        Cause::Timeout,
        Cause::Connection,
        Cause::Authentication,
        Cause::OutOfMemory,
        Cause::Unavailable,
        Cause::Overloaded,
        Cause::Protocol,
        Cause::WrongType,
        Cause::Unreadable,
        Cause::WrongMode,
        Cause::BreakerOpen,
    ];

    /// Returns the name of the cause in metrics and log lines.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Cause::Timeout => "timeout",
            Cause::Connection => "connection",
            Cause::Authentication => "authentication",
            Cause::OutOfMemory => "out-of-memory",
            Cause::Unavailable => "unavailable",
            Cause::Overloaded => "overloaded",
            Cause::Protocol => "protocol",
            Cause::WrongType => "wrong-type",
            Cause::Unreadable => "unreadable",
            Cause::WrongMode => "wrong-mode",
            Cause::BreakerOpen => "breaker-open",
        }
    }

    /// Returns whether a key of the call is the cause, which does not indicate a fault of the server.
    pub(crate) const fn concerns_a_key(self) -> bool {
        matches!(self, Cause::WrongType | Cause::Unreadable)
    }

    /// Returns whether the call would fail again, although its server has not failed.
    pub(crate) const fn concerns_the_call(self) -> bool {
        self.concerns_a_key() || matches!(self, Cause::WrongMode)
    }
}
