use tokio::time::Instant;

use crate::resp_value::Value;
use crate::transport::Trouble;

/// Something to be sent over a connection, and whoever hears the answer.
pub(crate) trait Command: Send {
    /// From when on it is not sent any more.
    fn deadline(&self) -> Instant;

    fn write(&self, out: &mut Vec<u8>);

    /// How many answers come back. The last one counts.
    fn replies(&self) -> usize;

    /// Hears the answer, also if it is an error of the server's; or why there is none. It must not block.
    fn answered(self: Box<Self>, answer: Result<Value, Trouble>);
}
