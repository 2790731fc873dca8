use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// A service in this process, on a runtime and a thread of its own, until it is told to stop or dropped.
pub struct InProcess<T> {
    runtime: Arc<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    thread: JoinHandle<T>,
}

/// Ready when the service is to stop.
pub struct StopSignal(oneshot::Receiver<()>);

impl<T: Send + 'static> InProcess<T> {
    /// Starts a service on a runtime of several threads, if clients of the test are to run there too. `bind` opens its
    /// listeners, and returns what the test keeps of it and the future that serves until it is told to stop.
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

    /// What it runs on, for clients that need a runtime.
    #[must_use]
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Tells it to stop, and does not wait for it.
    pub fn stop(&mut self) {
        self.stop = None;
    }

    /// Stops it, and waits until it has ended; an error if it has panicked.
    pub fn join(mut self) -> thread::Result<T> {
        self.stop();
        self.thread.join()
    }
}

impl Future for StopSignal {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Both a message and its sender's end say it.
        Pin::new(&mut self.0).poll(context).map(|_| ())
    }
}
