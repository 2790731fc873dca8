//! Pins the server and this process to cores.

use tollgate_testbed::RedisServer;

/// Starts a server on the last core, and leaves the first to this thread and to the programs it starts.
pub(crate) fn start_server() -> RedisServer {
    let cores = cores();
    // A process inherits the cores of the thread that starts it.
    pin_to_core(cores - 1);
    let server = RedisServer::start(&[]).unwrap();
    pin_to_core(0);
    server
}

/// Returns the number of cores, whatever this thread is pinned to.
fn cores() -> usize {
    #[allow(unsafe_code, reason = "the standard library counts only those that this thread may use")]
    // SAFETY: it takes a number and returns one.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).unwrap_or(1).max(1)
}

fn pin_to_core(core: usize) {
    #[allow(unsafe_code, reason = "the standard library cannot pin a thread")]
    // SAFETY: the set is initialised by CPU_ZERO's equivalent, zeroes, and lives through the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
