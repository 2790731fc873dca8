//! Flags that name a running service.

use clap::Args;

use super::{ServiceConnection, ServiceUrl};
use crate::exit::Failure;

/// The token of the admin listener. Tokens have no flags: every user of a machine sees the arguments of its processes.
const ADMIN_TOKEN: &str = "TOLLGATE_ADMIN_TOKEN";

/// The token of the public listeners.
const ACCESS_TOKEN: &str = "TOLLGATE_ACCESS_TOKEN";

/// The admin listener of a service.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminServiceArguments {
    /// Admin listener of the service. The token is in TOLLGATE_ADMIN_TOKEN
    #[arg(
        long,
        value_name = "URL",
        value_parser = ServiceUrl::parse,
        default_value = "http://127.0.0.1:9099",
        env = "TOLLGATE_ADMIN_URL",
        hide_env_values = true
    )]
    admin: ServiceUrl,

    #[cfg(feature = "tls")]
    #[command(flatten)]
    authorities: AuthorityArguments,
}

/// The HTTP listener of a service.
#[derive(Clone, Debug, Args)]
pub(crate) struct PublicArguments {
    /// HTTP listener of the service. The token is in TOLLGATE_ACCESS_TOKEN
    #[arg(
        long,
        value_name = "URL",
        value_parser = ServiceUrl::parse,
        default_value = "http://127.0.0.1:8080",
        env = "TOLLGATE_URL",
        hide_env_values = true
    )]
    url: ServiceUrl,

    #[cfg(feature = "tls")]
    #[command(flatten)]
    authorities: AuthorityArguments,
}

/// The authorities that sign the certificate of a service.
#[cfg(feature = "tls")]
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AuthorityArguments {
    /// Certificates of the authorities to trust with https, in PEM, in place of those of the system
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CA", hide_env_values = true)]
    ca: Option<std::path::PathBuf>,
}

impl AdminServiceArguments {
    pub(crate) fn connection(&self) -> Result<ServiceConnection, Failure> {
        Ok(ServiceConnection {
            #[cfg(feature = "tls")]
            authorities: self.authorities.ca.clone(),
            ..ServiceConnection::to_admin(self.admin.clone())?
        })
    }
}

impl PublicArguments {
    pub(crate) fn connection(&self) -> Result<ServiceConnection, Failure> {
        Ok(ServiceConnection {
            url: self.url.clone(),
            token: token(ACCESS_TOKEN)?,
            token_variable: ACCESS_TOKEN,
            listener_hint: "start one with `tollgate serve`; --url is its HTTP listener",
            #[cfg(feature = "tls")]
            authorities: self.authorities.ca.clone(),
        })
    }
}

impl ServiceConnection {
    /// Returns a connection to an admin listener, with the token in the environment.
    pub(crate) fn to_admin(url: ServiceUrl) -> Result<ServiceConnection, Failure> {
        Ok(ServiceConnection {
            url,
            token: token(ADMIN_TOKEN)?,
            token_variable: ADMIN_TOKEN,
            listener_hint: "start one with `tollgate serve`; --admin is its admin listener",
            #[cfg(feature = "tls")]
            authorities: None,
        })
    }
}

/// Reads a token from the environment. An empty variable is none.
fn token(variable: &str) -> Result<Option<String>, Failure> {
    let token = std::env::var(variable).ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    match &token {
        Some(token) if !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(Failure::wrong_usage(format!("{variable} has characters that no token has")))
        }
        _ => Ok(token),
    }
}
