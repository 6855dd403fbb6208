//! What the program does.

pub mod plan;
pub mod volume;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use server::configuration::Configuration;
use server::door::Doors;
use server::server::Server;
use server::watch::Watch;

/// How often the program looks whether it should end.
const LOOKS: Duration = Duration::from_millis(100);

/// Serves until it is asked to end.
pub fn run(path: &Path) -> anyhow::Result<()> {
    let configuration = Configuration::read(path)?;
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).without_time().with_target(false).init();
    let server = Server::start(&configuration)?;
    let watch = Arc::new(Watch::start(&server)?);
    if let Some(limits) = configuration.moves.as_ref().filter(|moves| moves.auto) {
        server.plan_automatically(limits)?;
    }
    let mut doors = Doors::new();
    let opened = open(&mut doors, &configuration, &server, &watch);
    if opened.is_ok() {
        tracing::info!(stores = server.stores().len(), volumes = server.volumes().len(), "ready");
        while !terminal::interrupted().load(Ordering::Relaxed) {
            std::thread::sleep(LOOKS);
        }
        tracing::info!("stops");
    }
    server.stop();
    doors.close();
    opened
}

fn open(doors: &mut Doors, configuration: &Configuration, server: &Arc<Server>, watch: &Arc<Watch>) -> anyhow::Result<()> {
    doors.control(&configuration.control, server, watch)?;
    for listen in &configuration.listen {
        if let Some(path) = &listen.unix {
            doors.unix(path, server)?;
        }
        if let Some(address) = listen.tcp {
            doors.tcp(address, server)?;
        }
    }
    Ok(())
}
