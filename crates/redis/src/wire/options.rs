use std::path::PathBuf;
use std::time::Duration;

use crate::wire::connection::address::Address;
use crate::wire::connection::password::Password;

/// The addresses of the Redis servers, and the settings of the connections to them.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// The servers as `host:port`: the single server, the sentinels, or some nodes of the cluster.
    pub nodes: Vec<String>,
    /// The kind of deployment.
    pub mode: RedisMode,
    /// The user name; without one, the server's default user.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<Password>,
    /// The user name for the sentinels, which have their own users.
    pub sentinel_username: Option<String>,
    /// The password for the sentinels.
    pub sentinel_password: Option<Password>,
    /// The number of the database. A cluster has only 0.
    pub database: u32,
    /// The settings of TLS; without them connections are not encrypted.
    pub tls: Option<TlsOptions>,
    /// The number of connections to each server. Calls share them, so one is enough until it keeps a CPU core busy.
    pub connections_per_node: usize,
    /// The timeout for establishing a connection, including TLS and authentication.
    pub connect_timeout: Duration,
    /// The reply timeout. A connection that has received nothing for this long while a reply is due is replaced.
    pub silence: Duration,
    /// The maximum number of calls waiting or in flight on a connection; further calls fail immediately.
    pub calls_per_connection: usize,
    /// The interval at which the topology is read from the cluster or the sentinels. It is also read after failures.
    pub refresh_every: Duration,
}

/// The kind of Redis deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisMode {
    /// One server.
    Standalone,
    /// A primary with replicas, monitored by sentinels.
    Sentinel {
        /// The name under which the sentinels monitor the primary.
        primary: String,
    },
    /// A cluster.
    Cluster,
}

/// The settings for verifying the certificates of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// A PEM file with the trusted CA certificates; without one, those of the system are used.
    pub authority: Option<PathBuf>,
    /// The name that the server's certificate must have; without one, the host of the node.
    pub server_name: Option<String>,
}

impl RedisOptions {
    /// Creates the options for one server, with defaults for everything else.
    pub fn standalone(node: impl Into<String>) -> RedisOptions {
        RedisOptions::new(vec![node.into()], RedisMode::Standalone)
    }

    /// Creates the options for the primary that these sentinels monitor under a name, with defaults for everything else.
    pub fn sentinel(nodes: Vec<String>, primary: impl Into<String>) -> RedisOptions {
        RedisOptions::new(nodes, RedisMode::Sentinel { primary: primary.into() })
    }

    /// Creates the options for the cluster of these nodes, with defaults for everything else.
    #[must_use]
    pub fn cluster(nodes: Vec<String>) -> RedisOptions {
        RedisOptions::new(nodes, RedisMode::Cluster)
    }

    fn new(nodes: Vec<String>, mode: RedisMode) -> RedisOptions {
        RedisOptions {
            nodes,
            mode,
            username: None,
            password: None,
            sentinel_username: None,
            sentinel_password: None,
            database: 0,
            tls: None,
            connections_per_node: 1,
            connect_timeout: Duration::from_secs(1),
            silence: Duration::from_secs(1),
            calls_per_connection: 16 * 1024,
            refresh_every: Duration::from_secs(10),
        }
    }

    /// Checks the options and their combination.
    pub fn validate(&self) -> Result<(), OptionsError> {
        self.addresses().map(|_| ())
    }

    /// Checks the options, and returns the addresses of the nodes.
    pub(crate) fn addresses(&self) -> Result<Vec<Address>, OptionsError> {
        if self.nodes.is_empty() {
            return Err(OptionsError::NoNodes);
        }
        if self.mode == RedisMode::Standalone && self.nodes.len() > 1 {
            return Err(OptionsError::SeveralStandalone(self.nodes.len()));
        }
        if self.mode == RedisMode::Cluster && self.database != 0 {
            return Err(OptionsError::DatabaseInCluster(self.database));
        }
        if matches!(&self.mode, RedisMode::Sentinel { primary } if primary.is_empty()) {
            return Err(OptionsError::NoPrimaryName);
        }
        if self.username.is_some() && self.password.is_none()
            || self.sentinel_username.is_some() && self.sentinel_password.is_none()
        {
            return Err(OptionsError::NoPassword);
        }
        let is_zero = [
            ("connections_per_node", self.connections_per_node == 0),
            ("calls_per_connection", self.calls_per_connection == 0),
            ("connect_timeout", self.connect_timeout.is_zero()),
            ("silence", self.silence.is_zero()),
            ("refresh_every", self.refresh_every.is_zero()),
        ];
        if let Some((name, _)) = is_zero.into_iter().find(|&(_, is_zero)| is_zero) {
            return Err(OptionsError::Zero(name));
        }
        if self.tls.is_some() && !cfg!(feature = "tls") {
            return Err(OptionsError::TlsNotBuilt);
        }
        self.nodes.iter().map(|node| Address::parse(node).ok_or_else(|| OptionsError::BadNode(node.clone()))).collect()
    }
}

/// The options are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The list of nodes is empty.
    #[error("no Redis nodes: list at least one server as host:port")]
    NoNodes,
    /// A node is not of the form `host:port`.
    #[error("invalid Redis node {0:?}: expected host:port, such as localhost:6379 or [::1]:6379")]
    BadNode(String),
    /// There are several nodes in standalone mode.
    #[error("{0} Redis nodes in standalone mode: list one node, or use cluster or sentinel mode")]
    SeveralStandalone(usize),
    /// A database other than 0 is set in cluster mode.
    #[error("database {0} in cluster mode: a Redis cluster has only database 0")]
    DatabaseInCluster(u32),
    /// The name of the primary is missing; sentinels monitor several primaries, each under a name.
    #[error("no name of the primary in sentinel mode: set the name that the sentinels monitor, such as mymaster")]
    NoPrimaryName,
    /// There is a user name without a password.
    #[error("Redis user name without a password: set both or neither")]
    NoPassword,
    /// A setting is 0 that must be positive.
    #[error("{0} is 0: it must be greater than 0")]
    Zero(&'static str),
    /// TLS is configured, but the program was built without it.
    #[error("TLS to Redis is configured, but this program was built without it: build with the feature tls")]
    TlsNotBuilt,
    /// The CA certificates cannot be loaded.
    #[error("cannot load CA certificates for TLS to Redis: {0}")]
    Authority(String),
    /// The TLS server name is neither a host name nor an address.
    #[error("invalid TLS server name {0:?}: expected a host name or an IP address")]
    ServerName(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut RedisOptions)) -> String {
        let mut options = RedisOptions::standalone("localhost:6379");
        change(&mut options);
        options.validate().unwrap_err().to_string()
    }

    #[test]
    fn invalid_options_are_errors_that_name_the_option() {
        assert_eq!(RedisOptions::standalone("localhost:6379").validate(), Ok(()));
        assert!(error(|o| o.nodes.clear()).starts_with("no Redis nodes"));
        assert!(error(|o| o.nodes = vec!["localhost".to_owned()]).starts_with("invalid Redis node \"localhost\""));
        assert!(error(|o| o.nodes.push("b:1".to_owned())).starts_with("2 Redis nodes in standalone mode"));
        assert!(
            error(|o| o.mode = RedisMode::Sentinel { primary: String::new() }).starts_with("no name of the primary")
        );
        assert!(error(|o| o.username = Some("a".to_owned())).starts_with("Redis user name without"));
        assert!(error(|o| o.connections_per_node = 0).starts_with("connections_per_node is 0"));
        let in_cluster = error(|o| {
            o.mode = RedisMode::Cluster;
            o.database = 3;
        });
        assert!(in_cluster.starts_with("database 3 in cluster mode"));
    }

    #[test]
    fn debug_output_contains_no_password() {
        let mut options = RedisOptions::standalone("localhost:6379");
        options.password = Some("correct horse".into());
        options.sentinel_password = Some("battery staple".to_owned().into());
        let shown = format!("{options:?} {options:#?}");
        assert!(!shown.contains("horse") && !shown.contains("battery"), "{shown}");
    }
}
