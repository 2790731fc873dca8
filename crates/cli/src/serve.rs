use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate::RealClock;
use tollgate_server::{BindError, Drained, Engine, Listener, Listeners, Server};

use crate::arguments::ServeArguments;
use crate::failure::Failure;
use crate::talk::say;

/// Runs the service until it is told to stop.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.file {
        let what = format!("cannot serve {}: policy files are not read yet", file.display());
        return Err(Failure::failed(what).with_hint("leave the file out to serve the built-in rule per-ip"));
    }
    let listeners = Listeners { http: arguments.http.address(), admin: arguments.admin.address() };
    if listeners.http.is_none() && listeners.admin.is_none() {
        return Err(Failure::wrong_usage("--http and --admin are both off: nothing would be served"));
    }
    let engine = Engine::starter(Arc::new(RealClock::new()))
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?
        .block_on(run(listeners, engine, &not_served(arguments)))
}

async fn run(listeners: Listeners, engine: Engine, not_served: &[String]) -> Result<(), Failure> {
    // Taken before the listeners are announced: whoever has seen them may stop us at once.
    let mut signals = Signals::take().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let server = Server::bind(listeners, engine).await.map_err(unbound)?;
    for (listener, address) in server.addresses() {
        say(format_args!("{} listening on http://{address}", listener.name()));
    }
    if !not_served.is_empty() {
        say(format_args!("not served yet, and not listening: {}", not_served.join(", ")));
    }
    drain(server, &mut signals).await;
    Ok(())
}

/// Serves until the first signal to stop, then drains until the second.
async fn drain(server: Server, signals: &mut Signals) {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = server.serve(async {
        // The sender lives as long as this function; its value is all there is to wait for.
        let _ = stopped.await;
    });
    tokio::pin!(serving);
    tokio::select! {
        _ = &mut serving => unreachable!("serving ends when it is stopped"),
        () = signals.stop() => {}
    }
    say("stopping: answering what is under way");
    let _ = stop.send(());
    tokio::select! {
        drained = &mut serving => match drained {
            Drained::Completely => say("stopped"),
            Drained::CutOff => say("stopped: cut off what took too long"),
        },
        () = signals.stop() => say("stopped at once: told so twice"),
    }
}

fn unbound(error: BindError) -> Failure {
    let what = error.to_string();
    match error {
        BindError::Address { listener, source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            Failure::failed(what).with_hint(in_use_hint(listener))
        }
        BindError::AdminExposed(_) => Failure::wrong_usage(what)
            .with_hint("to let another machine read the metrics, open --http: it has /metrics as well"),
        _ => Failure::failed(what),
    }
}

fn in_use_hint(listener: Listener) -> String {
    let name = listener.name();
    format!("choose another address with --{name} ADDRESS, :0 for any free port, or --{name} off")
}

/// Front ends that were asked for and do not exist yet, with their addresses.
fn not_served(arguments: &ServeArguments) -> Vec<String> {
    [("grpc", arguments.grpc), ("resp", arguments.resp)]
        .into_iter()
        .filter_map(|(name, listen)| Some(format!("{name} ({})", listen.address()?)))
        .collect()
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn take() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until told to stop. Told to reload meanwhile, it says that there is nothing to reload.
    async fn stop(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => say("nothing to reload: no policy file is read yet"),
            }
        }
    }
}
