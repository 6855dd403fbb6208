//! Tables 4 and 5 on file systems of the running kernel: fio under each kernel scheduler, and under Algorithm 1 as printed.
//!
//! ```text
//! device ─▶ mkfs, mount ─▶ fio lays files out ─▶ fio under each scheduler in turn ─▶ fio under Algorithm 1 ─▶ the next file system
//! ```
//! The trained schemes are not run: their training takes hours on a real disk.

use std::path::Path;

use anyhow::Context as _;
use block::Nanos;
use control::Setting;
use control::controller::{Controller, ControllerInput};
use observe::Preference;
use testbed::pool::Workers;

use super::super::Repeated;
use super::plan::{TABLE_4, TABLE_5, live_text};
use super::schemes::{UP, algorithm_1};
use crate::live;
use crate::live::{FioRun, LiveDevice};
use crate::paper::stated::Stated;
use crate::paper::{Clock, OnDevice, PaperRequest};
use crate::report::paper::{Cell, Row, Table};
use experiment::fio;

/// The file systems that the paper names. Today's kernel has ext2 and ext3 in its ext4.
const FILE_SYSTEMS: [&str; 3] = ["ext2", "ext3", "xfs"];
/// Maximum run time in seconds under each scheduler, and under Algorithm 1, which first tries each for a quantum.
const LENGTH_S: [f64; 2] = [5.0, 12.0];
const QUICK_LENGTH_S: [f64; 2] = [2.0, 6.0];
/// Time per scheduler in phase 1. The paper's 2 s would take up most of these runs.
const QUANTUM: Nanos = Nanos::from_millis(1_000);
/// T_select: longer than these runs.
const CHECK: Nanos = Nanos::from_millis(60_000);

/// Results of a workload on a file system.
struct Ran {
    file_system: &'static str,
    workload: &'static str,
    /// Throughput in MB/s under each scheduler, and under Algorithm 1.
    fixed: Vec<f64>,
    algorithm_1: f64,
    /// The scheduler that Algorithm 1 ended with.
    chosen: String,
}

/// Repeats the experiment on a device.
///
/// # Errors
/// A file system cannot be made, fio fails, the device cannot be set or observed, or the work was interrupted.
pub fn repeat(
    wanted: &PaperRequest,
    on: &OnDevice,
    _: &Stated,
    live: &mut dyn LiveDevice,
    workers: Workers,
) -> anyhow::Result<Repeated> {
    let lengths = if wanted.is_quick { QUICK_LENGTH_S } else { LENGTH_S };
    let mut settings: Vec<Setting> = live.plant().schedulers().into_iter().map(Setting::of).collect();
    let mut workloads: Vec<&'static str> = TABLE_4.iter().chain(TABLE_5).copied().collect();
    if wanted.is_quick {
        settings.truncate(2);
        workloads.retain(|name| *name == "sql-queries");
    }
    let mut clock = Clock::new(on.minutes, live.now(), workers.monitor);
    let mut ran = Vec::new();
    for (workload, file_system) in workloads.iter().flat_map(|workload| FILE_SYSTEMS.map(|system| (*workload, system))) {
        if !clock.has_time_for_another(live.now()) {
            break;
        }
        let came = run_one(workload, file_system, &settings, lengths, wanted.seed, live, workers);
        let unmounted = live.unmount();
        ran.extend(clock.one_more(live.now(), came.and_then(|ran| unmounted.map(|()| ran)))?);
    }
    workers.monitor.end();
    let notes = std::iter::once(
        "What runs is real, and other work of the machine shows in it. A gain of one scheduler over another that is less than they differ between \
         two runs is chance."
            .to_owned(),
    );
    Ok(Repeated {
        setup: setup(lengths, &settings, on, live, (ran.len(), workloads.len() * FILE_SYSTEMS.len()), wanted.seed),
        notes: notes.chain(clock.failed()).collect(),
        tables: vec![table(&ran, &settings)],
        ..Repeated::default()
    })
}

fn run_one(
    workload: &'static str,
    file_system: &'static str,
    settings: &[Setting],
    lengths: [f64; 2],
    seed: u64,
    live: &mut dyn LiveDevice,
    workers: Workers,
) -> anyhow::Result<Ran> {
    let root = live.mount(file_system).with_context(|| format!("{file_system} on {}", live.path()))?;
    let about = || format!("{workload} on {file_system}");
    let run = |seconds: f64, more: &str| jobs(workload, &root, seconds, more);
    // Files are laid out first, so that this is not part of any measurement.
    let [short, long] = lengths;
    fio::run(&run(short, "create_only=1\n")?.text, short, workers.monitor).with_context(about)?;
    live.settle()?;
    let found = live.plant().setting();
    let mut fixed = Vec::new();
    let each = settings.iter().try_for_each(|setting| {
        let now = live.now();
        live.plant().apply(now, setting)?;
        let (begun, jobs) = (live.now(), run(short, "")?);
        let report = fio::run(&jobs.text, jobs.lasts_s, workers.monitor).with_context(|| format!("{} under {setting}", about()))?;
        fixed.push(rate(&report, (live.now() - begun).as_secs_f64())?);
        live.settle()?;
        // Observations of this run are discarded.
        live.watch(Nanos::ZERO, &mut Vec::new())
    });
    let now = live.now();
    live.plant().apply(now, &found)?;
    each?;
    let preference = Preference::new(UP.0, UP.1, UP.2)?;
    let brief = ControllerInput { preference, candidates: settings.to_vec(), seed, ..ControllerInput::default() };
    let controller: Box<dyn Controller> = algorithm_1(&brief, QUANTUM, CHECK, false)?;
    let steered = live::steer(live, controller, &[run(long, "")?], false, workers.monitor).with_context(about)?;
    let (took_s, report) = steered.reports.first().context("fio wrote no report")?;
    Ok(Ran { file_system, workload, fixed, algorithm_1: rate(report, *took_s)?, chosen: steered.ends_with.to_string() })
}

/// A workload of the tables, run in this folder with a time limit. Its writes are on the device when it ends.
fn jobs(workload: &str, root: &Path, seconds: f64, more: &str) -> anyhow::Result<FioRun> {
    let text = live_text(workload, seconds)?;
    // Processes run as fio threads, so that they end with fio however it is terminated.
    let text = format!("[global]\ndirectory={}\nthread\nend_fsync=1\nrandseed=1\n{more}\n{text}", root.display());
    // Phases follow each other, up to this many in file reading and writing.
    Ok(FioRun { text, lasts_s: 11.0 * seconds, call_bytes: None })
}

/// Total throughput of all jobs in MB/s, from the start of fio to its end.
fn rate(report: &str, seconds: f64) -> anyhow::Result<f64> {
    let begin = report.find('{').context("fio wrote no JSON")?;
    let output: serde_json::Value = serde_json::from_str(&report[begin..]).context("fio's JSON")?;
    let jobs = output["jobs"].as_array().context("fio's JSON names no job")?;
    let bytes =
        |job: &serde_json::Value| ["read", "write"].map(|way| job[way]["io_bytes"].as_f64().unwrap_or(0.0)).iter().sum::<f64>();
    Ok(jobs.iter().map(bytes).sum::<f64>() / 1e6 / seconds.max(f64::MIN_POSITIVE))
}

fn table(ran: &[Ran], settings: &[Setting]) -> Table {
    let row = |ran: &Ran| {
        let best = (0..settings.len()).max_by(|a, b| ran.fixed[*a].total_cmp(&ran.fixed[*b]));
        let best_mb_s = best.map_or(f64::NAN, |best| ran.fixed[best]);
        let of_best = [ran.algorithm_1, 100.0 * ran.algorithm_1 / best_mb_s];
        let worst = ran.fixed.iter().copied().fold(f64::INFINITY, f64::min);
        let spread = 100.0 * (1.0 - worst / best_mb_s);
        let cells = ran.fixed.iter().copied().chain([spread]).chain(of_best).map(|value| Cell::ours(Some(value)));
        let name = best.map_or_else(String::new, |best| format!("; best {}", settings[best]));
        Row {
            name: format!("{}, {}{name}, Algorithm 1 ends with {}", ran.workload, ran.file_system, ran.chosen),
            cells: cells.collect(),
        }
    };
    let names = settings.iter().map(|setting| format!("{setting}, MB/s"));
    let names = names.chain(["worst below best, %", "Algorithm 1, MB/s", "Algorithm 1, % of the best"].map(str::to_owned));
    Table {
        id: LIVE.0.to_owned(),
        title: LIVE.1.to_owned(),
        method: "All bytes that fio moves, by the time from its start to its end, all data on the device. Algorithm 1 pays for its first phase in \
                 these runs, in which it tries each scheduler for a second."
            .to_owned(),
        corner: "workload".to_owned(),
        columns: names.map(|name| Table::column(&name, false)).collect(),
        rows: ran.iter().map(row).collect(),
    }
}

/// Description of a kernel block device, for display.
const LIVE: (&str, &str) = ("live", "Tables 4 and 5 on Ext2, Ext3 and XFS of the real kernel");

fn setup(
    [short, long]: [f64; 2],
    settings: &[Setting],
    on: &OnDevice,
    live: &dyn LiveDevice,
    (ran, all): (usize, usize),
    seed: u64,
) -> Vec<(String, String)> {
    let schedulers = settings.iter().map(Setting::to_string).collect::<Vec<_>>().join(", ");
    let facts = [
        (
            "Workloads",
            "The job files of Tables 4 and 5, by the real fio, with files over 4 MiB at an eighth of their size: an emulated disk keeps what is \
             written in memory. Each has a file system of its own; its files are laid out before it is measured."
                .to_owned(),
        ),
        ("File systems", format!("{}. Today’s kernel serves ext2 and ext3 by the code of ext4.", FILE_SYSTEMS.join(", "))),
        ("Run", format!("{ran} of {all} workloads on a file system, as many as {} minutes allow", on.minutes)),
        ("Length", format!("each phase at most {short} s under a scheduler, {long} s under Algorithm 1; 600 s in the paper.")),
        ("Schedulers", format!("the kernel’s: {schedulers}. Of the paper’s five only noop (none) and deadline (mq-deadline) are left.")),
        ("Seed", format!("{seed}; runs are real and not reproducible.")),
    ];
    let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value));
    live.facts().into_iter().chain(facts).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn every_workload_of_tables_4_and_5_is_a_job_file_in_the_folder_with_an_eighth_of_its_sizes() {
        for workload in TABLE_4.iter().chain(TABLE_5) {
            let text = jobs(workload, Path::new("/mnt/x"), 2.0, "").unwrap().text;
            assert!(text.starts_with("[global]\ndirectory=/mnt/x\n") && text.contains("runtime=2000ms\n"), "{text}");
            sim::workload::Workload::parse(&text.replace("directory=/mnt/x\nthread\nend_fsync=1\nrandseed=1\n", ""), workload)
                .unwrap();
        }
        let text = jobs("sql-queries", Path::new("/mnt/x"), 2.0, "create_only=1\n").unwrap().text;
        assert!(text.contains("size=262144k\n") && text.contains("size=8192k\n") && text.contains("create_only=1\n"), "{text}");
    }

    #[test]
    fn the_rate_is_of_all_jobs_both_ways() {
        let report = r#"fio: note
            {"jobs": [{"read": {"io_bytes": 3000000}, "write": {"io_bytes": 0}}, {"read": {"io_bytes": 0}, "write": {"io_bytes": 1000000}}]}"#;
        assert_eq!(rate(report, 2.0).unwrap(), 2.0);
        assert!(rate("no", 1.0).is_err());
    }
}
