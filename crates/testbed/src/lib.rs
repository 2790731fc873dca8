//! Servers for tests: real programs on free loopback ports, and services in the process of the test. Dropping them stops
//! them.

mod certificates;
mod child_process;
mod cluster;
mod directory;
mod fault_proxy;
pub mod http2;
mod in_process;
mod port;
mod redis;
mod reply;
mod sentinel;

pub use certificates::Certificates;
pub use child_process::ChildProcess;
pub use cluster::RedisCluster;
pub use directory::TemporaryDirectory;
pub use fault_proxy::{Fault, FaultProxy};
pub use in_process::{InProcess, StopSignal};
pub use port::ReservedPort;
pub use redis::{Binary, RedisServer, RedisSetup};
pub use reply::{Reply, ask};
pub use sentinel::SentinelTrio;
