//! Reads the requests of a trace that have response times, by device.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use sim::trace::{OpenOptions, Opened};
use twin::ObservedRequest;

/// Maximum number of requests to read: more add little information, and have to fit into memory.
pub const MOST: u64 = 2_000_000;

/// Requests read from a trace.
pub struct Recorded {
    /// The trace, positioned after the last request that was read.
    pub opened: Opened,
    /// Requests with response times, by the device's number in the trace.
    pub devices: BTreeMap<u32, Vec<ObservedRequest>>,
    /// Number of requests that were read.
    pub all: u64,
    /// Number of these with a response time.
    pub timed: u64,
}

impl Recorded {
    /// Reads up to [`MOST`] requests with response times. Calls `read` with the number of requests after each; its error
    /// ends reading.
    ///
    /// # Errors
    /// The trace cannot be read, or `read` failed.
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

    /// Removes and returns the number and the requests of this device; `None`: of the device with the most requests.
    ///
    /// # Errors
    /// The trace has no such device.
    pub fn of_device(&mut self, path: &Path, device: Option<u32>) -> anyhow::Result<(u32, Vec<ObservedRequest>)> {
        let numbers = self.devices.keys().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let busiest = || self.devices.iter().max_by_key(|(_, seen)| seen.len()).map_or(0, |(device, _)| *device);
        let device = device.unwrap_or_else(busiest);
        let seen = self.devices.remove(&device);
        let seen = seen.with_context(|| format!("{}: --device {device}: there are the devices {numbers}", path.display()))?;
        Ok((device, seen))
    }
}
