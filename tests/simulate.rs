//! End-to-end tests of `seekwise simulate`, and of `compare` with job files.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seekwise")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Record of a simulation.
fn record(arguments: &[&str]) -> serde_json::Value {
    let arguments = [&["simulate", "--json"], arguments].concat();
    serde_json::from_str(&succeeds(&arguments)).unwrap()
}

fn job(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

const BUFFERED_READERS: &str = "[global]\nioengine=psync\nrw=read\nbs=64k\nsize=32m\n[a]\n[b]\n[c]\n[d]\n";

/// Names of all built-in workloads.
fn shipped() -> Vec<String> {
    let list = succeeds(&["workload", "list"]);
    list.lines().filter_map(|line| Some(line.strip_prefix("  ")?.split_whitespace().next()?.to_owned())).collect()
}

/// The job file with every job limited to a second, in which each issues requests on any device.
fn shortened(name: &str) -> String {
    let text = succeeds(&["workload", "show", name]);
    let kept: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("runtime")).collect();
    kept.join("\n").replace("[global]", "[global]\nruntime=1")
}

#[test]
fn every_workload_of_the_papers_runs_on_disk_flash_and_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let names = shipped();
    assert!(names.len() >= 40, "only {} workloads", names.len());
    let disks =
        ["sata7200", "ssd-dftl", "raid0:disk=sata7200,disks=3", "raid1:disk=sata7200,disks=2", "raid5:disk=sata7200,disks=3"];
    let runs: Vec<(PathBuf, &str)> = names
        .iter()
        .map(|name| job(folder.path(), &format!("{}.fio", name.replace('/', "-")), &shortened(name)))
        .flat_map(|path| disks.map(|disk| (path.clone(), disk)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((path, disk)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let record = record(&[path.to_str().unwrap(), "--disk", disk]);
            let figures = &record["figures"];
            assert!(figures["response"]["requests"].as_u64().unwrap() > 0, "{} on {disk}: {figures:#}", path.display());
            assert_eq!(figures["flash"].is_object(), *disk == "ssd-dftl", "{} on {disk}", path.display());
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
}

#[test]
fn reading_ahead_further_lets_readers_side_by_side_get_more_of_a_disk_that_serves_them_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path(), "readers.fio", BUFFERED_READERS);
    let throughput = |read_ahead: &str| {
        let job = job.to_str().unwrap();
        let record = record(&[job, "--disk", "sata7200", "--queue-depth", "4", "--queue-policy", "fifo", "--set", read_ahead]);
        assert!(record["replay"]["host"].to_string().contains(read_ahead.split_once('=').unwrap().1));
        record["figures"]["throughput_mb_s"].as_f64().unwrap()
    };
    let (little, much) = (throughput("read_ahead_kb=128"), throughput("read_ahead_kb=4096"));
    assert!(much > 2.0 * little, "{little} and {much} MB/s");
}

#[test]
fn jobs_are_compared_under_all_schedulers_and_the_same_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let text_of_job =
        "[global]\nioengine=libaio\ndirect=1\niodepth=4\nsize=64m\nnumber_ios=300\n[reader]\nrw=read\n[writer]\nrw=randwrite\n";
    let job = job(folder.path(), "two.fio", text_of_job);
    let compare =
        |threads: &str| succeeds(&["compare", job.to_str().unwrap(), "--disk", "atlas10k", "--json", "--threads", threads]);
    let one = compare("1");
    assert!(one == compare("3"));
    let json: serde_json::Value = serde_json::from_str(&one).unwrap();
    let schedulers = json["schedulers"].as_array().unwrap();
    assert_eq!(schedulers.len(), block::KERNEL.len());
    for scheduler in schedulers {
        assert!(scheduler["figures"]["fairness_jain"].as_f64().unwrap() > 0.0, "{scheduler:#}");
        let names: Vec<&str> =
            scheduler["streams"].as_array().unwrap().iter().map(|stream| stream["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"reader") && names.contains(&"writer"), "{names:?}");
    }
    assert_eq!(json["replay"]["mode"], "jobs");
}

#[test]
fn another_seed_places_files_elsewhere_and_the_same_one_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let job =
        job(folder.path(), "seeded.fio", "[global]\nioengine=psync\nrw=randread\nsize=16m\nnumber_ios=200\nnrfiles=4\n[a]\n[b]\n");
    let with = |seed: &str| succeeds(&["simulate", job.to_str().unwrap(), "--json", "--seed", seed]);
    assert!(with("5") == with("5"));
    assert!(with("5") != with("6"));
}

#[test]
fn a_trace_runs_under_one_scheduler_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("few.csv");
    std::fs::write(&path, "time_us,stream,op,lba,sectors\n0,1,R,0,8\n5000,2,W,1000,8\n9000,1,R,8,8\n").unwrap();
    let table =
        succeeds(&["simulate", path.to_str().unwrap(), "--disk", "atlas10k", "--scheduler", "clook", "--set", "nr_requests=8"]);
    for part in ["few.csv on atlas10k under clook", "nr_requests = 8", "reads", "longest ms"] {
        assert!(table.contains(part), "no '{part}' in\n{table}");
    }
}

#[cfg(unix)]
#[test]
fn every_request_of_a_run_is_written_as_a_trace_that_agrees_with_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(
        at("in.csv"),
        "time_ms,lba,sectors,op,stream,stream_name\n0,9000000,8,r,1,db\n0.2,800,8,w,2,log\n1,70000,64,r,1,db\n",
    )
    .unwrap();
    let with = record(&[&at("in.csv"), "--requests", &at("out.csv")]);
    assert_eq!(with["figures"], record(&[&at("in.csv")])["figures"], "being observed changes nothing");
    let table = std::fs::read_to_string(at("out.csv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        rows[0],
        [
            "arrival_ns",
            "device",
            "device_name",
            "lba",
            "sectors",
            "op",
            "sync",
            "stream",
            "stream_name",
            "priority_class",
            "priority_level",
            "response_ns",
            "service_ns"
        ]
    );
    let issued: Vec<String> = rows[1..].iter().map(|row| [row[0], row[3], row[4], row[5], row[7], row[8]].join(" ")).collect();
    assert_eq!(issued, ["0 9000000 8 read 1 db", "200000 800 8 write 2 log", "1000000 70000 64 read 1 db"]);
    let number = |row: &[&str], column: usize| row[column].parse::<u64>().unwrap();
    assert!(rows[1..].iter().all(|row| number(row, 12) > 0 && number(row, 12) <= number(row, 11)), "{table}");
    let longest = rows[1..].iter().map(|row| number(row, 11)).max().unwrap() as f64 / 1e6;
    let max_ms = with["figures"]["response"]["max_ms"].as_f64().unwrap();
    assert!((longest - max_ms).abs() <= 0.01 * max_ms, "{longest} {max_ms}");
    let refused = run(&["simulate", &at("in.csv"), "--requests", &at("out.tape")]);
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("the extension does not tell the format"));
    let names: Vec<String> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_writer() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let output = run(&["simulate", pipe.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("not a regular file"), "{}", text(&output.stderr));
}

#[test]
fn a_recording_of_blktrace_may_be_named_without_its_ending() {
    let folder = tempfile::tempdir().unwrap();
    // struct blk_io_trace of include/uapi/linux/blktrace_api.h: a queued read (BLK_TA_QUEUE) and its completion (BLK_TA_COMPLETE).
    let event = |sequence: u32, time: u64, action: u32| {
        let (magic, sector, bytes) = (0x6561_7407u32, 64u64, 4096u32);
        let head = [&magic.to_le_bytes()[..], &sequence.to_le_bytes(), &time.to_le_bytes(), &sector.to_le_bytes()].concat();
        let numbers = [bytes, action | 1 << 16, 7, 8 << 20, 0, 0];
        [head, numbers.iter().flat_map(|number| number.to_le_bytes()).collect()].concat()
    };
    let trace = [event(1, 0, 1 | 1 << 20), event(2, 5_000_000, 8 | 1 << 23)].concat();
    std::fs::write(folder.path().join("sda.blktrace.0"), trace).unwrap();
    let simulated = record(&[folder.path().join("sda").to_str().unwrap(), "--disk", "atlas10k"]);
    assert_eq!(simulated["trace"]["requests"], 1, "{simulated:#}");
}

#[test]
fn the_arms_of_an_array_move_for_a_share_of_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let text_of_job = "[a]\nioengine=libaio\ndirect=1\niodepth=16\nrw=randread\nsize=8g\nnumber_ios=500\n";
    let job = job(folder.path(), "random.fio", text_of_job);
    let record = record(&[job.to_str().unwrap(), "--disk", "raid0:disk=sata7200,disks=8"]);
    let share = record["figures"]["seek_time_share"].as_f64().unwrap();
    assert!((0.05..1.0).contains(&share), "{share}");
}

#[test]
fn a_mistake_is_named_with_what_would_be_right_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| job(folder.path(), name, text).to_str().unwrap().to_owned();
    let good = file("good.fio", BUFFERED_READERS);
    let unknown = file("unknown.fio", "[a]\nrw=read\nsize=1m\nlatency_target=10ms\n");
    let impossible = file("impossible.fio", "[a]\nrw=sideways\nsize=1m\n");
    let large = file("large.fio", "[a]\nrw=read\nsize=100g\n");
    let empty = file("empty.fio", "");
    let by_content = file("jobs.ini", "; a comment\n[a]\nrw=read\nsize=1m\nnot_an_option=1\n");
    let array = "raid5:disk=atlas10k,disks=2";
    let cases: &[(&[&str], &[&str])] = &[
        (&["no-such-load"], &["no-such-load", "seekwise workload list"]),
        (&[&unknown], &["unknown.fio:4", "latency_target"]),
        (&[&impossible], &["impossible.fio:2", "sideways"]),
        (&[&large, "--disk", "atlas10k"], &["large.fio", "atlas10k"]),
        (&[&empty], &["empty.fio"]),
        (&[&by_content], &["jobs.ini:5", "not_an_option"]),
        (&[&good, "--closed"], &["--closed", "good.fio", "job file"]),
        (&[&good, "--speed", "2"], &["--speed", "job file"]),
        (&[&good, "--set", "read_ahead_kb=lots"], &["--set", "read_ahead_kb=lots", "0 to 65536 KiB"]),
        (&[&good, "--set", "readahead_kb=1"], &["readahead_kb", "read_ahead_kb"]),
        (&[&good, "--set", "swap_mib=100000", "--disk", "atlas10k"], &["swap_mib=100000", "atlas10k"]),
        (&[&good, "--set", "dirty_ratio=5", "--set", "dirty_ratio=6"], &["dirty_ratio", "twice"]),
        (&[&good, "--set", "anonymous_mib=4096"], &["--set", "anonymous"]),
        (&[&good, "--disk", array], &[array, "3 to 64"]),
        (&[&good, "--disk", "raid0:disk=nothing,disks=2"], &["nothing"]),
        (&[&good, "--disk", "raid1:disk=atlas10k,disks=2,failed=7"], &["failed", "7"]),
        (&[&good, "--disk", "raid0:disk=atlas10k,disks=2,stripe_unit_kib=0"], &["stripe_unit_kib", "0"]),
        (&["traces/mixed.parquet", "--set", "read_ahead_kb=512"], &["read_ahead_kb=512", "page cache"]),
    ];
    for (arguments, expected) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_seekwise"))
            .arg("simulate")
            .args(*arguments)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .output()
            .unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        for part in *expected {
            assert!(message.contains(part), "{arguments:?} should speak of {part}: {message}");
        }
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_job_file_may_have_a_name_that_is_no_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"odd\xff.fio"));
    std::fs::write(&path, "[a]\nrw=read\nsize=1m\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seekwise")).args(["simulate", "--json"]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Three phases; the last has three jobs with a group report.
const PHASES: &str = "[global]\nioengine=libaio\ndirect=1\niodepth=8\nbs=128k\n[read]\nrw=read\nsize=64m\n[write]\nstonewall\nrw=write\nsize=16m\n\
                      [random]\nstonewall\nrw=randrw\nbs=4k\nsize=1m\nnumjobs=3\nfsync=32\ngroup_reporting\n";

#[test]
fn a_job_is_measured_over_its_own_time_and_the_jobs_of_a_group_that_asks_for_it_are_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path(), "phases.fio", PHASES);
    let record = record(&[job.to_str().unwrap()]);
    let rows = record["jobs"].as_array().unwrap();
    let row = |index: usize| {
        (rows[index]["name"].as_str().unwrap(), rows[index]["group"].as_u64().unwrap(), rows[index]["jobs"].as_u64().unwrap())
    };
    assert_eq!((rows.len(), row(0), row(1), row(2)), (3, ("read", 0, 1), ("write", 1, 1), ("random", 2, 3)));
    let whole = record["figures"]["duration_s"].as_f64().unwrap();
    let durations: Vec<f64> = rows.iter().map(|row| row["service"]["duration_s"].as_f64().unwrap()).collect();
    // The phases are sequential and together take the whole run, so each is shorter.
    assert!((durations.iter().sum::<f64>() / whole - 1.0).abs() < 0.01, "{durations:?} of {whole}");
    let read = &rows[0]["service"]["reads"];
    assert_eq!((&read["bytes"], &read["response"]["requests"]), (&(64 << 20).into(), &512.into()));
    let rate = (64 << 20) as f64 / 1e6 / durations[0];
    assert!((read["throughput_mb_s"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9 && rate > 100.0, "{rate} MB/s: {read}");
    let streams = record["streams"].as_array().unwrap();
    let of = |name: &str| streams.iter().find(|stream| stream["name"] == name).unwrap();
    assert_eq!(of("read")["throughput_mb_s"], read["throughput_mb_s"]);
    assert_eq!(streams.len(), 5, "each job is followed by itself");
    let sum = |kind: &str| -> u64 {
        let requests = |name: &str| of(name)["service"][kind]["response"]["requests"].as_u64().unwrap();
        ["random.0", "random.1", "random.2"].into_iter().map(requests).sum()
    };
    for kind in ["reads", "writes", "syncs"] {
        assert_eq!(rows[2]["service"][kind]["response"]["requests"], sum(kind), "{kind}");
    }
    assert_eq!(record["groups"], record["jobs"]);
}

#[test]
fn the_ramp_of_a_job_counts_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[a]\nioengine=libaio\ndirect=1\niodepth=32\nrw=randread\nbs=4k\nsize=10g\nramp_time=5\nruntime=5\ntime_based\n";
    let job = job(folder.path(), "ramp.fio", text);
    let record = record(&[job.to_str().unwrap()]);
    let figures = &record["figures"];
    let figure = |name: &str| figures[name].as_f64().unwrap();
    assert!((0.9..=1.0).contains(&figure("disk_utilisation")), "{figures:#}");
    assert!(figure("seek_time_share") < 1.0, "{figures:#}");
    // The job keeps iodepth requests outstanding throughout.
    assert!((31.0..=32.0).contains(&figure("queue_size_mean")), "{figures:#}");
    let duration = record["jobs"][0]["service"]["duration_s"].as_f64().unwrap();
    assert!((5.0..5.5).contains(&duration), "{duration} s");
}

/// Normalises a line: removes figures, unit prefixes, padding, and values that only real processes have.
fn shape(line: &str) -> String {
    let line = line.split(": pid=").next().unwrap();
    let mut out = String::new();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_ascii_digit() {
            while letters.next_if(|letter| letter.is_ascii_digit() || *letter == '.').is_some() {}
            letters.next_if(|letter| "kKMG".contains(*letter));
            letters.next_if_eq(&'i');
            out.push('#');
        } else if letter != ' ' || !out.ends_with(['=', '[', ' ']) {
            out.push(letter);
        }
    }
    ["nsec", "usec", "msec"].iter().fold(out, |out, unit| out.replace(&format!("({unit})"), "(time)"))
}

#[test]
fn results_in_the_form_of_fio_have_the_lines_that_fio_prints() {
    if !Command::new("fio")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("skipped: fio is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Selected percentiles; buffered psync, which every filesystem supports.
    let text_of_job = PHASES.replace("direct=1\niodepth=8", "percentile_list=50:95:99:99.9").replace("libaio", "psync");
    let real = job(folder.path(), "real.fio", &text_of_job);
    let ours = job(folder.path(), "ours.fio", &text_of_job.replace("percentile_list=50:95:99:99.9\n", ""));
    let fio = Command::new("fio").arg(&real).current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    assert!(fio.status.success(), "{}", text(&fio.stderr));
    let theirs: Vec<String> = text(&fio.stdout).lines().map(shape).collect();
    let report = succeeds(&["simulate", ours.to_str().unwrap(), "--fio"]);
    // Our lines are a subsequence of fio's.
    let mut rest = theirs.iter();
    for line in report.lines().map(shape) {
        assert!(rest.any(|other| *other == line), "fio does not print '{line}' there; it prints\n{}", theirs.join("\n"));
    }
    for line in ["random: (groupid=2, jobs=3): err= 0", "  fsync/fdatasync/sync_file_range:", "Run status group 2 (all jobs):"] {
        assert!(report.lines().any(|other| other == line), "no '{line}' in\n{report}");
    }
    let refused = run(&["simulate", concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/mixed.parquet"), "--fio"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{}", text(&refused.stderr));
}

#[test]
fn an_array_of_a_disksim_file_becomes_two_profiles_that_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = path("system.parv");
    std::fs::write(
        &file,
        "disksim_disk Test { Model = dm_disk T { Number of data surfaces = 2, Number of cylinders = 100,
            Mechanical Model = dm_mech_g1 { Seek type = linear, Single cylinder seek time = 1.0, Average seek time = 5.0,
               Full strobe seek time = 9.0, Add. write settling delay = 0.5, Head switch time = 1.0,
               Rotation speed (in rpms) = 6000 },
            Layout Model = dm_layout_g1 { LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0,
               Zones = [ dm_layout_g1_zone { First cylinder number = 0, Last cylinder number = 99, Blocks per track = 100,
                  Skew for track switch = 10.0, Skew for cylinder switch = 20.0 } ] } },
            Bulk sector transfer time = 0.1, Max queue length = 1, Number of buffer segments = 2,
            Segment size (in blks) = 100, Maximum number of write segments = 1, Fast write level = 2 }
         instantiate [ disk0 .. disk2 ] as Test
         disksim_logorg org0 { Addressing mode = Array, Distribution scheme = Striped, Redundancy scheme = Parity_rotated,
            devices = [ disk0 .. disk2 ], Stripe unit = 32, Parity stripe unit = 32, Parity rotation type = 1 }",
    )
    .unwrap();
    let refused = run(&["disk", "import", &file]);
    let error = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && refused.stdout.is_empty());
    assert!(error.contains("RAID 5 of 3 disks") && error.contains("-o ARRAY.toml"), "{error}");
    succeeds(&["disk", "import", &file, "-o", &path("array.toml")]);
    let shown = succeeds(&["disk", "show", &path("array.toml")]);
    for line in ["level = 5", "disk = \"array-disk.toml\"", "disks = 3", "stripe_unit_kib = 16.0"] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{shown}");
    }
    let job = path("job.fio");
    std::fs::write(&job, "[job]\nrw=randread\ndirect=1\nsize=1m\nnumber_ios=20\n").unwrap();
    let table = succeeds(&["simulate", &job, "--disk", &path("array.toml")]);
    assert!(table.contains("job.fio on array"), "{table}");
}

#[test]
fn io_cost_without_a_cost_model_warns_on_a_device_that_is_not_a_hard_disk() {
    let warned = |disk: &str, scheduler: &str| {
        let output = run(&["simulate", "genetic/random-read", "--disk", disk, "--scheduler", scheduler]);
        text(&output.stdout).contains("io-cost has no cost model of") && output.status.success()
    };
    assert!(warned("nvme-tlc", "io-cost") && warned("ssd-dftl", "io-cost:rpct=95"));
    assert!(!warned("nvme-tlc", "io-cost:rrandiops=300000") && !warned("sata7200", "io-cost") && !warned("nvme-tlc", "bfq"));
}
