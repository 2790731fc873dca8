//! How calls reach the servers.

use tokio::time::Instant;

use crate::call::{Call, Reply};

/// Carries calls to the shards that own their slots.
///
/// It sends a call at most once, unless the server has said that it was not
/// carried out: moved, loading, unknown script, too late. What may have been carried out
/// is never sent again.
pub(crate) trait Transport: Send + Sync + 'static {
    /// Sends a call and returns at once. `done` hears what became of it, on any
    /// thread, and possibly before this returns: nobody may hold a lock here
    /// that hearing takes. What is not on its way by `deadline` is not sent any
    /// more. What is on its way hears its answer, however late, or the loss of
    /// its connection: the caller watches the time. A server that reads a call
    /// that [expires](Call::expires) after `deadline` and a margin does nothing,
    /// and answers so.
    fn send(&self, slot: Slot, call: Call, deadline: Instant, done: Done);

    /// Where keys with this hash tag live. Without a cluster, all in one slot.
    fn slot(&self, tag: &[u8]) -> Slot;

    /// Whether all keys live in slot 0, as they do without a cluster: then no hash tag has to be found.
    fn has_one_slot(&self) -> bool {
        false
    }

    /// Who answers for a slot at present: its troubles are its own.
    fn shard(&self, slot: Slot) -> ShardId;

    /// What people call a server: its host and port, if that is known.
    fn server(&self, _shard: ShardId) -> Option<String> {
        None
    }

    /// Every server that owns something, with a slot of its own. Nothing while none is known.
    fn shards(&self) -> Vec<(ShardId, Slot)> {
        Vec::new()
    }

    /// All servers by their hosts and ports, and those of them that cannot be reached at present.
    fn servers(&self) -> Servers {
        Servers::default()
    }
}

/// Who is there, and who is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Servers {
    pub(crate) all: Vec<String>,
    pub(crate) unreached: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u16);

/// Which of the servers. Numbers are not used again for another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ShardId(pub(crate) u32);

pub(crate) type Answered = Result<Reply, Trouble>;

/// Who hears the answer. Dropped unheard, it hears that the outcome is unknown.
pub(crate) struct Done(Option<Box<dyn FnOnce(Answered) + Send>>);

impl Done {
    pub(crate) fn new(hear: impl FnOnce(Answered) + Send + 'static) -> Done {
        Done(Some(Box::new(hear)))
    }

    pub(crate) fn hear(mut self, answer: Answered) {
        if let Some(hear) = self.0.take() {
            hear(answer);
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(hear) = self.0.take() {
            hear(Err(Trouble { cause: Cause::Connection, executed: Executed::Unknown }));
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) cause: Cause,
    pub(crate) executed: Executed,
}

/// Whether a call that failed was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executed {
    /// It was not: it was never sent, or the server said so.
    No,
    /// Nobody knows. It must not be sent again.
    Unknown,
}

/// What the trouble is, for counters and log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// No answer in time.
    Timeout,
    /// There is no connection, or it was lost.
    Connection,
    /// The server refuses who we are.
    Authentication,
    /// The server has no memory left.
    OutOfMemory,
    /// The server is loading its data, is read-only, or its cluster is down.
    Unavailable,
    /// More is waiting to be sent than may.
    Overloaded,
    /// An answer that makes no sense.
    Protocol,
    /// A key is of another type than tollgate writes.
    WrongType,
    /// The script ended with an error, because a value is nothing that tollgate writes.
    Unreadable,
    /// The server failed before, so that it was not even asked.
    BreakerOpen,
}

impl Cause {
    /// All of them, in their order.
    pub(crate) const ALL: [Cause; 10] = [
        Cause::Timeout,
        Cause::Connection,
        Cause::Authentication,
        Cause::OutOfMemory,
        Cause::Unavailable,
        Cause::Overloaded,
        Cause::Protocol,
        Cause::WrongType,
        Cause::Unreadable,
        Cause::BreakerOpen,
    ];

    /// Its name in counters and log lines.
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
            Cause::BreakerOpen => "breaker-open",
        }
    }

    /// Whether it concerns a key of the call, and says nothing of its server.
    pub(crate) const fn is_of_a_key(self) -> bool {
        matches!(self, Cause::WrongType | Cause::Unreadable)
    }
}
