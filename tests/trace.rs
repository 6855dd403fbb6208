//! End-to-end tests of `seekwise trace`: output, files, cleanup and exit codes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

fn seekwise(args: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    command(args).output().unwrap()
}

fn command(args: &[&dyn AsRef<std::ffi::OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise"));
    command.arg("trace").args(args.iter().map(|arg| arg.as_ref()));
    command
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mixed.parquet")
}

/// Names of all files in a folder, including hidden ones.
fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn info_of_the_shipped_trace_fits_a_terminal_and_names_the_programs() {
    let output = seekwise(&[&"info", &shipped()]);
    assert_eq!((output.status.code(), &*complaint(&output)), (Some(0), ""));
    let text = out(&output);
    assert!(text.starts_with("mixed.parquet (parquet): 156,805 requests in 1,199.9 s\n"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line:?} is wider than 80 columns");
    }
    assert!(text.contains("most common: 4 KiB 44%, 8 KiB 23%, 128 KiB 20%, 24 KiB 5%"), "{text}");
    assert!(text.contains(" sqlite3 ") && text.contains(" postgres "), "{text}");
}

#[test]
fn info_as_json_says_the_same_with_units_in_the_keys() {
    let output = seekwise(&[&"info", &"--json", &"--top", &"3", &shipped()]);
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&info["requests"], &info["format"]), (&156_805.into(), &"parquet".into()));
    assert_eq!(info["streams"].as_array().unwrap().len(), 3);
    assert!(info["read_mb"].as_f64().unwrap() > 1000.0);
    assert!(info["recorded_response"]["p99_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_trace_goes_through_every_format_and_comes_back() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    assert!(seekwise(&[&"convert", &shipped(), &at("a.csv")]).status.success());
    assert!(seekwise(&[&"convert", &at("a.csv"), &at("b.parquet")]).status.success());
    assert!(seekwise(&[&"convert", &at("b.parquet"), &at("c.csv")]).status.success());
    assert!(fs::read(at("a.csv")).unwrap() == fs::read(at("c.csv")).unwrap(), "CSV and Parquet hold everything");
    let to_blkparse = seekwise(&[&"convert", &at("b.parquet"), &at("d.blkparse")]);
    assert!(complaint(&to_blkparse).contains("blkparse has no place for devices' names"), "{}", complaint(&to_blkparse));
    let to_fio = seekwise(&[&"convert", &at("d.blkparse"), &at("e.iolog")]);
    assert!(complaint(&to_fio).contains("fio has no place for"), "{}", complaint(&to_fio));
    assert!(complaint(&to_fio).contains("response times: left out"), "{}", complaint(&to_fio));
    let info = seekwise(&[&"info", &"--json", &at("e.iolog")]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!((&info["requests"], &info["format"]), (&156_805.into(), &"fio".into()));
    assert_eq!(listing(folder.path()), ["a.csv", "b.parquet", "c.csv", "d.blkparse", "e.iolog"], "no temporary file is left");
}

#[test]
fn a_converted_file_has_the_permissions_of_any_new_file() {
    let folder = TempDir::new().unwrap();
    File::create(folder.path().join("any")).unwrap();
    assert!(seekwise(&[&"convert", &shipped(), &folder.path().join("trace.csv")]).status.success());
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("trace.csv"), mode("any"));
}

#[test]
fn text_goes_to_a_pipe_and_a_reader_that_leaves_early_is_no_failure() {
    let mut child =
        command(&[&"convert", &shipped(), &"-", &"--to", &"csv"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut beginning = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut beginning).unwrap();
    assert!(beginning.starts_with(b"arrival_ns,device,"));
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*complaint(&output)), (Some(0), ""));
}

#[test]
fn bad_input_ends_with_2_and_says_where_and_what() {
    let folder = TempDir::new().unwrap();
    let bad = folder.path().join("bad.csv");
    fs::write(&bad, "time_ms,lba,sectors,op\n0,1,8,read\n1,x,8,read\n2,3,8,read\n").unwrap();
    let target = folder.path().join("out.parquet");
    for (args, reason) in [
        (vec![&"info" as &dyn AsRef<std::ffi::OsStr>, &bad], "bad.csv:3: lba is \"x\""),
        (vec![&"convert", &bad, &target], "bad.csv:3: lba is \"x\""),
        (vec![&"info", &"/nonexistent/trace"], "seekwise: /nonexistent/trace: No such file or directory (os error 2)\n"),
        (vec![&"info", &bad, &"--format", &"tape"], "there is no trace format \"tape\""),
        (vec![&"convert", &bad, &"out.tape"], "out.tape: the extension does not tell the format"),
        (vec![&"convert", &bad, &"out", &"--to", &"tape"], "--to tape: traces are written as parquet, csv"),
        (vec![&"sort", &bad, &"out", &"--as", &"tape"], "--as tape: traces are written as parquet, csv"),
        (vec![&"lint", &bad], "bad.csv:3: lba is \"x\""),
        (vec![&"split-by-device", &bad, &target], "bad.csv:3: lba is \"x\""),
        (vec![&"merge", &bad, &bad, &target], "bad.csv:3: lba is \"x\""),
        (vec![&"slice", &bad, &target, &"--from", &"2s", &"--to", &"1s"], "--to 1000 ms: is not after --from 2000 ms"),
        (vec![&"convert", &bad, &"-", &"--to", &"parquet"], "parquet is not text"),
        (vec![&"convert", &bad, &"/dev/null", &"--to", &"csv"], "/dev/null is neither a file nor new"),
        (vec![&"convert", &bad, &folder.path(), &"--to", &"csv"], "is a folder"),
        (vec![&"convert", &bad, &"/nonexistent/out.csv"], "/nonexistent"),
    ] {
        let output = seekwise(&args);
        assert_eq!(output.status.code(), Some(2), "{reason}");
        let complaint = complaint(&output);
        assert!(complaint.starts_with("seekwise: ") && complaint.contains(reason), "{reason}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
    assert_eq!(listing(folder.path()), ["bad.csv"], "nothing is written when the input is bad");
    let output = seekwise(&[&"convert", &"--skip-bad", &bad, &target]);
    assert!(output.status.success());
    assert!(complaint(&output).contains("1 damaged record was skipped"), "{}", complaint(&output));
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    let (bad, target) = (folder.path().join("bad.csv"), folder.path().join("out.csv"));
    fs::write(&bad, "time_ms,lba,sectors,op\n0,1,8,read\n1,x,8,read\n").unwrap();
    fs::write(&target, "precious").unwrap();
    assert_eq!(seekwise(&[&"convert", &bad, &target]).status.code(), Some(2));
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = command(&[&"convert", &pipe, &folder.path().join("out.parquet")]).stderr(Stdio::piped()).spawn().unwrap();
    let feeder = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut pipe = File::create(pipe).unwrap();
            let _ = pipe.write_all(b"time_ms,lba,sectors,op\n");
            // Wait until the program has exited.
            for at in 0..u64::MAX {
                if writeln!(pipe, "{at},{},8,read", at * 8).is_err() {
                    return;
                }
            }
        }
    });
    let deadline = Instant::now() + Duration::from_secs(30);
    while listing(folder.path()).len() < 2 {
        assert!(Instant::now() < deadline, "the temporary file appears");
        std::thread::sleep(Duration::from_millis(10));
    }
    let process = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &process]).status().unwrap().success());
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "Ctrl-C ends the program");
        std::thread::sleep(Duration::from_millis(10));
    };
    feeder.join().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(listing(folder.path()), ["pipe.csv"]);
}

#[test]
fn formats_lists_what_is_read_and_written() {
    let text = out(&seekwise(&[&"formats"]));
    for format in sim::trace::ALL {
        assert!(text.contains(format.name), "{}", format.name);
    }
    assert!(text.contains(".parquet") && text.contains(".iolog"), "{text}");
}

#[test]
fn no_name_reaches_the_terminal_as_a_command_to_it() {
    let folder = TempDir::new().unwrap();
    let bell = folder.path().join("bell\u{7}\u{1b}[31m\nred.csv");
    let missing = seekwise(&[&"info", &bell]);
    assert_eq!(missing.status.code(), Some(2));
    fs::write(&bell, "time_us,stream_name,op,lba,sectors\n0,\u{1b}[2J\u{202e}evil,R,0,8\n").unwrap();
    let info = seekwise(&[&"info", &bell]);
    let converted = seekwise(&[&"convert", &bell, &folder.path().join("\u{1b}[2J.parquet")]);
    assert!(info.status.success() && converted.status.success(), "{}", complaint(&converted));
    assert!(out(&info).contains(": 1 request in "), "{}", out(&info));
    for text in [complaint(&missing), out(&info), complaint(&converted)] {
        assert!(!text.contains(['\u{7}', '\u{1b}', '\u{202e}']), "{text:?}");
        assert!(text.contains('\u{fffd}'), "{text:?}");
    }
}

#[test]
fn columns_describe_a_csv_of_any_kind() {
    let folder = TempDir::new().unwrap();
    let odd = folder.path().join("odd.csv");
    fs::write(&odd, "timestamp,offset,size,op\n1700000000.1,4096,4096,READ\n1700000000.2,8192,4096,WRITE\n").unwrap();
    let columns = "time=timestamp,offset=2,size=size,op=op,time-unit=s,offset-unit=bytes,size-unit=bytes";
    let info = seekwise(&[&"info", &odd, &"--columns", &columns]);
    assert!(out(&info).starts_with("odd.csv (columns): 2 requests in "), "{}{}", out(&info), complaint(&info));
    let converted = out(&seekwise(&[&"convert", &odd, &"-", &"--to", &"csv", &"--columns", &columns]));
    assert_eq!(converted.lines().count(), 3, "{converted}");
    let misspelt = seekwise(&[&"info", &odd, &"--columns", &columns.replace("time=", "tiem=")]);
    assert_eq!(misspelt.status.code(), Some(2));
    assert!(complaint(&misspelt).contains("did you mean time?"), "{}", complaint(&misspelt));
    let unnamed = seekwise(&[&"info", &odd, &"--columns", &columns.replace("=timestamp", "=timestmap")]);
    assert!(complaint(&unnamed).contains("did you mean timestamp?"), "{}", complaint(&unnamed));
}

#[test]
fn times_that_look_like_another_unit_are_warned_of() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("ns.iolog");
    let lines: String = (0..100).map(|at| format!("{} /f write {} 4096\n", at * 250_000, at * 4_096)).collect();
    fs::write(&log, format!("fio version 3 iolog\n{lines}")).unwrap();
    for output in [seekwise(&[&"info", &log]), seekwise(&[&"convert", &log, &"-", &"--to", &"csv"])] {
        assert_eq!(output.status.code(), Some(0));
        assert!(complaint(&output).contains("ns.iolog: its times may be nanoseconds"), "{}", complaint(&output));
    }
}

#[test]
fn a_trace_is_sorted_sliced_scaled_and_filtered_through_the_same_writers() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("in.csv"), "time_s,lba,sectors,op,stream_name\n2,8,8,r,db\n0,0,8,r,db\n0,0,8,r,db\n1,2048,8,w,log\n").unwrap();
    let lines = |args: &[&dyn AsRef<std::ffi::OsStr>]| {
        let output = seekwise(&[args, &[&"--as", &"csv"]].concat());
        assert!(output.status.success(), "{}", complaint(&output));
        let field = |line: &str| [0, 3, 5].map(|field| line.split(',').nth(field).unwrap().to_owned()).join(" ");
        out(&output).lines().skip(1).map(field).collect::<Vec<_>>()
    };
    assert_eq!(lines(&[&"sort", &at("in.csv"), &"-"]), ["0 0 read", "0 0 read", "1000000000 2048 write", "2000000000 8 read"]);
    assert_eq!(lines(&[&"sort", &at("in.csv"), &"-", &"--unique"]).len(), 3);
    assert_eq!(lines(&[&"slice", &at("in.csv"), &"-", &"--from", &"500ms", &"--to", &"2s"]), ["0 2048 write"]);
    assert_eq!(lines(&[&"slice", &at("in.csv"), &"-", &"--requests", &"3.."]), ["0 2048 write", "1000000000 8 read"]);
    assert_eq!(lines(&[&"scale", &at("in.csv"), &"-", &"--time", &"0.5", &"--space", &"2"])[2], "500000000 4096 write");
    assert_eq!(lines(&[&"filter", &at("in.csv"), &"-", &"--stream", &"log"]), ["1000000000 2048 write"]);
    assert_eq!(lines(&[&"filter", &at("in.csv"), &"-", &"--op", &"read", &"--offset", &"1K.."]), ["2000000000 8 read"]);
    let none = seekwise(&[&"filter", &at("in.csv"), &at("out.parquet"), &"--size", &"1M.."]);
    assert_eq!(none.status.code(), Some(2));
    assert!(complaint(&none).ends_with("in.csv: no request in it is written (format csv)\n"), "{}", complaint(&none));
    for (option, value, wanted) in
        [("--from", "10", "a time such as 90s"), ("--requests", "5..2", "numbers from 1"), ("--requests", "0..2", "numbers")]
    {
        let output = seekwise(&[&"slice", &at("in.csv"), &"-", &option, &value]);
        assert!(output.status.code() == Some(2) && complaint(&output).contains(wanted), "{}", complaint(&output));
    }
    assert_eq!(listing(folder.path()), ["in.csv"], "nothing is left behind");
}

#[test]
fn a_trace_is_split_by_device_and_merged_again() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let head = "arrival_ns,device,device_name,lba,sectors,op,sync,stream,stream_name,priority_class,priority_level,response_ns,service_ns\n";
    let line =
        |time: u64, device: u64, name: &str| format!("{time},{device},{name},{},8,read,,7,db,best-effort,4,900,\n", time * 8);
    let whole = head.to_owned() + &line(0, 0, "/dev/sda") + &line(1_000, 1, "") + &line(2_000, 0, "/dev/sda");
    fs::write(at("whole.csv"), &whole).unwrap();
    let split = seekwise(&[&"split-by-device", &at("whole.csv"), &at("parts"), &"--as", &"csv"]);
    assert!(split.status.success(), "{}", complaint(&split));
    assert_eq!(listing(&at("parts")), ["dev-sda.csv", "device-1.csv"]);
    assert_eq!(fs::read_to_string(at("parts/device-1.csv")).unwrap(), head.to_owned() + &line(1_000, 1, ""), "times stay");
    assert!(fs::metadata(at("parts")).unwrap().permissions().mode() & 0o555 == 0o555, "others may look into it");
    let again = seekwise(&[&"split-by-device", &at("whole.csv"), &at("parts")]);
    assert!(again.status.code() == Some(2) && complaint(&again).contains("parts: is there already; name a new folder"));
    let merged = seekwise(&[&"merge", &at("parts"), &at("merged.csv"), &"--same-devices"]);
    assert!(merged.status.success(), "{}", complaint(&merged));
    assert_eq!(fs::read_to_string(at("merged.csv")).unwrap(), whole.replace(",7,db", ",0,db"));
    assert_eq!(listing(folder.path()), ["merged.csv", "parts", "whole.csv"]);
}

#[test]
fn several_traces_or_a_folder_are_a_table_with_a_line_each() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("b.csv"), "time_s,lba,sectors,op\n0,0,8,r\n1,8,8,w\n").unwrap();
    fs::write(at("a.spc"), "0,8,4096,R,0.5\n0,16,4096,R,0.6\n0,16,4096,R,0.9\n").unwrap();
    fs::write(at("README"), "not a trace\n").unwrap();
    let table = seekwise(&[&"info", &folder.path()]);
    assert_eq!(table.status.code(), Some(0));
    let lines: Vec<Vec<String>> = out(&table).lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    assert_eq!(
        lines.iter().map(|line| line[..3].join(" ")).collect::<Vec<_>>(),
        ["trace format requests", "a.spc spc 3", "b.csv csv 2"]
    );
    assert!(complaint(&table).contains("README: no trace format begins like this"), "{}", complaint(&table));
    let json = seekwise(&[&"info", &"--json", &at("a.spc"), &at("b.csv")]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json[0]["requests"].as_u64(), json[1]["trace"].as_str()), (Some(3), Some("b.csv")));
    assert_eq!(seekwise(&[&"info", &at("a.spc"), &at("README")]).status.code(), Some(2), "a file that is named must be a trace");
}

#[test]
fn lint_says_what_is_wrong_and_which_command_mends_it() {
    let folder = TempDir::new().unwrap();
    let (bad, good) = (folder.path().join("bad trace.csv"), folder.path().join("good.csv"));
    fs::write(&bad, "time_ms,lba,sectors,op\n5,0,8,r\n1,8,0,r\n2,8,8,r\n9,8388600,16,w\n").unwrap();
    let output = seekwise(&[&"lint", &bad, &"--device-size", &"4G"]);
    assert_eq!((output.status.code(), complaint(&output).contains("bad trace.csv: 3 findings")), (Some(1), true));
    let text = out(&output);
    assert!(
        text.contains(
            "1 request out of order: earlier than the one before in the file\n      first: line 4, request 2, at -0.003000 s\n"
        ),
        "{text}"
    );
    assert!(text.contains(&format!("mend:  seekwise trace sort '{}' OUT\n", bad.display())), "{text}");
    assert!(
        text.contains("OUT --offset 0..4294967296\n") && text.contains("1 request of no sectors\n      first: line 3\n"),
        "{text}"
    );
    let json = seekwise(&[&"lint", &bad, &"--json"]);
    let findings: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json.status.code(), Some(1));
    assert_eq!((&findings["findings"][0]["kind"], &findings["findings"][0]["first"]["request"]), (&"order".into(), &2.into()));
    assert!(seekwise(&[&"sort", &bad, &good]).status.success(), "as it says");
    let clean = seekwise(&[&"lint", &good]);
    assert_eq!((clean.status.code(), complaint(&clean)), (Some(0), String::new()));
    assert!(out(&clean).ends_with("good.csv (csv): 3 requests, nothing found\n"), "{}", out(&clean));
}

#[test]
fn what_a_format_has_no_place_for_is_said_in_one_warning() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("in.csv"), "time_us,lba,sectors,op,sync,stream,response_us\n0,0,8,r,1,3,7\n1,8,8,d,1,3,7\n2,8,8,w,1,3,7\n")
        .unwrap();
    let output = seekwise(&[&"convert", &at("in.csv"), &at("out.mqsim")]);
    assert_eq!(
        complaint(&output).lines().map(|line| line.rsplit('/').next().unwrap()).collect::<Vec<_>>(),
        [
            "out.mqsim: mqsim has no place for discards, sync flags, streams, response times: left out",
            "out.mqsim: 2 requests, from csv to mqsim"
        ]
    );
    assert_eq!(fs::read_to_string(at("out.mqsim")).unwrap(), "0 0 0 8 1\n2000 0 8 8 0\n");
}

#[test]
fn flushes_are_among_what_no_format_has_a_place_for() {
    let folder = TempDir::new().unwrap();
    let (input, output) = (folder.path().join("in.blkparse"), folder.path().join("out.csv"));
    let lines =
        "  8,0 0 1 0.000000000 7 Q WS 8 + 8 [db]\n  8,0 0 2 0.100000000 7 Q FN [db]\n  8,0 0 3 0.200000000 7 Q WS 16 + 8 [db]\n";
    fs::write(&input, lines).unwrap();
    let said = complaint(&seekwise(&[&"convert", &input, &output]));
    assert!(said.contains("csv has no place for 1 empty command (flushes and the like): left out\n"), "{said}");
}

#[test]
fn a_column_of_latencies_is_the_response_time_and_two_of_them_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latencies.csv");
    std::fs::write(&path, "time_ms,lba,sectors,op,latency_ms\n0,0,8,r,5\n10,800000,8,r,7\n20,100,8,w,3\n").unwrap();
    let described = out(&seekwise(&[&"info", &path]));
    assert!(described.contains("response mean 5.0 ms, median 5.0"), "{described}");
    std::fs::write(&path, "time_ms,lba,sectors,op,latency_us,response_ms\n0,0,8,r,5,5\n").unwrap();
    let refused = complaint(&seekwise(&[&"info", &path]));
    assert!(refused.contains("two columns for the response time"), "{refused}");
}
