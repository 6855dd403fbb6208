//! Traces out of traces: sorted, cut, scaled, filtered, merged; and the faults of one.

use std::path::Path;

use crate::trace_help::*;
use block::{Nanos, Op};
use trace::change::{Change, Changed, Filter, Scale, Slice, Unique};
use trace::lint::{self, FaultKind, Finding, Known};
use trace::merge::{Identity, Merged, Part};
use trace::{OpenOptions, Order, TraceReader};

fn reader(content: &str, order: Order) -> Box<dyn TraceReader> {
    let file = file(content);
    trace::open(file.path(), &OpenOptions { order, ..OpenOptions::default() }).unwrap().reader
}

fn all(reader: &mut dyn TraceReader) -> Vec<String> {
    std::iter::from_fn(|| reader.next_request()).map(|request| show(&request.unwrap())).collect()
}

fn changed(content: &str, change: impl Change) -> Vec<String> {
    all(&mut Changed::new(reader(content, Order::FromZero), Path::new("it"), change))
}

const FOUR: &str = "time_ms,lba,sectors,op,stream,stream_name,device\n0,2048,8,r,1,db,0\n10,4100,8,w,2,log,1\n\
                    20,8192,64,r,1,db,0\n30,0,8,d,3,,0\n";

#[test]
fn requests_come_in_the_order_and_by_the_clock_that_is_asked_for() {
    let late = "time_ms,lba,sectors,op\n1005,8,8,r\n1000,0,8,r\n1010,16,8,r\n";
    assert_eq!(all(&mut *reader(late, Order::FromZero)), ["0 0 0 Read 0+8", "5000000 0 0 Read 8+8", "10000000 0 0 Read 16+8"]);
    let own = ["1000000000 0 0 Read 0+8", "1005000000 0 0 Read 8+8", "1010000000 0 0 Read 16+8"];
    assert_eq!(all(&mut *reader(late, Order::OwnClock)), own);
    assert_eq!(all(&mut *reader(late, Order::OfTheFile)), [own[1], own[0], own[2]]);
    let mut as_it_is = reader(late, Order::OfTheFile);
    as_it_is.next_request();
    assert_eq!(as_it_is.position().as_deref(), Some("line 2"));
}

#[test]
fn a_slice_by_time_or_number_begins_at_zero() {
    let middle = ["0 1 2 Write 4100+8", "10000000 0 1 Read 8192+64"];
    assert_eq!(changed(FOUR, Slice::new(Nanos::from_millis(10)..Nanos::from_millis(30), 1..=u64::MAX)), middle);
    assert_eq!(changed(FOUR, Slice::new(Nanos::ZERO..Nanos::MAX, 2..=3)), middle);
    assert_eq!(changed(FOUR, Slice::new(Nanos::from_millis(20)..Nanos::MAX, 1..=3)), ["0 0 1 Read 8192+64"]);
}

#[test]
fn times_and_areas_are_scaled_and_places_within_an_area_stay() {
    assert_eq!(
        changed(FOUR, Scale { time: 0.5, space: 3.0 }),
        ["0 0 1 Read 6144+8", "5000000 1 2 Write 12292+8", "10000000 0 1 Read 24576+64", "15000000 0 3 Discard 0+8"]
    );
    assert_eq!(changed(FOUR, Scale { time: 1.0, space: 0.5 })[..2], ["0 0 1 Read 0+8", "10000000 1 2 Write 2052+8"]);
    let far = reader("time_ms,lba,sectors,op\n0,36028797018963900,8,r\n", Order::FromZero);
    let error = Changed::new(far, Path::new("it"), Scale { time: 1.0, space: 2.0 }).next_request().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "it:request 1: is at sector 36028797018963900: times 2 that is beyond sector 2^55");
}

fn any() -> Filter {
    let (ops, streams, devices) = (vec![], vec![], vec![]);
    Filter { ops, streams, devices, offset: 0..u64::MAX, size: 0..=u64::MAX }
}

#[test]
fn a_filter_keeps_what_meets_every_condition_and_times_stay() {
    let lines =
        |filter: Filter| changed(FOUR, filter).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(any()).len(), 4);
    assert_eq!(lines(Filter { ops: vec![Op::Write, Op::Discard], ..any() }), ["10000000", "30000000"]);
    assert_eq!(lines(Filter { streams: vec!["db".into()], ..any() }), ["0", "20000000"]);
    assert_eq!(lines(Filter { streams: vec!["3".into(), "log".into()], ..any() }), ["10000000", "30000000"]);
    assert_eq!(lines(Filter { devices: vec!["1".into()], ..any() }), ["10000000"]);
    assert_eq!(lines(Filter { offset: 1 << 20..4 << 20, ..any() }), ["0", "10000000"], "the end is excluded");
    assert_eq!(lines(Filter { size: 4097..=32_768, ..any() }), ["20000000"], "the end is included");
    assert_eq!(lines(Filter { ops: vec![Op::Read], size: 0..=4096, ..any() }), ["0"]);
}

#[test]
fn equal_requests_at_the_same_time_are_kept_once() {
    let twice = "time_ms,lba,sectors,op\n0,8,8,r\n0,8,8,r\n0,8,8,w\n1,8,8,r\n";
    assert_eq!(changed(twice, Unique::default()), ["0 0 0 Read 8+8", "0 0 0 Write 8+8", "1000000 0 0 Read 8+8"]);
}

fn merged(traces: &[(&str, &str)], order: Order, identity: Identity) -> Merged {
    let part = |&(file, content): &(&str, &str)| {
        let name = if identity == Identity::OfEachTrace { file.to_owned() } else { String::new() };
        Part { reader: reader(content, order), file: file.to_owned(), name, began: None }
    };
    Merged::new(traces.iter().map(part).collect(), identity)
}

#[test]
fn traces_are_merged_by_their_clocks_with_devices_and_streams_of_their_own() {
    let a = "time_ms,lba,sectors,op,device\n1000,1,8,r,5\n1020,2,8,r,5\n";
    let b = "time_ms,lba,sectors,op,device,device_name\n1010,3,8,w,5,sdb\n1020,4,8,w,6,\n";
    let mut both = merged(&[("a", a), ("b", b)], Order::OwnClock, Identity::OfEachTrace);
    let expected = ["0 0 0 Read 1+8", "10000000 1 1 Write 3+8", "20000000 0 0 Read 2+8", "20000000 2 2 Write 4+8"];
    assert_eq!(all(&mut both), expected);
    let names = [0, 1, 2].map(|device| both.device_name(device).map(str::to_owned));
    assert_eq!(names, ["a", "sdb", "b"].map(|name| Some(name.to_owned())));
    let mut from_start = merged(&[("a", a), ("b", b)], Order::FromZero, Identity::OfEachTrace);
    assert_eq!(all(&mut from_start)[..2], ["0 0 0 Read 1+8", "0 1 1 Write 3+8"]);
    let much_later = "time_s,lba,sectors,op\n7201,1,8,r\n";
    let mut apart = merged(&[("a", a), ("c", much_later)], Order::OwnClock, Identity::OfEachTrace);
    all(&mut apart);
    assert_eq!(apart.warnings(), ["c begins 7200 s after the first trace, by their clocks"]);
}

#[test]
fn parts_of_one_recording_have_the_same_devices() {
    let head = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    let (first, second) =
        (format!("{head}100,src,1,Read,0,512,1\n200,src,2,Read,512,512,1\n"), format!("{head}300,src,1,Write,0,512,1\n"));
    let mut one = merged(&[("1", &first), ("2", &second)], Order::OwnClock, Identity::ByName);
    let expected = ["0 0 0 Read 0+1 response=100", "10000 1 1 Read 1+1 response=100", "20000 0 0 Write 0+1 response=100"];
    assert_eq!(all(&mut one), expected);
    assert_eq!((one.device_name(0), one.device_name(1)), (Some("src.1"), Some("src.2")));
    let nameless = "time_ms,lba,sectors,op,device\n0,1,8,r,5\n0,2,8,r,6\n";
    let mut one = merged(&[("1", nameless), ("2", nameless)], Order::OwnClock, Identity::ByName);
    assert_eq!(all(&mut one), ["0 0 0 Read 1+8", "0 1 1 Read 2+8"].repeat(2), "by their numbers");
}

fn findings(content: &str, known: Known) -> Vec<Finding> {
    lint::lint(&mut *reader(content, Order::OfTheFile), known, |_| true).unwrap().unwrap().1
}

/// The one finding: its kind, number, and the first's line, request and time.
fn finding(content: &str, known: Known) -> (FaultKind, u64, Option<String>) {
    let found = findings(content, known);
    assert_eq!(found.len(), 1, "{found:?}");
    let first = found[0].first.clone().map(|first| format!("{:?} {:?} {:?}", first.place, first.request, first.time_s));
    (found[0].kind, found[0].count, first)
}

const HEAD: &str = "time_us,lba,sectors,op,response_us,service_us\n";

/// 200 sound requests, one every 2 ms; the time of the n-th is changed by `time`.
fn sound(time: impl Fn(u64) -> u64) -> String {
    let line = |at: u64| format!("{},{},8,r,900,800\n", time(at), at * 777 % 100_000);
    HEAD.to_owned() + &(0..200).map(line).collect::<String>()
}

#[test]
fn a_sound_trace_has_no_findings() {
    assert_eq!(findings(&sound(|at| at * 2_001), Known::default()), []);
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mixed.parquet");
    let mut opened = trace::open(&shipped, &OpenOptions { order: Order::OfTheFile, ..OpenOptions::default() }).unwrap();
    assert_eq!(lint::lint(&mut *opened.reader, Known::default(), |_| true).unwrap().unwrap(), (156_805, vec![]));
}

#[test]
fn every_kind_of_finding_names_its_number_and_the_first_place() {
    let none = Known::default();
    let at = |line: u64, request: u64, time: &str| Some(format!("Some(\"line {line}\") Some({request}) Some({time})"));
    let order = sound(|at| if at == 9 || at == 20 { at * 2_001 - 5_000 } else { at * 2_001 });
    assert_eq!(finding(&order, none), (FaultKind::Order, 2, at(11, 10, "0.013009")));
    assert_eq!(finding(&sound(|at| at * 200_001), none), (FaultKind::TimesTooLong, 200, None));
    assert_eq!(finding(&sound(|at| at / 100), none), (FaultKind::TimesTooShort, 200, None));
    let gap = sound(|at| if at < 7 { at * 2_001 } else { at * 2_001 + 100_000_000 });
    assert_eq!(finding(&gap, none), (FaultKind::Gaps, 1, at(9, 8, "100.014007")));
    let twice = sound(|at| at * 2_001) + "400201,55,8,r,900,800\n".repeat(2).as_str();
    let (kind, count, first) = finding(&twice, none);
    assert_eq!((kind, count, first), (FaultKind::Duplicates, 1, at(203, 202, "0.400201")));
    let sound_times = sound(|at| at * 2_001);
    assert_eq!(
        finding(&sound_times.replacen("900,800", "900,901", 1), none),
        (FaultKind::ServiceBeforeArrival, 1, at(2, 1, "0.0"))
    );
    assert_eq!(finding(&sound_times.replace("900,800", "0,0"), none).0, FaultKind::ResponseUnit);
    assert_eq!(finding(&sound_times.replace("900,800", "20000000,8"), none).0, FaultKind::ResponseUnit);
    let small = Known { capacity_sectors: Some(99_999), ..none };
    assert_eq!(
        finding(&sound(|at| at * 2_001).replacen(",777,8", ",99992,8", 1), small),
        (FaultKind::BeyondEnd, 1, at(3, 2, "0.002001"))
    );
    let empty = sound_times.replacen(",777,8", ",777,0", 1);
    assert_eq!(finding(&empty, none), (FaultKind::Empty, 1, Some("Some(\"line 3\") None None".into())));
}

#[test]
fn completions_alone_and_lost_flushes_are_found_in_events() {
    let event = |at: u64, action: &str, lba: u64| {
        format!("  8,0 0 {at} {}.{:09} 7 {action} WS {lba} + 8 [db]\n", at / 1000, at % 1000 * 1_000_000)
    };
    let alone = event(1, "C", 99)
        + &event(2, "Q", 0)
        + &event(3, "C", 0)
        + &event(2_000, "C", 800)
        + &event(2_001, "Q", 16)
        + &event(2_002, "C", 16);
    let (kind, count, first) = finding(&alone, Known::default());
    assert_eq!((kind, count), (FaultKind::CompletionsAlone, 1), "one at the beginning was under way before");
    assert_eq!(first.unwrap(), "Some(\"line 4\") None None");
    let writes: String = (0..1_000).map(|at| event(at * 2, "Q", at * 8) + &event(at * 2 + 1, "C", at * 8)).collect();
    let known = Known { has_flushes: true, ..Known::default() };
    assert_eq!(finding(&writes, known), (FaultKind::NoFlushes, 1_000, None));
    assert_eq!(findings(&writes, Known::default()), [], "a format that has no flushes");
    let flush = "  8,0 0 9 9.000000000 7 Q FN [db]\n";
    assert_eq!(findings(&(writes + flush), known), []);
}

#[test]
fn a_misspelt_column_and_requests_of_no_sectors_are_warned_of() {
    let read = read("time_ms,lba,sectors,op,respnse_ms,cpu\n0,8,0,r,1,0\n1,8,8,r,1,0\n2,8,0,w,1,0\n").unwrap();
    assert_eq!(
        read.reader.warnings(),
        [
            "the column \"respnse_ms\" is not known and not used; did you mean response_ms?",
            "2 requests of no sectors left out, the first in line 2"
        ]
    );
    let missing = error(crate::trace_help::read("time_ms,ofset_bytes,sectors,op\n0,8,8,r\n"));
    assert!(missing.contains("not known are \"ofset_bytes\"; did you mean offset_bytes?"), "{missing}");
    assert_eq!(crate::trace_help::read("time_ms,lba,sectors,op,cpu,host\n0,8,8,r,1,a\n").unwrap().reader.warnings(), [""; 0]);
}
