use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, fs, io};

use crate::wire::client_event::{ClientEvent, OnClientEvent};

/// A password, or the file that contains it. `Debug` does not show it, so that it is not logged by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    text: String,
    /// The file that is read again for each connection.
    file: Option<PathBuf>,
}

impl Password {
    /// Creates a password from a text, which is used unchanged, including spaces.
    pub fn new(password: impl Into<String>) -> Password {
        Password { text: password.into(), file: None }
    }

    /// Reads a password from a file, without the newline at its end. The store reads the file again for each
    /// connection that it opens, so a changed password needs no restart. While the file is unreadable or empty, it uses
    /// the last password.
    pub fn from_file(path: impl Into<PathBuf>) -> io::Result<Password> {
        let path = path.into();
        // A pipe can be read only once.
        let is_regular = fs::metadata(&path)?.is_file();
        Ok(Password { text: read(&path)?, file: is_regular.then_some(path) })
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = fs::read_to_string(path)?;
    // Editors end a file with a newline.
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    match text.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty")),
        false => Ok(text),
    }
}

/// Provides the password for each connection of a client.
pub(crate) struct PasswordReader {
    file: Option<PathBuf>,
    last: Mutex<LastRead>,
    on_event: OnClientEvent,
}

struct LastRead {
    password: Arc<str>,
    is_unreadable: bool,
}

impl PasswordReader {
    pub(crate) fn new(password: Password, on_event: OnClientEvent) -> PasswordReader {
        let last = LastRead { password: Arc::from(password.text), is_unreadable: false };
        PasswordReader { file: password.file, last: Mutex::new(last), on_event }
    }

    /// Returns the password at present. A file is read on a thread for blocking work.
    pub(crate) async fn current(&self) -> Arc<str> {
        if let Some(path) = &self.file {
            let path = path.clone();
            match tokio::task::spawn_blocking(move || read(&path)).await {
                Ok(Ok(text)) => self.update(Ok(text)),
                Ok(Err(error)) => self.update(Err(error.to_string())),
                // The runtime shuts down.
                Err(_) => {}
            }
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&last.password)
    }

    fn update(&self, result: Result<String, String>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let was_unreadable = std::mem::replace(&mut last.is_unreadable, result.is_err());
        let problem = match result {
            Ok(text) => {
                if *text != *last.password {
                    last.password = Arc::from(text);
                }
                None
            }
            Err(problem) => Some(problem),
        };
        drop(last);
        if was_unreadable != problem.is_some() {
            let file = self.file.iter().map(|path| path.display().to_string()).collect();
            (self.on_event)(match problem {
                Some(why) => ClientEvent::PasswordUnreadable { file, why },
                None => ClientEvent::PasswordReadable { file },
            });
        }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

impl From<&str> for Password {
    fn from(password: &str) -> Password {
        Password::new(password)
    }
}

impl From<String> for Password {
    fn from(password: String) -> Password {
        Password::new(password)
    }
}
