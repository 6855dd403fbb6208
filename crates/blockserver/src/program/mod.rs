//! The program's commands.

pub mod daemonize;
pub mod plan;
pub mod reload;
pub mod store;
pub mod volume;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::access::Access;
use crate::configuration::{self, Configuration, UseTls};
use crate::control::Ruled;
use crate::door::{Doors, Gate};
use crate::metrics::Metrics;
use crate::nbd::tls::{Files, Tls};
use crate::server::Server;
use crate::stalls;
use crate::tuner;
use crate::watch::Watch;
use anyhow::Context as _;
use endpoint::notify::Notify;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Interval at which the program checks for a signal to stop.
const LOOKS: Duration = Duration::from_millis(100);

/// Serves until a signal asks it to stop.
///
/// # Errors
/// The configuration is invalid, or a store, the catalog or a listener cannot be opened.
pub fn run(path: &Path) -> anyhow::Result<()> {
    let configuration = Configuration::read(path)?;
    let notify = Notify::from_environment().context("NOTIFY_SOCKET")?;
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).without_time().with_target(false).init();
    allow_descriptors();
    let server = Server::start(&configuration)?;
    stalls::start(Arc::downgrade(&server))?;
    server.reclaim()?;
    tuner::start(server.stores())?;
    let watch = Arc::new(Watch::start(&server)?);
    if let Some(limits) = configuration.moves.as_ref().filter(|moves| moves.auto) {
        server.plan_automatically(limits)?;
    }
    let mut doors = Doors::new();
    let opened = open(&mut doors, path, &configuration, &server, &watch);
    if opened.is_ok() {
        notify.ready(&format!("serves {} volumes of {} stores", server.volumes().len(), server.stores().len()));
        tracing::info!(stores = server.stores().len(), volumes = server.volumes().len(), "ready");
        while !terminal::interrupted().load(Ordering::Relaxed) {
            std::thread::sleep(LOOKS);
        }
        tracing::info!("stops");
        notify.stopping();
    }
    server.stop();
    doors.close();
    server.end();
    opened
}

fn open(
    doors: &mut Doors,
    path: &Path,
    configuration: &Configuration,
    server: &Arc<Server>,
    watch: &Arc<Watch>,
) -> anyhow::Result<()> {
    let access = Arc::new(Access::new(&configuration.allow)?);
    if let Some(listen) = configuration.metrics()? {
        let metrics = Metrics::new(server, watch);
        endpoint::metrics::serve(&listen, "seekwise-serve", move || metrics.text())
            .with_context(|| format!("metrics = {listen:?}"))?;
    }
    let tls = match configuration.tls.clone() {
        None => None,
        Some(configuration::Tls { certificate, key, client_ca, client_crl }) => {
            let files = Files { certificate, key, client_ca, revoked: client_crl };
            Some(Arc::new(Tls::open(files).map_err(|error| anyhow::anyhow!("tls: {error}"))?))
        }
    };
    for listen in &configuration.listen {
        let gate = Gate {
            server: server.clone(),
            access: access.clone(),
            tls: tls.clone().filter(|_| listen.tls != UseTls::Off),
            requires_tls: listen.tls == UseTls::Require,
        };
        #[cfg(feature = "vhost-user")]
        if let (Some(path), Some(volume)) = (&listen.vhost_user, &listen.volume) {
            doors.vhost_user(path, volume, server)?;
        }
        if let Some(path) = &listen.unix {
            doors.unix(path, gate.clone())?;
        }
        if let Some(address) = listen.tcp {
            doors.tcp(address, gate)?;
        }
    }
    // The last: a command that was carried out means that clients can connect.
    let ruled = Ruled { server: server.clone(), watch: watch.clone(), access, configuration: path.to_owned() };
    doors.control(&configuration.control, ruled)
}

/// Raises the limit of open files as far as it may be: a client takes four.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(error = format!("{error}"), "the limit of open files stays");
    }
}
