use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// A service in this process, on its own runtime and thread, until it is stopped or dropped.
pub struct InProcess<T> {
    runtime: Arc<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    thread: JoinHandle<T>,
}

/// A future that is ready when the service must stop.
pub struct StopSignal(oneshot::Receiver<()>);

impl<T: Send + 'static> InProcess<T> {
    /// Starts a service on a runtime, which must have several threads if clients of the test run on it too. `bind` opens
    /// the listeners; it returns a value for the test, and the future that serves until the stop signal.
    pub fn start<K, S>(runtime: Runtime, bind: impl AsyncFnOnce(StopSignal) -> (K, S)) -> (K, InProcess<T>)
    where
        S: Future<Output = T> + Send + 'static,
    {
        let runtime = Arc::new(runtime);
        let (stop, stopped) = oneshot::channel();
        let (kept, serve) = runtime.block_on(bind(StopSignal(stopped)));
        let serving = Arc::clone(&runtime);
        let thread = thread::spawn(move || serving.block_on(serve));
        (kept, InProcess { runtime, stop: Some(stop), thread })
    }

    /// Returns the runtime of the service, for clients that need one.
    #[must_use]
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Sends the stop signal, without waiting for the end of the service.
    pub fn stop(&mut self) {
        self.stop = None;
    }

    /// Stops the service, and waits for its end. Returns an error if it panicked.
    pub fn join(mut self) -> thread::Result<T> {
        self.stop();
        self.thread.join()
    }
}

impl Future for StopSignal {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Both a message and a dropped sender are the signal.
        Pin::new(&mut self.0).poll(context).map(|_| ())
    }
}
