//! Committed rows survive a kill of the program.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use knowledge::{Filter, Knowledge};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tempfile::tempdir;

use crate::fixture::{run, window};
use crate::helper;

/// Kills the program after a delay and returns the number of windows that it had reported as committed.
#[allow(clippy::disallowed_methods, reason = "the moment of the kill is to be any, not one that the program offers")]
fn kill_after(mut child: Child, moment: Duration) -> u64 {
    let out = BufReader::new(child.stdout.take().unwrap());
    let listener = std::thread::spawn(move || {
        let lines = out.lines().map(Result::unwrap);
        lines.filter_map(|line| line.strip_prefix("committed ").and_then(|count| count.parse().ok())).last().unwrap_or(0)
    });
    std::thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap();
    listener.join().unwrap()
}

fn windows_of(path: &Path, number: u64) -> u64 {
    let knowledge = Knowledge::open(path).unwrap();
    knowledge.check().unwrap();
    let stored = knowledge.windows(&Filter::default()).map(Result::unwrap).filter(|stored| *stored.run == run(number));
    let mut count = 0;
    for (index, stored) in (0..).zip(stored) {
        assert_eq!(format!("{:?}", stored.row), format!("{:?}", window(index)));
        count += 1;
    }
    let decisions = knowledge.decisions(&Filter::default()).map(Result::unwrap).filter(|stored| *stored.run == run(number));
    assert_eq!(decisions.count() as u64, count, "a batch is there wholly or not at all");
    count
}

#[test]
fn committed_rows_survive_a_hundred_kills_at_random_moments() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2008);
    let folder = tempdir().unwrap();
    let (mut committed_in_all, mut killed_before_the_first_commit) = (0, 0);
    for round in 0..100 {
        // Ten programs in sequence write to the same file.
        let path = folder.path().join(format!("kb {}", round / 10));
        let child = helper::command(&[], "write for ever", &path, round).stdout(Stdio::piped()).spawn().unwrap();
        let committed = kill_after(child, Duration::from_micros(random.random_range(0..80_000)));
        let there = windows_of(&path, round);
        assert!(there >= committed, "round {round}: {committed} windows were committed, {there} are there");
        committed_in_all += committed;
        killed_before_the_first_commit += u64::from(committed == 0);
    }
    assert!(committed_in_all > 1000, "only {committed_in_all} windows were committed: the test saw too little");
    assert!(killed_before_the_first_commit < 90, "{killed_before_the_first_commit} were killed too early");
}

#[test]
fn two_programs_write_and_a_third_reads_the_same_file_at_once() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let writers: Vec<Child> =
        (0..2).map(|number| helper::command(&[], "write", &path, number).stdout(Stdio::piped()).spawn().unwrap()).collect();
    let knowledge = Knowledge::open(&path).unwrap();
    let mut readings = 0;
    while knowledge.summary().unwrap().windows < 4000 && readings < 10_000 {
        knowledge.windows(&Filter::default()).for_each(|stored| drop(stored.unwrap()));
        readings += 1;
        if readings > 10 && writers.iter().all(|writer| !Path::new(&format!("/proc/{}/exe", writer.id())).exists()) {
            break;
        }
    }
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    drop(knowledge);
    assert_eq!((windows_of(&path, 0), windows_of(&path, 1)), (2000, 2000));
}

#[test]
fn eight_at_once_create_the_file_once() {
    for _ in 0..10 {
        let folder = tempdir().unwrap();
        let path = folder.path().join("kb");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| Knowledge::open(&path).unwrap());
            }
        });
        assert_eq!(Knowledge::open_to_read(&path).unwrap().summary().unwrap().runs, 0);
    }
}
