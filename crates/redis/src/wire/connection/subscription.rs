use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::resp_value::Value;
use crate::transport::Slot;
use crate::wire::client::Shared;
use crate::wire::connection::address::Address;
use crate::wire::connection::backoff::Backoff;
use crate::wire::connection::connect_params::{ConnectParams, Connected};
use crate::wire::connection::stream::ServerStream;
use crate::wire::protocol::command::write_command;
use crate::wire::protocol::reply_parser::ReplyParser;

/// The interval at which the owner of the slot is checked.
const OWNER_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before the next attempt after a server has denied the subscription. An operator may grant the permission.
const DENIED_PAUSE: Duration = Duration::from_secs(30);

/// Subscribes to a channel of the owner of a slot, over a separate connection.
pub(crate) struct ChannelSubscription {
    pub(crate) client: Arc<Shared>,
    pub(crate) connect: ConnectParams,
    pub(crate) slot: Slot,
    pub(crate) channel: Arc<[u8]>,
    /// Notified of every message, and whenever one may have been missed.
    pub(crate) on_message: Arc<Notify>,
}

/// The reason why a subscription ended.
enum SubscriptionEnd {
    Lost,
    Denied,
}

impl ChannelSubscription {
    /// Subscribes, and resubscribes whenever the connection is lost. Never returns.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            if let Some(address) = self.owner()
                && let Ok(Connected { stream, .. }) = self.connect.connect(&address).await
            {
                match self.receive(stream, &address, &mut backoff).await {
                    SubscriptionEnd::Lost => {}
                    SubscriptionEnd::Denied => sleep(DENIED_PAUSE).await,
                }
            }
            sleep(backoff.next()).await;
        }
    }

    fn owner(&self) -> Option<Address> {
        self.client.directory.owner(self.slot).map(|node| node.address.clone())
    }

    /// Receives messages until the connection is lost, the slot has another owner, or the server denies it.
    async fn receive(&self, mut stream: ServerStream, address: &Address, backoff: &mut Backoff) -> SubscriptionEnd {
        let mut bytes = Vec::new();
        write_command(&mut bytes, &[b"SUBSCRIBE", &self.channel]);
        if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
            return SubscriptionEnd::Lost;
        }
        let (mut parser, mut buffer) = (ReplyParser::default(), [0; 4096]);
        loop {
            match timeout(OWNER_CHECK_INTERVAL, stream.read(&mut buffer)).await {
                Ok(Ok(count @ 1..)) => parser.feed(&buffer[..count]),
                Ok(_) => return SubscriptionEnd::Lost,
                Err(_) if self.owner().as_ref() != Some(address) => return SubscriptionEnd::Lost,
                Err(_) => continue,
            }
            loop {
                match parser.next() {
                    Ok(Some(Value::Error(_))) => return SubscriptionEnd::Denied,
                    Ok(Some(_)) => {
                        backoff.reset();
                        self.on_message.notify_one();
                    }
                    Ok(None) => break,
                    Err(_) => return SubscriptionEnd::Lost,
                }
            }
        }
    }
}
