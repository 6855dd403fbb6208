//! Errors name file, line and remedy; damaged records can be skipped and are counted.

use std::path::Path;

use crate::trace_help::{PACKERS, error, file, gzip, read, read_as, read_path, read_skipping, shown};
use trace::{OpenOptions, TraceError};

const SPC: &str = "0,100,8192,W,0.5\n1,200,512,r,0.6\n0,300,512,R,1.5\n";

#[test]
fn a_missing_file_a_folder_and_an_empty_file_have_different_errors() {
    let missing = read_path(Path::new("/no/such/trace"), &OpenOptions::default());
    assert!(matches!(missing, Err(TraceError::Io { .. })), "{}", error(missing));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(error(read_path(folder.path(), &OpenOptions::default())), "is a directory; name a trace file");
    assert_eq!(error(read("")), "is empty; a trace has at least one request");
    assert_eq!(error(read(gzip(b""))), "is empty; a trace has at least one request");
}

#[test]
fn an_unknown_kind_of_file_is_described_with_the_known_formats() {
    let message = error(read(b"\x7fELF\x02\x01\x01\0\0\0\0\0".repeat(50)));
    assert!(message.contains("a binary file, first bytes \"\\x7fELF") && message.contains("blktrace, blkparse, fio"), "{message}");
    assert!(error(read("Dear diary,\nnothing happened.\n")).contains("first line \"Dear diary,\""));
    let mut archive = vec![b'x'; 1024];
    archive[257..262].copy_from_slice(b"ustar");
    assert!(error(read(archive)).contains("tar archive"));
}

#[test]
fn an_unknown_format_name_lists_the_names_there_are() {
    let message = error(read_as("blktraze", SPC));
    assert!(message.contains("no trace format \"blktraze\"") && message.contains("spc, msr, disksim"), "{message}");
}

#[test]
fn a_wrong_named_format_is_an_error_with_the_reason() {
    assert_eq!(
        error(read_as("msr", SPC)),
        "1: has 5 fields; an MSR line is Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"
    );
    assert!(error(read_as("fio", SPC)).contains("not \"fio version 2 iolog\""));
    assert!(error(read_as("vscsi", SPC)).contains("is no VSCSI trace"));
    assert!(error(read_as("blktrace", SPC)).contains("is not a blktrace file"));
    assert_eq!(
        error(read_as("csv", SPC)),
        "1: the heading has no column for the arrival: name it time_s, time_ms, time_us or time_ns; no column for the place: name it lba \
         or offset_bytes; no column for the size: name it sectors or size_bytes; no column for the direction: name it op or is_read; not \
         known are \"0\", \"100\", \"8192\", \"W\", \"0.5\""
    );
}

#[test]
fn damage_is_an_error_that_names_line_value_and_remedy() {
    let cases = [
        ("0,1,512,X,0.5", "the opcode is \"X\", not r, R, w or W"),
        ("0,-1,512,R,0.5", "the LBA is \"-1\", not a whole number from 0 to 2^64 - 1"),
        ("0,1,512,R,soon", "the timestamp is \"soon\", not a time in s from 0 to 2^64 ns"),
        ("0,1,512,R,-0.5", "the timestamp is \"-0.5\", not a time in s from 0 to 2^64 ns"),
        ("0,1,512,R,nan", "the timestamp is \"nan\", not a time in s from 0 to 2^64 ns"),
        ("0,1,512,R,1e300", "the timestamp is \"1e300\", not a time in s from 0 to 2^64 ns"),
        ("0,1,512,R,99999999999999999999", "the timestamp is \"99999999999999999999\", not a time in s from 0 to 2^64 ns"),
        ("4294967296,1,512,R,0.5", "the ASU is \"4294967296\", beyond 2^32 - 1"),
        ("0,1,512", "has 3 fields; an SPC line is ASU,LBA,size,opcode,timestamp"),
        (
            "0,36028797018963968,512,R,1",
            "1 sectors at sector 36028797018963968 are beyond any disk: at most 2^32 - 1 sectors, ending before 2^55",
        ),
        (
            "0,0,18446744073709551615,R,1",
            "36028797018963968 sectors at sector 0 are beyond any disk: at most 2^32 - 1 sectors, ending before 2^55",
        ),
        ("\u{1b}[2J\0", "has 1 fields; an SPC line is ASU,LBA,size,opcode,timestamp"),
    ];
    for (line, message) in cases {
        let trace = format!("{SPC}{line}\n{SPC}");
        assert_eq!(error(read(&trace)), format!("4: {message}"));
        let read = read_skipping(&trace);
        // The rest begins again at 0.5 s, within the sorted window.
        assert_eq!(read.map(|read| (read.requests.len(), read.reader.skipped())).ok(), Some((6, 1)), "{line:?}");
    }
}

#[test]
fn a_value_in_a_message_is_short_and_harmless_on_a_terminal() {
    let message = error(read(format!("{SPC}0,1,512,\u{1b}[31m{},1\n", "x".repeat(10_000))));
    assert!(message.len() < 200 && !message.contains('\u{1b}'), "{message}");
}

#[test]
fn an_unknown_heading_is_rejected_with_the_missing_columns() {
    assert_eq!(
        error(read("Timestamp;LBA;Size;Op\n1;2;3;r\n")),
        "looks like CSV, but the heading has no column for the arrival: name it time_s, time_ms, time_us or time_ns; no column for the \
         size: name it sectors or size_bytes; not known are \"Timestamp\", \"Size\"; or say with --columns which column is what"
    );
    assert_eq!(
        error(read("time_ms,lba,device\n1,2,3\n")),
        "looks like CSV, but the heading has no column for the size: name it sectors or size_bytes; no column for the direction: name \
         it op or is_read; all its columns are known; or say with --columns which column is what"
    );
    let twice = error(read("time_ms,time_s,lba,sectors,op\n1,2,3,4,r\n"));
    let expected = "looks like CSV, but the heading has two columns for the arrival: keep one of them; or say with \
                    --columns which column is what";
    assert_eq!(twice, expected);
    let wide = error(read(format!("{}\n1,2,3\n", "column,".repeat(1_000) + "last")));
    assert!(wide.ends_with("\"column\", ...; or say with --columns which column is what") && wide.len() < 600, "{wide}");
    for text in ["1,2,3,x\n4,5,6,x\n", "some,text\n", "some text, that is none; of them\n"] {
        assert!(error(read(text)).starts_with("no trace format begins like this"), "{text}");
    }
}

#[test]
fn errors_in_csv_headings_name_missing_and_repeated_columns() {
    let missing = |heading: &str| error(read_as("csv", format!("{heading}\n1,2,3,r,5\n")));
    assert!(missing("time_ms,lba,sectors").contains("no column for the direction: name it op or is_read"));
    assert!(missing("time_ms,lba,op").contains("no column for the size"));
    assert!(missing("time_ms,time_us,lba,sectors,op").contains("two columns for the arrival"));
    let csv = |line: &str| error(read(format!("time_ms,lba,sectors,op,sync\n{line}\n")));
    assert_eq!(csv("1,2,3,r"), "2: does not have the 5 fields that the heading names");
    assert_eq!(csv("1,2,3,r,1,1"), "2: does not have the 5 fields that the heading names");
    assert_eq!(csv("1,2,3,erase,1"), "2: op is \"erase\", not read, write, discard, r, w or d");
    assert_eq!(csv("1,2,3,r,yes"), "2: sync is \"yes\", not 1, 0, true or false");
    assert_eq!(csv("1,2,3,\"r,1"), "2: has an opening quotation mark without a closing one");
}

#[test]
fn errors_in_fio_logs_name_the_unknown_part() {
    assert!(error(read("fio version 2 iolog\n/a read 0 512\n/a frobnicate 0 0\n")).starts_with("3: the action is \"frobnicate\""));
    assert!(error(read("fio version 3 iolog\n1 /a wait 5 0\n")).starts_with("2: version 3 has no wait"));
    assert!(error(read("fio version 2 iolog\n/a wait 18446744073709551615 0\n")).contains("exceed 2^64 ns"));
    assert!(error(read("fio version 2 iolog\n/a read 0\n")).starts_with("2: the length is \"\""));
}

#[test]
fn compression_is_seen_through_also_of_several_members() {
    let parts = [SPC.as_bytes(), b"0,300,512,R,2.5\n"];
    for (_, compress) in PACKERS {
        let both = [compress(parts[0]), compress(parts[1])].concat();
        let read = read(both).unwrap();
        assert_eq!(shown(&read).last().map(String::as_str), Some("2000000000 0 0 Read 300+1"));
    }
}

#[test]
fn a_truncated_or_damaged_compressed_file_says_where() {
    let lines: String = (0..50_000).map(|at| format!("0,{},512,R,{at}\n", at * 7919 % 100_003)).collect();
    for (name, compress) in PACKERS {
        let compressed = compress(lines.as_bytes());
        let message = error(read(&compressed[..compressed.len() / 2]));
        assert!(message.contains(&format!("the {name} file ends too early, at its byte {}", compressed.len() / 2)), "{message}");
        let line: u64 = message.split(':').next().unwrap().parse().unwrap();
        assert!((1000..50_000).contains(&line), "line {line} of 50,000 is about where half of it ends");
        let mut damaged = compressed.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 20].fill(0xff);
        let message = error(read(&damaged));
        assert!(message.contains(&format!("the {name} data is damaged before byte")), "{message}");
    }
}

#[test]
fn a_long_line_can_be_passed_over() {
    let trace = format!("{SPC}{}\n{SPC}", "9".repeat(1_000_000));
    let read = read_skipping(trace).unwrap();
    assert_eq!((read.requests.len(), read.reader.skipped()), (6, 1));
}

#[test]
fn slight_disorder_is_sorted_and_equal_times_keep_their_order() {
    let trace = "0,1,512,R,2.0\n0,2,512,R,1.0\n0,3,512,R,1.5\n0,4,512,R,1.0\n0,5,512,R,3.0\n0,6,512,R,0.5\n";
    let read = read(trace).unwrap();
    let order: Vec<_> = read.requests.iter().map(|request| (request.arrival.0 / 1_000_000, request.lba)).collect();
    assert_eq!(order, [(0, 6), (500, 2), (500, 4), (1000, 3), (1500, 1), (2500, 5)]);
}

#[test]
fn large_disorder_is_an_error_that_says_to_sort() {
    let mut trace: String = (0..65_535).map(|at| format!("0,{at},512,R,{}\n", 10 + at)).collect();
    trace.push_str("0,0,512,R,5\n");
    assert_eq!(read(&trace).unwrap().requests.len(), 65_536, "just within the window");
    let trace = format!("0,1,512,R,9\n0,1,512,R,9\n{trace}");
    let message = error(read(&trace));
    assert!(message.starts_with("65538: arrives 4000 ms before") && message.contains("sort the trace by time"), "{message}");
    let read = read_skipping(&trace).unwrap();
    assert_eq!((read.requests.len(), read.reader.skipped()), (65_537, 1));
}

#[test]
fn an_error_names_the_file() {
    let file = file("0,1,512,R,1\n0,1,512,R,1\n0,1,512,Q,1\n");
    let error = read_path(file.path(), &OpenOptions::default()).err().unwrap().to_string();
    assert_eq!(error, format!("{}:3: the opcode is \"Q\", not r, R, w or W", file.path().display()));
}
