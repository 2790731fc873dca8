//! Real programs for tests: started on free ports of the loopback, and ended when dropped.

mod redis;

pub use redis::RedisServer;
