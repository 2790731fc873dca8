//! What the store would forget, and what it would not find.

use super::{Reporter, codes, quoted};
use crate::model::{MemorySettings, Policy, Secret, StoreSettings};

const MINUTE_NS: u64 = 60_000_000_000;

/// A snapshot costs next to nothing, so nobody has to lose more than this.
const LONG_NS: u64 = 10 * MINUTE_NS;

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    match &policy.store {
        StoreSettings::Memory(memory) => snapshots(memory, &mut top.member("store").member("memory")),
        StoreSettings::Redis(redis) => {
            redis.password.iter().for_each(|secret| password(secret, &mut top.member("store").member("redis")));
        }
    }
}

fn snapshots(memory: &MemorySettings, here: &mut Reporter<'_>) {
    let Some(snapshot) = memory.snapshot.as_ref().filter(|snapshot| snapshot.every_ns > LONG_NS) else { return };
    let minutes = snapshot.every_ns / MINUTE_NS;
    let message = format!("a process that is killed gives back what was used within up to {minutes} minutes");
    here.member("every").add(codes::RARE_SNAPSHOTS, message, "write it more often: `every: 30s`");
}

/// No error: a policy may be checked on another machine than the one that it is for.
fn password(secret: &Secret, here: &mut Reporter<'_>) {
    let (member, message) = match secret {
        Secret::Environment(name) if !is_set(name) => {
            ("password_env", format!("the environment variable {} is not set here, or is empty", quoted(name)))
        }
        Secret::File(path) => match std::fs::metadata(path) {
            Ok(_) => return,
            Err(error) => ("password_file", format!("the file {} cannot be read here: {error}", quoted(path))),
        },
        Secret::Environment(_) => return,
    };
    let hint = "the service does not start without it: it must be there where it runs";
    here.member(member).add(codes::MISSING_PASSWORD, message, hint);
}

/// Some names would panic or find nothing.
fn is_set(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && std::env::var_os(name).is_some_and(|value| !value.is_empty())
}
