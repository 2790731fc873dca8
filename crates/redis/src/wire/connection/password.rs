use std::fmt;

/// A password. It is not shown by `Debug`, so that no log has it by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes a password as it is, spaces and all.
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
