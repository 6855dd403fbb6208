//! Runs the real fio and parses its results.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use progress::monitor::Monitor;

/// Grace period after the jobs: before fio ends, all dirty data in the page cache is written, gigabytes to a slow disk.
const PATIENCE: Duration = Duration::from_secs(600);

/// fio's version string.
///
/// # Errors
/// fio cannot be run.
pub fn version() -> anyhow::Result<String> {
    let output = Command::new("fio").arg("--version").output().context("cannot run fio; install it (apt-get install fio)")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether jobs write, if only to create the files that they will read.
pub fn writes(jobs: &str) -> bool {
    if jobs.lines().any(|line| line.trim() == "create_only=1") {
        return true;
    }
    let kind = |line: &str| {
        let (key, value) = line.split_once('=')?;
        matches!(key.trim(), "rw" | "readwrite").then(|| value.trim().to_owned())
    };
    jobs.lines().filter_map(kind).any(|kind| !matches!(kind.split(':').next(), Some("read" | "randread")))
}

/// Runs jobs that last this many seconds; returns fio's JSON output.
///
/// # Errors
/// fio cannot be run, fails, does not end in time, or the work was interrupted.
pub fn run(jobs: &str, seconds: f64, monitor: &dyn Monitor) -> anyhow::Result<String> {
    run_logged(jobs, seconds, monitor).map(|(report, _)| report)
}

/// Like [`run`]; also returns the bandwidth logs that the jobs request by `write_bw_log`, one for each process.
///
/// # Errors
/// Those of [`run`].
pub fn run_logged(jobs: &str, seconds: f64, monitor: &dyn Monitor) -> anyhow::Result<(String, Vec<String>)> {
    let folder = tempfile::tempdir().context("cannot make a folder for fio")?;
    let (file, output) = (folder.path().join("jobs.fio"), folder.path().join("output.json"));
    let mut written = std::fs::File::create(&file).context("cannot write a job file")?;
    written.write_all(jobs.as_bytes()).context("cannot write a job file")?;
    // With this flag fio itself refuses to write, independently of the jobs.
    let guard: &[&str] = if writes(jobs) { &[] } else { &["--readonly"] };
    let mut fio = Command::new("fio")
        .args(guard)
        .args(["--output-format=json", "--eta=never", "--output"])
        .args([&output, &file])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run fio")?;
    let late = Instant::now() + Duration::from_secs_f64(seconds) + PATIENCE;
    let status = loop {
        if let Some(status) = fio.try_wait().context("fio")? {
            break status;
        }
        let interrupted = monitor.check();
        if interrupted.is_err() || Instant::now() > late {
            // It may have ended meanwhile, so errors are ignored.
            let _ = fio.kill();
            let _ = fio.wait();
            interrupted?;
            bail!("fio did not end {} s after its jobs should have", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // Ctrl-C also reaches fio, which then ends without an error of its own.
    monitor.check()?;
    let mut said = String::new();
    if let Some(mut stderr) = fio.stderr.take() {
        let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
    }
    ensure!(status.success(), "fio failed ({status}): {}", said.trim());
    let report = std::fs::read_to_string(&output).context("fio wrote no report")?;
    Ok((report, logs(folder.path())?))
}

fn logs(folder: &Path) -> anyhow::Result<Vec<String>> {
    let files = std::fs::read_dir(folder).context("fio's folder")?;
    let mut logs: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    logs.retain(|path| path.extension().is_some_and(|ending| ending == "log"));
    logs.sort();
    logs.iter().map(|path| std::fs::read_to_string(path).context("fio's log")).collect()
}

/// Samples of a bandwidth log: seconds since the start of the process, and bytes per second.
///
/// # Errors
/// A line is not in fio 3's format: milliseconds, KiB per second, direction and more, separated by commas.
pub fn throughput(log: &str) -> anyhow::Result<Vec<(f64, f64)>> {
    let number = |field: Option<&str>, line: &str| {
        let number = field.and_then(|field| field.trim().parse::<f64>().ok());
        number.with_context(|| format!("fio's log of throughput: '{line}' does not begin with two numbers"))
    };
    let lines = log.lines().map(|line| {
        let mut fields = line.split(',');
        let (ms, kib_per_s) = (number(fields.next(), line)?, number(fields.next(), line)?);
        Ok((ms / 1e3, kib_per_s * 1024.0))
    });
    lines.collect()
}

/// Results of one direction: throughput in MB/s, mean and p99 of the response times in ms; `None` without requests.
pub type Got = Option<[f64; 3]>;

/// Results of the first group of jobs.
pub struct Output {
    /// Reads, writes, and calls of fsync, which transfer nothing.
    pub directions: [Got; 3],
    /// Reads and writes together.
    pub overall: Overall,
}

/// Results of reads and writes together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overall {
    /// Throughput in bytes per second.
    pub bytes_per_s: f64,
    /// Mean response time in seconds.
    pub response_s: f64,
}

/// Parses fio's JSON.
///
/// # Errors
/// The text is not fio 3's JSON, or a job failed.
pub fn parse(json: &str) -> anyhow::Result<Output> {
    // Warnings may precede the JSON.
    let begin = json.find('{').context("fio wrote no JSON")?;
    let output: Value = serde_json::from_str(&json[begin..]).context("fio's JSON")?;
    let jobs = output["jobs"].as_array().filter(|jobs| !jobs.is_empty()).context("fio's JSON names no job")?;
    for job in jobs {
        let name = job["jobname"].as_str().unwrap_or("?");
        ensure!(job["error"] == 0, "fio: job {name} failed with error {}", job["error"]);
    }
    let (mut directions, mut requests, mut bytes_per_s, mut waited_s) = ([None; 3], 0, 0.0, 0.0);
    for (name, got) in ["read", "write"].into_iter().zip(&mut directions) {
        let count = jobs[0][name]["total_ios"].as_u64().context("fio's JSON has no total_ios")?;
        if count > 0 {
            let [throughput, mean, _] = *got.insert(direction(&jobs[0][name])?);
            requests += count;
            bytes_per_s += throughput * 1e6;
            waited_s += count as f64 * mean / 1e3;
        }
    }
    // fio reports only the times of fdatasync, not the number of calls.
    if jobs[0]["sync"]["lat_ns"]["N"].as_u64().is_some_and(|count| count > 0) {
        let (mean, p99) = times(&jobs[0]["sync"])?;
        directions[2] = Some([0.0, mean, p99]);
    }
    Ok(Output { directions, overall: Overall { bytes_per_s, response_s: waited_s / requests.max(1) as f64 } })
}

fn direction(figures: &Value) -> anyhow::Result<[f64; 3]> {
    let throughput = number(&figures["bw_bytes"], "bw_bytes")? / 1e6;
    let (mean, p99) = times(figures)?;
    Ok([throughput, mean, p99])
}

/// The mean and the 99th percentile in ms.
fn times(figures: &Value) -> anyhow::Result<(f64, f64)> {
    let mean = number(&figures["lat_ns"]["mean"], "lat_ns.mean")? / 1e6;
    let p99 = number(&figures["lat_ns"]["percentile"]["99.000000"], "99th percentile of lat_ns")? / 1e6;
    Ok((mean, p99))
}

fn number(value: &Value, name: &str) -> anyhow::Result<f64> {
    value.as_f64().with_context(|| format!("fio's JSON has no {name}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::{Overall, parse, throughput};

    const OUTPUT: &str = r#"fio: a note
{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "error": 0,
 "read": {"total_ios": 100, "bw_bytes": 2500000, "lat_ns": {"mean": 4e6, "percentile": {"99.000000": 9000000}}},
 "write": {"total_ios": 0, "bw_bytes": 0, "lat_ns": {"mean": 0}}}]}"#;

    #[test]
    fn reads_and_writes_are_distinguished() {
        assert_eq!(parse(OUTPUT).unwrap().directions, [Some([2.5, 4.0, 9.0]), None, None]);
    }

    #[test]
    fn calls_of_fsync_have_times_of_their_own() {
        let sync = "\"error\": 0, \"sync\": {\"total_ios\": 0, \"lat_ns\": {\"N\": 9, \"mean\": 7e6, \"percentile\": {\"99.000000\": 3e7}}},";
        let output = parse(&OUTPUT.replace("\"error\": 0,", sync)).unwrap();
        assert_eq!(output.directions, [Some([2.5, 4.0, 9.0]), None, Some([0.0, 7.0, 30.0])]);
    }

    #[test]
    fn reads_and_writes_together_have_the_mean_of_all_requests() {
        let more = OUTPUT.replace(
            "\"write\": {\"total_ios\": 0, \"bw_bytes\": 0, \"lat_ns\": {\"mean\": 0}}",
            "\"write\": {\"total_ios\": 300, \"bw_bytes\": 500000, \"lat_ns\": {\"mean\": 8e6, \"percentile\": {\"99.000000\": 9e6}}}",
        );
        assert_eq!(parse(OUTPUT).unwrap().overall, Overall { bytes_per_s: 2.5e6, response_s: 0.004 });
        let Overall { bytes_per_s, response_s } = parse(&more).unwrap().overall;
        assert!(bytes_per_s == 3e6 && (response_s - 0.007).abs() < 1e-12, "{response_s}");
    }

    #[test]
    fn a_log_of_throughput_is_read_and_what_is_none_is_refused() {
        assert_eq!(throughput("1000, 2048, 0, 0, 0\n2000, 1024, 1, 0, 0\n").unwrap(), [(1.0, 2_097_152.0), (2.0, 1_048_576.0)]);
        assert!(throughput("1000; 2048").unwrap_err().to_string().contains("'1000; 2048'"));
    }

    #[test]
    fn what_fio_does_not_write_is_an_error_that_says_what_is_missing() {
        for (from, to, message) in [
            ("{", "", "no JSON"),
            ("\"error\": 0", "\"error\": 5", "job a failed with error 5"),
            ("total_ios", "totals", "no total_ios"),
            ("99.000000", "98", "99th percentile"),
        ] {
            let error = format!("{:#}", parse(&OUTPUT.replace(from, to)).err().unwrap());
            assert!(error.contains(message), "{error}");
        }
    }
}
