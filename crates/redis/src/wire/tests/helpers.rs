use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use crate::resp_value::Value;
use crate::transport::{Cause, Executed, Transport, Trouble};
use crate::wire::client::Client;
use crate::wire::options::RedisOptions;
use crate::wire::protocol::script_call::{Script, ScriptCall, Timing};

/// Long enough for anything that is not meant to fail, also on a busy machine.
pub(super) const PLENTY: Duration = Duration::from_secs(30);

pub(super) fn options(address: SocketAddr) -> RedisOptions {
    RedisOptions::standalone(address.to_string())
}

pub(super) fn call(source: &str, keys: &[&str], args: &[&str]) -> ScriptCall {
    ScriptCall {
        script: Arc::new(Script::new(source)),
        keys: keys.iter().map(|key| Arc::from(key.as_bytes())).collect(),
        args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        timing: Timing::None,
    }
}

/// Adds one to a key: what is carried out twice is seen.
pub(super) fn increment(key: &str) -> ScriptCall {
    call("return redis.call('INCR', KEYS[1])", &[key], &[])
}

pub(super) fn trouble(cause: Cause, executed: Executed) -> Result<Value, Trouble> {
    Err(Trouble { cause, executed })
}

impl Client {
    /// Begins a call to the slot of its first key, and waits for what it hears as long as it takes.
    pub(super) fn begin(
        &self,
        call: ScriptCall,
        within: Duration,
    ) -> impl Future<Output = Result<Value, Trouble>> + Send + use<> {
        let (heard, hears) = oneshot::channel();
        let slot = self.slot(&call.keys[0]);
        self.call(slot, call, Instant::now() + within, move |answer| drop(heard.send(answer)));
        async move { hears.await.unwrap() }
    }

    /// A call whose caller stops waiting at its deadline.
    pub(super) async fn wait(&self, call: ScriptCall, within: Duration) -> Result<Value, Trouble> {
        let deadline = Instant::now() + within;
        match timeout_at(deadline, self.begin(call, within)).await {
            Ok(answer) => answer,
            Err(_) => trouble(Cause::Timeout, Executed::Unknown),
        }
    }

    /// Waits until every slot can be reached, and says how long that took.
    pub(super) async fn ready(&self) -> Duration {
        let begun = Instant::now();
        while !self.is_ready() {
            assert!(begun.elapsed() < PLENTY, "no connection");
            sleep(Duration::from_millis(1)).await;
        }
        begun.elapsed()
    }

    /// Calls until a call is answered, and says how long that took.
    pub(super) async fn recovers(&self, key: &str) -> Duration {
        let begun = Instant::now();
        loop {
            let get = call("return redis.call('EXISTS', KEYS[1])", &[key], &[]);
            if self.wait(get, Duration::from_millis(50)).await.is_ok() {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < PLENTY, "does not recover");
            sleep(Duration::from_millis(2)).await;
        }
    }
}
