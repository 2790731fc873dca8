//! How many files, and so connections, the system lets the process have open.

use tollgate_server::{ConnectionLimits, Listeners, usable_descriptors};

/// Raises the limit as far as the system allows without asking an administrator, and returns it. `None` where there
/// is none, or none is known.
pub(super) fn raise_limit() -> Option<usize> {
    #[cfg(unix)]
    return unix::raise_limit();
    #[cfg(not(unix))]
    None
}

/// A warning, where the listeners may take more connections than can be open.
pub(super) fn warning(limits: &ConnectionLimits, listeners: &Listeners) -> Option<String> {
    let granted = limits.descriptors?;
    let listeners = [listeners.http, listeners.grpc, listeners.resp].into_iter().flatten().count();
    let (wanted, usable) = (limits.connections.saturating_mul(listeners), usable_descriptors(granted));
    (usable < wanted).then(|| {
        format!(
            "the limit on open files is {granted}: {usable} connections can be open at once, and --max-connections \
             allows {wanted} on {listeners} listener(s); raise the limit (ulimit -n, LimitNOFILE), or lower \
             --max-connections"
        )
    })
}

#[cfg(unix)]
mod unix {
    #[allow(unsafe_code, reason = "the standard library knows no limits of a process")]
    pub(super) fn raise_limit() -> Option<usize> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a value of ours that lives through the call.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
            return None;
        }
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        // SAFETY: as above, and it is only read.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
        (limit.rlim_cur != libc::RLIM_INFINITY).then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
    }
}
