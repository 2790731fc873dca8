use std::fmt;

/// A password. `Debug` does not show it, so that it is not logged by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Creates a password from a text, which is used unchanged, including spaces.
    pub fn new(password: impl Into<String>) -> Password {
        Password(password.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
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
