use std::path::PathBuf;

use clap::Args;

use super::token_file::TokenSource;

/// Who may use the admin listener.
#[derive(Debug, Args)]
pub(super) struct AdminArguments {
    /// A file with the token that operators must bring, as `Authorization:
    /// Bearer`, which is read again when it changes; else the variable
    /// TOLLGATE_ADMIN_TOKEN. Without either only this machine may look
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
}

impl AdminArguments {
    pub(super) fn token(&self) -> TokenSource<'_> {
        TokenSource { name: "admin", file: self.admin_token_file.as_deref(), variable: "TOLLGATE_ADMIN_TOKEN" }
    }

    /// What is likely a mistake about who may use the admin listener.
    pub(super) fn warnings(&self, is_exposed: bool, is_encrypted: bool) -> Vec<String> {
        let exposed = (is_exposed && !is_encrypted).then(|| {
            "the admin listener is open to other machines without TLS: whoever hears a call on its way has the token"
                .to_owned()
        });
        exposed.into_iter().chain(self.token().warning()).collect()
    }
}
