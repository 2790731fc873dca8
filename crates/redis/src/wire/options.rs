use std::path::PathBuf;
use std::time::Duration;

use crate::wire::connection::address::Address;
use crate::wire::connection::password::Password;

/// Where the servers are, and how they are spoken to.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// The servers as `host:port`: the one, the sentinels, or some nodes of the cluster.
    pub nodes: Vec<String>,
    /// How they belong together.
    pub mode: RedisMode,
    /// The user; the server's default user if there is none.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<Password>,
    /// The user among the sentinels, who have their own.
    pub sentinel_username: Option<String>,
    /// The password for the sentinels.
    pub sentinel_password: Option<Password>,
    /// The number of the database. A cluster has only 0.
    pub database: u32,
    /// Connections are encrypted.
    pub tls: Option<TlsOptions>,
    /// Connections to each server. Calls share them, so one is enough until it is a processor's whole work.
    pub connections_per_node: usize,
    /// How long a connection may take until it can be used.
    pub connect_timeout: Duration,
    /// A connection on which nothing was heard for so long, while an answer is due, is replaced.
    pub silence: Duration,
    /// How many calls may be under way on a connection; more are refused at once.
    pub calls_per_connection: usize,
    /// How often a cluster or the sentinels are asked who owns what, besides whenever something fails.
    pub refresh_every: Duration,
}

/// How the servers belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisMode {
    /// One server.
    Standalone,
    /// A primary with replicas, which sentinels watch.
    Sentinel {
        /// The name under which the sentinels know it.
        primary: String,
    },
    /// A cluster.
    Cluster,
}

/// How servers are known to be the right ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// A file with the certificates of the authorities that are trusted, as PEM; those of the system if there is none.
    pub authority: Option<PathBuf>,
    /// The name that the server's certificate must have; the host that is connected to if there is none.
    pub server_name: Option<String>,
}

impl RedisOptions {
    /// One server, with everything else as it usually is.
    pub fn standalone(node: impl Into<String>) -> RedisOptions {
        RedisOptions::new(vec![node.into()], RedisMode::Standalone)
    }

    /// The primary that these sentinels know under a name, with everything else as it usually is.
    pub fn sentinel(nodes: Vec<String>, primary: impl Into<String>) -> RedisOptions {
        RedisOptions::new(nodes, RedisMode::Sentinel { primary: primary.into() })
    }

    /// The cluster that these nodes belong to, with everything else as it usually is.
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

    /// Whether the settings make sense together.
    pub fn validate(&self) -> Result<(), OptionsError> {
        self.addresses().map(|_| ())
    }

    /// The addresses, if all settings make sense.
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

/// Why servers cannot be spoken to with these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The list of nodes is empty.
    #[error("no nodes: name at least one server as host:port")]
    NoNodes,
    /// A node that is not `host:port`.
    #[error("{0:?} is not a node: write host:port, such as localhost:6379 or [::1]:6379")]
    BadNode(String),
    /// Several nodes that do not belong together.
    #[error("{0} nodes in standalone mode, which has one: is the mode cluster or sentinel?")]
    SeveralStandalone(usize),
    /// A cluster has only database 0.
    #[error("database {0} in cluster mode: a cluster has only database 0")]
    DatabaseInCluster(u32),
    /// Sentinels watch several primaries, each under a name.
    #[error("no name for the primary: the sentinels need the one they know it by, such as mymaster")]
    NoPrimaryName,
    /// A user without a password.
    #[error("a user name without a password: give both, or none")]
    NoPassword,
    /// A setting that must be more than nothing.
    #[error("{0} is 0: it must be more")]
    Zero(&'static str),
    /// The program was built without TLS.
    #[error("TLS is wanted, but this program was built without it: build it with the feature tls")]
    TlsNotBuilt,
    /// The authorities' certificates cannot be used.
    #[error("no authority to trust: {0}")]
    Authority(String),
    /// A server name that no certificate can have.
    #[error("{0:?} is not a server name: write a host name or an address")]
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
    fn what_makes_no_sense_is_said() {
        assert_eq!(RedisOptions::standalone("localhost:6379").validate(), Ok(()));
        assert!(error(|o| o.nodes.clear()).starts_with("no nodes"));
        assert!(error(|o| o.nodes = vec!["localhost".to_owned()]).starts_with("\"localhost\" is not a node"));
        assert!(error(|o| o.nodes.push("b:1".to_owned())).starts_with("2 nodes in standalone mode"));
        assert!(error(|o| o.mode = RedisMode::Sentinel { primary: String::new() }).starts_with("no name"));
        assert!(error(|o| o.username = Some("a".to_owned())).starts_with("a user name without"));
        assert!(error(|o| o.connections_per_node = 0).starts_with("connections_per_node is 0"));
        let in_cluster = error(|o| {
            o.mode = RedisMode::Cluster;
            o.database = 3;
        });
        assert!(in_cluster.starts_with("database 3 in cluster mode"));
    }

    #[test]
    fn no_password_is_shown() {
        let mut options = RedisOptions::standalone("localhost:6379");
        options.password = Some("correct horse".into());
        options.sentinel_password = Some("battery staple".to_owned().into());
        let shown = format!("{options:?} {options:#?}");
        assert!(!shown.contains("horse") && !shown.contains("battery"), "{shown}");
    }
}
