//! Real programs for tests: started on free ports of the loopback, and ended when dropped.

mod certificates;
mod cluster;
mod directory;
mod fault_proxy;
pub mod http2;
mod port;
mod redis;
mod reply;
mod sentinel;

pub use certificates::Certificates;
pub use cluster::RedisCluster;
pub use directory::TemporaryDirectory;
pub use fault_proxy::{Fault, FaultProxy};
pub use redis::{Binary, RedisServer, RedisSetup};
pub use reply::{Reply, ask};
pub use sentinel::SentinelTrio;
