//! End-to-end tests of sweeps, including kills at any moment.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{PROGRAM, refused, run, succeeds, text};
use serde_json::Value;

/// A temporary folder with a trace and a plan.
struct Sweep {
    folder: tempfile::TempDir,
}

/// Plan: a trace, a job file, two disks, six settings, two seeds.
const PLAN: &str = r#"
loads = ["trace.csv", "jobs.fio"]
disks = ["atlas10k", "sata7200"]
schedulers = ["mq-deadline", "bfq"]
seeds = 2
[tunables.mq-deadline]
fifo_batch = [1, 16]
[host]
nr_requests = [64, 256]
"#;
const CASES: usize = 2 * 2 * 6 * 2;

impl Sweep {
    fn new(plan: &str) -> Sweep {
        let sweep = Sweep { folder: tempfile::tempdir().unwrap() };
        let mut trace = "time_ms,lba,sectors,op\n".to_owned();
        let mut state: u64 = 7;
        for number in 0..3000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (lba, op) = ((state >> 33) % 1_000_000 * 8, if state >> 62 == 0 { "w" } else { "r" });
            trace += &format!("{},{lba},8,{op}\n", number * 4);
        }
        std::fs::write(sweep.path("trace.csv"), trace).unwrap();
        let jobs =
            "[a]\nrw=randread\nbs=4k\nsize=64m\ndirect=1\nruntime=2\ntime_based=1\nioengine=libaio\niodepth=8\nrandrepeat=0\n";
        std::fs::write(sweep.path("jobs.fio"), jobs).unwrap();
        std::fs::write(sweep.path("plan.toml"), plan).unwrap();
        sweep
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn arguments(&self, output: &str, more: &[&str]) -> Vec<String> {
        let named = ["sweep".to_owned(), self.name("plan.toml"), "--output".to_owned(), self.name(output)];
        named.into_iter().chain(more.iter().map(|&one| one.to_owned())).collect()
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Runs the sweep into a folder; returns its output.
    fn sweep(&self, output: &str, more: &[&str]) -> String {
        let arguments = self.arguments(output, more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = run(&arguments);
        assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
        text(&done.stderr)
    }

    /// Names and contents of all files of a data set.
    fn files(&self, output: &str) -> BTreeMap<String, Vec<u8>> {
        let files = std::fs::read_dir(self.path(output)).unwrap().map(|entry| entry.unwrap().path());
        files.map(|file| (file.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&file).unwrap())).collect()
    }
}

/// Number of finished cases: files of the data set, one case each.
fn finished(folder: &Path) -> usize {
    let names = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
    };
    let is = |path: &PathBuf, ending: &str| path.extension().is_some_and(|extension| extension == ending);
    let parts: Vec<PathBuf> = names(folder).into_iter().filter(|path| is(path, "parquet")).collect();
    parts.len()
}

#[test]
fn a_sweep_that_is_killed_again_and_again_repeats_nothing_and_ends_with_the_same_bytes() {
    let sweep = Sweep::new(PLAN);
    let said = sweep.sweep("whole", &["--threads", "1"]);
    assert!(said.contains(&format!("{CASES} cases in")) && said.contains("complete"), "{said}");
    let whole = sweep.files("whole");
    assert_eq!(whole.len(), CASES + 1, "a file for each case, and the plan: {:?}", whole.keys());
    let mut kills = 0;
    loop {
        let mut process =
            Command::new(PROGRAM).args(sweep.arguments("killed", &["--threads", "2"])).stderr(Stdio::piped()).spawn().unwrap();
        // Kill it after three more cases.
        let (before, deadline) = (finished(&sweep.path("killed")), Instant::now() + Duration::from_secs(60));
        while kills < 5 && finished(&sweep.path("killed")) < (before + 3).min(CASES) && process.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it does not go on");
            std::thread::sleep(Duration::from_millis(2));
        }
        if kills == 2 {
            assert!(Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap().success());
            let stopped = process.wait_with_output().unwrap();
            assert_eq!(stopped.status.code(), Some(130));
            let said = text(&stopped.stderr);
            assert!(
                said.contains(" of 48 cases are complete and kept, and the same command continues")
                    && !said.contains("; 0 of")
                    && !said.contains("nothing was written"),
                "{said}"
            );
            kills += 1;
            continue;
        }
        if kills < 5 {
            process.kill().unwrap();
            process.wait().unwrap();
            kills += 1;
            continue;
        }
        let done = process.wait_with_output().unwrap();
        assert!(done.status.success());
        let (said, left) = (text(&done.stderr), CASES - before);
        // The result of each thread's last case may exist before its file.
        let is_rest = |run: usize| said.contains(&format!("{run} of {CASES} cases"));
        assert!((left.saturating_sub(2)..=left).any(is_rest), "{before} were there: {said}");
        break;
    }
    assert!(sweep.files("killed") == whole, "the bytes differ");
    // A complete data set is left unchanged.
    assert!(sweep.sweep("killed", &[]).contains(&format!("0 of {CASES} cases")));
    assert!(sweep.files("killed") == whole);
}

#[test]
fn shards_in_one_folder_are_together_what_one_run_is() {
    let sweep = Sweep::new(PLAN);
    sweep.sweep("whole", &[]);
    for shard in ["2/3", "1/3", "3/3"] {
        let said = sweep.sweep("shards", &["--shard", shard]);
        assert_eq!(said.contains("complete"), shard == "3/3", "{said}");
    }
    assert!(sweep.files("shards") == sweep.files("whole"));
}

#[test]
fn a_search_gives_the_same_bytes_with_any_number_of_threads_and_finds_no_worse_than_the_default() {
    for method in ["sobol", "bayesian"] {
        let plan = format!(
            "loads = [\"trace.csv\"]\ndisks = [\"atlas10k\", \"sata7200\"]\nschedulers = [\"mq-deadline\", \"none\"]\nmethod = \"{method}\"\npoints = 8\n[tunables.mq-deadline]\nfifo_batch = {{ from = 1, to = 64 }}\nread_expire = [50, 500]\n"
        );
        let sweep = Sweep::new(&plan);
        sweep.sweep("one", &["--threads", "1"]);
        sweep.sweep("two", &["--threads", "2"]);
        assert!(sweep.files("one") == sweep.files("two"), "{method}");
        let report: Value = serde_json::from_str(&succeeds(&["sweep", "report", &sweep.name("one"), "--json"])).unwrap();
        let best = report["best"].as_array().unwrap();
        assert_eq!(best.len(), 2, "{report}");
        assert!(best.iter().all(|best| best["gain_percent"].as_f64().unwrap() >= 0.0), "{report}");
    }
}

#[test]
fn a_report_has_the_best_setting_of_every_load_and_disk_with_its_interval() {
    let sweep = Sweep::new(&PLAN.replace("seeds = 2", "seeds = 3"));
    let said = succeeds(&["sweep", &sweep.name("plan.toml"), "--dry-run"]);
    assert!(said.starts_with("72 cases: 2 loads, 2 disks, 6 settings, 3 seeds, 72 files; about "), "{said}");
    sweep.sweep("out", &[]);
    let report = succeeds(&["sweep", "report", &sweep.name("out"), "--objective", "p99_ms"]);
    assert!(report.contains("trace.csv  atlas10k") && report.contains("jobs.fio   sata7200"), "{report}");
    assert!(report.ends_with("By p99_ms, against mq-deadline; 72 of 72 cases.\n"), "{report}");
    let json: Value = serde_json::from_str(&succeeds(&["sweep", "report", &sweep.name("out"), "--json"])).unwrap();
    for best in json["best"].as_array().unwrap() {
        assert_eq!((best["seeds"].as_u64(), best["settings"].as_u64()), (Some(3), Some(6)), "{best}");
        assert!(best["interval_percent"].is_array() && best["held_out_percent"].is_number(), "{best}");
    }
    // Figures equal those of `seekwise simulate`.
    let alone: Value =
        serde_json::from_str(&succeeds(&["simulate", &sweep.name("trace.csv"), "--disk", "atlas10k", "--json"])).unwrap();
    let mean = alone["figures"]["response"]["mean_ms"].as_f64().unwrap();
    let one =
        Sweep::new("loads = [\"trace.csv\"]\ndisks = [\"atlas10k\"]\nschedulers = [\"mq-deadline\"]\nobjective = \"mean_ms\"\n");
    one.sweep("out", &[]);
    let json: Value = serde_json::from_str(&succeeds(&["sweep", "report", &one.name("out"), "--json"])).unwrap();
    assert_eq!(json["best"][0]["value"].as_f64(), Some(mean));
}

#[test]
fn each_seed_of_a_job_file_is_another_run_in_spite_of_randrepeat_and_identical_runs_have_no_interval() {
    let sweep =
        Sweep::new("loads = [\"jobs.fio\"]\ndisks = [\"sata7200\"]\nschedulers = [\"mq-deadline\", \"clook\"]\nseeds = 4\n");
    let report = |jobs: &str, output: &str| -> (String, Value) {
        std::fs::write(sweep.path("jobs.fio"), jobs).unwrap();
        sweep.sweep(output, &[]);
        let text = succeeds(&["sweep", "report", &sweep.name(output), "--objective", "mean_ms"]);
        let json = succeeds(&["sweep", "report", &sweep.name(output), "--objective", "mean_ms", "--json"]);
        (text, serde_json::from_str::<Value>(&json).unwrap()["best"][0].clone())
    };
    let random = "[a]\nrw=randread\nbs=4k\nsize=64m\ndirect=1\nruntime=2\ntime_based=1\nioengine=libaio\niodepth=8\n\
                  [b]\nrw=randwrite\nbs=4k\nsize=64m\ndirect=1\nruntime=2\ntime_based=1\n";
    for jobs in [random.to_owned(), format!("[global]\nrandrepeat=1\n{random}")] {
        let (text, best) = report(&jobs, if jobs == random { "random" } else { "repeated" });
        let ends = [0, 1].map(|end| best["interval_percent"][end].as_f64().unwrap());
        assert!(ends[0] < ends[1] && best["held_out_percent"].is_number() && !text.contains("No interval"), "{text}");
    }
    // Nothing is drawn.
    let (text, best) = report("[a]\nrw=read\nbs=4k\nsize=1m\ndirect=1\nioengine=libaio\niodepth=8\nfilename=/dev/sda\n", "same");
    assert!(best["interval_percent"].is_null() && best["held_out_percent"].is_null(), "{best}");
    assert!(text.contains("No interval where the runs of all seeds are identical"), "{text}");
}

#[test]
fn a_wrong_plan_is_refused_with_its_line_key_value_and_what_would_be_right() {
    let sweep = Sweep::new("");
    let plan = sweep.name("plan.toml");
    let valid = "loads = [\"trace.csv\"]\ndisks = [\"atlas10k\"]\n";
    let wrong = [
        ("disks = [\"atlas10k\"]\n", ":1: missing field `loads`"),
        ("loads = []\ndisks = [\"atlas10k\"]\n", ":1: loads: is empty"),
        ("loads = [\"trace.cvs\"]\ndisks = [\"atlas10k\"]\n", ":1: loads: "),
        ("loads = [\"trace.csv\"]\ndisks = [\"atlas\"]\n", ":2: disks: "),
        (&format!("{valid}schedulers = [\"bqf\"]\n"), ":3: schedulers bqf: there is no scheduler 'bqf'"),
        (&format!("{valid}seeds = 0\n"), ":3: seeds: 0 should be a number of seeds from 1 to 10000"),
        (&format!("{valid}method = \"sobel\"\n"), ":3: method: \"sobel\" should be one of grid, sobol, bayesian"),
        (&format!("{valid}points = 5\n"), ":3: points: is for the methods sobol and bayesian"),
        (&format!("{valid}objective = \"p99\"\n"), ":3: objective: \"p99\" should be one of score, "),
        (&format!("{valid}[tunables.bfq]\nslice_idel = [0]\n"), ":4: tunables.bfq.slice_idel: there is no such tunable"),
        (&format!("{valid}[tunables.bfq]\nslice_idle = [0, 0]\n"), ":4: tunables.bfq.slice_idle: 0 is given twice"),
        (&format!("{valid}[tunables.bfq]\nslice_idle = {{ from = 0, to = 8 }}\n"), ":4: tunables.bfq.slice_idle: a range is for"),
        (&format!("{valid}[tunables.cfq]\nquantum = [1]\n"), ":3: tunables.cfq: is none of the plan's schedulers"),
        (&format!("{valid}[host]\nnr_requests = [1]\n"), ":4: host.nr_requests: host: nr_requests=1 should be"),
        (
            &format!("{valid}[host]\nread_ahead_kb = [64, 128]\n"),
            ":4: host.read_ahead_kb: a block trace, as trace.csv, does not meet",
        ),
        (&format!("{valid}[replay]\nspeed = 0\n"), ":4: "),
        (&format!("{valid}thraeds = 4\n"), ":3: unknown field `thraeds`"),
    ];
    for (text, expected) in wrong {
        std::fs::write(&plan, text).unwrap();
        let said = refused(&["sweep", &plan, "--output", &sweep.name("out")]);
        assert!(said.contains(&format!("{plan}{expected}")), "{text}\n{said}");
        assert!(!sweep.path("out").exists(), "{text}");
    }
}

#[test]
fn a_folder_of_another_plan_or_of_something_else_is_left_alone() {
    let sweep = Sweep::new(PLAN);
    sweep.sweep("out", &[]);
    let before = sweep.files("out");
    std::fs::write(sweep.path("plan.toml"), PLAN.replace("seeds = 2", "seeds = 3")).unwrap();
    let arguments = sweep.arguments("out", &[]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = refused(&arguments);
    assert!(said.contains("holds the sweep of another plan") && said.contains("cases: there 48, here 72"), "{said}");
    assert!(sweep.files("out") == before);
    std::fs::create_dir(sweep.path("other")).unwrap();
    std::fs::write(sweep.path("other/mine"), "").unwrap();
    let said = refused(&["sweep", &sweep.name("plan.toml"), "--output", &sweep.name("other")]);
    assert!(said.contains("is not empty, and holds no sweep"), "{said}");
}

#[test]
fn a_load_that_does_not_fit_is_a_row_with_its_reason_and_the_others_are_run() {
    let sweep = Sweep::new("loads = [\"trace.csv\", \"large.csv\"]\ndisks = [\"atlas10k\"]\nschedulers = [\"mq-deadline\"]\n");
    std::fs::write(sweep.path("large.csv"), "time_ms,lba,sectors,op\n0,9000000000,8,r\n1,0,8,r\n").unwrap();
    let arguments = sweep.arguments("out", &[]);
    let done = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(
        said.contains("1 cases could not be run") && said.contains("large.csv") && said.contains("choose a larger disk"),
        "{said}"
    );
    assert!(succeeds(&["sweep", "report", &sweep.name("out")]).contains("2 of 2 cases, 1 of which could not be run"));
}

#[test]
fn volumes_of_one_file_are_looked_at_one_by_one_and_added_up() {
    let sweep = Sweep::new("");
    // Alibaba's format: device, operation, offset, length, time in microseconds. Volume 3 is steadily busy; volume 1 is almost idle.
    let mut trace = String::new();
    let mut state: u64 = 7;
    for number in 0..6000u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (state >> 33) % 500_000 * 4096;
        trace += &format!("3,R,{offset},4096,{}\n", 1_577_808_000_000_000u64 + number * 2000);
        if number % 1000 == 0 {
            trace += &format!("1,W,{offset},16384,{}\n", 1_577_808_000_000_000u64 + number * 2000 + 7);
        }
    }
    std::fs::write(sweep.path("io_traces.csv"), trace).unwrap();
    let arguments = [
        "sweep",
        "volumes",
        &sweep.name("io_traces.csv"),
        "--disk",
        "sata7200",
        "--output",
        &sweep.name("volumes"),
        "--candidates",
        "mq-deadline;none",
        "--json",
    ];
    let json: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
    let volumes = json["volumes"].as_array().unwrap();
    let told: Vec<(&str, u64)> =
        volumes.iter().map(|row| (row["volume"].as_str().unwrap(), row["requests"].as_u64().unwrap())).collect();
    assert_eq!(told.iter().map(|(_, requests)| requests).sum::<u64>(), 6006, "{json}");
    assert_eq!(told.len(), 2, "{json}");
    assert!(volumes.iter().all(|row| row["setting"].is_string() && row["gain_percent"].is_number()), "{json}");
    assert!(sweep.path("volumes/volumes.parquet").is_file());
    // A second run analyses nothing and leaves the table unchanged.
    let table = std::fs::read(sweep.path("volumes/volumes.parquet")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&succeeds(&arguments)).unwrap(), json);
    assert!(std::fs::read(sweep.path("volumes/volumes.parquet")).unwrap() == table);
    let text = succeeds(&arguments[..arguments.len() - 1]);
    assert!(text.contains("of 2 volumes gain at least 2%"), "{text}");
}
