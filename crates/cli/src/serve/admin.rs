use std::path::PathBuf;

use clap::Args;
use tollgate_server::AdminToken;

use crate::failure::Failure;

/// A variable with the token, for where files are harder to give than variables.
const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";

/// Who may use the admin listener.
#[derive(Debug, Args)]
pub(super) struct AdminArguments {
    /// A file with the token that operators must bring, as `Authorization:
    /// Bearer`; else the variable TOLLGATE_ADMIN_TOKEN. Without either only
    /// this machine may look
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
}

impl AdminArguments {
    /// The token, if there is one.
    pub(super) fn token(&self) -> Result<Option<AdminToken>, Failure> {
        let (text, place) = match &self.admin_token_file {
            Some(file) => {
                let place = file.display().to_string();
                let text = std::fs::read_to_string(file)
                    .map_err(|error| Failure::failed(format!("cannot read the admin token in {place}: {error}")))?;
                (text, place)
            }
            None => match std::env::var(TOKEN_VARIABLE) {
                Ok(text) => (text, TOKEN_VARIABLE.to_owned()),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(error) => return Err(Failure::failed(format!("{TOKEN_VARIABLE}: {error}"))),
            },
        };
        let token = AdminToken::new(&text);
        token.map(Some).map_err(|error| {
            Failure::failed(format!("{place}: {error}")).with_hint("`openssl rand -hex 32` makes a good one")
        })
    }
}
