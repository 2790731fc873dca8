use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate::policy::CheckedPolicy;
use tollgate::policy::{Diagnostic, LoadError, Loaded, MissingSecrets, NamedFile};
use tollgate_server::observe::Level;
use tollgate_server::{Engine, PolicySource};

use super::policy_changes;
use crate::output::{log, log_info};
use crate::policy_file;
use crate::region::require_region;

/// The most counter changes that a reload logs.
const MAX_LOGGED_CHANGES: usize = 20;

/// The most warnings about a policy that are logged.
const MAX_LOGGED_WARNINGS: usize = 20;

/// A policy that is reloaded when its file changes, when a file that it names changes, or on request.
pub(super) struct WatchedPolicy {
    engine: Arc<Engine>,
    /// The active policy.
    policy: CheckedPolicy,
    /// `None` if the policy does not come from a file.
    file: Option<PathBuf>,
    /// The region that the arguments set.
    region: Option<String>,
    /// The contents of the files at the last reload or attempted reload.
    loaded: FileContents,
    /// The contents of the files at the last check.
    seen: FileContents,
}

/// The contents of the files of a policy, as hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileContents {
    /// The policy file; `None` if it cannot be read.
    policy: Option<u64>,
    /// The files that the policy names: tiers, keys.
    named: Vec<NamedFile>,
}

impl WatchedPolicy {
    /// Watches the files of the active policy.
    pub(super) fn new(
        engine: Arc<Engine>,
        file: Option<&Path>,
        region: Option<String>,
        active: Loaded,
    ) -> WatchedPolicy {
        let name = file.map_or_else(|| "the starter policy".to_owned(), policy_file::name_of);
        engine.set_policy_source(PolicySource::new(&name, &active.text, &active.policy));
        let file = file.map(Path::to_owned);
        let loaded = FileContents { policy: file.as_deref().and_then(content_hash), named: active.files };
        WatchedPolicy { engine, policy: active.policy, file, region, seen: loaded.clone(), loaded }
    }

    /// Reloads the policy if a file has changed or is gone. A file must be unchanged for two checks: an editor may
    /// still be writing, and replacing a file may remove it for a moment.
    pub(super) fn check(&mut self) {
        let Some(file) = self.file.as_deref().filter(|file| !policy_file::is_stdin(file)) else { return };
        let named = self.loaded.named.iter().map(NamedFile::now).collect();
        let now = FileContents { policy: content_hash(file), named };
        let is_stable = self.seen == now;
        self.seen = now;
        if is_stable && self.loaded != self.seen {
            // The outcome has been logged.
            drop(self.reload());
        }
    }

    /// Reloads the policy, and logs and returns the outcome. If the file is invalid, the active policy stays.
    pub(super) fn reload(&mut self) -> Result<String, String> {
        let outcome = match self.try_reload() {
            Ok((message, warnings)) => {
                message.lines().for_each(log_info);
                let warnings = log_warnings(&warnings);
                Ok([vec![message], warnings].concat().join("\n"))
            }
            Err(error) => {
                log(Level::Error, &error);
                Err(error)
            }
        };
        self.engine.note_reload(outcome.as_deref().map_err(String::as_str));
        outcome
    }

    /// Returns a description of the changes, and the warnings about the new policy.
    fn try_reload(&mut self) -> Result<(String, Vec<Diagnostic>), String> {
        let Some(file) = self.file.as_deref() else {
            return Err("not reloaded: there is no policy file, the starter policy is active".to_owned());
        };
        let name = policy_file::name_of(file);
        if policy_file::is_stdin(file) {
            return Err(format!("not reloaded: the policy was read from {name}; it stays active"));
        }
        // Before the file is read, so that a change in between causes another reload.
        self.loaded.policy = content_hash(file);
        let loaded = policy_file::read(file, MissingSecrets::Refuse);
        // The reader reports the contents of the named files that it has used.
        match &loaded {
            Ok(loaded) => self.loaded.named.clone_from(&loaded.files),
            Err(LoadError::Invalid(report)) => self.loaded.named.clone_from(&report.files),
            Err(_) => {}
        }
        let loaded = loaded.map_err(|error| {
            self.engine.count_failed_reload();
            format!("{name} not reloaded, the previous policy stays active:\n{error}")
        })?;
        let loaded = require_region(loaded, self.region.as_deref()).map_err(|failure| {
            self.engine.count_failed_reload();
            format!("{name} not reloaded, the previous policy stays active: {}", failure.sentence())
        })?;
        let reload = self
            .engine
            .reload(&loaded.policy)
            .map_err(|error| format!("{name} not reloaded, the previous policy stays active: {error}"))?;
        let mut message = format!("{name} reloaded: {}", policy_changes::describe(&self.policy, &loaded.policy));
        for change in reload.counter_changes.iter().take(MAX_LOGGED_CHANGES) {
            message += &format!("\ncounters: {change}");
        }
        if let more @ 1.. = reload.counter_changes.len().saturating_sub(MAX_LOGGED_CHANGES) {
            message += &format!("\ncounters: {more} more changes; `tollgate validate --against` lists all");
        }
        if reload.store_stays {
            message += &format!("\n{name}: the changed store settings apply after a restart");
        }
        if reload.regions_stay {
            message += &format!(
                "\n{name}: the changed regions apply after a restart; until then the shares and the global server stay"
            );
        }
        self.engine.set_policy_source(PolicySource::new(&name, &loaded.text, &loaded.policy));
        self.policy = loaded.policy;
        Ok((message, loaded.warnings))
    }
}

/// Logs warnings about a policy, and returns their lines. Beyond [`MAX_LOGGED_WARNINGS`] only the number is logged.
pub(super) fn log_warnings(warnings: &[Diagnostic]) -> Vec<String> {
    let line = |warning: &Diagnostic| {
        let Diagnostic { file, line, column, message, code, .. } = warning;
        format!("{file}:{line}:{column}: {message} [{code}]")
    };
    let mut lines: Vec<String> = warnings.iter().take(MAX_LOGGED_WARNINGS).map(line).collect();
    if let (more @ 1.., Some(first)) = (warnings.len().saturating_sub(MAX_LOGGED_WARNINGS), warnings.first()) {
        lines.push(format!("{more} more warnings; `tollgate validate {}` prints all", first.file));
    }
    lines.iter().for_each(|line| log(Level::Warning, line));
    lines.into_iter().map(|line| format!("warning: {line}")).collect()
}

/// A hash of the content of a file; `None` if it cannot be read. Links are followed, so a swapped link is a change.
fn content_hash(file: &Path) -> Option<u64> {
    let bytes = std::fs::read(file).ok()?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Some(hasher.finish())
}
