//! Per-unit statistics of a device: rates, response times and waiting time of each unit per interval, and the units it waited behind.
//!
//! ```text
//! EventSource ─▶ Processes: which unit? ─▶ observe::units ─▶ requests of the kernel, charged by io.stat ─▶ UnitTable: top, status, metrics
//! ```

mod text;

use std::collections::BTreeMap;

use applier::sysfs::Sysfs;
use block::{Nanos, Op};
use linux::cgroups::{Cgroups, Processes, Role, Source, Transferred, UnitCounters};
use linux::events::EventSource;
use observe::Event;
use observe::units::{Group, Report, Row, UnitId, Units};
use serde::{Deserialize, Serialize};

pub use text::{Screen, json_for_terminals, text};

/// Maximum neighbours listed per unit, of up to 255. Choice: more fill the reply with shares of hardly a percent; not varied.
const NEIGHBOURS: usize = 10;
/// Bytes in `io.stat` beyond those of a unit's processes count as requests of the kernel from this share of the latter. A smaller excess
/// may come from reading both at slightly different times: some milliseconds in an interval of a second. Choice: those milliseconds are up
/// to a hundredth of the interval; not varied.
const LEAST_BEYOND: f64 = 0.01;
/// Name of the row that aggregates further units, and of requests that were outstanding before recording began. Choice: brackets, as for
/// all rows that are not units; not varied.
const OTHER: &str = "[other]";

/// Statistics of the units that used a device in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnitTable {
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Units with completed requests, in descending order of waiting time.
    pub units: Vec<UnitRow>,
}

/// Statistics of a unit in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnitRow {
    /// Name of a systemd unit, runtime and short id of a container, path of another cgroup, or a description in brackets.
    pub unit: String,
    /// Path of the cgroup; `None` if the row is not a cgroup.
    pub cgroup: Option<String>,
    /// Read throughput in 10^6 bytes per second, including requests that the kernel issued on its behalf.
    pub read_mb_s: f64,
    /// Write throughput in 10^6 bytes per second, including requests that the kernel issued on its behalf.
    pub write_mb_s: f64,
    /// Completed requests per second, counted before merges and splits.
    pub iops: f64,
    /// Response times of reads; `None` without reads.
    pub read: Option<Times>,
    /// Response times of writes; `None` without writes.
    pub write: Option<Times>,
    /// Response times of synchronous writes; `None` without such writes.
    pub sync_write: Option<Times>,
    /// Duration of fsync calls or, if these cannot be traced, of the cache flushes that they cause; `None` without any.
    pub fsync: Option<Times>,
    /// Mean number of waiting operations.
    pub wait: f64,
    /// Units whose requests it waited behind, including itself, largest share first; at most ten.
    pub behind: Vec<Behind>,
}

/// Quantiles of response times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Median in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile in milliseconds.
    pub p99_ms: f64,
}

/// A share of waiting time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// The unit whose requests were served during the wait.
    pub unit: String,
    /// Share of the waiting time, in percent.
    pub share_percent: f64,
}

impl UnitRow {
    /// The other unit with the largest share of its waiting time; `None` without any.
    pub fn neighbour(&self) -> Option<&Behind> {
        self.behind.iter().find(|behind| behind.unit != self.unit)
    }
}

impl Times {
    fn of(group: &Group) -> Option<Times> {
        Some(Times { p50_ms: group.p50?.as_millis_f64(), p99_ms: group.p99?.as_millis_f64() })
    }
}

/// Collects per-unit statistics of one device.
pub struct UnitMonitor {
    units: Units,
    /// `None` if rows are slices, or without cgroup v2.
    counters: Option<UnitCounters>,
    /// Bytes requested by the processes of each unit in this interval.
    queued: BTreeMap<UnitId, Transferred>,
    interval: Nanos,
    ends: Nanos,
    /// Events lost so far.
    lost: u64,
}

impl UnitMonitor {
    /// Monitors the device with this major and minor number, starting an interval now. Rows are the units of these processes, or their
    /// slices.
    pub fn new(sysfs: &Sysfs, device: (u32, u32), interval: Nanos, processes: &Processes, now: Nanos) -> UnitMonitor {
        let cgroups = Cgroups::mounted(sysfs).ok().filter(|_| !processes.are_by_slice());
        let counters = cgroups.map(|cgroups| UnitCounters::new(cgroups, device));
        let mut units = Units::new();
        units.begin(now);
        UnitMonitor { units, counters, queued: BTreeMap::new(), interval, ends: now + interval, lost: 0 }
    }

    /// End of the current interval.
    pub fn ends(&self) -> Nanos {
        self.ends
    }

    /// Processes events of the source. Returns the table if the interval has ended.
    pub fn read(&mut self, now: Nanos, events: &[Event], source: &dyn EventSource, processes: &mut Processes) -> Option<UnitTable> {
        events.iter().for_each(|event| self.event(event, source, processes));
        if source.lost() > self.lost {
            self.lost = source.lost();
            self.units.gap();
        }
        if now < self.ends {
            return None;
        }
        // After a pause, such as a suspend, missed intervals are skipped.
        self.ends = if now < self.ends + self.interval { self.ends + self.interval } else { now + self.interval };
        Some(self.close(now, processes))
    }

    fn event(&mut self, event: &Event, source: &dyn EventSource, processes: &mut Processes) {
        // Look the unit up when a request is queued, because the process may have ended before it completes.
        let unit = processes.unit(event.stream(), source.name(event.stream()), event.at());
        if let Event::Queued(request) = event {
            let queued = self.queued.entry(unit).or_default();
            let bytes = u64::from(request.sectors) * 512;
            match request.op {
                Op::Read => queued.read += bytes,
                Op::Write => queued.written += bytes,
                Op::Discard => {}
            }
        }
        self.units.event(unit, event);
    }

    fn close(&mut self, now: Nanos, processes: &mut Processes) -> UnitTable {
        let mut report = self.units.close(now);
        self.charge_kernel(&mut report, processes);
        let units = names(&report, processes);
        let name = |unit: &Option<UnitId>| units.get(unit).cloned().unwrap_or_else(|| OTHER.to_owned());
        let row = |row: &Row| {
            let share = |waited: Nanos| 100.0 * waited.0 as f64 / row.waited.0.max(1) as f64;
            let behind = row.behind.iter().take(NEIGHBOURS);
            UnitRow {
                unit: name(&row.unit),
                cgroup: row.unit.and_then(|unit| Some(processes.source(unit)?.path()?.to_owned())),
                read_mb_s: report.per_second(row.reads.bytes) / 1e6,
                write_mb_s: report.per_second(row.writes.bytes) / 1e6,
                iops: report.per_second(row.requests()),
                read: Times::of(&row.reads),
                write: Times::of(&row.writes),
                sync_write: Times::of(&row.sync_writes),
                fsync: Times::of(&row.flushes),
                wait: report.wait(row),
                behind: behind.map(|(unit, waited)| Behind { unit: name(unit), share_percent: share(*waited) }).collect(),
            }
        };
        UnitTable { seconds: (report.to - report.from).as_secs_f64(), units: report.rows.iter().map(row).collect() }
    }

    /// Charges requests of kernel threads to the units that caused them, by the bytes in `io.stat` beyond those of the units' own
    /// processes: write-back by bytes written, other workers (which submit requests throttled by `io.max`) also by bytes read.
    fn charge_kernel(&mut self, report: &mut Report, processes: &mut Processes) {
        let queued = std::mem::take(&mut self.queued);
        let Some(counters) = &mut self.counters else { return };
        let mut beyond: Vec<(UnitId, [f64; 2])> = Vec::new();
        for (unit, counted) in counters.since() {
            let unit = processes.number(Source::Unit(unit));
            let own = queued.get(&unit).copied().unwrap_or_default();
            let least = |own: u64, counted: u64| {
                let rest = counted.saturating_sub(own) as f64;
                if rest > LEAST_BEYOND * own as f64 { rest } else { 0.0 }
            };
            beyond.push((unit, [least(own.read, counted.read), least(own.written, counted.written)]));
        }
        let roles = [Role::WriteBack, Role::Worker].map(|role| processes.kernel(role));
        let sent = roles.map(|unit| {
            let sent = unit.and_then(|unit| queued.get(&unit)).copied().unwrap_or_default();
            [sent.read as f64, sent.written as f64]
        });
        // Total of reads and of writes: bytes sent by the kernel, or the excess counted for units if that is larger.
        let all = [0, 1].map(|op| {
            let counted: f64 = beyond.iter().map(|(_, bytes)| bytes[op]).sum();
            counted.max(sent[0][op] + sent[1][op]).max(1.0)
        });
        for (unit, sent) in roles.into_iter().zip(sent).filter_map(|(unit, sent)| Some((unit?, sent))) {
            let share =
                |bytes: &[f64; 2]| (sent[0] * bytes[0] / all[0] + sent[1] * bytes[1] / all[1]) / (sent[0] + sent[1]).max(1.0);
            let shares: Vec<(UnitId, f64)> =
                beyond.iter().map(|(unit, bytes)| (*unit, share(bytes))).filter(|(_, share)| *share > 0.0).collect();
            report.charge(unit, &shares);
        }
    }
}

/// Names of all units in a report; paths where names are ambiguous.
fn names(report: &Report, processes: &Processes) -> BTreeMap<Option<UnitId>, String> {
    let all = report.rows.iter().flat_map(|row| row.behind.iter().map(|(unit, _)| *unit).chain([row.unit]));
    let mut names: BTreeMap<Option<UnitId>, String> =
        all.filter_map(|unit| Some((unit, processes.source(unit?)?.name()))).collect();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    names.values().for_each(|name| *times.entry(name.clone()).or_default() += 1);
    for (unit, name) in names.iter_mut().filter(|(_, name)| times[*name] > 1) {
        let path = unit.and_then(|unit| processes.source(unit)?.path());
        path.iter().for_each(|path| (*path).clone_into(name));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::os::fd::BorrowedFd;
    use std::{fs, path::Path};

    use block::{Priority, Request, StreamId};
    use linux::events::ObserveError;

    use super::*;

    #[derive(Default)]
    struct Names {
        names: HashMap<StreamId, &'static str>,
        lost: u64,
    }

    impl EventSource for Names {
        fn read(&mut self, _out: &mut Vec<Event>) -> Result<(), ObserveError> {
            Ok(())
        }

        fn lost(&self) -> u64 {
            self.lost
        }

        fn name(&self, stream: StreamId) -> Option<&str> {
            self.names.get(&stream).copied()
        }

        fn fds(&self) -> Vec<BorrowedFd<'_>> {
            Vec::new()
        }
    }

    fn write(root: &Path, path: &str, text: &str) {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }

    fn completed(stream: StreamId, op: Op, sectors: u32, (from_ms, to_ms): (u64, u64)) -> Event {
        let arrival = Nanos::from_millis(from_ms);
        let request = Request { id: 0, stream, op, sync: true, priority: Priority::DEFAULT, sectors, lba: 0, arrival };
        Event::Completed { request, dispatched: arrival, at: Nanos::from_millis(to_ms) }
    }

    #[test]
    fn the_table_names_units_and_charges_write_back() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "proc/self/mounts", &format!("cgroup2 {}/cg cgroup2 rw 0 0\n", root.display()));
        write(root, "proc/1/cgroup", "0::/system.slice/db.service\n");
        write(root, "proc/2/cgroup", "0::/\n");
        write(root, "proc/2/stat", "2 (kworker/u8:1) I 2 0 0 0 -1 2097152 0");
        write(root, "proc/3/cgroup", "0::/a.slice/job.service\n");
        write(root, "proc/4/cgroup", "0::/b.slice/job.service\n");
        write(root, "cg/backup/io.stat", "8:0 rbytes=0 wbytes=0\n");
        let source = Names { names: HashMap::from([(1, "postgres"), (2, "kworker/u8:1"), (3, "j"), (4, "j")]), lost: 0 };
        let second = Nanos::from_millis(1_000);
        let mut processes = Processes::new(&Sysfs::at(root), false);
        let mut monitor = UnitMonitor::new(&Sysfs::at(root), (8, 0), second, &processes, Nanos::ZERO);
        let events = [
            completed(2, Op::Write, 2_000, (0, 90)),
            completed(1, Op::Read, 8, (10, 100)),
            completed(3, Op::Read, 8, (100, 110)),
            completed(4, Op::Read, 8, (110, 120)),
            completed(5, Op::Read, 8, (120, 130)),
        ];
        let queued = events.map(|event| match event {
            Event::Completed { request, .. } => Event::Queued(request),
            other => other,
        });
        monitor.read(Nanos(1), &queued, &source, &mut processes);
        assert_eq!(monitor.read(Nanos::from_millis(999), &events, &source, &mut processes), None);
        write(root, "cg/backup/io.stat", "8:0 rbytes=0 wbytes=768000\n");
        // All bytes belong to its own processes: nothing to charge.
        write(root, "cg/system.slice/db.service/io.stat", "8:0 rbytes=4096 wbytes=0\n");
        let table = monitor.read(second, &[], &source, &mut processes).unwrap();
        let names: Vec<&str> = table.units.iter().map(|row| row.unit.as_str()).collect();
        let expected = ["[write-back]", "db.service", "/a.slice/job.service", "/b.slice/job.service", "[ended: ]", "/backup"];
        assert_eq!(names, expected);
        let database = &table.units[1];
        assert_eq!((database.cgroup.as_deref(), database.iops, database.wait), (Some("/system.slice/db.service"), 1.0, 0.09));
        let neighbour = database.neighbour().unwrap();
        // 80 of 90 ms were spent behind write-back, three quarters of it caused by the backup.
        assert!(neighbour.unit == "/backup" && (neighbour.share_percent - 100.0 * 60.0 / 90.0).abs() < 0.01, "{neighbour:?}");
        assert_eq!((table.units[0].write_mb_s, table.units[5].write_mb_s), (0.256, 0.768));
        assert_eq!(
            monitor.read(Nanos::from_millis(9_000), &[], &source, &mut processes),
            Some(UnitTable { seconds: 8.0, units: Vec::new() })
        );
        assert_eq!(monitor.ends(), Nanos::from_millis(10_000));
        // JSON round trip.
        let read: UnitTable = serde_json::from_str(&serde_json::to_string(&table).unwrap()).unwrap();
        assert_eq!(read.units.len(), table.units.len());
    }

    #[test]
    fn time_held_back_by_io_max_is_charged_to_the_waiting_units() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "proc/self/mounts", &format!("cgroup2 {}/cg cgroup2 rw 0 0\n", root.display()));
        write(root, "proc/1/cgroup", "0::/db\n");
        write(root, "proc/2/cgroup", "0::/\n");
        write(root, "proc/2/stat", "2 (kworker/1:1) I 2 0 0 0 -1 2097152 0");
        let source = Names { names: HashMap::from([(1, "postgres"), (2, "kworker/1:1")]), lost: 0 };
        let second = Nanos::from_millis(1_000);
        write(root, "cg/scan/io.stat", "");
        let mut processes = Processes::new(&Sysfs::at(root), false);
        let mut monitor = UnitMonitor::new(&Sysfs::at(root), (8, 0), second, &processes, Nanos::ZERO);
        let held_back = completed(2, Op::Read, 2_000, (0, 80));
        let Event::Completed { request, .. } = held_back else { panic!("it completes") };
        monitor.read(Nanos(1), &[Event::Queued(request), held_back, completed(1, Op::Read, 8, (0, 100))], &source, &mut processes);
        write(root, "cg/scan/io.stat", "8:0 rbytes=1024000 wbytes=0\n");
        let table = monitor.read(second, &[], &source, &mut processes).unwrap();
        let database = table.units.iter().find(|row| row.unit == "/db").unwrap();
        assert_eq!(database.neighbour(), Some(&Behind { unit: "/scan".to_owned(), share_percent: 80.0 }));
        let read: Vec<f64> = table.units.iter().filter(|row| row.unit != "/db").map(|row| row.read_mb_s).collect();
        assert_eq!(read, [0.0, 1.024], "the workers' row, and the unit's");
    }

    #[test]
    fn lost_events_leave_time_that_is_of_no_unit() {
        let root = tempfile::tempdir().unwrap();
        let mut source = Names::default();
        let sysfs = Sysfs::at(root.path());
        let mut processes = Processes::new(&sysfs, true);
        let mut monitor = UnitMonitor::new(&sysfs, (8, 0), Nanos::from_millis(1_000), &processes, Nanos::ZERO);
        monitor.read(Nanos(1), &[completed(1, Op::Read, 8, (0, 10))], &source, &mut processes);
        source.lost = 5;
        monitor.read(Nanos(2), &[], &source, &mut processes);
        let table =
            monitor.read(Nanos::from_millis(1_000), &[completed(1, Op::Read, 8, (10, 20))], &source, &mut processes).unwrap();
        let shares: Vec<_> = table.units[0].behind.iter().map(|one| (one.unit.as_str(), one.share_percent)).collect();
        assert_eq!(shares, [(OTHER, 50.0), ("[ended: ]", 50.0)]);
    }
}
