//! Memory stays flat for traces of any length and content. One test alone, so that no other's memory is counted.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "it/trace_help/mod.rs"]
mod trace_help;

use std::io::Write;

use trace::{self, OpenOptions};
use trace_help::*;

/// The most memory this process has used so far.
fn peak_memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}

/// A gzip file of this many times the part, written part by part.
fn compressed(parts: usize, part: impl Fn(usize) -> Vec<u8>) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut encoder = flate2::write::GzEncoder::new(&file, flate2::Compression::fast());
    for number in 0..parts {
        encoder.write_all(&part(number)).unwrap();
    }
    encoder.finish().unwrap();
    file
}

/// Reads to the end and forgets; how many requests, and the error if it ends in one.
fn count(file: &tempfile::NamedTempFile) -> (u64, Option<String>) {
    let mut opened = trace::open(file.path(), &OpenOptions::default()).unwrap();
    let mut count = 0;
    while let Some(request) = opened.reader.next_request() {
        match request {
            Ok(_) => count += 1,
            Err(error) => return (count, Some(error.to_string())),
        }
    }
    (count, None)
}

#[test]
fn memory_stays_flat_however_long_a_trace_is() {
    let spc = |from: usize| -> Vec<u8> {
        (from * 1_000..from * 1_000 + 1_000).flat_map(|at| format!("0,{},8192,W,{at}.5\n", at % 77_777).into_bytes()).collect()
    };
    let long = compressed(1_000, spc);
    // Requests that nothing ever answers must not be waited for without bound.
    let unanswered = compressed(1_000, |from| {
        let at = |record: usize| (from * 1_000 + record) as u64;
        blktrace(&(0..1_000).map(|record| Blk::new(at(record), Q | READ, at(record) * 8, 8, 1)).collect::<Vec<_>>())
    });
    // A line without an end: 256 MiB of it in a small file.
    let endless = compressed(256, |from| if from == 0 { b"0,1,512,R,0\n".repeat(3) } else { vec![0; 1 << 20] });

    let Some(before) = peak_memory_kib() else {
        println!("skipped: /proc/self/status does not tell the memory used here");
        return;
    };
    assert_eq!(count(&long), (1_000_000, None));
    assert_eq!(count(&unanswered), (1_000_000, None));
    let (_, error) = count(&endless);
    assert!(
        error.as_ref().is_some_and(|error| error.ends_with(":4: the line is longer than 65536 bytes, which no valid line is")),
        "{error:?}"
    );
    let used = peak_memory_kib().unwrap() - before;
    assert!(used < 48 * 1024, "took {used} KiB");
}
