use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::resp_value::Value;
use crate::transport::{Cause, Executed, Slot, Trouble};
use crate::wire::client::Shared;
use crate::wire::cluster::node::Node;
use crate::wire::cluster::node_clock::Reading;
use crate::wire::connection::address::Address;
use crate::wire::protocol::command::{Command, write_command};
use crate::wire::protocol::script_call::{ScriptCall, ScriptForm, Timing};
use crate::wire::protocol::server_error::ServerError;

/// How often a call is sent at most. A slot on its way between two nodes needs three.
const MOST_ATTEMPTS: u32 = 12;
/// How often it follows where it is sent on to without a pause.
const IMMEDIATE_ATTEMPTS: u32 = 4;
/// The first pause before a call is sent again to a server that cannot serve it now.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A script call on its way. It is sent again only when a server has said that
/// it did not carry it out.
pub(crate) struct Attempt {
    client: Arc<Shared>,
    slot: Slot,
    call: ScriptCall,
    deadline: Instant,
    hear: Box<dyn FnOnce(Result<Value, Trouble>) + Send>,
    form: ScriptForm,
    /// Whether the node serves it although the slot is not its own yet.
    is_asking: bool,
    attempts: u32,
    pauses: u32,
    /// Who was asked last.
    node: Option<Arc<Node>>,
    /// When it was written last.
    written_at: Cell<Option<Instant>>,
}

impl Attempt {
    pub(crate) fn new(
        client: Arc<Shared>,
        slot: Slot,
        call: ScriptCall,
        deadline: Instant,
        hear: impl FnOnce(Result<Value, Trouble>) + Send + 'static,
    ) -> Box<Attempt> {
        let (form, hear) = (ScriptForm::Name, Box::new(hear));
        Box::new(Attempt {
            client,
            slot,
            call,
            deadline,
            hear,
            form,
            is_asking: false,
            attempts: 0,
            pauses: 0,
            node: None,
            written_at: Cell::new(None),
        })
    }

    /// Sends it to whoever owns its slot.
    pub(crate) fn send(mut self: Box<Self>) {
        self.is_asking = false;
        match self.client.directory.owner(self.slot) {
            Some(node) => self.send_to(&node),
            None => self.send_later(Trouble { cause: Cause::Connection, executed: Executed::No }),
        }
    }

    fn send_to(mut self: Box<Self>, node: &Arc<Node>) {
        if self.attempts == MOST_ATTEMPTS {
            return self.fail(Trouble { cause: Cause::Unavailable, executed: Executed::No });
        }
        self.attempts += 1;
        self.node = Some(Arc::clone(node));
        node.push(self);
    }

    /// Sends it after a pause, if there is time for one; else it fails with the trouble.
    fn send_later(mut self: Box<Self>, trouble: Trouble) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(10)).min(LONGEST_PAUSE);
        if self.pauses == MOST_ATTEMPTS || Instant::now() + pause >= self.deadline {
            return self.fail(trouble);
        }
        self.pauses += 1;
        let runtime = self.client.runtime.clone();
        runtime.spawn(async move {
            sleep(pause).await;
            self.send();
        });
    }

    fn fail(self, trouble: Trouble) {
        (self.hear)(Err(trouble));
    }

    fn refused(mut self: Box<Self>, text: &str) {
        let error = ServerError::read(text);
        let trouble = error.trouble(text);
        match error {
            ServerError::NoScript if self.form == ScriptForm::Name => {
                self.form = ScriptForm::Source;
                match self.node.take() {
                    Some(node) => self.send_to(&node),
                    None => self.send(),
                }
            }
            ServerError::Moved(slot, address) => {
                let address = self.complete(address);
                self.client.moved(slot, &address);
                self.is_asking = false;
                match self.client.directory.node(&address) {
                    // Nodes that name each other have not heard of a change yet.
                    _ if self.attempts >= IMMEDIATE_ATTEMPTS => self.send_later(trouble),
                    // Where it says, also if somebody else has changed the map since.
                    Some(node) => self.send_to(&node),
                    None => self.fail(trouble),
                }
            }
            ServerError::Ask(address) => {
                let address = self.complete(address);
                self.is_asking = true;
                match self.client.directory.node(&address) {
                    Some(node) => self.send_to(&node),
                    None => self.fail(trouble),
                }
            }
            ServerError::ReadOnly => {
                self.client.stale.notify_one();
                self.send_later(trouble);
            }
            ServerError::NotNow => self.send_later(trouble),
            _ => self.fail(trouble),
        }
    }

    /// Reads the server's clock from an answer. An expired call was not executed.
    fn timed(self: Box<Self>, value: Value) {
        let heard_at = Instant::now();
        let (server_us, is_expired) = match &value {
            Value::Integer(server_us) => (Some(*server_us), matches!(self.call.timing, Timing::Expires { .. })),
            Value::Array(Some(values)) => match values.first() {
                Some(Value::Integer(server_us)) => (Some(*server_us), false),
                _ => (None, false),
            },
            _ => (None, false),
        };
        if let (Some(node), Some(asked_at), Some(Ok(server_us))) =
            (&self.node, self.written_at.get(), server_us.map(u64::try_from))
        {
            node.clock.observe(Reading { server_us, asked_at, heard_at });
        }
        match is_expired {
            true => self.expired(heard_at),
            false => (self.hear)(Ok(value)),
        }
    }

    /// An expiry before the deadline means that the server's clock was set: the new time is known by now.
    fn expired(mut self: Box<Self>, now: Instant) {
        match self.node.take().filter(|_| now < self.deadline) {
            Some(node) => self.send_to(&node),
            None => self.fail(Trouble { cause: Cause::Timeout, executed: Executed::No }),
        }
    }

    fn complete(&self, address: Address) -> Address {
        match &self.node {
            Some(asked) => address.or_host_of(&asked.address),
            None => address,
        }
    }
}

impl Command for Attempt {
    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.is_asking {
            write_command(out, &[b"ASKING"]);
        }
        let expiry = match self.call.timing {
            Timing::None => None,
            Timing::Tells | Timing::Expires { .. } => {
                self.written_at.set(Some(Instant::now()));
                self.node.as_ref().and_then(|node| node.clock.expiry(self.deadline))
            }
        };
        self.call.write(self.form, expiry, out);
    }

    fn replies(&self) -> usize {
        if self.is_asking { 2 } else { 1 }
    }

    fn answered(self: Box<Self>, answer: Result<Value, Trouble>) {
        match answer {
            Ok(Value::Error(text)) => self.refused(&text),
            Ok(value) if !matches!(self.call.timing, Timing::None) => self.timed(value),
            answer => (self.hear)(answer),
        }
    }
}
