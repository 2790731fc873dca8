use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate::policy::{LoadError, NamedFile};
use tollgate_server::Engine;
use tollgate_server::observe::Level;

use super::warnings;
use crate::output::{say, say_as};
use crate::policy_file;

/// How many counts that do not go on are listed after a reload.
const MOST_CHANGES_TOLD: usize = 20;

/// A policy that is read again when its file changes, or one that it names, or when an operator says so.
pub(super) struct WatchedPolicy {
    engine: Arc<Engine>,
    /// `None` where the policy is none of a file.
    file: Option<PathBuf>,
    /// What was in the files when they were last read, or tried to be.
    read: Seen,
    /// What was in the files a moment ago.
    seen: Seen,
}

/// What is in a policy's files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// In the policy itself; `None` where it could not be read.
    policy: Option<u64>,
    /// In those that it names: tiers, keys.
    named: Vec<NamedFile>,
}

impl WatchedPolicy {
    /// `named` are the files that the policy in force was read from besides its own.
    pub(super) fn new(engine: Arc<Engine>, file: Option<&Path>, named: Vec<NamedFile>) -> WatchedPolicy {
        let file = file.map(Path::to_owned);
        let read = Seen { policy: file.as_deref().and_then(content), named };
        WatchedPolicy { engine, file, seen: read.clone(), read }
    }

    /// Reads the policy again if a file has changed, or is gone. What is still
    /// changing is left alone: an editor may be in the middle of writing, and
    /// replacing a file may take it away for a moment.
    pub(super) fn look(&mut self) {
        let Some(file) = self.file.as_deref().filter(|file| !policy_file::is_stdin(file)) else { return };
        let now = Seen { policy: content(file), named: self.read.named.iter().map(NamedFile::now).collect() };
        let is_still = self.seen == now;
        self.seen = now;
        if is_still && self.read != self.seen {
            // How it went has been said.
            drop(self.reload());
        }
    }

    /// Reads the file again, says how it went, and returns it too. Where the
    /// file is wrong, the policy that held still holds.
    pub(super) fn reload(&mut self) -> Result<String, String> {
        let outcome = self.read_again();
        match &outcome {
            Ok(message) => message.lines().for_each(say),
            Err(why) => say_as(Level::Error, why),
        }
        outcome
    }

    fn read_again(&mut self) -> Result<String, String> {
        let Some(file) = self.file.as_deref() else {
            return Err("there is no policy file to be read again: the starter policy holds".to_owned());
        };
        let name = policy_file::name_of(file);
        if policy_file::is_stdin(file) {
            return Err(format!("the policy of {name} cannot be read again: it still holds"));
        }
        // Before the file is read: what changes meanwhile is read again.
        self.read.policy = content(file);
        let loaded = policy_file::read(file);
        // What was in the files that it names is known from the reading itself.
        match &loaded {
            Ok(loaded) => self.read.named.clone_from(&loaded.files),
            Err(LoadError::Invalid(report)) => self.read.named.clone_from(&report.files),
            Err(_) => {}
        }
        let loaded = loaded.map_err(|error| {
            self.engine.count_unread_policy();
            format!("{name} was not put in force, and the old policy still holds:\n{error}")
        })?;
        let reload = self
            .engine
            .reload(&loaded.policy)
            .map_err(|error| format!("{name} was not put in force, and the old policy still holds: {error}"))?;
        let mut message = format!("{name} was read again and is in force");
        for change in reload.counter_changes.iter().take(MOST_CHANGES_TOLD) {
            message += &format!("\ncounters: {change}");
        }
        if let more @ 1.. = reload.counter_changes.len().saturating_sub(MOST_CHANGES_TOLD) {
            message += &format!("\nand {more} more counts that do not go on: `tollgate validate --against` lists all");
        }
        if reload.store_stays {
            message += &format!("\n{name} describes its store in another way: that holds from the next start");
        }
        if let count @ 1.. = loaded.warnings.len() {
            message += &format!("\n{}", warnings(file, count));
        }
        Ok(message)
    }
}

/// What is in the file, as a number that is another when that is. Links are
/// followed, so a directory of links that are swapped is seen too.
fn content(file: &Path) -> Option<u64> {
    let bytes = std::fs::read(file).ok()?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Some(hasher.finish())
}
