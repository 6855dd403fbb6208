//! End-to-end tests of `seekwise advise`: recorded traces, job files and errors.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{refused, succeeds, text};
use serde_json::Value;

const MIXED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/mixed.parquet");

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeeds(&[&["advise"], arguments, &["--json"]].concat())).unwrap()
}

/// Sixteen concurrent random readers: a scheduler that serves the nearest request first has a much higher throughput than FIFO.
fn scattered(folder: &Path) -> PathBuf {
    let path = folder.join("scattered.fio");
    std::fs::write(
        &path,
        "[readers]\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\nsize=8g\niodepth=16\ntime_based\nruntime=20\n",
    )
    .unwrap();
    path
}

/// A recording of a FIFO device with a service time of 5 ms. In the first part one process reads at random, in the second another
/// one reads large requests sequentially.
fn recording(folder: &Path, seconds: u64) -> PathBuf {
    let mut lines = String::from("time_us,stream,op,lba,sectors,response_us\n");
    for n in 0..seconds * 100 {
        let at = n * 10_000;
        let _ = if n < seconds * 50 {
            writeln!(lines, "{at},1,R,{},8,5000", (n * 104_729_000) % 1_000_000_000)
        } else {
            writeln!(lines, "{at},2,R,{},512,5000", 2_000_000 + n * 512)
        };
    }
    let path = folder.join("recorded.csv");
    std::fs::write(&path, lines).unwrap();
    path
}

#[test]
fn what_iostat_printed_is_judged_with_what_cannot_be_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("iostat.txt");
    let heading =
        "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz f/s f_await aqu-sz %util\n";
    let sda = "sda 160.0 640.0 0.0 0.0 100.0 4.0 1.0 4.0 0.0 0.0 2.0 4.0 0.0 0.0 16.0 99.0\n";
    std::fs::write(&path, format!("Linux 6.8.0 (host)\n\n{heading}{sda}")).unwrap();
    let advice = json(&[path.to_str().unwrap(), "--candidates", "none"]);
    assert_eq!((&advice["load"], &advice["in_force"]), (&"sda, as iostat counted it".into(), &"mq-deadline".into()), "{advice:#}");
    assert!(advice["verdict"]["text"].as_str().unwrap().len() > 20, "{advice:#}");
    assert!(advice["sure"][0].as_str().unwrap().contains("160 reads/s of 4.0 KiB"), "{advice:#}");
    let notes = advice["notes"].to_string();
    assert!(
        notes.contains("mean since the machine was started")
            && notes.contains("mq-deadline is assumed")
            && notes.contains("neither streams, nor their order"),
        "{notes}"
    );
    std::fs::write(&path, format!("{heading}{}", sda.replace("100.0", "much"))).unwrap();
    let error = refused(&["advise", path.to_str().unwrap()]);
    assert!(error.contains("iostat.txt: line 2: r_await is \"much\", not a number"), "{error}");
    std::fs::write(&path, format!("{heading}{sda}")).unwrap();
    let refused = |options: &[&str]| refused(&[&["advise", path.to_str().unwrap()], options].concat());
    assert!(refused(&["--disk", "sata7200"]).contains("--disk: iostat's output is judged as it is"));
    assert!(refused(&["--protect", "db:p99=10ms"]).contains("--protect db:p99=10ms: iostat counts no streams"));
    assert!(refused(&["--vary", "read_ahead_kb=128,512"]).contains("--vary read_ahead_kb=128,512: is for a run in the simulator"));
}

#[test]
fn as_a_configuration_file_there_is_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = scattered(folder.path());
    let jobs = jobs.to_str().unwrap();
    let arguments = ["advise", jobs, "--disk", "atlas10k", "--queue-depth", "1", "--scheduler", "none"];
    let rule = succeeds(&[&arguments[..], &["--candidates", "none;mq-deadline", "--as", "udev"]].concat());
    let lines: Vec<&str> = rule.lines().collect();
    assert!(
        lines[0].starts_with('#')
            && lines[1..]
                == [
                    "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", KERNEL==\"sdX\", ATTR{queue/scheduler}=\"mq-deadline\""
                ],
        "{rule}"
    );
    let of_kind = |kind| succeeds(&[&arguments[..], &["--candidates", "none;mq-deadline", "--as", kind]].concat());
    let profile = of_kind("tuned");
    assert!(profile.starts_with("# Use mq-deadline") && profile.ends_with("devices=sdX\nelevator=mq-deadline\n"), "{profile}");
    let last = of_kind("sysctl").lines().last().map(str::to_owned).unwrap();
    assert_eq!(last, "# All of it is a setting of the disk, which sysctl cannot write: --as udev has it.");
    assert!(refused(&["advise", jobs, "--as", "udev", "--json"]).contains("--json"));
    assert!(refused(&["advise", jobs, "--as", "rpm"]).contains("udev"));
}

#[test]
fn a_load_with_a_known_answer_gets_it_with_a_true_prediction() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = scattered(folder.path());
    let advice = json(&[jobs.to_str().unwrap(), "--disk", "atlas10k", "--queue-depth", "1", "--scheduler", "noop"]);
    assert_eq!(advice["verdict"]["is_change"], true, "{advice:#}");
    let setting = advice["verdict"]["setting"].as_str().unwrap();
    let measured = advice["measured"].as_array().unwrap().iter().find(|one| one["setting"] == setting).unwrap();
    let figure = |name: &str| measured[name].as_f64().unwrap();
    assert!(figure("gain_percent") > 20.0 && figure("p99_by_bound") <= 1.0, "{measured:#}");
    let off = (figure("predicted_percent") - figure("gain_percent")).abs();
    assert!(off < 3.0 * figure("error_percent") + 5.0, "{measured:#}");
    // Measured figures equal those of a simulation of the load under that scheduler.
    let arguments =
        ["simulate", jobs.to_str().unwrap(), "--disk", "atlas10k", "--queue-depth", "1", "--json", "--scheduler", setting];
    let record: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
    let (run, alone) = (measured["throughput_mb_s"][1].as_f64().unwrap(), record["figures"]["throughput_mb_s"].as_f64().unwrap());
    assert!((run / alone - 1.0).abs() < 0.1, "{run} MB/s next to {alone}");
}

#[test]
fn a_recording_is_judged_by_its_own_times_and_cut_where_the_load_changes() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path(), 40);
    let advice = json(&[trace.to_str().unwrap()]);
    assert_eq!((&advice["is_simulated"], &advice["requests"]), (&false.into(), &4000.into()));
    assert!(advice["measured"].as_array().unwrap().is_empty(), "nothing was run");
    let spans: Vec<Vec<f64>> = advice["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["spans_s"].as_array().unwrap().iter().map(|span| span[0].as_f64().unwrap()).collect())
        .collect();
    assert_eq!(spans, [[0.0], [20.0]], "{advice:#}");
    assert!(!advice["device"].as_array().unwrap().is_empty());
    // With one outstanding request at a time, the scheduler has no choice.
    assert_eq!((&advice["verdict"]["is_change"], &advice["verdict"]["setting"]), (&false.into(), &"mq-deadline".into()));
}

#[test]
fn the_same_input_gives_the_same_bytes_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path(), 20);
    let once = |threads: &str| {
        let page = folder.path().join(format!("{threads}.html"));
        let printed = succeeds(&["advise", trace.to_str().unwrap(), "--threads", threads, "--html", page.to_str().unwrap()]);
        (printed, std::fs::read_to_string(page).unwrap())
    };
    let (printed, page) = once("1");
    assert!((printed.clone(), page.clone()) == once("3"));
    assert!(page.contains("<svg") && page.contains("</html>"));
    assert!(!printed.contains('\u{1b}'), "escape codes in a pipe");
}

#[test]
fn the_text_begins_with_the_verdict_and_keeps_to_the_terminals_width() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = scattered(folder.path());
    let arguments = ["advise", jobs.to_str().unwrap(), "--disk", "atlas10k", "--queue-depth", "1", "--scheduler", "noop"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise"));
    let output = command.args(arguments).env("COLUMNS", "80").stdin(Stdio::null()).output().unwrap();
    let printed = text(&output.stdout);
    assert!(printed.starts_with("Use "), "{printed}");
    for line in printed.lines().filter(|line| !line.starts_with("ACTION") && !line.starts_with('#')) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(printed.contains("± ") && printed.contains("(active)") && printed.contains("phase"), "{printed}");
    assert!(printed.contains("ACTION==\"add|change\"") || printed.contains("# Linux has no equivalent"), "{printed}");
}

#[test]
fn a_recorded_trace_can_be_run_on_a_disk_instead() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path(), 10);
    let advice =
        json(&[trace.to_str().unwrap(), "--disk", "atlas10k", "--fit", "compact", "--closed", "--candidates", "noop;sstf"]);
    assert_eq!(advice["is_simulated"], true);
    let mut names: Vec<&str> =
        advice["candidates"].as_array().unwrap().iter().map(|one| one["setting"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["mq-deadline", "noop", "sstf"]);
}

#[test]
fn what_gives_a_scheduler_no_choice_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("idle.csv");
    // A gap of a century between two requests must not be iterated second by second.
    let lines = "time_s,stream,op,lba,sectors,response_us\n0,1,R,0,8,5000\n3000000000,1,R,8,8,5000\n";
    std::fs::write(&path, lines).unwrap();
    let begun = Instant::now();
    let printed = succeeds(&["advise", path.to_str().unwrap()]);
    assert!(printed.starts_with("Leave mq-deadline alone: no second has 20 requests"), "{printed}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn the_shipped_trace_has_an_answer() {
    let advice = json(&[MIXED]);
    assert_eq!(advice["requests"], 156_805);
    assert!(!advice["phases"].as_array().unwrap().is_empty() && !advice["verdict"]["text"].as_str().unwrap().is_empty());
}

#[test]
fn a_mistake_is_named_with_what_would_be_right_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path(), 5);
    let good = trace.to_str().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let untimed = file("untimed.csv", "time_us,stream,op,lba,sectors\n0,1,R,0,8\n1,1,R,8,8\n");
    let damaged = file("damaged.csv", "time_us,stream,op,lba,sectors,response_us\n0,1,R,0,8,5\n1,1,R,zero,8,5\n");
    let empty = file("header.csv", "time_us,stream,op,lba,sectors,response_us\n");
    let jobs = file("wrong.fio", "[a]\nrw=sideways\n");
    let nowhere = folder.path().join("no such folder/page.html");
    let cases: &[(&[&str], &[&str])] = &[
        (&["/nonexistent/trace"], &["/nonexistent/trace"]),
        (&[&untimed], &["untimed.csv", "none of its 2 requests says when it was done", "--disk"]),
        (&[&damaged], &["damaged.csv:3", "zero"]),
        (&[&empty], &["header.csv", "no request"]),
        (&[&jobs], &["wrong.fio", "sideways"]),
        (&[good, "--speed", "3"], &["--speed", "--disk"]),
        (&[good, "--queue-depth", "3"], &["--queue-depth", "--disk"]),
        (&[good, "--device", "7"], &["--device 7", "devices 0"]),
        (&[good, "--device", "0", "--disk", "sata7200"], &["--device", "recording"]),
        (&[good, "--disk", "no-such-disk"], &["no-such-disk", "atlas10k"]),
        (&[good, "--scheduler", "dedline"], &["dedline", "deadline"]),
        (&[good, "--candidates", "noop;dedline"], &["dedline", "deadline"]),
        (&[good, "--candidates", "noop nr_requests=64"], &["nr_requests", "host"]),
        (&[good, "--preference", "9,9,9"], &["9,9,9"]),
        (&[good, "--html", nowhere.to_str().unwrap()], &["no such folder"]),
    ];
    for (arguments, words) in cases {
        let message = refused(&[&["advise"], *arguments].concat());
        for word in *words {
            assert!(message.contains(word), "{arguments:?}: the message does not name {word}:\n{message}");
        }
    }
}

#[test]
fn an_interrupt_stops_it_cleanly_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise"));
    command.args(["advise", MIXED, "--disk", "sata7200", "--closed", "--html", page.to_str().unwrap()]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let begun = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?} to stop", begun.elapsed());
    assert!(!page.exists());
}

/// Runs a process to its end and returns its peak memory in MB.
fn peak_mb(arguments: &[&str]) -> (u64, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise"));
    let mut child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        peak = line.trim().trim_end_matches(" kB").parse().map_or(peak, |kb: u64| kb / 1024);
        std::thread::yield_now();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    (peak, text(&output.stdout))
}

#[test]
fn a_long_recording_is_judged_whole_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.csv");
    let mut lines = String::from("time_us,stream,op,lba,sectors,response_us\n");
    for n in 0..700_000_u64 {
        let _ = writeln!(lines, "{},{},R,{},8,{}", n * 400, n % 3, (n * 104_729_000) % 1_000_000_000, 3_000 + n % 7 * 100);
    }
    std::fs::write(&path, lines).unwrap();
    let (peak, printed) = peak_mb(&["advise", path.to_str().unwrap(), "--candidates", "none;mq-deadline", "--json"]);
    let advice: Value = serde_json::from_str(&printed).unwrap();
    // Requests outstanding at the border of two phases belong to neither.
    let judged = advice["phases"][0]["requests"].as_u64().unwrap();
    assert!(advice["requests"] == 700_000 && (699_900..=700_000).contains(&judged), "{judged}");
    assert!((10..100).contains(&peak), "{peak} MB");
}

/// The same requests in a single trace, and split into two in a folder.
fn parts(folder: &Path) -> (PathBuf, PathBuf) {
    let whole = std::fs::read_to_string(recording(folder, 20)).unwrap();
    let inside = folder.join("parts");
    std::fs::create_dir(&inside).unwrap();
    let heading = whole.lines().next().unwrap();
    for part in [1, 2] {
        let of_part = |line: &&str| line.split(',').nth(1) == Some(if part == 1 { "1" } else { "2" });
        let lines: Vec<&str> = std::iter::once(heading).chain(whole.lines().filter(of_part)).collect();
        std::fs::write(inside.join(format!("{part}.csv")), lines.join("\n") + "\n").unwrap();
    }
    (folder.join("recorded.csv"), inside)
}

#[test]
fn several_traces_or_a_folder_of_them_are_what_they_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, inside) = parts(folder.path());
    let [whole, inside] = [&whole, &inside].map(|path| path.to_str().unwrap());
    let [one, two] = ["1.csv", "2.csv"].map(|name| format!("{inside}/{name}"));
    let named = "2 traces merged by time (1.csv, 2.csv)";
    // Parts begin at different times; requests keep their times.
    let figures = |loads: &[&str]| {
        let options = ["--same-devices", "--fit", "compact", "--json"];
        let options = if loads.len() > 1 || loads[0] == inside { &options[..] } else { &options[1..] };
        let record: Value = serde_json::from_str(&succeeds(&[&["simulate"], loads, options].concat())).unwrap();
        (record["trace"]["name"].as_str().unwrap().to_owned(), record["figures"].clone(), record["streams"].clone())
    };
    let (_, expected, streams) = figures(&[whole]);
    for loads in [&[one.as_str(), two.as_str()][..], &[inside]] {
        let (name, found, of_streams) = figures(loads);
        assert_eq!(
            (name.as_str(), &found["response"], &of_streams[0]["requests"]),
            (named, &expected["response"], &streams[0]["requests"])
        );
    }
    let advised = json(&[inside, "--same-devices"]);
    assert_eq!((&advised["load"], &advised["requests"]), (&named.into(), &2000.into()));
    let said = |command: &str| succeeds(&[command, inside, "--fit", "compact", "--disk", "sata7200", "--closed"]);
    for command in ["simulate", "compare", "advise"] {
        assert!(said(command).lines().next().unwrap().starts_with(named), "{command}");
    }
    let apart = succeeds(&["advise", inside]);
    assert!(apart.contains("The trace is of 2 devices") && apart.contains("--same-devices if these are parts"), "{apart}");
    let jobs = scattered(folder.path());
    let error = refused(&["compare", &one, jobs.to_str().unwrap()]);
    assert!(error.contains("scattered.fio: is a job file; only traces can be run together"), "{error}");
    assert!(refused(&["simulate", jobs.to_str().unwrap(), "--same-devices"]).contains("--same-devices: is for several traces"));
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(refused(&["advise", empty.to_str().unwrap()]).contains("empty: has no file in it"));
}

/// A writer whose commits wait behind two neighbours with bulk writes and reads.
fn database(folder: &Path) -> PathBuf {
    let path = folder.join("database.fio");
    let text = "[global]\nruntime=20\ntime_based\n[wal]\nrw=write\nioengine=sync\nfdatasync=1\nbs=4k\nsize=64m\nthinktime=2000\n\
                [bulk]\nrw=write\nbs=128k\nsize=1g\nioengine=psync\nprioclass=3\n\
                [scan]\nrw=read\nbs=128k\nsize=1g\nioengine=psync\nprioclass=3\n";
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn an_aim_decides_and_the_answer_names_the_streams_that_gain_and_lose() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = database(folder.path());
    let jobs = jobs.to_str().unwrap();
    let advised = |more: &[&str]| json(&[&[jobs, "--disk", "cloud-volume", "--candidates", "kernel"], more].concat());
    let advice = advised(&[]);
    let fsync = |advice: &Value| advice["effects"].as_array().unwrap().iter().find(|one| one["kind"] == "fsync").unwrap().clone();
    let (wal, figure) = (fsync(&advice), |one: &Value, of: &str| one[of]["p99_ms"].as_f64().unwrap());
    assert_eq!(wal["stream"], "wal");
    // Figures equal those of a simulation of the load under that scheduler.
    let record: Value = serde_json::from_str(&succeeds(&["simulate", jobs, "--disk", "cloud-volume", "--json"])).unwrap();
    let alone = record["jobs"][0]["service"]["syncs"]["response"]["p99_ms"].as_f64().unwrap();
    assert_eq!(figure(&wal, "active"), alone);

    let bound = figure(&wal, "active") / 3.0;
    let met = advised(&["--protect", &format!("wal:fsync:p99={bound}ms")]);
    let aim = &met["aims"][0];
    assert_eq!((&aim["is_met"], &met["verdict"]["is_change"]), (&true.into(), &true.into()), "{met:#}");
    assert!(aim["recommended"].as_f64().unwrap() <= bound && aim["active"].as_f64().unwrap() > bound, "{aim:#}");
    assert_eq!(met["measured"].as_array().unwrap().len(), 3, "every candidate but the active one was run");

    let text = succeeds(&["advise", jobs, "--disk", "cloud-volume", "--candidates", "kernel", "--protect", "wal:fsync:p99=1us"]);
    assert!(text.contains("no candidate meets wal:fsync:p99=1us") && text.contains("\nAim wal:fsync:p99=1us: not met, "), "{text}");
    // If the active setting meets the target, a setting that violates it must not be recommended.
    let kept = advised(&["--protect", &format!("wal:fsync:p99={}ms", 1.01 * figure(&wal, "active"))]);
    assert_eq!(kept["aims"][0]["is_met"], true, "{kept:#}");
}

#[test]
fn an_aim_that_names_nothing_is_refused_with_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = database(folder.path());
    let jobs = jobs.to_str().unwrap();
    let message = |more: &[&str]| refused(&[&["advise"], more].concat());
    let unknown = message(&[jobs, "--protect", "wall:fsync:p99=10ms"]);
    assert!(unknown.contains("there is no stream 'wall'; there are wal, bulk, scan"), "{unknown}");
    assert!(message(&[jobs, "--protect", "scan:fsync:p99=10ms"]).contains("scan has no fsync in this load"));
    assert!(message(&[jobs, "--protect", "wal:p98=10ms"]).contains("should be STREAM[:read|write|fsync]:QUANTITY=VALUE"));
    assert!(message(&[MIXED, "--protect", "postgres:fsync:p99=10ms"]).contains("of a recording only mean, p99 and throughput"));
    assert!(message(&[MIXED, "--vary", "read_ahead_kb=128,1024"]).contains("name a --disk to run it on"));
    assert!(message(&[jobs, "--vary", "fifo_batch=1,2"]).contains("--vary fifo_batch=1,2: host has no tunable 'fifo_batch'"));
}

#[test]
fn tunables_of_the_host_are_tried_and_the_rule_says_where_each_goes() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = folder.path().join("readers.fio");
    std::fs::write(&jobs, "[readers]\nnumjobs=4\nrw=read\nioengine=psync\nbs=64k\nsize=512m\nruntime=10\ntime_based\n").unwrap();
    let jobs = jobs.to_str().unwrap();
    let arguments = [jobs, "--disk", "sata7200", "--vary", "read_ahead_kb=128,4096", "--vary", "dirty_bytes=0,16777216"];
    let advice = json(&arguments);
    assert_eq!(advice["measured"].as_array().unwrap().len(), 16);
    let setting = advice["verdict"]["setting"].as_str().unwrap();
    assert!(setting.contains("read_ahead_kb=4096"), "longer runs of reads between seeks: {setting}");
    let rule = advice["udev"].to_string();
    assert!(rule.contains("ATTR{queue/read_ahead_kb}=\\\"4096\\\"") && rule.contains("# vm.dirty_bytes = "), "{rule}");
    // The built-in set with a larger read-ahead works for job files.
    let linux = json(&[jobs, "--disk", "sata7200", "--candidates", "linux"]);
    let wider =
        linux["measured"].as_array().unwrap().iter().find(|one| one["setting"] == "mq-deadline read_ahead_kb=1024").unwrap();
    assert!(wider["gain_percent"].as_f64().unwrap() > 2.0, "{wider:#}");
}

#[test]
fn slow_flash_stays_flash_and_disks_stay_disks() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // A full device that collects garbage constantly, a throttled device, and a slow device.
    let full = succeeds(&["disk", "show", "nvme-tlc"]).replace("initial_state = \"sequential\"", "initial_state = \"random\"");
    assert!(full.contains("initial_state = \"random\""));
    let full = file("full.toml", &full);
    let mixed = file(
        "mixed.fio",
        "[global]\nsize=20g\nruntime=6\ntime_based\ndirect=1\nioengine=libaio\n[reads]\nrw=randread\nbs=4k\niodepth=3\n[update]\nrw=randwrite\nbs=64k\niodepth=24\n",
    );
    let copy = file(
        "copy.fio",
        "[copy]\nrw=write\nbs=128k\nsize=1g\nioengine=psync\nend_fsync=1\n[view]\nrw=randread\nbs=16k\nsize=1g\nioengine=psync\nthinktime=15000\nruntime=20\ntime_based\n",
    );
    let kind = |jobs: &str, disk: &str| {
        let advice = json(&[jobs, "--disk", disk, "--candidates", "none"]);
        advice["device"].as_array().unwrap().iter().find(|one| one[0] == "kind of device").unwrap()[1].as_str().unwrap().to_owned()
    };
    let kinds = [kind(&mixed, &full), kind(&mixed, "cloud-volume"), kind(&copy, "sd-card")];
    assert_eq!(kinds, ["flash"; 3]);
    let kinds = [kind(&mixed, "sata7200"), kind(&copy, "sata7200"), kind(&mixed, "raid5-5x-sata7200")];
    assert_eq!(kinds, ["hard disk"; 3]);
    // Parameters that these requests do not determine are not reported.
    let text = succeeds(&["advise", &copy, "--disk", "sata7200", "--candidates", "none"]);
    assert!(text.contains("Not told by these requests, so that usual values were assumed: "), "{text}");
}

#[test]
fn a_limit_of_bytes_that_readers_in_order_meet_is_found_and_no_longer_read_ahead_is_promised_there() {
    let folder = tempfile::tempdir().unwrap();
    let text = succeeds(&["disk", "show", "cloud-volume"]);
    let (device, _) = text.split_once("[limits]").unwrap();
    let volume = folder.path().join("volume.toml");
    std::fs::write(&volume, format!("{device}[limits]\nmb_s = 45.0\n")).unwrap();
    let jobs = folder.path().join("readers.fio");
    let text = "[global]\nioengine=psync\nruntime=12\ntime_based\n[a]\nrw=read\nbs=64k\nsize=1g\n[b]\nrw=read\nbs=64k\nsize=1g\n\
                [c]\nrw=randread\nbs=4k\nsize=1g\nthinktime=5ms\n";
    std::fs::write(&jobs, text).unwrap();
    let arguments =
        [jobs.to_str().unwrap(), "--disk", volume.to_str().unwrap(), "--candidates", "none; mq-deadline read_ahead_kb=1024"];
    let advice = json(&arguments);
    let found = advice["device"].as_array().unwrap().iter().find(|one| one[0] == "limit of bytes");
    assert!(found.is_some_and(|one| one[1].as_str().unwrap().starts_with("45.")), "{:#}", advice["device"]);
    assert_eq!(advice["verdict"]["is_change"], false, "{:#}", advice["verdict"]);
}

#[test]
fn the_short_help_begins_with_the_options_used_first_and_groups_the_others() {
    let help = succeeds(&["advise", "-h"]);
    let first = help.split("\nOptions:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let options: Vec<&str> = first.lines().filter_map(|line| line.trim().strip_prefix("--")?.split(' ').next()).collect();
    assert_eq!(options, ["disk", "scheduler", "for", "protect", "html"]);
    for heading in ["Traces:", "Simulated host:", "Choice:", "Block devices:", "Output:"] {
        assert!(help.lines().any(|line| line == heading), "{heading} is missing in\n{help}");
    }
    assert!(help.lines().count() <= 70, "{} lines", help.lines().count());
}

#[test]
fn an_overloaded_replay_is_called_that_and_one_that_the_disk_keeps_up_with_is_not() {
    let advised = |more: &[&str]| succeeds(&[&["advise", MIXED, "--disk", "sata7200", "--candidates", "kernel"], more].concat());
    let said = advised(&["--speed", "5"]);
    assert!(said.lines().nth(1).unwrap().starts_with("Overloaded: The disk cannot keep up with 653 requests a second"), "{said}");
    let json: serde_json::Value = serde_json::from_str(&advised(&["--speed", "5", "--json"])).unwrap();
    assert!(json["overload"]["sustainable_speed"].as_f64().unwrap() < 5.0, "{json}");
    let calm: serde_json::Value = serde_json::from_str(&advised(&["--json"])).unwrap();
    assert!(calm["overload"].is_null());
    // A closed replay waits for the disk.
    assert!(!advised(&["--speed", "5", "--closed"]).contains("Overloaded"));
}
