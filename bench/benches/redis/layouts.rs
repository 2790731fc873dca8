//! The data layouts of other limiters on Redis.

use crate::pipeline::write_command;

/// A time in microseconds, for layouts that store one.
pub(crate) const TODAY: u64 = 1_787_500_000_123_456;

/// The name of a key, the same for all layouts.
pub(crate) fn key_of(client: u64) -> String {
    format!("tollgate:per-user:{{user-{client:07}}}")
}

/// Writes the commands for one client. Returns their number.
pub(crate) type Write = fn(&mut Vec<u8>, u64) -> usize;

/// A bucket as a hash of tokens and a time.
pub(crate) fn bucket_hash(bytes: &mut Vec<u8>, client: u64) -> usize {
    let key = key_of(client);
    let time = format!("{}.{:06}", 1_787_500_000 + client / 1_000, client % 1_000_000);
    write_command(bytes, &[b"HSET", key.as_bytes(), b"tokens", b"49", b"last_refill", time.as_bytes()]);
    expire(bytes, &key)
}

/// A sliding counter as a hash of two counts and a window.
pub(crate) fn counter_hash(bytes: &mut Vec<u8>, client: u64) -> usize {
    let key = key_of(client);
    let window = format!("{}", TODAY / 60_000_000);
    let fields: [&[u8]; 6] = [b"window", window.as_bytes(), b"current", b"17", b"previous", b"80"];
    let command: Vec<&[u8]> = [b"HSET", key.as_bytes()].into_iter().chain(fields).collect();
    write_command(bytes, &command);
    expire(bytes, &key)
}

/// A fixed window as a number. The usual layout also has the number of the window in its key; it is omitted here,
/// in favour of that layout.
pub(crate) fn incremented(bytes: &mut Vec<u8>, client: u64) -> usize {
    let key = key_of(client);
    write_command(bytes, &[b"INCR", key.as_bytes()]);
    expire(bytes, &key)
}

/// A log as a sorted set, whose members must differ: the time and a number of the request.
pub(crate) fn sorted_set<const ENTRIES: u64>(bytes: &mut Vec<u8>, client: u64) -> usize {
    let key = key_of(client);
    for entry in 0..ENTRIES {
        let now = TODAY + client * 7 + entry * (59_000_000 / ENTRIES);
        let member = format!("{now}:{:08x}", client.wrapping_mul(0x9e37_79b9).wrapping_add(entry) as u32);
        write_command(bytes, &[b"ZADD", key.as_bytes(), now.to_string().as_bytes(), member.as_bytes()]);
    }
    ENTRIES as usize + expire(bytes, &key) - 1
}

/// Sets the expiry of a key, as these layouts do.
fn expire(bytes: &mut Vec<u8>, key: &str) -> usize {
    write_command(bytes, &[b"PEXPIRE", key.as_bytes(), b"100000000"]);
    2
}
