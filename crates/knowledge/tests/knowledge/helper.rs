//! Child processes of the tests: this test binary, with a task in its environment.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use block::Nanos;
use knowledge::{DecisionRow, Filter, Knowledge, Pace, Retention, Row, Writer};

use crate::fixture::{decision, request, run, window};

/// A command that runs `task` on the file. `through` is an optional wrapper program with its arguments.
pub fn command(through: &[&str], task: &str, path: &Path, run: u64) -> Command {
    let program = std::env::current_exe().unwrap();
    let words: Vec<&OsStr> = through.iter().map(OsStr::new).chain([program.as_os_str()]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["--exact", "helper::child_process_of_other_tests", "--nocapture", "--test-threads=1"]);
    command.env("KNOWLEDGE_TASK", task).env("KNOWLEDGE_FILE", path).env("KNOWLEDGE_RUN", run.to_string());
    command
}

#[test]
fn child_process_of_other_tests() {
    // Run as an ordinary test: nothing to do.
    let Some(path) = std::env::var_os("KNOWLEDGE_FILE") else { return };
    let number = std::env::var("KNOWLEDGE_RUN").unwrap().parse().unwrap();
    match std::env::var("KNOWLEDGE_TASK").unwrap().as_str() {
        "write for ever" => write(Path::new(&path), number, u64::MAX),
        "write" => write(Path::new(&path), number, 2000),
        "agent" => crate::fleet::live_as_agent(Path::new(&path), number, Path::new(&std::env::var_os("KNOWLEDGE_SERVER").unwrap())),
        "fill the disk" => fill(Path::new(&path)),
        task => panic!("no task is called {task}"),
    }
}

/// Prints a line, bypassing the capture of the test harness.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

/// Writes windows, decisions and requests in small batches, and prints the number of committed windows after each.
fn write(path: &Path, number: u64, windows: u64) {
    // A low limit on requests, so that pruning happens while others write.
    let retention = Retention { windows: u64::MAX, requests: 500, ..Retention::default() };
    let mut writer = Writer::open(path, run(number), Pace { rows: 9, time: Nanos::MAX }, retention);
    for index in 0..windows {
        for row in [Row::from(window(index)), decision(index).into(), request(index).into()] {
            writer.write(Nanos(index), row);
        }
        if writer.committed() == (index + 1) * 3 {
            say(&format!("committed {}", index + 1));
        }
        assert_eq!(writer.failed(), None);
    }
    writer.finish().unwrap();
}

/// Writes until the disk is full, continues, and checks that all committed rows are present.
fn fill(path: &Path) {
    let mut writer = Writer::open(path, run(1), Pace { rows: 10, time: Nanos::MAX }, Retention::default());
    let mut written = 0;
    while writer.failed().is_none() {
        assert!(written < 1_000_000, "the disk does not become full");
        writer.write(Nanos(written), DecisionRow { why: "x".repeat(500), ..decision(written) });
        written += 1;
    }
    let reason = writer.failed().unwrap().to_owned();
    let committed = writer.committed();
    for number in 0..1000 {
        writer.write(Nanos(written), request(number));
    }
    assert_eq!((writer.failed(), writer.committed()), (Some(reason.as_str()), committed));
    say(&format!("reason: {reason}"));
    let knowledge = Knowledge::open_to_read(path).unwrap();
    knowledge.check().unwrap();
    assert_eq!(knowledge.decisions(&Filter::default()).map(Result::unwrap).count() as u64, committed);
    say(&format!("there are {}", if committed > 100 { "many" } else { "few" }));
}
