//! Characterising a trace, and reading the kernel's text of the block tracepoints.

use std::fs;
use std::path::Path;

use block::Op;
use tempfile::TempDir;
use trace::info::{Info, characterise};
use trace::{OpenOptions, TraceRequest, open};

fn info_of(text: &str, top: usize) -> Info {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, text).unwrap();
    let mut opened = open(&path, &OpenOptions::default()).unwrap();
    characterise(opened.reader.as_mut(), top, |_| true).unwrap().unwrap()
}

/// Two streams: 1 reads 4 KiB pieces one behind the other every 100 ms, 2 writes 8 KiB here and there at the same times.
fn two_streams() -> String {
    let mut text = String::from("time_ms,lba,sectors,op,stream,stream_name,sync,response_ms\n");
    for at in 0..100u64 {
        text += &format!("{},{},8,read,1,reader,1,10\n", at * 100, 1000 + at * 8);
        text += &format!("{},{},16,write,2,writer,0,150\n", at * 100, 1_000_000 + at * 7919 % 100 * 20);
    }
    text
}

#[test]
fn a_trace_known_by_construction_is_characterised_exactly() {
    let info = info_of(&two_streams(), 10);
    assert_eq!(info.requests, 200);
    assert_eq!(info.duration_s, 9.9);
    assert_eq!((info.read_share, info.sync_share), (0.5, Some(0.5)));
    assert_eq!((info.read_mb, info.written_mb), (0.4096, 0.8192));
    assert_eq!((info.size.mean_kb, info.size.max_kb), (6.144, 8.192));
    let common: Vec<_> = info.size.common.iter().map(|size| (size.sectors, size.requests)).collect();
    assert_eq!(common, [(8, 100), (16, 100)]);
    assert_eq!((info.place.devices, info.place.first_lba, info.place.end_lba), (1, 1000, 1_000_000 + 99 * 20 + 16));
    // The writes are 20 sectors apart and 16 large: nothing overlaps.
    assert_eq!((info.place.footprint_mb, info.place.footprint_granularity_bytes), (1.2288, 512));
    assert_eq!(info.rate.mean_iops, Some(200.0 / 9.9));
    assert_eq!(info.rate.peak_iops, 20);
    let pause = info.interarrival.unwrap();
    assert_eq!(pause.max_ms.round(), 100.0);
    // 100 pauses of 0 and 99 of 100 ms.
    let mean: f64 = 9900.0 / 199.0;
    let deviation = (99.0 * 1e4 / 199.0 - mean * mean).sqrt();
    assert!((pause.mean_ms - mean).abs() < 1e-9);
    assert!((pause.coefficient_of_variation - deviation / mean).abs() < 1e-9);
}

#[test]
fn order_is_counted_on_the_device_and_within_each_stream() {
    let info = info_of(&two_streams(), 10);
    assert_eq!(info.sequential.exact_share, 0.0, "the streams take turns on the device");
    assert_eq!(info.sequential_in_stream.exact_share, 99.0 / 200.0);
    let streams: Vec<_> = info.streams.iter().map(|stream| (stream.stream, stream.name.as_deref(), stream.requests)).collect();
    assert_eq!(streams, [(1, Some("reader"), 100), (2, Some("writer"), 100)]);
    assert_eq!(info.streams[0].sequential.exact_share, 0.99);
    assert_eq!(info.streams[1].sequential.exact_share, 0.0);
    assert_eq!((info.streams[0].sync_share, info.streams[1].sync_share), (1.0, 0.0));
}

#[test]
fn completions_tell_how_many_were_under_way() {
    let info = info_of(&two_streams(), 10);
    let under_way = info.concurrency.unwrap();
    // A write of the round before is still under way when both of a round arrive.
    assert_eq!(under_way.max, 3);
    assert!((under_way.mean.unwrap() - (100.0 * 0.010 + 100.0 * 0.150) / 9.9).abs() < 1e-9);
    let response = info.recorded_response.unwrap();
    assert_eq!((response.requests, response.mean_ms.round()), (200, 80.0));
    assert!((response.p50_ms - 10.0).abs() < 0.01 && (response.p95_ms - 150.0).abs() < 0.2);
}

#[test]
fn fields_that_a_trace_lacks_are_not_invented() {
    let info = info_of("0,100,4096,r,0.0\n0,108,4096,r,0.0\n", 10);
    assert_eq!((info.sync_share, info.concurrency, info.recorded_response), (None, None, None));
    assert_eq!((info.duration_s, info.rate.mean_iops), (0.0, None), "no rate without a duration");
    assert_eq!(info.sequential.exact_share, 0.5);
}

#[test]
fn only_the_busiest_streams_are_listed() {
    let mut text = String::from("time_ms,lba,sectors,op,stream\n");
    for at in 0..1000u64 {
        text += &format!("{at},{},8,read,{}\n", at * 8, at % 37 * (at % 3));
    }
    // 0 to 36, and the even numbers from 38 to 72.
    let info = info_of(&text, 2);
    assert_eq!((info.streams.len(), info.stream_count, info.streams_complete), (2, 55, true));
    assert!(info.streams[0].requests >= info.streams[1].requests);
}

/// 300,000 streams are more than are tracked, yet the trace is characterised.
#[test]
fn more_streams_than_are_tracked_are_reported_as_such() {
    let mut text = String::from("time_ms,lba,sectors,op,stream\n");
    for at in 0..300_000u64 {
        text += &format!("{at},{},8,read,{at}\n", at * 1_000);
    }
    let info = info_of(&text, 1);
    assert_eq!((info.requests, info.stream_count, info.streams_complete), (300_000, 1 << 18, false));
}

/// Pieces scattered over 2^40 sectors, more than are remembered one by one: a bound, and never more than was asked for.
#[test]
fn a_widely_scattered_trace_has_a_footprint_of_at_most_the_requested_sectors() {
    let mut text = String::from("time_us,lba,sectors,op\n");
    for at in 0..1_200_000u64 {
        text += &format!("{at},{},8,read\n", at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24);
    }
    let info = info_of(&text, 1);
    assert!(info.place.footprint_granularity_bytes > 512);
    assert_eq!(info.place.footprint_mb, info.read_mb);
}

const KERNEL: &str = "\
# tracer: nop
#
              pv-18185   [000] .....  1221.258769: block_bio_queue: 7,0 RA 3327232 + 256 [pv]
              pv-18185   [000] .N.1.  1221.258798: block_rq_insert: 7,0 RA 131072 () 3327232 + 256 be,0,4 [pv]
    kworker/0:1H-58      [000] .N...  1221.258804: block_rq_issue: 7,0 RA 131072 () 3327232 + 256 be,0,4 [kworker/0:1H]
 Web Content [x]-777     [001] .....  1221.259000: block_bio_queue: 7,0 WS 100 + 16 [Web Content [x]]
           <...>-778     [001] .....  1221.259001: block_bio_queue: 7,0 W 116 + 8 [flush]
        postgres-18262   [000] .....  1221.259044: block_bio_queue: 7,0 FWS 0 + 0 [postgres]
    kworker/0:1H-58      [000] .....  1221.259045: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]
     ksoftirqd/1-22      [001] ..s..  1221.259063: block_rq_complete: 7,0 FF () 18446744073709551615 + 0 none,0,0 [0]
     ksoftirqd/1-22      [001] ..s..  1221.260500: block_rq_complete: 7,0 WS () 100 + 24 be,0,4 [0]
              pv-18184   [001] ..s..  1221.261769: block_rq_complete: 7,0 RA () 3327232 + 256 be,0,4 [0]
";

fn requests_of(path: &Path, skip_bad: bool) -> (Vec<TraceRequest>, Vec<String>, Option<String>, u64) {
    let mut opened = open(path, &OpenOptions { skip_bad, ..OpenOptions::default() }).unwrap();
    assert_eq!(opened.format.name, "tracefs");
    let (mut requests, mut error) = (Vec::new(), None);
    while let Some(request) = opened.reader.next_request() {
        match request {
            Ok(request) => requests.push(request),
            Err(problem) => error = Some(problem.to_string()),
        }
    }
    let names = requests.iter().map(|r: &TraceRequest| opened.reader.stream_name(r.stream).unwrap_or("?").to_owned()).collect();
    (requests, names, error, opened.reader.omitted())
}

#[test]
fn the_kernels_text_gives_issuers_requests_and_completions() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kernel");
    fs::write(&path, KERNEL).unwrap();
    let (requests, names, error, omitted) = requests_of(&path, false);
    assert_eq!((error, omitted), (None, 1), "the flush is left out");
    let seen: Vec<_> = requests
        .iter()
        .map(|r| (r.arrival.0 / 1000, r.lba, r.sectors, r.op, r.sync.unwrap(), r.stream, r.response.map(|n| n.0 / 1000)))
        .collect();
    assert_eq!(
        seen,
        [
            (0, 3_327_232, 256, Op::Read, true, 18_185, Some(3000)),
            (231, 100, 16, Op::Write, true, 777, Some(1500)),
            (232, 116, 8, Op::Write, false, 778, Some(1499)),
        ]
    );
    assert_eq!(names, ["pv", "Web Content [x]", "flush"]);
}

#[test]
fn a_hole_in_the_kernels_text_is_an_error_with_its_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kernel");
    fs::write(&path, format!("{KERNEL}CPU:1 [LOST 42 EVENTS]\n")).unwrap();
    let (_, _, error, _) = requests_of(&path, false);
    let error = error.unwrap();
    assert!(error.contains("kernel:13: \"CPU:1 [LOST 42 EVENTS]\""), "{error}");
    assert_eq!(requests_of(&path, true).0.len(), 3, "unless it shall be passed over");
}

/// The trace that comes with the program.
#[test]
fn the_shipped_trace_matches_its_page() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/mixed.parquet"));
    let mut opened = open(path, &OpenOptions::default()).unwrap();
    let info = characterise(opened.reader.as_mut(), 1000, |_| true).unwrap().unwrap();
    assert_eq!((opened.format.name, info.requests), ("parquet", 156_805));
    let names: Vec<_> = info.streams.iter().filter_map(|stream| stream.name.as_deref()).collect();
    for program in ["postgres", "sqlite3", "cc1", "pv", "cp", "tar"] {
        assert!(names.contains(&program), "{program} took part");
    }
    assert!(info.recorded_response.is_some_and(|response| response.requests == info.requests), "all completed");
}

#[test]
fn discards_are_counted_apart_and_move_nothing() {
    let info = info_of("time_ms,lba,sectors,op\n0,0,8,read\n1,8,8,write\n2,1000,100000,discard\n3,16,8,D\n", 10);
    assert_eq!((info.requests, info.read_share, info.write_share, info.discard_share), (4, 0.25, 0.25, 0.5));
    assert_eq!((info.read_mb, info.written_mb, info.discarded_mb), (0.004096, 0.004096, 100_008.0 * 512e-6));
    assert_eq!((info.size.mean_kb, info.size.max_kb, info.streams[0].mb), (4.096, 4.096, 0.008192));
}
