mod access;
mod arguments;
mod connections;
#[cfg(feature = "tls")]
mod encryption;
mod listen_address;
mod notify;
mod observing;
mod policy_changes;
mod policy_watch;
mod signals;
mod snapshots;
mod store_events;

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tollgate::clock::Clock;
use tollgate::policy::model::StoreSettings;
use tollgate::policy::promise::{Promise, promises};
use tollgate::policy::{Loaded, MissingSecrets, Severity};
use tollgate::redis::ConnectError;
use tollgate::{LimiterError, RealClock};
#[cfg(feature = "tls")]
use tollgate_server::Tls;
use tollgate_server::observe::Level;
use tollgate_server::{
    AccessToken, AdminAccess, BindError, CallerAccess, ConnectionLimits, Drained, Engine, Listener, Listeners,
    ReloadRequest, Server,
};

use crate::demo::send_traffic;
use crate::exit::{Exit, Failure};
use crate::output::{log, log_info};
use crate::policy_file;
use crate::region::{RegionArguments, require_region};
use access::{AdminArguments, CallerArguments, WatchedToken, is_exposed};
use arguments::number_up_to;
use connections::ConnectionArguments;
#[cfg(feature = "tls")]
use encryption::{TlsArguments, WatchedTls};
pub(crate) use listen_address::ListenAddress;
use notify::{ServiceState, notify};
use observing::{LogArguments, Observing};
use policy_watch::WatchedPolicy;
use signals::{SignalAction, Signals};
use snapshots::Snapshots;
use store_events::StoreEvents;

/// The number of reload requests of the admin API that can be queued.
const QUEUED_RELOADS: usize = 4;

/// An upper bound that catches typing errors: no machine has more processors.
const MAX_THREADS: u32 = 1_024;

/// After how many tasks a worker polls for I/O events.
const TASKS_BETWEEN_EVENTS: u32 = 16;

/// How often files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Run the service
///
/// Prints a line on stderr for each listener once it accepts connections.
/// SIGTERM and Ctrl-C stop accepting, answer the requests in flight, and exit.
/// SIGHUP reloads the policy, and so does a change of its file; counters stay.
///
/// Each flag has an environment variable; the flag overrides the variable.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Policy file; `-` reads stdin. Without it the starter policy applies: 60 requests a minute for each client address
    #[arg(env = "TOLLGATE_POLICY", hide_env_values = true)]
    file: Option<PathBuf>,

    /// Listen here for HTTP; a port alone means 127.0.0.1, `off` turns the listener off
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080",
        env = "TOLLGATE_HTTP",
        hide_env_values = true
    )]
    http: ListenAddress,

    /// Listen here for gRPC (Envoy's rate limit service)
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8081",
        env = "TOLLGATE_GRPC",
        hide_env_values = true
    )]
    grpc: ListenAddress,

    /// Listen here for RESP, the protocol of Redis clients
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:6380",
        env = "TOLLGATE_RESP",
        hide_env_values = true
    )]
    resp: ListenAddress,

    /// Listen here for the admin API and metrics; a loopback address, unless there is an admin token
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9099",
        env = "TOLLGATE_ADMIN",
        hide_env_values = true
    )]
    admin: ListenAddress,

    /// Run this many worker threads [default: one for each processor]
    #[arg(long, value_name = "NUMBER", env = "TOLLGATE_THREADS", hide_env_values = true, value_parser = number_up_to::<MAX_THREADS>)]
    threads: Option<u32>,

    #[command(flatten)]
    region: RegionArguments,

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

/// Whether the service is for others, or shows generated traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServeMode {
    Service,
    /// With the starter policy, generated traffic and a log of notices only. Without tokens and TLS: the
    /// listeners are on loopback.
    Demo,
}

/// Runs the service until a signal stops it.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<Exit, Failure> {
    serve_as(ServeMode::Service, arguments)
}

/// Runs the service with generated traffic until a signal stops it.
pub(crate) fn serve_demo(arguments: &ServeArguments) -> Result<Exit, Failure> {
    serve_as(ServeMode::Demo, arguments)
}

fn serve_as(mode: ServeMode, arguments: &ServeArguments) -> Result<Exit, Failure> {
    let is_demo = mode == ServeMode::Demo;
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
    let file = arguments.file.as_ref().filter(|_| !is_demo);
    let loaded = match file {
        Some(file) => policy_file::read_valid(file, MissingSecrets::Refuse)?,
        None => policy_file::starter(),
    };
    let loaded = require_region(loaded, arguments.region.name.as_deref())?;
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let observer = arguments.log.start(&clock, is_demo)?;
    let runtime =
        runtime(arguments.threads).map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
    // A shared store keeps its connections on the runtime.
    let entered = runtime.enter();
    let store_events = Arc::new(StoreEvents::new(Arc::clone(&observer)));
    let events = Arc::clone(&store_events);
    let engine = Engine::with_observer(&loaded.policy, clock, observer, move |event| events.handle(event))
        .map_err(|error| engine_failure(arguments, &loaded, &error))?;
    drop(entered);
    let admin_token = if is_demo { None } else { arguments.admin_access.token().read()? };
    let access_token = if is_demo { None } else { arguments.callers.token().read()? };
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
        mode,
        file: file.cloned(),
        region: arguments.region.name.clone(),
        listeners,
        watched_tokens: watched_tokens.into_iter().flatten().collect(),
        admin_token,
        callers: arguments.callers.access(access_token),
        connections,
        #[cfg(feature = "tls")]
        tls: if is_demo { None } else { arguments.tls.load()? },
        warnings,
        promises: promises(&loaded.policy),
        loaded,
    };
    runtime.block_on(service.run())
}

fn access_warnings(arguments: &ServeArguments, listeners: &Listeners, has_token: bool) -> Vec<String> {
    #[cfg(feature = "tls")]
    let protection = arguments.tls.protection();
    #[cfg(not(feature = "tls"))]
    let protection = access::Protection { is_encrypted: false, requires_client_certificates: false };
    let is_exposed = listeners.admin.is_some_and(is_exposed);
    let mut warnings = arguments.admin_access.warnings(is_exposed, protection.is_encrypted);
    warnings.extend(arguments.callers.warnings(listeners, has_token, protection));
    warnings
}

fn runtime(threads: Option<u32>) -> io::Result<tokio::runtime::Runtime> {
    // One thread needs no work stealing.
    let mut builder = match threads {
        Some(1) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Some(threads) = threads {
        builder.worker_threads(threads as usize);
    }
    // Requests that are slow to parse delay other connections by a few requests at most.
    builder.event_interval(TASKS_BETWEEN_EVENTS).enable_all().build()
}

/// The code of a warning about a missing password of the store.
const MISSING_PASSWORD: &str = "missing-password";

fn engine_failure(arguments: &ServeArguments, loaded: &Loaded, error: &LimiterError) -> Failure {
    let policy = arguments.file.as_deref().map_or_else(|| "the starter policy".to_owned(), policy_file::name_of);
    let failure = Failure::failed(format!("cannot serve {policy}: {error}"));
    if !matches!(error, LimiterError::Connect(ConnectError::Password { .. })) {
        return failure;
    }
    // Without the password the service cannot start, so the warning about it is the error.
    let mut remarks = loaded.warnings.iter().chain(&loaded.accepted);
    match remarks.find(|remark| remark.code == MISSING_PASSWORD) {
        Some(warning) => {
            let mut error = warning.clone();
            error.severity = Severity::Error;
            policy_file::explained(Exit::Failed, &error.to_string(), error.code)
        }
        None => failure.with_hint("provide the password: the service does not start without it"),
    }
}

/// The configured service, ready to run.
struct Service {
    mode: ServeMode,
    engine: Engine,
    store_events: Arc<StoreEvents>,
    file: Option<PathBuf>,
    /// The region that the arguments set.
    region: Option<String>,
    /// The policy, its warnings and the files that it names.
    loaded: Loaded,
    listeners: Listeners,
    admin_token: Option<AccessToken>,
    callers: CallerAccess,
    watched_tokens: Vec<WatchedToken>,
    connections: ConnectionLimits,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    /// Warnings about likely mistakes in the arguments.
    warnings: Vec<String>,
    /// What the rules guarantee.
    promises: Vec<Promise>,
}

impl Service {
    async fn run(self) -> Result<Exit, Failure> {
        let is_encrypted = self.is_encrypted();
        // Before the listeners are announced: a signal may follow the announcement at once.
        let mut signals =
            Signals::register().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
        let (reloads, reload_requests) = mpsc::channel(QUEUED_RELOADS);
        let admin = AdminAccess { token: self.admin_token, reloads: Some(reloads) };
        let server = Server::bind_with(self.listeners, admin, self.engine).await.map_err(bind_failure)?;
        let server = server.with_limits(self.connections).with_callers(self.callers);
        let redis_nodes = match &self.loaded.policy.store {
            StoreSettings::Redis(redis) => Some(redis.nodes.join(", ")),
            StoreSettings::Memory(_) => None,
        };
        let policy_warnings = self.loaded.warnings.clone();
        #[cfg_attr(not(feature = "tls"), allow(unused_mut))]
        let mut watched = WatchedFiles {
            reload_requests,
            policy: WatchedPolicy::new(server.engine(), self.file.as_deref(), self.region, self.loaded),
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
            log_info(format_args!("{} listening on {scheme}://{address}", listener.name()));
        }
        redis_nodes.iter().for_each(|nodes| log_info(format_args!("counters are on Redis at {nodes}")));
        policy_watch::log_warnings(&policy_warnings);
        self.store_events.log_from_now_on();
        self.warnings.iter().for_each(|warning| log(Level::Warning, warning));
        self.promises.iter().for_each(|promise| watched.observing.log_rule(promise));
        let engine = server.engine();
        let snapshots = Snapshots::start(&engine);
        notify(ServiceState::Ready);
        let traffic = (self.mode == ServeMode::Demo).then(|| start_traffic(&server)).flatten();
        let drained = serve_until_stopped(server, &mut signals, watched, traffic).await;
        engine.close().await;
        let is_written = match snapshots {
            Some(snapshots) => snapshots.stop().await,
            None => true,
        };
        // Requests without a response are worth a warning.
        match drained {
            Some(Drained::Completely) => log_info("stopped"),
            Some(Drained::CutOff) => {
                log(Level::Warning, "stopped: the drain timed out, requests in flight were cut off");
            }
            None => log(Level::Warning, "stopped by a second signal: requests in flight were cut off"),
        }
        Ok(if is_written && drained == Some(Drained::Completely) { Exit::Done } else { Exit::Failed })
    }

    fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// The files that are reloaded when they change.
struct WatchedFiles {
    /// Reload requests of the admin API.
    reload_requests: mpsc::Receiver<ReloadRequest>,
    policy: WatchedPolicy,
    observing: Observing,
    tokens: Vec<WatchedToken>,
    #[cfg(feature = "tls")]
    tls: Option<WatchedTls>,
}

impl WatchedFiles {
    /// Reloads changed files until a signal stops the service.
    async fn until_stopped(mut self, signals: &mut Signals) {
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                action = signals.next() => match action {
                    SignalAction::Stop => return,
                    // The outcome has been logged.
                    SignalAction::Reload => drop(self.reload()),
                },
                // The server keeps the sender for as long as it runs.
                Some(request) = self.reload_requests.recv() => {
                    let outcome = self.reload();
                    request.answer(outcome);
                }
                _ = checks.tick() => self.check(),
            }
        }
    }

    /// Reloads everything, and returns the outcome for the policy.
    fn reload(&mut self) -> Result<String, String> {
        notify(ServiceState::Reloading);
        let outcome = self.policy.reload();
        self.check();
        notify(ServiceState::Ready);
        outcome
    }

    fn check(&mut self) {
        self.policy.check();
        self.observing.check();
        self.tokens.iter_mut().for_each(WatchedToken::check);
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            tls.check();
        }
    }
}

/// Starts the traffic of the demo, and logs where to look.
fn start_traffic(server: &Server) -> Option<JoinHandle<Infallible>> {
    let address_of =
        |wanted: Listener| server.addresses().find_map(|(listener, at)| (listener == wanted).then_some(at));
    let (http, admin) = (address_of(Listener::Http)?, address_of(Listener::Admin)?);
    log_info(format_args!("generated traffic runs: open http://{admin}/ in a browser; Ctrl-C stops"));
    Some(tokio::spawn(send_traffic(http)))
}

/// Serves until the first signal to stop, then drains until the second. Returns the outcome of the drain; `None` if a
/// second signal ended it.
///
/// Generated traffic ends before the drain.
async fn serve_until_stopped(
    server: Server,
    signals: &mut Signals,
    watched: WatchedFiles,
    traffic: Option<JoinHandle<Infallible>>,
) -> Option<Drained> {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = server.serve(async {
        // The sender is not dropped before it has sent.
        let _ = stopped.await;
    });
    tokio::pin!(serving);
    tokio::select! {
        _ = &mut serving => unreachable!("serving ends when it is stopped"),
        () = watched.until_stopped(signals) => {}
    }
    notify(ServiceState::Stopping);
    traffic.iter().for_each(JoinHandle::abort);
    log_info("stopping: answering requests in flight");
    let _ = stop.send(());
    tokio::select! {
        drained = &mut serving => Some(drained),
        () = signals.stop() => None,
    }
}

fn bind_failure(error: BindError) -> Failure {
    let sentence = error.to_string();
    match error {
        BindError::Address { listener, source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            Failure::failed(sentence).with_hint(in_use_hint(listener))
        }
        BindError::AdminExposed(_) => Failure::wrong_usage(sentence)
            .with_hint("set --admin-token-file FILE; for metrics alone, the HTTP listener serves /metrics too"),
        _ => Failure::failed(sentence),
    }
}

fn in_use_hint(listener: Listener) -> String {
    let name = listener.name();
    format!(
        "is another tollgate running? Or choose another address with --{name} ADDRESS, :0 for any free port, or --{name} off"
    )
}
