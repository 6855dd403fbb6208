//! Real traces are read in full, where they are at hand: `shared/data` next to the workspace, and the cases of `shared/cases`.

use std::path::{Path, PathBuf};

use crate::trace_help::{Read, read_path, show};
use block::Op;
use trace::OpenOptions;

/// A file of the shared data, or `None` with a printed reason.
fn read(name: &str) -> Option<Read> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")).join(name);
    if !path.exists() {
        println!("skipped: {name} is not at hand in {}", path.display());
        return None;
    }
    Some(read_path(&path, &OpenOptions::default()).unwrap())
}

#[test]
fn the_measured_drives_tables_are_csv_with_response_times() {
    for drive in ["atlas10k", "barracuda", "cheetah9LP", "hp_c2247a", "ibm18es"] {
        let Some(read) = read(&format!("measured/{drive}.csv")) else { continue };
        // The HP drive's table has one row less than the others.
        let lines = if drive == "hp_c2247a" { 9_999 } else { 10_000 };
        assert_eq!((read.format, read.requests.len(), read.reader.omitted()), ("csv", lines, 0), "{drive}");
        assert!(read.requests.iter().all(|request| request.response.is_some()), "{drive}");
        if drive == "atlas10k" {
            assert_eq!(show(&read.requests[0]), "0 0 0 Write 4583176+4 response=663000");
            assert_eq!(show(&read.requests[1]), "46085000 0 0 Write 4583180+4 response=607000");
        }
    }
}

#[test]
fn the_workstations_week_is_csv_with_two_disks_and_a_sync_flag() {
    let Some(read) = read("traces/hp-ajw-part1.csv") else { return };
    assert_eq!((read.format, read.requests.len()), ("csv", 26_711));
    assert_eq!(show(&read.requests[0]), "0 1 1 Read 528+8 sync=true response=19687000 service=19513000");
    let mut devices: Vec<_> = read.requests.iter().map(|request| request.device).collect();
    devices.sort_unstable();
    devices.dedup();
    assert_eq!(devices.len(), 2);
    assert!(read.requests.iter().any(|request| request.sync == Some(false)));
}

#[test]
fn the_virtual_disks_trace_is_vscsi_of_68_minutes() {
    let Some(read) = read("traces/cloudphysics-part1.vscsi") else { return };
    assert_eq!((read.format, read.requests.len() as u64 + read.reader.omitted(), read.reader.skipped()), ("vscsi", 60_000, 0));
    assert_eq!(show(&read.requests[0]), "0 0 0 Write 42932745+1");
    let minutes = read.requests.last().unwrap().arrival.as_secs_f64() / 60.0;
    assert!((67.0..69.0).contains(&minutes), "{minutes}");
    assert!(read.requests.iter().any(|request| request.op == Op::Read));
}

/// A case from `shared/cases/field`, in a folder of that name next to the workspace or above it; or `None` with a printed reason.
fn field(name: &str, options: &OpenOptions) -> Option<Read> {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let Some(path) = folders.map(|folder| folder.join("shared/cases/field").join(name)).find(|path| path.exists()) else {
        println!("skipped: {name} is not at hand");
        return None;
    };
    Some(read_path(&path, options).unwrap())
}

/// Its format, its number of requests, and the first two.
fn summary(read: &Read) -> (&str, usize, Vec<String>) {
    (read.format, read.requests.len(), read.requests.iter().take(2).map(show).collect())
}

#[test]
fn the_case_of_systor_is_read() {
    let Some(read) = field("28-systor17.csv", &OpenOptions::default()) else { return };
    let first = ["0 4 4 Read 88+16 response=312000", "400000 4 4 Write 2368+8 response=1312000"];
    assert_eq!(summary(&read), ("systor", 4, first.map(str::to_owned).to_vec()));
}

#[test]
fn the_case_of_fiu_is_read() {
    let Some(read) = field("12-fiu.txt", &OpenOptions::default()) else { return };
    let first = ["0 0 402 Write 401840632+8", "149755562 0 733 Read 727540496+8"];
    assert_eq!(summary(&read), ("fiu", 20, first.map(str::to_owned).to_vec()));
    assert_eq!(read.reader.stream_name(55), Some("kworker/u4"));
}

#[test]
fn the_case_of_biosnoop_is_read() {
    let Some(read) = field("15-biosnoop-bcc.txt", &OpenOptions::default()) else { return };
    assert_eq!((read.format, read.requests.len(), read.reader.stream_name(811)), ("biosnoop", 24, Some("mysqld")));
}

#[test]
fn the_case_of_any_csv_is_read() {
    let columns = "time=timestamp,offset=offset,size=size,op=op,time-unit=s,offset-unit=bytes,size-unit=bytes";
    let options = OpenOptions { columns: Some(columns.parse().unwrap()), ..OpenOptions::default() };
    let Some(read) = field("31-generic.csv", &options) else { return };
    let first = ["0 0 0 Read 8+8", "100000000 0 0 Write 16+8"];
    assert_eq!(summary(&read), ("columns", 2, first.map(str::to_owned).to_vec()));
}

#[test]
fn the_case_of_trace_cmd_is_read() {
    let Some(read) = field("27b-trace-cmd.txt", &OpenOptions::default()) else { return };
    let first = "0 0 12345 Write 12345678+8 sync=true response=2100000 service=2000000";
    assert_eq!(summary(&read), ("tracefs", 1, vec![first.to_owned()]));
}

#[test]
fn the_case_of_mqsim_is_read_where_it_is_named() {
    let options = OpenOptions { format: Some("mqsim".into()), ..OpenOptions::default() };
    let Some(read) = field("01-mqsim-ns.trace", &options) else { return };
    assert_eq!(summary(&read), ("mqsim", 200, vec!["0 3 3 Write 118445+32".to_owned(), "17101 3 3 Write 165119+32".to_owned()]));
}

#[test]
fn the_case_of_oraclegeneral_is_read() {
    let Some(read) = field("02-oraclegeneral.bin", &OpenOptions::default()) else { return };
    let first = ["0 0 0 Read 81920+128", "0 0 0 Read 106496+8"];
    assert_eq!(summary(&read), ("oraclegeneral", 300, first.map(str::to_owned).to_vec()));
}

#[test]
fn the_case_of_a_store_that_pyarrow_rewrote_is_read() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/hostile/parquet-pyarrow-rewrite/rewritten.parquet");
    if !path.exists() {
        println!("skipped: {} is not at hand", path.display());
        return;
    }
    let read = read_path(&path, &OpenOptions::default()).unwrap();
    assert_eq!((read.format, read.requests.len(), read.reader.warnings().len()), ("parquet", 500, 1));
}

#[test]
fn the_cases_of_fio_wait_for_milliseconds_and_doubt_nanoseconds() {
    let Some(read) = field("36-iolog2-wait.iolog", &OpenOptions::default()) else { return };
    let both = ["0 0 0 Write 0+8", "0 0 0 Write 8+8"];
    assert_eq!(summary(&read), ("fio", 2, both.map(str::to_owned).to_vec()));
    let Some(read) = field("34-iolog3-ns.iolog", &OpenOptions::default()) else { return };
    assert_eq!(read.reader.warnings().len(), 1);
}
