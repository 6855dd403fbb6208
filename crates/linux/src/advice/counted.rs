//! Advice about a device whose requests cannot be observed.

use std::time::Duration;

use anyhow::bail;
use block::Nanos;
use control::Setting;
use experiment::advice::counted::{CounterAdviceRequest, advise};
use observe::Preference;
use observe::counters::Sample;
use progress::Monitor;
use report::advice::Advice;

use super::rule;
use super::watched::expect_queue;
use crate::clock::monotonic;
use crate::events::EventSource as _;
use crate::events::counter_source::{CANNOT_KNOW, CounterSource};
use crate::target;
use crate::topology::Device;
use applier::sysfs::Sysfs;

/// Sleep time between samples; short, so that an interrupt takes effect soon.
const NAP: Duration = Duration::from_millis(100);

/// Samples a device's counters for this time, as any user, and derives advice. `why`: the reason that its requests cannot be observed;
/// `given`: the user's name for the device.
///
/// # Errors
/// The device has no queue or no counters, had no requests, or the work was interrupted.
pub fn of_counters(
    (sysfs, device): (&Sysfs, &Device),
    given: &str,
    (lasts, why): (Nanos, String),
    (candidates, preference): (&[Setting], Preference),
    monitor: &dyn Monitor,
) -> anyhow::Result<Advice> {
    expect_queue(device, given)?;
    let in_force = target::active_setting(sysfs, &device.name);
    if let Some(setting) = candidates.iter().find(|setting| !setting.host.is_empty()) {
        bail!("--candidates {setting}: tunables of the host are not judged here; name a scheduler with its own tunables");
    }
    let mut source = CounterSource::open(sysfs, device, why.clone())?;
    let samples = looked_at(&mut source, lasts, monitor)?;
    let Some(blind) = source.counters_only() else { bail!("{given}: its counters are not there any more") };
    let name = device.name.clone();
    let known = &blind.known;
    let mut advice =
        advise(&CounterAdviceRequest { name, samples: &samples, known, active: &in_force, candidates, preference }, monitor)?;
    rule::name_device(sysfs, &device.name, &mut advice.udev);
    advice.notes.push(format!("Single requests were not seen: {why}."));
    advice.notes.push(format!("Unknown: {CANNOT_KNOW}."));
    Ok(advice)
}

fn looked_at(source: &mut CounterSource, lasts: Nanos, monitor: &dyn Monitor) -> anyhow::Result<Vec<Sample>> {
    let (began, mut samples, mut none) = (monotonic(), Vec::new(), Vec::new());
    monitor.begin(lasts.as_secs_f64() as u64, "looking at its counters, seconds:");
    loop {
        monitor.check()?;
        source.read(&mut none)?;
        source.samples(&mut samples);
        let passed = monotonic() - began;
        monitor.progress(passed.as_secs_f64() as u64);
        if passed >= lasts {
            break;
        }
        std::thread::sleep(NAP);
    }
    monitor.end();
    Ok(samples)
}
