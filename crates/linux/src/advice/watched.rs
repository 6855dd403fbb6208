//! Watches a device in order to give advice.

use std::fs::File;
use std::io::BufWriter;

use anyhow::{Context as _, bail};
use block::Nanos;
use experiment::capture::Capture;
use progress::Failed;
use progress::Monitor;
use report::advice::Advice;
use sim::trace::RecordedDevice;
use sim::trace::write::{About, Out, OutputFormat, named};

use super::rule;
use crate::cgroups::Processes;
use crate::events::{Recorded, Tracepoints, Until, record};
use crate::target;
use crate::topology::Device;
use applier::sysfs::Sysfs;

/// A recording of a device's requests.
pub struct WatchedLoad {
    /// The trace, a temporary file.
    pub file: tempfile::NamedTempFile,
    /// Result of the recording.
    pub recorded: Recorded,
    lasts: Nanos,
}

impl WatchedLoad {
    /// Records the device for this time; requires root. `given`: the user's name for the device; `program`: the name of the recording
    /// program.
    ///
    /// # Errors
    /// The device has no queue, or cannot be observed.
    pub fn of(
        (sysfs, device): (&Sysfs, &Device),
        given: &str,
        lasts: Nanos,
        program: &str,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<WatchedLoad> {
        expect_queue(device, given)?;
        let cannot_keep = "cannot keep the device's requests";
        let file = tempfile::Builder::new().suffix(".parquet").tempfile().context(cannot_keep)?;
        let out = file.reopen().context(cannot_keep)?;
        let capture = to_store(out, (sysfs, device), program)?;
        let recorded = captured(sysfs, device, capture, Until { time: Some(lasts), requests: None }, None, monitor)?;
        Ok(WatchedLoad { file, recorded, lasts })
    }

    /// Checks that there is something to judge.
    ///
    /// # Errors
    /// There were no requests, or the work was interrupted.
    pub fn expect_requests(&self, given: &str, monitor: &dyn Monitor) -> anyhow::Result<()> {
        monitor.check()?;
        if self.recorded.trace.requests == 0 {
            let seconds = self.lasts.as_secs_f64();
            return Err(Failed(format!("{given}: was asked nothing in {seconds} s; there is nothing to judge")).into());
        }
        Ok(())
    }

    /// Adds the device and caveats to the advice. `unless`: the condition under which the agent would tune a device that it leaves alone by
    /// default.
    pub fn describe(&self, (sysfs, device): (&Sysfs, &Device), unless: &str, advice: &mut Advice) {
        rule::name_device(sysfs, &device.name, &mut advice.udev);
        let Device { name, left_alone, .. } = device;
        advice.load = format!("{name}, watched for {:.0} s", self.lasts.as_secs_f64());
        if let Some(reason) = left_alone {
            advice.notes.push(format!("{name} {reason}: the agent leaves it alone unless it is {unless}."));
        }
        let flushes = self.recorded.trace.flushes;
        if flushes > 0 {
            advice.notes.push(format!(
                "{flushes} flushes of its write cache are not in the forecast, nor is what programs wait for in fsync: `seekwise-agent top --on {name}` shows that."
            ));
        }
        if self.recorded.lost > 0 {
            advice.notes.push(format!("The kernel lost {} events: requests are missing.", self.recorded.lost));
        }
    }
}

/// Checks that the device has a queue.
///
/// # Errors
/// It has none.
pub fn expect_queue(device: &Device, given: &str) -> anyhow::Result<()> {
    if !device.has_queue {
        let below = if device.below.is_empty() { String::new() } else { format!("; it stands on {}", device.below.join(", ")) };
        bail!("{given}: has no queue in which requests wait, and so no scheduler{below}");
    }
    Ok(())
}

/// Why a device's requests cannot be observed; `None` if they can.
pub fn unseen(sysfs: &Sysfs, device: &Device) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some(format!("the kernel tells only root what {} is asked", device.name));
    }
    Tracepoints::open(sysfs, device).err().map(|error| error.to_string())
}

/// Starts a trace of a device's requests in our own format. `program`: the name of the recording program.
///
/// # Errors
/// The file cannot be written.
pub fn to_store(out: File, (sysfs, device): (&Sysfs, &Device), program: &str) -> anyhow::Result<Capture> {
    let format = named("parquet").context("the trace format parquet is missing")?;
    begin(format, Box::new(BufWriter::new(out)), (sysfs, device), program)
}

/// Starts a trace of a device's requests in this format. `program`: the name of the recording program.
///
/// # Errors
/// The trace cannot be written.
pub fn begin(
    format: &'static OutputFormat,
    out: Out,
    (sysfs, device): (&Sysfs, &Device),
    program: &str,
) -> anyhow::Result<Capture> {
    let about = about(sysfs, device, program);
    Capture::begin(format, out, &about, &device.name).context("cannot write the trace")
}

/// The metadata of such a trace.
fn about(sysfs: &Sysfs, device: &Device, program: &str) -> About {
    let name = &device.name;
    let recorded = RecordedDevice {
        capacity_sectors: Some(device.size_sectors),
        scheduler: Some(target::active_setting(sysfs, name).scheduler()),
        read_ahead_kib: target::read_ahead_kib(sysfs, name),
    };
    About { program: program.to_owned(), source: format!("/dev/{name}"), device: Some(recorded) }
}

/// Records a device's requests; requires root. With `units`, streams have the names of their units.
///
/// # Errors
/// The user is not root, or the device cannot be observed.
pub fn captured(
    sysfs: &Sysfs,
    device: &Device,
    capture: Capture,
    until: Until,
    units: Option<Processes>,
    monitor: &dyn Monitor,
) -> anyhow::Result<Recorded> {
    if !rustix::process::geteuid().is_root() {
        bail!("the kernel tells only root what {} is asked: run this as root", device.name);
    }
    let source = Tracepoints::open(sysfs, device).with_context(|| format!("{} cannot be observed", device.name))?;
    Ok(record(source, capture, until, units, monitor)?)
}
