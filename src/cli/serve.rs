//! `plimsoll serve`: wires the parts of the server together.

pub(super) mod certificates;
mod extender;
mod files;
mod hpa_api;
mod placement;
mod process;
mod tasks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use plimsoll_core::admission::{AbsentNamespace, Settings};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use self::files::Ports;
use self::process::Process;
use super::{CliError, Context, Exit, examples};
use crate::admission::Engine;
use crate::api;
use crate::cluster::{LiveNamespaces, Snapshots};
use crate::config::{self, Config, ConfigWatcher, Flag, Loaded, LogFormat, Observer, Origin, Sources};
use crate::decisions::Decisions;
use crate::hpa::Pods;
use crate::metrics::{Metrics, ReloadResult};
use crate::placement::PlacementState;
use crate::profiles;
use crate::quota::content::Latest;
use crate::server::health;
use crate::server::{self, ClientAuth, Readiness, ServerOptions, Shutdown};
use crate::status::Part;
use crate::telemetry::{self, LogControl};

/// How long the background tasks may take to end after the last request was answered. The recommender writes its last
/// checkpoints, and gives its lease back.
const LAST_TASKS: Duration = Duration::from_secs(10);
/// How often it is looked whether the server has become ready.
const READY_POLL: Duration = Duration::from_millis(10);

/// Settings that are different without a cluster, unless they are set: nobody mounts certificates, there are no
/// endpoints that have to move away before the server stops, and nobody but this machine asks.
const STANDALONE_DEFAULTS: [(&str, &str); 4] = [
    ("tls.source", "Ephemeral"),
    ("server.drainDelay", "0s"),
    ("server.address", "127.0.0.1:8443"),
    ("probes.address", "127.0.0.1:8081"),
];

/// Run the admission server
///
/// In a cluster, objects are watched through the API server, and the certificate is read from tls.certificate and
/// tls.key of the configuration, which must be there (`plimsoll certs` makes them), unless tls.source says
/// that the server looks after certificates itself. With --standalone the objects come
/// from the manifests of a folder, and certificates are made on the fly unless tls.source is set.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "in a cluster" => "plimsoll serve --config /etc/plimsoll/config/config.yaml",
    "on this machine, without a cluster" => "plimsoll serve --standalone examples/standalone --ca-file ca.crt",
    "ask the latter" => "curl --cacert ca.crt -H 'Content-Type: application/json' \\\n      -d @review.json https://localhost:8443/mutate",
    "against the cluster of a kubeconfig" => "plimsoll serve --kubeconfig ~/.kube/config --context staging",
))]
pub(super) struct Args {
    /// Run without a cluster, on the manifests in this folder, not those below it; changes are taken over
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context"])]
    standalone: Option<PathBuf>,

    /// Kubeconfig file, in place of cluster.kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,

    /// Context of the kubeconfig, in place of cluster.context
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Address of the HTTPS listener, in place of server.address; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,

    /// Address of the listener for probes and metrics, in place of probes.address; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    probes_address: Option<String>,

    /// Address of the listener for the JSON API, in place of api.address; a loopback address, port 0 takes a free one,
    /// and an empty text none
    #[arg(long, value_name = "ADDRESS")]
    api_address: Option<String>,

    /// Write the CA of the certificate that is made on the fly to this file, for clients
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// When ready, write the addresses that were bound to this file, as JSON
    #[arg(long, value_name = "FILE")]
    ports_file: Option<PathBuf>,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let began = Instant::now();
    let flags = [
        ("--kubeconfig", "cluster.kubeconfig", &args.kubeconfig),
        ("--context", "cluster.context", &args.context),
        ("--address", "server.address", &args.address),
        ("--probes-address", "probes.address", &args.probes_address),
        ("--api-address", "api.address", &args.api_address),
    ];
    for (name, setting, value) in flags {
        if let Some(value) = value.clone() {
            ctx.add_flag(Flag { name, setting, value });
        }
    }
    let mut loaded = ctx.load_config()?;
    if args.standalone.is_some() {
        for (setting, value) in STANDALONE_DEFAULTS {
            if is_default(&loaded, setting) {
                ctx.add_flag(Flag { name: "--standalone", setting, value: value.to_owned() });
            }
        }
        loaded = ctx.load_config()?;
    }
    certificates::check(&loaded.config, args.standalone.is_some(), args.ca_file.is_some())?;
    let log = start_log(&loaded.config)?;
    let sources = ctx.sources();
    run_to_end(ctx.runtime()?, serve(args, loaded, sources, log, began))?;
    Ok(Exit::Done)
}

/// Runs to the end of `future` and leaves behind what does not end: a thread that the system keeps waiting, for a file
/// on a file server that is away, must not keep the process.
fn run_to_end<T>(runtime: Runtime, future: impl Future<Output = T>) -> T {
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    result
}

fn is_default(loaded: &Loaded, path: &str) -> bool {
    loaded.settings().iter().any(|setting| setting.path == path && setting.origin == Origin::Default)
}

fn start_log(config: &Config) -> Result<LogControl, CliError> {
    let format = match config.log.format {
        LogFormat::Auto => telemetry::LogFormat::Auto,
        LogFormat::Text => telemetry::LogFormat::Text,
        LogFormat::Json => telemetry::LogFormat::Json,
    };
    telemetry::init(format, &config.log.level).map_err(|error| CliError::Usage(error.to_string()))
}

async fn serve(
    args: &Args,
    loaded: Loaded,
    sources: Sources,
    log: LogControl,
    began: Instant,
) -> Result<(), CliError> {
    let shutdown = Shutdown::on_signals()?;
    let process = Process::new(&loaded.config, args.standalone.is_some(), &shutdown);
    let Process { config, metrics, readiness, tasks, snapshots, .. } = &process;
    metrics.config_loaded(seconds_since_epoch());

    let certificates = certificates::open(&process, args.ca_file.as_deref())?;
    if let Some(path) = &args.ports_file {
        files::check(path)?;
    }
    let (admission, admission_address) = bind(config.server.address).await?;
    let (probes, probes_address) = bind(config.probes.address).await?;
    tasks.spawn("probes", health::serve(probes, readiness.clone(), Arc::clone(metrics), shutdown.clone()));
    let api = match config.api.address {
        Some(address) => Some(bind(address).await?),
        None => None,
    };

    // Without a cluster there is nothing to place.
    let placement = args.standalone.is_none().then(|| placement::state(&process)).flatten();
    let live = Live {
        settings: Arc::clone(&process.settings),
        snapshots: Arc::clone(snapshots),
        placement: placement.clone(),
        balance: Arc::new(ArcSwap::from_pointee(config.placement.balance.clone())),
        standalone: args.standalone.is_some(),
        log,
    };
    live.put_profiles_in_force(config);
    let client = match &args.standalone {
        Some(folder) => {
            process.follow_folder(folder)?;
            None
        }
        None => Some(process.follow_cluster().await?),
    };
    process.recommend(placement.as_ref());
    let latest = Latest::default();
    // Where nobody can look, nothing is kept.
    let decisions = Decisions::of_port(config.api.address);
    let mut engine =
        Engine::new(snapshots.current(), Arc::clone(&process.settings), None, Arc::clone(metrics))
            .with_autoscalers(config.hpa.enabled)
            .with_decisions(decisions.clone());
    let (mut hpa_api_address, mut extender_address) = (None, None);
    let mut balance = None;
    if let Some(client) = &client {
        certificates::start(&process, client);
        let namespaces = LiveNamespaces::new(client.clone(), config.admission.namespace_read_timeout);
        engine = engine.with_namespaces(Arc::new(namespaces)).with_quota(process.decide_quota(
            client,
            &latest,
            &certificates,
        ));
        let pods = Pods::default();
        process.keep_autoscalers(client, &pods);
        hpa_api_address = hpa_api::start(&process, client, &pods).await?;
        if let Some(state) = &placement {
            balance = placement::start(&process, client, state, &live.balance, &latest);
            extender_address = extender::start(&process, state).await?;
        }
    }
    let api_address = api.map(|(listener, address)| {
        let known = process.known(client.as_ref());
        let decisions = decisions.unwrap_or_default();
        let sources = api::Sources { ledger: latest, placement, balance, decisions, ..known };
        tasks.spawn("api", api::serve(listener, sources, shutdown.clone()));
        address
    });
    let observer = ReloadCounter(Arc::clone(metrics));
    let (watcher, changed) = ConfigWatcher::new(sources, loaded, observer);
    tasks.spawn("configuration", watcher.run(tasks.cancelled()));
    tasks.spawn("reload", live.follow(changed));

    let ports = Ports {
        admission: admission_address,
        probes: probes_address,
        api: api_address,
        hpa_api: hpa_api_address,
        extender: extender_address,
    };
    let said = tokio::spawn(say_when_ready(
        readiness.clone(),
        shutdown.clone(),
        ports,
        args.ports_file.clone(),
        began,
    ));

    let options = Arc::new(server_options(config));
    let metrics = Arc::clone(metrics);
    let served =
        server::serve(admission, certificates, options, Arc::new(engine), metrics, shutdown.clone()).await;
    // Told first: one that ends with the last of the shutdown must not look as if it had died.
    tasks.cancelled().cancel();
    shutdown.finish();
    if !process.tasks.end(LAST_TASKS).await {
        tracing::warn!("background tasks did not end in time; exiting without them");
    }
    served.map_err(anyhow::Error::new)?;
    said.await.map_err(anyhow::Error::new)??;
    tracing::info!("stopped");
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), CliError> {
    let listener = server::bind(address).await.map_err(anyhow::Error::new)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// What of the configuration takes effect while the server runs.
struct Live {
    settings: Arc<ArcSwap<Settings>>,
    snapshots: Arc<Snapshots>,
    placement: Option<PlacementState>,
    balance: Arc<ArcSwap<config::Balance>>,
    standalone: bool,
    log: LogControl,
}

impl Live {
    /// Takes over each new configuration until there are no more.
    async fn follow(self, mut changed: watch::Receiver<Arc<Config>>) {
        while changed.changed().await.is_ok() {
            let config = Arc::clone(&changed.borrow_and_update());
            self.settings.store(Arc::new(settings(&config, self.standalone)));
            self.put_profiles_in_force(&config);
            if let Some(placement) = &self.placement {
                placement.settings.store(Arc::new(config.placement.settings.clone()));
            }
            self.balance.store(Arc::new(config.placement.balance.clone()));
            if let Err(error) = self.log.set_level(&config.log.level) {
                tracing::error!(%error, "the log level stays as it was");
            }
        }
    }

    fn put_profiles_in_force(&self, config: &Config) {
        let profiles = profiles::of_file(config);
        self.snapshots.update(|objects| objects.set_file_profiles(profiles));
    }
}

fn settings(config: &Config, standalone: bool) -> Settings {
    let absent_namespace = if standalone { AbsentNamespace::Exists } else { AbsentNamespace::Unknown };
    profiles::settings(config, absent_namespace)
}

fn client_auth(configured: config::ClientAuth) -> ClientAuth {
    match configured {
        config::ClientAuth::None => ClientAuth::None,
        config::ClientAuth::Optional => ClientAuth::Optional,
        config::ClientAuth::Required => ClientAuth::Required,
    }
}

fn server_options(config: &Config) -> ServerOptions {
    let server = &config.server;
    ServerOptions {
        address: server.address,
        concurrency: server.concurrency_limit(),
        queue_deadline: server.queue_deadline,
        max_connections: server.max_connections,
        header_bytes: server.header_bytes,
        header_timeout: server.header_timeout,
        body_bytes: server.body_bytes,
        body_timeout: server.body_timeout,
        idle_timeout: server.idle_timeout,
        drain_delay: server.drain_delay,
        shutdown_timeout: server.shutdown_timeout,
        ..ServerOptions::default()
    }
}

/// Waits until every condition holds, then tells the operator and whoever reads the ports file. When that file cannot
/// be written the server ends: who waits for it would wait for ever.
async fn say_when_ready(
    readiness: Readiness,
    shutdown: Shutdown,
    ports: Ports,
    ports_file: Option<PathBuf>,
    began: Instant,
) -> anyhow::Result<()> {
    let mut said = Vec::new();
    loop {
        let missing = readiness.missing();
        if missing.is_empty() {
            break;
        }
        if shutdown.is_draining() {
            return Ok(());
        }
        if missing != said {
            for (condition, why) in &missing {
                tracing::info!(%condition, why, "not ready yet");
            }
            said = missing;
        }
        tokio::time::sleep(READY_POLL).await;
    }
    let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        admission = %ports.admission,
        probes = %ports.probes,
        api = ports.api.map(tracing::field::display),
        hpa_api = ports.hpa_api.map(tracing::field::display),
        extender = ports.extender.map(tracing::field::display),
        version = env!("CARGO_PKG_VERSION"),
        milliseconds,
        "ready"
    );
    let written = ports_file.map_or(Ok(()), |path| files::write(&path, &ports.json()));
    if written.is_err() {
        shutdown.close();
    }
    written
}

/// Counts what became of changed configuration files.
struct ReloadCounter(Arc<Metrics>);

impl Observer for ReloadCounter {
    fn reloaded(&self) {
        self.0.config_reload(ReloadResult::Success);
        self.0.config_loaded(seconds_since_epoch());
    }

    fn refused(&self, errors: &config::ConfigErrors) {
        self.0.config_reload(ReloadResult::Refused);
        let why = format!("{errors}; the last good configuration stays");
        self.0.health().failed_for_good(Part::Configuration, "reload", why);
    }
}

fn seconds_since_epoch() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_that_is_stuck_does_not_keep_the_process() {
        let (release, stuck) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let result = run_to_end(runtime, async {
            tokio::task::spawn_blocking(move || {
                started.send(()).unwrap();
                // Until the test lets go, which is after the runtime has ended.
                stuck.recv()
            });
            has_started.recv().unwrap();
            "done"
        });
        assert_eq!(result, "done");
        drop(release);
    }
}
