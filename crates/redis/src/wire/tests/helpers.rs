use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use crate::resp_value::Value;
use crate::transport::{CallError, Cause, Executed, Transport};
use crate::wire::client::RedisClient;
use crate::wire::options::RedisOptions;
use crate::wire::protocol::script_call::{Script, ScriptCall, Timing};

/// A timeout for calls that must succeed, even on a busy machine.
pub(super) const LONG_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn options(address: SocketAddr) -> RedisOptions {
    RedisOptions::standalone(address.to_string())
}

pub(super) fn call(source: &str, keys: &[&str], args: &[&str]) -> ScriptCall {
    ScriptCall {
        script: Arc::new(Script::new(source)),
        keys: keys.iter().map(|key| Arc::from(key.as_bytes())).collect(),
        args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        timing: Timing::None,
        clock_bounds: None,
    }
}

/// Increments a key, so that a call that is executed twice is detected.
pub(super) fn increment(key: &str) -> ScriptCall {
    call("return redis.call('INCR', KEYS[1])", &[key], &[])
}

pub(super) fn failure(cause: Cause, executed: Executed) -> Result<Value, CallError> {
    Err(CallError { cause, executed })
}

impl RedisClient {
    /// Sends a call to the slot of its first key. The future waits for the result without a timeout.
    pub(super) fn send_call(
        &self,
        call: ScriptCall,
        within: Duration,
    ) -> impl Future<Output = Result<Value, CallError>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let slot = self.slot(&call.keys[0]);
        self.call(slot, call, Instant::now() + within, move |result| drop(sender.send(result)));
        async move { receiver.await.unwrap() }
    }

    /// Sends a call, and waits for the result until its deadline.
    pub(super) async fn call_within(&self, call: ScriptCall, within: Duration) -> Result<Value, CallError> {
        let deadline = Instant::now() + within;
        match timeout_at(deadline, self.send_call(call, within)).await {
            Ok(result) => result,
            Err(_) => failure(Cause::Timeout, Executed::Unknown),
        }
    }

    /// Waits until every slot is reachable. Returns how long that took.
    pub(super) async fn wait_until_ready(&self) -> Duration {
        let begun = Instant::now();
        while !self.is_ready() {
            assert!(begun.elapsed() < LONG_TIMEOUT, "no connection");
            sleep(Duration::from_millis(1)).await;
        }
        begun.elapsed()
    }

    /// Calls until a call succeeds. Returns how long that took.
    pub(super) async fn wait_until_recovered(&self, key: &str) -> Duration {
        let begun = Instant::now();
        loop {
            let exists = call("return redis.call('EXISTS', KEYS[1])", &[key], &[]);
            if self.call_within(exists, Duration::from_millis(50)).await.is_ok() {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < LONG_TIMEOUT, "the client does not recover");
            sleep(Duration::from_millis(2)).await;
        }
    }
}
