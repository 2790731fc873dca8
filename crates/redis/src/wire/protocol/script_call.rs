use std::fmt;
use std::sync::Arc;

use sha1::{Digest, Sha1};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::command::CommandWriter;

/// A script, and the name under which servers cache it: the SHA-1 of its source in hexadecimal digits.
pub(crate) struct Script {
    source: Vec<u8>,
    sha1: String,
}

impl Script {
    pub(crate) fn new(source: &str) -> Script {
        let sha1 = Sha1::digest(source).iter().map(|byte| format!("{byte:02x}")).collect();
        Script { source: source.as_bytes().to_vec(), sha1 }
    }

    #[cfg(test)]
    pub(crate) fn sha1(&self) -> &[u8] {
        self.sha1.as_bytes()
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.sha1).finish()
    }
}

/// Most calls have a few keys, and the script that decides requests has one argument.
pub(crate) type ScriptKeys = SmallVec<[Arc<[u8]>; 4]>;
pub(crate) type Args = SmallVec<[Vec<u8>; 1]>;

/// A script with its keys and arguments.
#[derive(Clone, Debug)]
pub(crate) struct ScriptCall {
    pub(crate) script: Arc<Script>,
    pub(crate) keys: ScriptKeys,
    pub(crate) args: Args,
    pub(crate) timing: Timing,
    /// The bounds of the server's clock that it needs.
    pub(crate) clock_bounds: Option<ClockBounds>,
}

/// The bounds of the server's clock, relative to times in the last argument of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockBounds {
    /// The time to which those in the argument refer.
    pub(crate) base: Instant,
    /// Writes by how many microseconds the server's clock is ahead, at least and at most.
    pub(crate) stamp: fn(&mut [u8], (i64, i64)),
}

/// What is known of the server's clock when a command is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClockStamps {
    /// The expiry, used only if the script expires.
    pub(crate) expiry: Option<u64>,
    pub(crate) ahead: Option<(i64, i64)>,
}

/// How a script uses its server's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timing {
    /// Not at all.
    None,
    /// Its reply is an array that begins with the time, in microseconds since 1970.
    Reports,
    /// The same, and after its expiry the script does nothing and its reply is the time alone.
    Expires {
        /// Writes the expiry into its last argument.
        stamp: fn(&mut [u8], u64),
    },
}

/// How a command refers to the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptForm {
    /// By its name. A server that does not have the script replies `NOSCRIPT`.
    Name,
    /// By its source, which the server then caches.
    Source,
}

impl ScriptCall {
    /// Writes the command.
    pub(crate) fn write(&self, form: ScriptForm, stamps: ClockStamps, out: &mut Vec<u8>) {
        let mut writer = CommandWriter::begin(out, 3 + self.keys.len() + self.args.len());
        match form {
            ScriptForm::Name => writer.part(b"EVALSHA").part(self.script.sha1.as_bytes()),
            ScriptForm::Source => writer.part(b"EVAL").part(&self.script.source),
        };
        writer.number(self.keys.len());
        for key in &self.keys {
            writer.part(key);
        }
        for arg in &self.args {
            writer.part(arg);
        }
        let Some(last) = self.args.last() else { return };
        // CR and LF follow the argument.
        let end = out.len() - 2;
        let argument = &mut out[end - last.len()..end];
        if let (Timing::Expires { stamp }, Some(expiry)) = (self.timing, stamps.expiry) {
            stamp(argument, expiry);
        }
        if let (Some(ClockBounds { stamp, .. }), Some(ahead)) = (self.clock_bounds, stamps.ahead) {
            stamp(argument, ahead);
        }
    }
}
