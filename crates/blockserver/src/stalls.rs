//! Detects stalled volumes: requests are outstanding and none completes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Weak;
use std::thread;
use std::time::{Duration, Instant};

use block::StreamId;

use crate::server::Server;

/// A volume is stalled if requests are outstanding and none completed for this time: a disk that retries takes a second or two.
const STALLS: Duration = Duration::from_secs(3);
/// Interval of the checks.
const LOOKS: Duration = Duration::from_millis(500);

/// Starts a thread that checks all volumes until the server is dropped.
///
/// # Errors
/// The thread cannot be started.
pub fn start(server: Weak<Server>) -> io::Result<()> {
    let mut seen: BTreeMap<StreamId, (u64, Instant)> = BTreeMap::new();
    thread::Builder::new().name("health".to_owned()).spawn(move || {
        while let Some(server) = server.upgrade() {
            let volumes = server.volumes();
            drop(server);
            seen.retain(|id, _| volumes.iter().any(|volume| volume.id == *id));
            for volume in &volumes {
                let (under_way, answered) = volume.under_way();
                let known = seen.entry(volume.id).or_insert((answered, Instant::now()));
                if known.0 != answered || under_way == 0 {
                    *known = (answered, Instant::now());
                }
                let since = Some(known.1).filter(|since| since.elapsed() >= STALLS);
                volume.health.stalls(&volume.name, &volume.store().name, since);
            }
            drop(volumes);
            thread::sleep(LOOKS);
        }
    })?;
    Ok(())
}
