//! The requests of a trace that say when they were done, by device.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use sim::trace::{OpenOptions, Opened};
use twin::ObservedRequest;

/// Requests that are looked at: more tell no more, and have to fit into memory.
pub const MOST: u64 = 2_000_000;

/// What was read.
pub struct Recorded {
    /// The trace, behind what was read.
    pub opened: Opened,
    /// By the device's number within the trace.
    pub devices: BTreeMap<u32, Vec<ObservedRequest>>,
    /// Requests that were read, and those of them that say when they were done.
    pub all: u64,
    /// See `all`.
    pub timed: u64,
}

impl Recorded {
    /// Reads until there are [`MOST`]; calls `read` with the number of requests after each; its error ends the reading.
    ///
    /// # Errors
    /// The trace cannot be read, or `read` ended it.
    pub fn read(path: &Path, options: &OpenOptions, read: &mut dyn FnMut(u64) -> anyhow::Result<()>) -> anyhow::Result<Recorded> {
        let mut opened = sim::trace::open(path, options)?;
        let mut devices: BTreeMap<u32, Vec<ObservedRequest>> = BTreeMap::new();
        let (mut timed, mut all) = (0, 0);
        while let Some(request) = opened.reader.next_request() {
            let request = request?;
            all += 1;
            read(all)?;
            if let Some(response) = request.response {
                timed += 1;
                devices.entry(request.device).or_default().push(ObservedRequest::recorded(&request, response));
            }
            if timed == MOST {
                break;
            }
        }
        Ok(Recorded { opened, devices, all, timed })
    }

    /// Takes out the requests of this device; if none is named, of the one with the most. Which it is, and its requests.
    ///
    /// # Errors
    /// There is no such device.
    pub fn of_device(&mut self, path: &Path, device: Option<u32>) -> anyhow::Result<(u32, Vec<ObservedRequest>)> {
        let numbers = self.devices.keys().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let busiest = || self.devices.iter().max_by_key(|(_, seen)| seen.len()).map_or(0, |(device, _)| *device);
        let device = device.unwrap_or_else(busiest);
        let seen = self.devices.remove(&device);
        let seen = seen.with_context(|| format!("{}: --device {device}: there are the devices {numbers}", path.display()))?;
        Ok((device, seen))
    }
}
