//! Workloads for fio: the built-in ones, and job files of users.

use anyhow::{Context as _, bail, ensure};
use control::Setting;

/// Jobs, with the settings that they need.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name, or path of the file.
    pub name: String,
    /// A job file without `filename` and durations, which the comparison sets.
    pub jobs: String,
    /// Host tunables that it needs under every setting.
    pub host: Vec<(String, i64)>,
    /// Additional settings, in the format of [`Setting::parse`]: they show the effect of one tunable on these jobs.
    pub tuned: &'static [&'static str],
    /// The only setting under which it runs if the request names none; `None`: Linux's schedulers and `tuned`.
    pub only_under: Option<Setting>,
}

/// A built-in workload.
pub struct Shipped {
    /// The name on the command line.
    pub name: &'static str,
    jobs: &'static str,
    host: &'static [(&'static str, i64)],
    tuned: &'static [&'static str],
}

impl Shipped {
    /// The description from the first line of the jobs.
    pub fn summary(&self) -> &'static str {
        self.jobs.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    fn workload(&self) -> Workload {
        let host = self.host.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Workload { name: self.name.to_owned(), jobs: self.jobs.to_owned(), host, tuned: self.tuned, only_under: None }
    }
}

macro_rules! workloads {
    ($($name:literal host [$($host:expr),*] tuned [$($tuned:expr),*];)*) => {
        &[$(Shipped {
            name: $name,
            jobs: include_str!(concat!("workloads/", $name, ".fio")),
            host: &[$($host),*],
            tuned: &[$($tuned),*],
        }),*]
    };
}

/// All built-in workloads. Tunables are shown at two values in addition to the default.
#[rustfmt::skip]
pub static WORKLOADS: &[Shipped] = workloads![
    "random-reads" host [] tuned [
        "mq-deadline:read_expire=50", "mq-deadline:read_expire=5000", "mq-deadline nr_requests=8", "mq-deadline nr_requests=16"
    ];
    "random-readers" host [] tuned [];
    "random-mix" host [] tuned [];
    "sequential-readers" host [] tuned ["bfq:slice_idle=0", "bfq:slice_idle=2"];
    "sequential-writers" host [] tuned [];
    "reader-and-writers" host [] tuned ["mq-deadline:fifo_batch=1", "mq-deadline:fifo_batch=64"];
    "reader-among-writers" host [] tuned [];
    "streams-and-readers" host [] tuned [];
    "database" host [] tuned [];
    "data-streaming" host [] tuned [];
    "file-server" host [] tuned [];
    "maximum-throughput" host [] tuned [];
    "multi-threaded-access" host [] tuned [];
    "typical-database" host [] tuned [];
    "ffsb-sequential-read" host [] tuned [];
    "ffsb-sequential-write" host [("dirty_ratio", 2)] tuned [];
    "ffsb-random-read" host [] tuned [];
    "ffsb-direct-io" host [] tuned [];
    "ffsb-metadata" host [] tuned [];
    "buffered-readers" host [] tuned ["mq-deadline read_ahead_kb=512", "mq-deadline read_ahead_kb=4096"];
    "reader-and-buffered-writer" host [("dirty_ratio", 2)] tuned ["mq-deadline dirty_ratio=1"];
];

/// A built-in workload by name, or a job file.
///
/// # Errors
/// There is neither, or the file sets options that the comparison sets.
pub fn find(name: &str) -> anyhow::Result<Workload> {
    if let Some(shipped) = WORKLOADS.iter().find(|shipped| shipped.name == name) {
        return Ok(shipped.workload());
    }
    if !name.contains(['.', '/']) {
        let known = WORKLOADS.iter().map(|shipped| shipped.name).collect::<Vec<_>>().join(", ");
        bail!("--workloads {name}: unknown workload; known: {known}, and job files");
    }
    let jobs = std::fs::read_to_string(name).with_context(|| format!("--workloads {name}"))?;
    for (number, line) in jobs.lines().enumerate() {
        let key = line.split('=').next().unwrap_or_default().trim();
        ensure!(
            !OURS.contains(&key),
            "{name}:{}: {key} is set by this command, which runs all jobs on one device and for the same time; omit it",
            number + 1
        );
    }
    Ok(Workload { name: name.to_owned(), jobs, host: Vec::new(), tuned: &[], only_under: None })
}

/// Options of jobs that the comparison sets: location, duration, and the format of fio's report.
const OURS: &[&str] = &[
    "filename",
    "directory",
    "opendir",
    "runtime",
    "ramp_time",
    "time_based",
    "group_reporting",
    "stonewall",
    "new_group",
    "randseed",
];

impl Workload {
    /// Whether its jobs write.
    pub fn writes(&self) -> bool {
        experiment::fio::writes(&self.jobs)
    }

    /// Whether its jobs go through the page cache.
    pub fn is_buffered(&self) -> bool {
        self.jobs.lines().any(|line| matches!(line.replace(' ', "").as_str(), "direct=0" | "buffered=1"))
    }

    /// The additional settings that show the effect of a tunable on these jobs.
    pub fn tuned(&self) -> impl Iterator<Item = Setting> {
        // A test checks that all of them parse.
        self.tuned.iter().filter_map(|text| Setting::parse(text).ok())
    }

    /// The jobs for a disk that is `factor` times as fast as its model: pauses are divided by it, rates multiplied.
    ///
    /// # Errors
    /// A time or rate cannot be parsed.
    pub fn scaled(&self, factor: f64) -> anyhow::Result<String> {
        let mut scaled = String::with_capacity(self.jobs.len());
        for (number, line) in self.jobs.lines().enumerate() {
            let changed = line.split_once('=').map_or(Ok(None), |(key, value)| {
                let (key, value) = (key.trim(), value.trim());
                scaled_option(key, value, factor).with_context(|| format!("{}:{}: {key}={value}", self.name, number + 1))
            })?;
            scaled.push_str(changed.as_deref().unwrap_or(line));
            scaled.push('\n');
        }
        Ok(scaled)
    }
}

/// The scaled option; `None` if it is neither a time nor a rate.
fn scaled_option(key: &str, value: &str, factor: f64) -> anyhow::Result<Option<String>> {
    match key {
        // fio's units without a suffix: microseconds for pauses, seconds for delays.
        "thinktime" | "thinktime_spin" => Ok(Some(format!("{key}={}us", (time_us(value, 1.0)? / factor).round()))),
        "startdelay" => Ok(Some(format!("{key}={}us", (time_us(value, 1e6)? / factor).round()))),
        "rate_iops" => {
            let rate: f64 = value.parse().context("is not a number")?;
            Ok(Some(format!("{key}={}", (rate * factor).round())))
        }
        "rate" | "rate_min" | "thinktime_iotime" | "rate_cycle" if (factor - 1.0).abs() > f64::EPSILON => {
            bail!("cannot be scaled; omit it or --scale")
        }
        _ => Ok(None),
    }
}

fn time_us(text: &str, plain_us: f64) -> anyhow::Result<f64> {
    let unit = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let factor = match unit {
        "" => plain_us,
        "us" | "usec" => 1.0,
        "ms" | "msec" => 1e3,
        "s" => 1e6,
        _ => bail!("is not a time in us, ms or s"),
    };
    Ok(number.trim().parse::<f64>().context("is not a time")? * factor)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn every_file_in_the_folder_is_listed_and_has_a_description() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/validation/workloads")).unwrap();
        let mut files: Vec<String> = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let mut listed: Vec<String> = WORKLOADS.iter().map(|shipped| format!("{}.fio", shipped.name)).collect();
        files.sort();
        listed.sort();
        assert_eq!(files, listed);
        for shipped in WORKLOADS {
            assert!(shipped.summary().ends_with('.'), "{}", shipped.name);
            let workload = shipped.workload();
            assert_eq!(workload.tuned().count(), shipped.tuned.len(), "{}", shipped.name);
            assert!(workload.tuned().all(|setting| block::KERNEL.iter().any(|spec| spec.name == setting.spec.name)));
        }
    }

    #[test]
    fn writing_jobs_are_distinguished_from_reading_ones() {
        let writes = |name: &str| find(name).unwrap().writes();
        assert!(!writes("random-reads") && !writes("sequential-readers") && !writes("buffered-readers"));
        assert!(writes("random-mix") && writes("reader-and-buffered-writer") && writes("ffsb-direct-io"));
    }

    #[test]
    fn times_and_rates_follow_the_scale_and_nothing_else_does() {
        let workload =
            |jobs: &str| Workload { name: "w".to_owned(), jobs: jobs.to_owned(), host: Vec::new(), tuned: &[], only_under: None };
        let scaled = workload("[a]\nthinktime=10ms\nstartdelay = 2\nrate_iops=15\nbs=4k\nthinktime_spin=30").scaled(10.0).unwrap();
        assert_eq!(scaled, "[a]\nthinktime=1000us\nstartdelay=200000us\nrate_iops=150\nbs=4k\nthinktime_spin=3us\n");
        let error = format!("{:#}", workload("[a]\nrate=1m").scaled(10.0).unwrap_err());
        assert_eq!(error, "w:2: rate=1m: cannot be scaled; omit it or --scale");
        assert!(format!("{:#}", workload("thinktime=2h").scaled(1.0).unwrap_err()).ends_with("is not a time in us, ms or s"));
    }

    #[test]
    fn a_file_of_ones_own_may_not_say_where_and_how_long_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.fio");
        let named = path.to_str().unwrap();
        std::fs::write(&path, "[a]\nrw=read\n").unwrap();
        assert_eq!(find(named).unwrap().jobs, "[a]\nrw=read\n");
        std::fs::write(&path, "[a]\nrw=read\nfilename=/dev/sda\n").unwrap();
        let error = find(named).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "own.fio:3: filename is set by this command, which runs all jobs on one device and for the same time; omit it"
            ),
            "{error}"
        );
        assert!(find("own").unwrap_err().to_string().starts_with("--workloads own: unknown workload; known: random-reads, "));
    }
}
