//! Files that a job creates by writing them.

use super::invalidating::on_a_host;

/// The writes of etcd's write-ahead log, as fio's users measure them.
fn log(options: &str) -> String {
    format!("[log]\nrw=write\nioengine=sync\nfdatasync=1\nsize=1m\nbs=2300\n{options}")
}

#[test]
fn small_writes_to_a_new_file_wait_for_no_read_and_their_bytes_are_those_of_the_calls() {
    let (_, new) = on_a_host(&log(""));
    let calls = (1 << 20) / 2300;
    assert_eq!((new.measure.writes.count(), new.measure.written_bytes, new.measure.read_bytes), (calls, calls * 2300, 0));
    // 2300 bytes are copied; a read takes milliseconds.
    assert!(new.measure.writes.mean().as_millis_f64() < 0.01, "{}", new.measure.writes.mean());
    let (_, filled) = on_a_host(&log("overwrite=1\n"));
    assert_eq!(filled.measure.written_bytes, calls * 2300);
    assert!(filled.measure.writes.mean().as_millis_f64() > 0.1, "{}", filled.measure.writes.mean());
}

/// The case of a user's, where it is at hand: `shared/cases` next to the workspace. fio writes 22.0 MiB.
#[test]
fn etcds_log_is_as_many_bytes_as_fio_writes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/field/03-etcd-fsync.fio");
    let Ok(text) = std::fs::read_to_string(path) else { return println!("skipped: {path} is not at hand") };
    let (_, outcome) = on_a_host(&text);
    assert_eq!(outcome.measure.written_bytes, (22 << 20) / 2300 * 2300);
    assert!(outcome.measure.writes.mean().as_millis_f64() < 0.01, "{}", outcome.measure.writes.mean());
}
