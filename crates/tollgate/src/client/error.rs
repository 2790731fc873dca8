use std::time::Duration;

use thiserror::Error;

use crate::verdict::Refused;

/// Why a request was not sent.
///
/// The layer returns it boxed, as tower's layers do, because the errors of the inner service pass through unchanged:
///
/// ```
/// use tollgate::client::ClientError;
/// use tollgate::tower::BoxError;
///
/// fn is_too_busy(error: &BoxError) -> bool {
///     matches!(error.downcast_ref(), Some(ClientError::QueueFull { .. } | ClientError::WaitTooLong { .. }))
/// }
/// let error: BoxError = Box::new(ClientError::QueueFull { waiting: 1000 });
/// assert!(is_too_busy(&error));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// As many requests of the key wait as may.
    #[error("{waiting} requests wait already: send fewer, or raise `max_waiting`")]
    QueueFull {
        /// The number of waiting requests.
        waiting: usize,
    },
    /// The request would have to wait longer than it may.
    #[error("the request would wait {wait:?}, and may wait {max_wait:?}")]
    WaitTooLong {
        /// How long it would wait from now on, as far as is known.
        wait: Duration,
        /// How long it might wait in all.
        max_wait: Duration,
    },
    /// The server asked for a pause that is longer than the ceiling. Requests fail at once until the ceiling has
    /// passed; then one is sent.
    #[error("the server asked for a pause of {asked:?}, and the ceiling is {ceiling:?}")]
    Paused {
        /// What the server asked for.
        asked: Duration,
        /// The longest pause that is waited for.
        ceiling: Duration,
    },
    /// The server refuses most requests, so some are not sent.
    #[error("the server refused {refused} of {sent} recent requests")]
    Overloaded {
        /// The number of recent requests.
        sent: u64,
        /// How many of them were refused.
        refused: u64,
    },
    /// The client's own limiter refused the request.
    #[error("the limiter of the client refused the request")]
    Limited(#[source] Refused),
}
