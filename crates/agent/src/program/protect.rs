//! `seekwise-agent protect`: keeps a guarantee to a unit, in the foreground.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use agent::configuration::{Configuration, reference};
use agent::daemon::open::Machine;
use agent::daemon::run::MIN_SLEEP;
use anyhow::{Context as _, anyhow, bail};
use applier::cgroup::Allowed;
use applier::sysfs::Sysfs;
use block::Nanos;
use linux::cgroups::{CgroupError, Cgroups, Processes};
use linux::clock::now;
use linux::events::{EventSource, wait};
use linux::topology::{self, Device};
use observe::Event;
use protect::Promise;
use protect::live::{ByApplier, Protection, Terms, Told, promise_text};
use terminal::Failed;

use super::act::own_applier;
use super::{Configured, is_root, names, say};

/// Maximum sleep, because signals are checked in between. Choice: one step of the controller (`protect::PERIOD`); not varied.
const LONGEST: Nanos = Nanos::from_millis(100);

/// Arguments of `seekwise-agent protect`.
#[derive(clap::Args)]
pub struct ProtectArgs {
    /// The unit to protect, such as `postgresql.service`, a container such as `docker-4f2a`, or the path of a cgroup
    unit: String,
    /// 99% of its reads take at most this long, such as 15ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    read_p99: Option<Nanos>,
    /// 99% of the writes that it waits for take at most this long
    #[arg(long, value_name = "TIME", value_parser = time)]
    write_p99: Option<Nanos>,
    /// 99% of its calls of fsync take at most this long
    #[arg(long, value_name = "TIME", value_parser = time)]
    fsync_p99: Option<Nanos>,
    /// It gets at least this, such as 200iops or 10MB/s; may be repeated
    #[arg(long, value_name = "RATE", value_parser = rate)]
    at_least: Vec<Rate>,
    /// While it has requests, the device works for it at least this part of the time, such as 40%
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    share: Option<f64>,
    /// It is served at least as fast as by this disk alone, such as sata7200: a profile, its file, or constant:request_ms=10,mb_s=50
    #[arg(long, value_name = "DISK")]
    as_on: Option<String>,
    /// On this device, such as `sda`; may be repeated [default: all]
    #[arg(long, value_name = "DEVICE")]
    on: Vec<String>,
    /// A unit, slice, container or cgroup that may be limited; may be repeated [default: neighbours of the configuration]
    #[arg(long, value_name = "UNIT")]
    limit: Vec<String>,
    /// Stop after this many seconds [default: on Ctrl-C]
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    seconds: Option<u32>,
    /// Journal directory of the applier that is started if none is running
    #[arg(long, value_name = "DIR", default_value = "/var/lib/seekwise")]
    journal: PathBuf,
    #[command(flatten)]
    configured: Configured,
}

/// A minimum rate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rate {
    Iops(f64),
    BytesPerSecond(f64),
}

/// A positive number in front of a unit.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|number: &f64| is_plain && *number > 0.0 && *number < 1e12)
}

/// Parses a time, as in `15ms`.
fn time(text: &str) -> Result<Nanos, String> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let found = units.iter().find_map(|(unit, nanos)| Some(number(text.strip_suffix(unit)?)? * nanos));
    // At most a minute: the kernel times requests out earlier.
    let found = found.filter(|nanos| (1.0..=60e9).contains(nanos));
    found.map(|nanos| Nanos(nanos.round() as u64)).ok_or_else(|| "give a time such as 15ms, 800us or 1.5s, at most 60s".to_owned())
}

/// Parses a rate, as in `200iops` or `10MB/s`.
fn rate(text: &str) -> Result<Rate, String> {
    let iops = text.strip_suffix("iops").and_then(number).map(Rate::Iops);
    let bytes = || text.strip_suffix("MB/s").and_then(number).map(|mb| Rate::BytesPerSecond(mb * 1e6));
    iops.or_else(bytes).ok_or_else(|| "give a rate such as 200iops or 10MB/s".to_owned())
}

/// Parses a share, as in `40%`.
fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(number).filter(|percent| (0.1..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "give a share such as 40%, from 0.1% to 100%".to_owned())
}

/// Runs the command.
pub fn run(args: &ProtectArgs) -> anyhow::Result<()> {
    let promise = promise(args)?;
    if !is_root() {
        return Err(Failed("requires root: requests are traced, and limits of cgroups are set".to_owned()).into());
    }
    let configuration = args.configured.load()?;
    let (sysfs, cgroups) = (Sysfs::real(), Cgroups::mounted(&Sysfs::real()).map_err(|error| Failed(error.to_string()))?);
    let unit = cgroups.find(&args.unit)?;
    let limited = args.limit.iter().map(|name| limited(&cgroups, name)).collect::<Result<Vec<String>, CgroupError>>()?;
    let width = terminal::style().0;
    let print = |sentence: String| terminal::print(&say::lines([sentence], width));
    // Others were found, and have their paths.
    for name in limited.iter().filter(|name| !name.starts_with('/')) {
        print(format!("{name} is not running: it may be limited once it is."))?;
    }
    let terms = Terms {
        promises: vec![(unit.path.clone(), promise.clone())],
        neighbours: configuration.limits.neighbours.iter().chain(&limited).cloned().collect(),
        floor_bytes_per_s: configuration.limits.floor_mb_s.saturating_mul(1_000_000),
    };
    if terms.neighbours.is_empty() {
        print(
            "No unit may be limited: name some by --limit UNIT, or by neighbours below [limits] of the configuration.".to_owned(),
        )?;
    }
    // Exits with this process, even if that is killed, and restores everything.
    let _applier = own_applier((&args.journal, true), &args.configured, &configuration, None, &limited)?;
    let mut protected = protected(args, &sysfs, &configuration, &terms)?;
    let devices = protected.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    print(format!("Protecting {} on {devices}: {}.", unit.path, promise_text(&promise)))?;
    let outcome = keep(args, &mut protected, &print);
    for Protected { name, protection, .. } in &mut protected {
        for told in protection.end() {
            print(format!("{name}: {}.", told.text()))?;
        }
    }
    outcome
}

/// The path of a unit that may be limited; of one that is not running, as the service of a timer usually is, its name, by which it is
/// found later.
fn limited(cgroups: &Cgroups, name: &str) -> Result<String, CgroupError> {
    match cgroups.find(name) {
        Err(CgroupError::NotFound { .. }) if Allowed::check(name).is_ok() => Ok(name.to_owned()),
        found => Ok(found?.path),
    }
}

fn promise(args: &ProtectArgs) -> anyhow::Result<Promise> {
    let reference = args.as_on.as_deref().map(|name| reference(name).map_err(|why| anyhow!("--as-on {name}: {why}")));
    let mut promise = Promise {
        read_p99: args.read_p99,
        write_p99: args.write_p99,
        flush_p99: args.fsync_p99,
        share: args.share,
        reference: reference.transpose()?,
        ..Promise::default()
    };
    for rate in &args.at_least {
        match rate {
            Rate::Iops(iops) => promise.least_iops = Some(*iops),
            Rate::BytesPerSecond(bytes) => promise.least_bytes_per_s = Some(*bytes),
        }
    }
    if promise == Promise::default() {
        bail!(
            "nothing is promised: give --read-p99, --write-p99, --fsync-p99, --at-least, --share or --as-on, such as --read-p99 15ms"
        );
    }
    Ok(promise)
}

/// A device on which the promise is kept.
struct Protected {
    name: String,
    source: Box<dyn EventSource>,
    processes: Processes,
    protection: Protection,
}

fn protected(args: &ProtectArgs, sysfs: &Sysfs, configuration: &Configuration, terms: &Terms) -> anyhow::Result<Vec<Protected>> {
    let named = names(&args.on)?;
    let machine = Machine::new(sysfs.clone(), &configuration.applier_socket);
    let is_meant = |device: &&Device| match named.is_empty() {
        true => device.has_queue && device.size_sectors > 0 && device.left_alone.is_none(),
        false => named.contains(&device.name),
    };
    let devices = topology::devices(sysfs)?;
    let mut protected = Vec::new();
    for device in devices.iter().filter(is_meant) {
        let failed = |why: String| Failed(format!("{}: {why}", device.name));
        let mut source = machine.source(device).map_err(failed)?;
        source.report_fsync();
        if let Some(counters) = source.counters_only() {
            return Err(failed(format!("requests cannot be traced: {}", counters.why)).into());
        }
        let limiter = Box::new(ByApplier::new(configuration.applier_socket.clone()));
        let protection = Protection::begin(now().at, sysfs, device, terms.clone(), limiter);
        let protection = protection.map_err(|error| failed(error.to_string()))?;
        let processes = Processes::new(sysfs, false);
        protected.push(Protected { name: device.name.clone(), source, processes, protection });
    }
    if protected.is_empty() {
        bail!("there is no device with a queue; name one by --on, such as --on sda");
    }
    Ok(protected)
}

/// Keeps the guarantee until stopped.
fn keep(args: &ProtectArgs, protected: &mut [Protected], print: &dyn Fn(String) -> std::io::Result<()>) -> anyhow::Result<()> {
    let ends = args.seconds.map(|seconds| now().at + Nanos::from_millis(1000 * u64::from(seconds)));
    let mut events: Vec<Event> = Vec::new();
    while !terminal::interrupted().load(Ordering::Relaxed) && ends.is_none_or(|ends| now().at < ends) {
        for Protected { name, source, processes, protection } in protected.iter_mut() {
            events.clear();
            source.read(&mut events).with_context(|| name.clone())?;
            let at = now().at;
            protection.observe(&events, &**source, processes);
            for told in protection.step(at) {
                let sentence = match &told {
                    Told::Trouble(text) | Told::Conflict(text) => format!("{name}: warning: {text}."),
                    told => format!("{name}: {}.", told.text()),
                };
                print(sentence)?;
            }
        }
        std::thread::sleep(MIN_SLEEP);
        let next = protected.iter().map(|one| one.protection.next()).fold(now().at + LONGEST, Nanos::min);
        let fds: Vec<_> = protected.iter().flat_map(|one| one.source.fds()).collect();
        wait(&fds, next - now().at).context("waiting for requests")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn a_unit_that_is_not_running_may_be_limited_later_and_a_misspelt_one_is_refused() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("system.slice/build.service")).unwrap();
        let cgroups = Cgroups::at(root.path());
        let path = |name: &str| limited(&cgroups, name).map_err(|error| error.to_string());
        assert_eq!(path("build"), Ok("/system.slice/build.service".to_owned()));
        assert_eq!(path("backup.service"), Ok("backup.service".to_owned()));
        for wrong in ["backup", "backup.sevice", "/system.slice/../a.service"] {
            assert!(path(wrong).unwrap_err().contains("no such unit"), "{wrong}");
        }
    }

    #[test]
    fn times_and_rates_have_units() {
        assert_eq!(
            (time("15ms"), time("800us"), time("1.5s")),
            (Ok(Nanos(15_000_000)), Ok(Nanos(800_000)), Ok(Nanos(1_500_000_000)))
        );
        for wrong in ["15", "ms", "0ms", "-1ms", "infs", "nans", "1e3ms", "61s", "1h", "15 ms"] {
            assert!(time(wrong).unwrap_err().contains("such as 15ms"), "{wrong}");
        }
        assert_eq!((rate("200iops"), rate("10MB/s")), (Ok(Rate::Iops(200.0)), Ok(Rate::BytesPerSecond(1e7))));
        assert_eq!(share("40%"), Ok(0.4));
        for wrong in ["40", "%", "0%", "101%", "-1%", "40 %"] {
            assert!(share(wrong).unwrap_err().contains("such as 40%"), "{wrong}");
        }
        for wrong in ["200", "iops", "0iops", "10MiB/s", "infMB/s", "10mb/s"] {
            assert!(rate(wrong).unwrap_err().contains("such as 200iops"), "{wrong}");
        }
    }
}
