use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::resp_value::Value;
use crate::transport::Slot;
use crate::wire::client::Shared;
use crate::wire::connection::access::{Access, Connected};
use crate::wire::connection::address::Address;
use crate::wire::connection::backoff::Backoff;
use crate::wire::connection::stream::Stream;
use crate::wire::protocol::command::write_command;
use crate::wire::protocol::reply_parser::ReplyParser;

/// How often it is seen to that the server is still the one to listen to.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A server that does not let us listen may be told to by somebody.
const NOT_ALLOWED: Duration = Duration::from_secs(30);

/// Listens on a channel of whoever owns a slot, over a connection of its own.
pub(crate) struct Subscription {
    pub(crate) client: Arc<Shared>,
    pub(crate) access: Access,
    pub(crate) slot: Slot,
    pub(crate) channel: Arc<[u8]>,
    /// Told of every message, and whenever one may have been missed.
    pub(crate) heard: Arc<Notify>,
}

/// Why a connection is not listened to any more.
enum End {
    Lost,
    NotAllowed,
}

impl Subscription {
    /// Listens for ever, again and again.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            if let Some(address) = self.owner()
                && let Ok(Connected { stream, .. }) = self.access.connect(&address).await
            {
                match self.listen(stream, &address, &mut backoff).await {
                    End::Lost => {}
                    End::NotAllowed => sleep(NOT_ALLOWED).await,
                }
            }
            sleep(backoff.next()).await;
        }
    }

    fn owner(&self) -> Option<Address> {
        self.client.directory.owner(self.slot).map(|node| node.address.clone())
    }

    async fn listen(&self, mut stream: Stream, address: &Address, backoff: &mut Backoff) -> End {
        let mut bytes = Vec::new();
        write_command(&mut bytes, &[b"SUBSCRIBE", &self.channel]);
        if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
            return End::Lost;
        }
        let (mut parser, mut piece) = (ReplyParser::default(), [0; 4096]);
        loop {
            match timeout(LOOK_EVERY, stream.read(&mut piece)).await {
                Ok(Ok(count @ 1..)) => parser.feed(&piece[..count]),
                Ok(_) => return End::Lost,
                Err(_) if self.owner().as_ref() != Some(address) => return End::Lost,
                Err(_) => continue,
            }
            loop {
                match parser.next() {
                    Ok(Some(Value::Error(_))) => return End::NotAllowed,
                    Ok(Some(_)) => {
                        backoff.reset();
                        self.heard.notify_one();
                    }
                    Ok(None) => break,
                    Err(_) => return End::Lost,
                }
            }
        }
    }
}
