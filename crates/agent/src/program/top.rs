//! `seekwise-agent top`: latencies of units, and the units that they wait behind.

use std::sync::atomic::Ordering;

use agent::daemon::open::Machine;
use agent::units::{Screen, UnitMonitor, UnitTable, json_for_terminals, text};
use anyhow::bail;
use applier::sysfs::Sysfs;
use block::Nanos;
use linux::cgroups::Processes;
use linux::clock::monotonic;
use linux::events::{EventSource, ObserveError, wait};
use linux::topology::{self, Device};
use observe::Event;
use report::number::{grouped, three_digits};
use serde::Serialize;
use terminal::Failed;

use super::Configured;

/// Interval of reading events. The unit of a process that ends within it may be unknown. Choice: a longer one loses units of short
/// processes, a shorter one costs CPU time; not varied.
const READS_EVERY: Nanos = Nanos::from_millis(50);
/// Shortest and longest interval. Choice: shorter ones have hardly any requests, longer ones are no longer watched; not varied.
const INTERVALS: [Nanos; 2] = [Nanos::from_millis(100), Nanos::from_millis(3_600_000)];
/// ANSI: cursor to the upper left corner, clear the screen. Source: ECMA-48, CUP and ED.
const HOME: &str = "\u{1b}[H\u{1b}[J";

/// Arguments of `seekwise-agent top`.
#[derive(clap::Args)]
pub struct TopArgs {
    /// The device, such as `sda` or /dev/disk/by-id/… [default: all that can be tuned]
    #[arg(long, value_name = "DEVICE")]
    on: Option<String>,
    /// Time that a table is about, such as 2s or 500ms
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Nanos,
    /// End after this many tables [default: on Ctrl-C]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// One row for each slice instead of each unit
    #[arg(long)]
    slice: bool,
    /// Print JSON, one line for each interval and device
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    configured: Configured,
}

fn interval(text: &str) -> Result<Nanos, String> {
    let (number, unit_ns) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e6),
        None => (text.strip_suffix('s').unwrap_or(text), 1e9),
    };
    let [least, most] = INTERVALS;
    let time = number.trim().parse::<f64>().ok().map(|number| Nanos((number * unit_ns) as u64));
    time.filter(|time| (least..=most).contains(time))
        .ok_or_else(|| "should be a time such as 2s or 500ms, from 100ms to 3600s".to_owned())
}

/// A device and the units that use it.
struct Watched {
    name: String,
    source: Box<dyn EventSource>,
    processes: Processes,
    monitor: UnitMonitor,
    table: Option<UnitTable>,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    device: &'a str,
    lost_events: u64,
    #[serde(flatten)]
    table: &'a UnitTable,
}

/// Runs the command.
pub fn run(args: &TopArgs) -> anyhow::Result<()> {
    let mut watched = open(args)?;
    let mut events = Vec::new();
    let mut shown = 0;
    while !terminal::interrupted().load(Ordering::Relaxed) {
        let next = watched.iter().map(|one| one.monitor.ends()).fold(Nanos::MAX, Nanos::min);
        let fds: Vec<_> = watched.iter().flat_map(|one| one.source.fds()).collect();
        wait(&fds, READS_EVERY.min(next - monotonic()))?;
        let mut gone = Vec::new();
        for one in &mut watched {
            if !one.read(&mut events)? {
                gone.push(one.name.clone());
            }
        }
        watched.retain(|one| !gone.contains(&one.name));
        if watched.is_empty() {
            return Err(Failed(format!("{} is gone", gone.join(", "))).into());
        }
        if watched.iter().all(|one| one.table.is_some()) {
            show(args, &watched)?;
            watched.iter_mut().for_each(|one| one.table = None);
            shown += 1;
            if args.count.is_some_and(|count| shown >= count) {
                break;
            }
        }
    }
    Ok(())
}

fn open(args: &TopArgs) -> anyhow::Result<Vec<Watched>> {
    let configuration = args.configured.load()?;
    let sysfs = Sysfs::real();
    let machine = Machine::new(sysfs.clone(), &configuration.applier_socket);
    let devices = match &args.on {
        Some(given) => vec![topology::find(&sysfs, given)?.0],
        None => candidates(&sysfs)?,
    };
    let (mut watched, mut reasons) = (Vec::new(), Vec::new());
    for device in devices {
        let source = machine.source(&device).and_then(|source| match source.counters_only() {
            Some(counters) => Err(counters.why.clone()),
            None => Ok(source),
        });
        match source {
            Ok(mut source) => {
                source.report_fsync();
                let processes = Processes::new(&sysfs, args.slice);
                // Requests are seen from here on: setting up the source takes part of a second, on a slow machine several.
                let monitor = UnitMonitor::new(&sysfs, device.number, args.interval, &processes, monotonic());
                watched.push(Watched { name: device.name, source, processes, monitor, table: None });
            }
            Err(why) => reasons.push(format!("{}: {why}", device.name)),
        }
    }
    if watched.is_empty() {
        let why = if reasons.is_empty() { "no device found".to_owned() } else { reasons.join("; ") };
        bail!("{why}; run it as root, or start the applier (`systemctl start seekwise-applier.socket`)");
    }
    Ok(watched)
}

/// Devices with a queue that are not excluded by the configuration, as for `seekwise-agent watch`.
fn candidates(sysfs: &Sysfs) -> anyhow::Result<Vec<Device>> {
    let mut devices = topology::devices(sysfs)?;
    let stacks = topology::stacks(&devices);
    devices.retain(|device| {
        let is_queue = |stack: &topology::Stack| stack.left_alone.is_none() && stack.queues.contains(&device.name);
        device.size_sectors > 0 && stacks.iter().any(is_queue)
    });
    Ok(devices)
}

impl Watched {
    /// Reads events, and stores the table if the interval ended. Returns whether the device still exists.
    fn read(&mut self, events: &mut Vec<Event>) -> Result<bool, ObserveError> {
        events.clear();
        let is_there = match self.source.read(events) {
            Err(ObserveError::Gone { .. }) => false,
            other => other.map(|()| true)?,
        };
        if let Some(table) = self.monitor.read(monotonic(), events, &*self.source, &mut self.processes) {
            self.table = Some(table);
        }
        Ok(is_there)
    }
}

fn show(args: &TopArgs, watched: &[Watched]) -> anyhow::Result<()> {
    let tables = watched.iter().filter_map(|one| Some((one, one.table.as_ref()?)));
    if args.json {
        for (one, table) in tables {
            let line = Line { device: &one.name, lost_events: one.source.lost(), table };
            terminal::print(&(json_for_terminals(&serde_json::to_string(&line)?) + "\n"))?;
        }
        return Ok(());
    }
    let (width, colour) = terminal::style();
    let screen = terminal::screen();
    // Each table has three lines above (device, headings) and one below (number of units omitted).
    let rows = screen.map(|(rows, _)| (rows / watched.len()).saturating_sub(4).max(1));
    let mut out = String::new();
    for (one, table) in tables {
        let lost = one.source.lost();
        let lost = if lost > 0 { format!(", {} events lost", grouped(lost)) } else { String::new() };
        out += &format!("{}: {} s{lost}\n", one.name, three_digits(table.seconds));
        out += &text(table, Screen { width, rows, colour });
    }
    let in_place = screen.map(|_| format!("{HOME}{out}"));
    Ok(terminal::print(&in_place.unwrap_or(out))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_units_and_bounds() {
        for (text, time_ms) in [("2s", 2_000), ("500ms", 500), ("0.5s", 500), ("3", 3_000), ("100ms", 100)] {
            assert_eq!(interval(text), Ok(Nanos::from_millis(time_ms)), "{text}");
        }
        for text in ["", "s", "0", "-1s", "99ms", "2h", "3601s", "NaN", "inf", "1e99s"] {
            assert!(interval(text).is_err_and(|error| error.contains("from 100ms to 3600s")), "{text}");
        }
    }
}
