//! `seekwise trace` as a person meets it: what it prints, what it writes, what it leaves behind and how it ends.

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

/// What is in a folder, hidden files included.
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
            // Until the program has gone away.
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
