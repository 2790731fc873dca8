//! A token as an operator gives it: in a file, or in a variable.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tollgate_server::AccessToken;
use tollgate_server::observe::Level;

use crate::failure::Failure;
use crate::talk::{say, say_as};

/// Where a token stands.
pub(super) struct TokenSource<'a> {
    /// Which token it is: `admin` or `access`.
    pub(super) name: &'static str,
    pub(super) file: Option<&'a Path>,
    /// For where files are harder to give than variables.
    pub(super) variable: &'static str,
}

impl TokenSource<'_> {
    /// The token, if there is one.
    pub(super) fn read(&self) -> Result<Option<AccessToken>, Failure> {
        let (text, place) = match self.file {
            Some(file) => {
                let (name, place) = (self.name, file.display().to_string());
                let text = fs::read_to_string(file)
                    .map_err(|error| Failure::failed(format!("cannot read the {name} token in {place}: {error}")))?;
                (text, place)
            }
            None => match std::env::var(self.variable) {
                Ok(text) if text.is_empty() => return Err(self.empty_variable()),
                Ok(text) => (text, self.variable.to_owned()),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(error) => return Err(Failure::failed(format!("{}: {error}", self.variable))),
            },
        };
        let token = AccessToken::new(&text);
        token.map(Some).map_err(|error| {
            Failure::failed(format!("{place}: {error}")).with_hint("`openssl rand -hex 32` makes a good one")
        })
    }

    /// A token that got lost on its way into the variable must not open the listener.
    fn empty_variable(&self) -> Failure {
        let variable = self.variable;
        let what = format!("{variable} is set and empty, which is not taken to mean that no token is wanted");
        Failure::failed(what).with_hint(format!("`unset {variable}` to have none; `openssl rand -hex 32` makes one"))
    }

    /// A warning if other users of this machine may read the token.
    pub(super) fn warning(&self) -> Option<String> {
        let file = self.file.filter(|file| is_open_to_all(file))?.display();
        Some(format!("every user of this machine may read the {} token in {file}: `chmod 600 {file}`", self.name))
    }

    /// What reads `token` again when its file changes; `None` where there is no file.
    pub(super) fn watch(&self, token: Option<&AccessToken>) -> Option<WatchedToken> {
        let (token, file) = (token?.clone(), self.file?.to_owned());
        Some(WatchedToken { name: self.name, token, file, said: None })
    }
}

fn is_open_to_all(file: &Path) -> bool {
    const OTHERS_READ: u32 = 0o004;
    fs::metadata(file).is_ok_and(|known| known.permissions().mode() & OTHERS_READ != 0)
}

/// A token that is read again when its file changes.
pub(super) struct WatchedToken {
    name: &'static str,
    token: AccessToken,
    file: PathBuf,
    /// What was said last, so that it is not said every second.
    said: Option<String>,
}

impl WatchedToken {
    pub(super) fn look(&mut self) {
        let read = fs::read_to_string(&self.file).map_err(|error| error.to_string());
        let read = read.and_then(|text| AccessToken::new(&text).map_err(|error| error.to_string()));
        let name = self.name;
        match read {
            Ok(new) => {
                if self.token.replace(&new) {
                    say(format_args!("the {name} token was read again: from now on only what the file says is taken"));
                }
                self.said = None;
            }
            Err(why) => {
                let file = self.file.display();
                let sentence =
                    format!("the {name} token was not read again, and the old one still holds: {file}: {why}");
                if self.said.as_ref() != Some(&sentence) {
                    say_as(Level::Error, &sentence);
                    self.said = Some(sentence);
                }
            }
        }
    }
}
