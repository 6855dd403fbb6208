//! Fits a profile to a real drive, with reads only.

use anyhow::{Context as _, bail};
use control::Setting;
use sim::trace::OpenOptions;
use testbed::pool::Workers;
use twin::device::{self, Fitted};

use super::{BYTES, RealDevice, run};
use experiment::recorded::Recorded;

/// Job sections in sequence, with their duration in seconds. Single reads reveal rotation and seeks, over the whole drive and in the range of the
/// workloads; sequential reads reveal media rates; concurrent reads reveal the queue.
const PROBES: [(&str, f64); 4] = [
    ("[anywhere]\nrw=randread\nbs=4k\n", 8.0),
    ("[near]\nrw=randread\nbs=4k\nsize=8g\n", 8.0),
    ("[in-order]\nrw=read\nbs=256k\nsize=8g\n", 3.0),
    ("[many]\nrw=randread\nbs=4k\niodepth=32\n", 8.0),
];

/// Reads for half a minute, and fits a profile to the completion times.
///
/// # Errors
/// The drive is too small for the workloads, its requests cannot be recorded, fio fails, or too few requests completed.
pub fn fit(real: &mut dyn RealDevice, capacity_sectors: u64, workers: Workers) -> anyhow::Result<Fitted> {
    let device = real.path();
    if capacity_sectors < BYTES / 512 {
        bail!("{device}: has {} bytes; the workloads need {BYTES}", capacity_sectors * 512);
    }
    // Without a scheduler.
    let none = Setting::parse("none")?;
    real.set(&none, &[])?;
    let file = tempfile::NamedTempFile::new().context("cannot store the trace")?;
    if !real.record(file.path())? {
        bail!("{device}: its requests cannot be traced, so no profile can be fitted; name one with --disk");
    }
    workers.monitor.begin(PROBES.len() as u64, "probing the device, probes:");
    for (number, (probe, seconds)) in PROBES.iter().enumerate() {
        let jobs = format!(
            "[global]\nfilename={device}\ndirect=1\nioengine=libaio\ntime_based\nruntime={seconds}\nnorandommap\nrandseed=1\n{probe}"
        );
        run(&jobs, *seconds, workers.monitor)?;
        workers.monitor.progress(number as u64 + 1);
    }
    workers.monitor.end();
    real.recorded()?;
    let mut recorded = Recorded::read(file.path(), &OpenOptions::default(), &mut |_| Ok(()))?;
    let (_, seen) = recorded.of_device(file.path(), None)?;
    workers.monitor.begin(0, "fitting a profile");
    let fitted = device::fit(&seen, Some(capacity_sectors));
    workers.monitor.end();
    fitted.with_context(|| device)
}
