mod access;
mod connections;
#[cfg(feature = "tls")]
mod encryption;
mod listen_address;
mod notify;
mod observing;
mod policy_watch;
mod signals;
mod snapshots;
mod store_events;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use tollgate::policy::model::StoreSettings;
use tollgate::policy::promise::{Promise, promises};
use tollgate::policy::{Loaded, NamedFile};
use tollgate::{Clock, LimiterError, RealClock};
#[cfg(feature = "tls")]
use tollgate_server::Tls;
use tollgate_server::observe::Level;
use tollgate_server::{
    AccessToken, AdminAccess, BindError, CallerAccess, ConnectionLimits, Drained, Engine, Listener, Listeners,
    ReloadRequest, Server,
};

use crate::exit::{Exit, Failure};
use crate::output::{say, say_as};
use crate::policy_file;
use access::{AdminArguments, CallerArguments, WatchedToken, is_exposed};
use connections::ConnectionArguments;
#[cfg(feature = "tls")]
use encryption::{TlsArguments, WatchedTls};
use listen_address::ListenAddress;
use notify::{Progress, notify};
use observing::{LogArguments, Observing};
use policy_watch::WatchedPolicy;
use signals::{Signals, Wanted};
use snapshots::Snapshots;
use store_events::StoreEvents;

/// More operators than that need not wait at once for a policy to be read again.
const WAITING_RELOADS: usize = 4;

/// No machine has more processors; what is beyond is a slip.
const MOST_THREADS: i64 = 1_024;

/// After how many tasks the system is asked which connections have something to say.
const TASKS_BETWEEN_EVENTS: u32 = 16;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Run the service
///
/// Prints a line on stderr for each listener once it accepts. SIGTERM and
/// Ctrl-C stop accepting, answer what is under way, and end. SIGHUP reads the
/// policy again, and so does a change of its file; counters stay.
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

    /// Where to answer clients of Redis
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6380")]
    resp: ListenAddress,

    /// Where operators look; a loopback address, unless there is an admin token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    admin: ListenAddress,

    /// How many threads work; by default one for each processor
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS))]
    threads: Option<u16>,

    #[command(flatten)]
    admin_access: AdminArguments,

    #[command(flatten)]
    callers: CallerArguments,

    #[command(flatten)]
    connections: ConnectionArguments,

    #[command(flatten)]
    log: LogArguments,

    #[cfg(feature = "tls")]
    #[command(flatten)]
    tls: TlsArguments,
}

/// Runs the service until it is told to stop.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<Exit, Failure> {
    let listeners = Listeners {
        http: arguments.http.address(),
        grpc: arguments.grpc.address(),
        resp: arguments.resp.address(),
        admin: arguments.admin.address(),
    };
    let is_off = |listener: Option<_>| listener.is_none();
    if is_off(listeners.http) && is_off(listeners.grpc) && is_off(listeners.resp) && is_off(listeners.admin) {
        return Err(Failure::wrong_usage("all listeners are off: nothing would be served"));
    }
    let loaded = match &arguments.file {
        Some(file) => policy_file::read_valid(file)?,
        None => policy_file::starter(),
    };
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let observer = arguments.log.start(&clock)?;
    let runtime =
        runtime(arguments.threads).map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
    // A shared store keeps its connections on the runtime.
    let entered = runtime.enter();
    let store_events = Arc::new(StoreEvents::new(Arc::clone(&observer)));
    let heard = Arc::clone(&store_events);
    let engine = Engine::observed(&loaded.policy, clock, observer, move |event| heard.hear(event))
        .map_err(|error| unserved(arguments, &error))?;
    drop(entered);
    let admin_token = arguments.admin_access.token().read()?;
    let access_token = arguments.callers.token().read()?;
    let watched_tokens = [
        arguments.admin_access.token().watch(admin_token.as_ref()),
        arguments.callers.token().watch(access_token.as_ref()),
    ];
    let connections =
        ConnectionLimits { descriptors: connections::raise_open_files(), ..arguments.connections.limits() };
    let mut warnings = access_warnings(arguments, &listeners, access_token.is_some());
    warnings.extend(connections::open_files_warning(&connections, &listeners));
    let service = Service {
        engine,
        store_events,
        file: arguments.file.clone(),
        named_files: loaded.files.clone(),
        listeners,
        watched_tokens: watched_tokens.into_iter().flatten().collect(),
        admin_token,
        callers: arguments.callers.access(access_token),
        connections,
        #[cfg(feature = "tls")]
        tls: arguments.tls.load()?,
        remarks: remarks(arguments, &loaded),
        warnings,
        promises: promises(&loaded.policy),
    };
    runtime.block_on(service.run())
}

fn access_warnings(arguments: &ServeArguments, listeners: &Listeners, has_token: bool) -> Vec<String> {
    #[cfg(feature = "tls")]
    let protection = arguments.tls.protection();
    #[cfg(not(feature = "tls"))]
    let protection = access::Protection { is_encrypted: false, asks_for_certificates: false };
    let is_exposed = listeners.admin.is_some_and(is_exposed);
    let mut warnings = arguments.admin_access.warnings(is_exposed, protection.is_encrypted);
    warnings.extend(arguments.callers.warnings(listeners, has_token, protection));
    warnings
}

fn runtime(threads: Option<u16>) -> io::Result<tokio::runtime::Runtime> {
    // One thread needs none of what several need to share their work.
    let mut builder = match threads {
        Some(1) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Some(threads) = threads {
        builder.worker_threads(usize::from(threads));
    }
    // Calls that take long to understand keep other connections waiting for no more than a few of them.
    builder.event_interval(TASKS_BETWEEN_EVENTS).enable_all().build()
}

fn unserved(arguments: &ServeArguments, error: &LimiterError) -> Failure {
    let policy = arguments.file.as_deref().map_or_else(|| "the starter policy".to_owned(), policy_file::name_of);
    Failure::failed(format!("cannot serve {policy}: {error}"))
}

/// What is worth saying once it listens.
fn remarks(arguments: &ServeArguments, loaded: &Loaded) -> Vec<String> {
    let mut remarks = Vec::new();
    if let StoreSettings::Redis(redis) = &loaded.policy.store {
        remarks.push(format!("counters are on Redis at {}", redis.nodes.join(", ")));
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

/// Everything that was asked for, ready to run.
struct Service {
    engine: Engine,
    store_events: Arc<StoreEvents>,
    file: Option<PathBuf>,
    /// The files that the policy names.
    named_files: Vec<NamedFile>,
    listeners: Listeners,
    admin_token: Option<AccessToken>,
    callers: CallerAccess,
    watched_tokens: Vec<WatchedToken>,
    connections: ConnectionLimits,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    /// What is worth saying once it listens.
    remarks: Vec<String>,
    /// What is likely a mistake.
    warnings: Vec<String>,
    /// What its rules promise.
    promises: Vec<Promise>,
}

impl Service {
    async fn run(self) -> Result<Exit, Failure> {
        let is_encrypted = self.is_encrypted();
        // Taken before the listeners are announced: whoever has seen them may stop us at once.
        let mut signals =
            Signals::take().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
        let (reloads, wanted_reloads) = mpsc::channel(WAITING_RELOADS);
        let admin = AdminAccess { token: self.admin_token, reloads: Some(reloads) };
        let server = Server::bind_with(self.listeners, admin, self.engine).await.map_err(unbound)?;
        let server = server.with_limits(self.connections).with_callers(self.callers);
        #[cfg_attr(not(feature = "tls"), allow(unused_mut))]
        let mut watched = Watched {
            wanted_reloads,
            policy: WatchedPolicy::new(server.engine(), self.file.as_deref(), self.named_files),
            observing: Observing::new(Arc::clone(server.engine().observer())),
            tokens: self.watched_tokens,
            #[cfg(feature = "tls")]
            tls: None,
        };
        #[cfg(feature = "tls")]
        let server = match self.tls {
            Some(tls) => {
                watched.tls = Some(WatchedTls::new(tls.clone()));
                server.with_tls(tls)
            }
            None => server,
        };
        for (listener, address) in server.addresses() {
            let (plain, encrypted) = listener.schemes();
            let scheme = if is_encrypted { encrypted } else { plain };
            say(format_args!("{} listening on {scheme}://{address}", listener.name()));
        }
        self.remarks.iter().for_each(say);
        self.store_events.announce();
        self.warnings.iter().for_each(|warning| say_as(Level::Warning, warning));
        self.promises.iter().for_each(|promise| watched.observing.introduce(promise));
        let snapshots = Snapshots::begin(&server.engine());
        notify(Progress::Ready);
        let drained = serve_until_stopped(server, &mut signals, watched).await;
        let is_kept = match snapshots {
            Some(snapshots) => snapshots.end().await,
            None => true,
        };
        // Requests that were not answered are worth a warning.
        match drained {
            Some(Drained::Completely) => say("stopped"),
            Some(Drained::CutOff) => say_as(Level::Warning, "stopped: cut off what took too long"),
            None => say_as(Level::Warning, "stopped at once: told so twice"),
        }
        Ok(if is_kept && drained == Some(Drained::Completely) { Exit::Done } else { Exit::Failed })
    }

    fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// What is read again when its files change.
struct Watched {
    /// What operators ask for over HTTP.
    wanted_reloads: mpsc::Receiver<ReloadRequest>,
    policy: WatchedPolicy,
    observing: Observing,
    tokens: Vec<WatchedToken>,
    #[cfg(feature = "tls")]
    tls: Option<WatchedTls>,
}

impl Watched {
    /// Reads again what has changed, until an operator wants it to stop.
    async fn until_stopped(mut self, signals: &mut Signals) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                wanted = signals.next() => match wanted {
                    Wanted::Stop => return,
                    // How it went has been said.
                    Wanted::Reload => drop(self.reload()),
                },
                // The server holds the other end.
                Some(request) = self.wanted_reloads.recv() => {
                    let outcome = self.reload();
                    request.answer(outcome);
                }
                _ = looks.tick() => self.look(),
            }
        }
    }

    /// Reads everything again, and says how it went with the policy.
    fn reload(&mut self) -> Result<String, String> {
        notify(Progress::Reloading);
        let outcome = self.policy.reload();
        self.look();
        notify(Progress::Ready);
        outcome
    }

    fn look(&mut self) {
        self.policy.look();
        self.observing.look();
        self.tokens.iter_mut().for_each(WatchedToken::look);
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            tls.look();
        }
    }
}

/// Serves until the first signal to stop, then drains until the second. Returns how that went; `None` if an operator
/// did not want to wait for what was under way.
async fn serve_until_stopped(server: Server, signals: &mut Signals, watched: Watched) -> Option<Drained> {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = server.serve(async {
        // The sender lives as long as this function; its value is all there is to wait for.
        let _ = stopped.await;
    });
    tokio::pin!(serving);
    tokio::select! {
        _ = &mut serving => unreachable!("serving ends when it is stopped"),
        () = watched.until_stopped(signals) => {}
    }
    notify(Progress::Stopping);
    say("stopping: answering what is under way");
    let _ = stop.send(());
    tokio::select! {
        drained = &mut serving => Some(drained),
        () = signals.stop() => None,
    }
}

fn unbound(error: BindError) -> Failure {
    let what = error.to_string();
    match error {
        BindError::Address { listener, source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            Failure::failed(what).with_hint(in_use_hint(listener))
        }
        BindError::AdminExposed(_) => Failure::wrong_usage(what).with_hint(
            "give it --admin-token-file FILE; to let another machine read the metrics, --http has /metrics as well",
        ),
        _ => Failure::failed(what),
    }
}

fn in_use_hint(listener: Listener) -> String {
    let name = listener.name();
    format!("choose another address with --{name} ADDRESS, :0 for any free port, or --{name} off")
}
