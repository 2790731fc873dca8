use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::resp_value::Value;
use crate::transport::{CallError, Cause, Executed, Slot};
use crate::wire::client::Shared;
use crate::wire::cluster::node::ClusterNode;
use crate::wire::cluster::node_clock::Reading;
use crate::wire::connection::address::Address;
use crate::wire::protocol::command::{ServerCommand, write_command};
use crate::wire::protocol::script_call::{ClockBounds, ClockStamps, ScriptCall, ScriptForm, Timing};
use crate::wire::protocol::server_error::ServerError;

/// How many times a call is sent at most. A slot that migrates between two nodes needs three.
const MAX_ATTEMPTS: u32 = 12;
/// How many times a call is sent before a redirection is followed only after a pause.
const IMMEDIATE_ATTEMPTS: u32 = 4;
/// The first pause before a call is sent again to a server that is temporarily unavailable. It doubles each time.
const MIN_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// A script call in flight. It is sent again only if a server has reported that it did not execute it.
pub(crate) struct CallAttempt {
    client: Arc<Shared>,
    slot: Slot,
    call: ScriptCall,
    deadline: Instant,
    on_result: Box<dyn FnOnce(Result<Value, CallError>) + Send>,
    form: ScriptForm,
    /// Whether `ASKING` precedes the call, so that a node executes it that is still importing the slot.
    is_asking: bool,
    attempts: u32,
    pauses: u32,
    /// The node that it was sent to last.
    node: Option<Arc<ClusterNode>>,
    /// When it was written last.
    written_at: Cell<Option<Instant>>,
}

impl CallAttempt {
    pub(crate) fn new(
        client: Arc<Shared>,
        slot: Slot,
        call: ScriptCall,
        deadline: Instant,
        on_result: impl FnOnce(Result<Value, CallError>) + Send + 'static,
    ) -> Box<CallAttempt> {
        let (form, on_result) = (ScriptForm::Name, Box::new(on_result));
        Box::new(CallAttempt {
            client,
            slot,
            call,
            deadline,
            on_result,
            form,
            is_asking: false,
            attempts: 0,
            pauses: 0,
            node: None,
            written_at: Cell::new(None),
        })
    }

    /// Sends the call to the owner of its slot.
    pub(crate) fn send(mut self: Box<Self>) {
        self.is_asking = false;
        match self.client.directory.owner(self.slot) {
            Some(node) => self.send_to(&node),
            None => self.send_later(CallError { cause: Cause::Connection, executed: Executed::No }),
        }
    }

    fn send_to(mut self: Box<Self>, node: &Arc<ClusterNode>) {
        if self.attempts == MAX_ATTEMPTS {
            return self.fail(CallError { cause: Cause::Unavailable, executed: Executed::No });
        }
        self.attempts += 1;
        self.node = Some(Arc::clone(node));
        node.push(self);
    }

    /// Sends the call after a pause. Fails with `error` if the deadline leaves no time for one.
    fn send_later(mut self: Box<Self>, error: CallError) {
        let pause = MIN_PAUSE.saturating_mul(1 << self.pauses.min(10)).min(MAX_PAUSE);
        if self.pauses == MAX_ATTEMPTS || Instant::now() + pause >= self.deadline {
            return self.fail(error);
        }
        self.pauses += 1;
        let runtime = self.client.runtime.clone();
        runtime.spawn(async move {
            sleep(pause).await;
            self.send();
        });
    }

    fn fail(self, error: CallError) {
        (self.on_result)(Err(error));
    }

    /// Handles an error reply: follows a redirection, sends the call again, or fails.
    fn handle_server_error(mut self: Box<Self>, text: &str) {
        let server_error = ServerError::parse(text);
        let error = server_error.call_error(text);
        if matches!(server_error, ServerError::Moved(..) | ServerError::Ask(_) | ServerError::CrossSlot) {
            self.client.report_cluster(self.node.as_ref().map(|node| &node.address));
        }
        match server_error {
            ServerError::NoScript if self.form == ScriptForm::Name => {
                self.form = ScriptForm::Source;
                match self.node.take() {
                    Some(node) => self.send_to(&node),
                    None => self.send(),
                }
            }
            ServerError::Moved(slot, address) => {
                let address = self.with_host(address);
                // Without a cluster, no slot map has a place for the new owner.
                if self.client.is_cluster() {
                    self.client.record_redirect(slot, &address);
                }
                self.is_asking = false;
                match self.client.directory.node(&address) {
                    // Two nodes that redirect to each other have not learned of a change yet.
                    _ if self.attempts >= IMMEDIATE_ATTEMPTS => self.send_later(error),
                    // To the node that the reply names, even if the slot map has changed since.
                    Some(node) => self.send_to(&node),
                    None => self.fail(error),
                }
            }
            ServerError::Ask(address) => {
                let address = self.with_host(address);
                self.is_asking = true;
                match self.client.directory.node(&address) {
                    Some(node) => self.send_to(&node),
                    None => self.fail(error),
                }
            }
            ServerError::ReadOnly => {
                self.client.stale.notify_one();
                self.send_later(error);
            }
            ServerError::Unavailable => self.send_later(error),
            _ => self.fail(error),
        }
    }

    /// Reads the server's clock from a reply. A call that expired was not executed.
    fn handle_timed_reply(self: Box<Self>, value: Value) {
        let received_at = Instant::now();
        let (server_us, is_expired) = match &value {
            Value::Integer(server_us) => (Some(*server_us), matches!(self.call.timing, Timing::Expires { .. })),
            Value::Array(Some(values)) => match values.first() {
                Some(Value::Integer(server_us)) => (Some(*server_us), false),
                _ => (None, false),
            },
            _ => (None, false),
        };
        if let (Some(node), Some(sent_at), Some(Ok(server_us))) =
            (&self.node, self.written_at.get(), server_us.map(u64::try_from))
        {
            node.clock.observe(Reading { server_us, sent_at, received_at });
        }
        match is_expired {
            true => self.handle_expiry(received_at),
            false => (self.on_result)(Ok(value)),
        }
    }

    /// Sends an expired call again before its deadline: the server's clock was set, and the reply contained the new
    /// time.
    fn handle_expiry(mut self: Box<Self>, now: Instant) {
        match self.node.take().filter(|_| now < self.deadline) {
            Some(node) => self.send_to(&node),
            None => self.fail(CallError { cause: Cause::Timeout, executed: Executed::No }),
        }
    }

    /// Completes an address without a host by that of the node that sent it.
    fn with_host(&self, address: Address) -> Address {
        match &self.node {
            Some(responder) => address.or_host_of(&responder.address),
            None => address,
        }
    }
}

impl ServerCommand for CallAttempt {
    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.is_asking {
            write_command(out, &[b"ASKING"]);
        }
        let stamps = match self.call.timing {
            Timing::None => ClockStamps::default(),
            Timing::Reports | Timing::Expires { .. } => {
                let now = Instant::now();
                self.written_at.set(Some(now));
                let clock = self.node.as_ref().map(|node| &node.clock);
                let ahead_of = |bounds: ClockBounds| clock?.ahead_of(bounds.base, now);
                ClockStamps {
                    expiry: clock.and_then(|clock| clock.expiry(self.deadline)),
                    ahead: self.call.clock_bounds.and_then(ahead_of),
                }
            }
        };
        self.call.write(self.form, stamps, out);
    }

    fn reply_count(&self) -> usize {
        if self.is_asking { 2 } else { 1 }
    }

    fn complete(self: Box<Self>, result: Result<Value, CallError>) {
        match result {
            Ok(Value::Error(text)) => self.handle_server_error(&text),
            Ok(value) if !matches!(self.call.timing, Timing::None) => self.handle_timed_reply(value),
            result => (self.on_result)(result),
        }
    }
}
