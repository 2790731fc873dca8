use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use tollgate_server::AdminToken;
use tollgate_server::observe::Level;

use crate::failure::Failure;
use crate::talk::{say, say_as};

/// A variable with the token, for where files are harder to give than variables.
const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";

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
    /// The token, if there is one.
    pub(super) fn token(&self) -> Result<Option<AdminToken>, Failure> {
        let (text, place) = match &self.admin_token_file {
            Some(file) => {
                let place = file.display().to_string();
                let text = fs::read_to_string(file)
                    .map_err(|error| Failure::failed(format!("cannot read the admin token in {place}: {error}")))?;
                (text, place)
            }
            None => match std::env::var(TOKEN_VARIABLE) {
                Ok(text) if text.is_empty() => return Err(empty_variable()),
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

/// A token that got lost on its way into the variable must not leave the door open.
fn empty_variable() -> Failure {
    let what = format!("{TOKEN_VARIABLE} is set and empty, which is not taken to mean that no token is wanted");
    Failure::failed(what).with_hint(format!("`unset {TOKEN_VARIABLE}` to have none; `openssl rand -hex 32` makes one"))
}

/// What is likely a mistake about who may use the admin listener.
pub(super) fn warnings(arguments: &AdminArguments, is_exposed: bool, is_encrypted: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_exposed && !is_encrypted {
        warnings.push(
            "the admin listener is open to other machines without TLS: whoever hears a call on its way has the token"
                .to_owned(),
        );
    }
    if let Some(file) = arguments.admin_token_file.as_deref().filter(|file| is_open_to_all(file)) {
        let file = file.display();
        warnings.push(format!("every user of this machine may read the admin token in {file}: `chmod 600 {file}`"));
    }
    warnings
}

fn is_open_to_all(file: &Path) -> bool {
    const OTHERS_READ: u32 = 0o004;
    fs::metadata(file).is_ok_and(|known| known.permissions().mode() & OTHERS_READ != 0)
}

/// A token that is read again when its file changes.
pub(super) struct WatchedToken {
    token: AdminToken,
    file: PathBuf,
    /// What was said last, so that it is not said every second.
    said: Option<String>,
}

impl WatchedToken {
    /// `None` where there is no file to look at.
    pub(super) fn new(token: Option<&AdminToken>, arguments: &AdminArguments) -> Option<WatchedToken> {
        let (token, file) = (token?.clone(), arguments.admin_token_file.clone()?);
        Some(WatchedToken { token, file, said: None })
    }

    pub(super) fn look(&mut self) {
        let read = fs::read_to_string(&self.file).map_err(|error| error.to_string());
        let read = read.and_then(|text| AdminToken::new(&text).map_err(|error| error.to_string()));
        match read {
            Ok(new) => {
                if self.token.replace(&new) {
                    say("the admin token was read again: only the new one is taken from now on");
                }
                self.said = None;
            }
            Err(why) => {
                let file = self.file.display();
                let sentence =
                    format!("the admin token was not read again, and the old one still holds: {file}: {why}");
                if self.said.as_ref() != Some(&sentence) {
                    say_as(Level::Error, &sentence);
                    self.said = Some(sentence);
                }
            }
        }
    }
}
