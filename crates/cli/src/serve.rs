use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate::policy::Loaded;
use tollgate::{LimiterError, RealClock};
use tollgate_server::{BindError, Drained, Engine, Listener, Listeners, Server};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::listen_address::ListenAddress;
use crate::policy_file;
use crate::talk::say;

/// Run the service
///
/// Prints a line on stderr for each listener once it accepts. SIGTERM and
/// Ctrl-C stop accepting, answer what is under way, and end.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The policy file; `-` is stdin. Without it the starter policy holds: 60 requests a minute for each address
    file: Option<PathBuf>,

    /// Where to answer HTTP; a port alone is a loopback port, `off` is not at all
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    http: ListenAddress,

    /// Where to answer gRPC: Envoy's rate limit service
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    grpc: ListenAddress,

    /// Where to answer RESP (not served yet)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6380")]
    resp: ListenAddress,

    /// Where operators look; a loopback address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    admin: ListenAddress,
}

/// Runs the service until it is told to stop.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<Exit, Failure> {
    let listeners =
        Listeners { http: arguments.http.address(), grpc: arguments.grpc.address(), admin: arguments.admin.address() };
    if listeners.http.is_none() && listeners.grpc.is_none() && listeners.admin.is_none() {
        return Err(Failure::wrong_usage("--http, --grpc and --admin are all off: nothing would be served"));
    }
    let loaded = match &arguments.file {
        Some(file) => policy_file::read_valid(file)?,
        None => policy_file::starter(),
    };
    let engine =
        Engine::new(&loaded.policy, Arc::new(RealClock::new())).map_err(|error| unserved(arguments, &error))?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?
        .block_on(run(listeners, engine, &remarks(arguments, &loaded)))?;
    Ok(Exit::Done)
}

fn unserved(arguments: &ServeArguments, error: &LimiterError) -> Failure {
    let policy = arguments.file.as_deref().map_or_else(|| "the starter policy".to_owned(), policy_file::name_of);
    match error {
        LimiterError::OtherStore => {
            Failure::failed(format!("cannot serve {policy}: its store is Redis, and this build has no Redis store yet"))
                .with_hint("say `store: memory` to keep the counters in this process")
        }
        error => Failure::failed(format!("cannot serve {policy}: {error}")),
    }
}

/// What is worth saying once it listens.
fn remarks(arguments: &ServeArguments, loaded: &Loaded) -> Vec<String> {
    let mut remarks = Vec::new();
    let not_served = not_served(arguments);
    if !not_served.is_empty() {
        remarks.push(format!("not served yet, and not listening: {}", not_served.join(", ")));
    }
    if let (Some(file), count @ 1..) = (&arguments.file, loaded.warnings.len()) {
        remarks.push(warnings(file, count));
    }
    remarks
}

fn warnings(file: &Path, count: usize) -> String {
    let name = policy_file::name_of(file);
    let these = if count == 1 { "1 warning".to_owned() } else { format!("{count} warnings") };
    format!("{name} has {these}: `tollgate validate {}` tells more", file.display())
}

async fn run(listeners: Listeners, engine: Engine, remarks: &[String]) -> Result<(), Failure> {
    // Taken before the listeners are announced: whoever has seen them may stop us at once.
    let mut signals = Signals::take().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let server = Server::bind(listeners, engine).await.map_err(unbound)?;
    for (listener, address) in server.addresses() {
        say(format_args!("{} listening on http://{address}", listener.name()));
    }
    remarks.iter().for_each(say);
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
    [("resp", arguments.resp)]
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

    /// Waits until told to stop. Told to reload meanwhile, it says that it does not.
    async fn stop(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => say("policies are not reloaded yet: start again to read the file anew"),
            }
        }
    }
}
