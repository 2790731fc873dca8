//! Who may ask, on every listener.

mod bearer;
mod browser;
mod token;

pub(crate) use bearer::bearer_token;
pub(crate) use browser::{is_called_by_address, is_from_a_page, is_from_another_site};
pub use token::{AccessToken, TokenError};

/// Who may ask for decisions, and what the public HTTP listener shows.
#[derive(Clone, Debug)]
pub struct CallerAccess {
    /// The token that callers must send. Without one, every program that reaches a listener may ask.
    pub token: Option<AccessToken>,
    /// Whether the HTTP listener answers `GET /metrics`.
    pub has_metrics: bool,
}

impl Default for CallerAccess {
    fn default() -> CallerAccess {
        CallerAccess { token: None, has_metrics: true }
    }
}
