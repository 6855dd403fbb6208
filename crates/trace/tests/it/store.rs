//! Traces written and read back: only the declared losses of the format occur, and no file can make the reader panic.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufWriter;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use block::{Nanos, Op, Priority, PriorityClass, StreamId};
use proptest::prelude::*;
use tempfile::TempDir;
use trace::write::{self, About, Field, Losses};
use trace::{OpenOptions, RecordedDevice, TraceError, TraceReader, TraceRequest, open};

/// Requests with the names of their streams and devices.
#[derive(Clone, Debug, Default, PartialEq)]
struct Trace {
    requests: Vec<TraceRequest>,
    streams: BTreeMap<StreamId, String>,
    devices: BTreeMap<u32, String>,
}

impl TraceReader for Trace {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        unreachable!("the tests only ask for names")
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.streams.get(&stream).map(String::as_str)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.devices.get(&device).map(String::as_str)
    }
}

fn write_trace(trace: &Trace, format: &str, path: &Path) {
    let format = write::named(format).expect("a format that is written");
    let about = About { program: "seekwise test".into(), source: "a test".into(), device: None };
    let mut writer = (format.create)(Box::new(BufWriter::new(fs::File::create(path).unwrap())), &about).unwrap();
    for request in &trace.requests {
        writer.write(request, trace).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), None);
}

fn read_trace(path: &Path, format: &str) -> Result<Trace, TraceError> {
    let mut opened = open(path, &OpenOptions::default())?;
    assert_eq!(opened.format.name, format, "the format is recognised by content");
    let mut trace = Trace::default();
    while let Some(request) = opened.reader.next_request() {
        trace.requests.push(request?);
    }
    for request in &trace.requests {
        if let Some(name) = opened.reader.stream_name(request.stream) {
            trace.streams.insert(request.stream, name.to_owned());
        }
        if let Some(name) = opened.reader.device_name(request.device) {
            trace.devices.insert(request.device, name.to_owned());
        }
    }
    Ok(trace)
}

fn round_trip(trace: &Trace, format: &str) -> Trace {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("trace");
    write_trace(trace, format, &path);
    read_trace(&path, format).unwrap()
}

fn request() -> impl Strategy<Value = TraceRequest> {
    let class = prop_oneof![Just(PriorityClass::RealTime), Just(PriorityClass::BestEffort), Just(PriorityClass::Idle)];
    let place = (0..4u32, prop_oneof![0..100_000u64, 0..(1u64 << 54)], prop_oneof![1..300u32, any::<u32>().prop_map(|n| n.max(1))]);
    let op = prop_oneof![4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Discard)];
    let kind = (op, proptest::option::of(any::<bool>()), prop_oneof![0..5u32, any::<u32>()]);
    let service = proptest::option::of(0..=1_000u64);
    let times = (0..50_000_000u64, proptest::option::of((0..10_000_000_000u64, service)));
    (place, kind, (class, 0..8u8), times).prop_map(
        |((device, lba, sectors), (op, sync, stream), (class, level), (pause, response))| TraceRequest {
            arrival: Nanos(pause),
            device,
            lba,
            sectors,
            op,
            sync,
            stream,
            priority: Priority { class, level },
            response: response.map(|(response, _)| Nanos(response)),
            // A part of the response time.
            service: response.and_then(|(response, part)| Some(Nanos(response / 1_000 * part?))),
        },
    )
}

/// Any trace. Where a name stands for a number or is read from a line, some letters are special.
fn trace(requests: usize) -> impl Strategy<Value = Trace> {
    let name = "[a-zA-Z0-9/,;\" :+]{0,12}[a-z]";
    (prop::collection::vec(request(), 1..requests), prop::collection::vec(proptest::option::of(name), 9)).prop_map(
        |(mut requests, names)| {
            let mut now = 0;
            for (at, request) in requests.iter_mut().enumerate() {
                now += if at == 0 { 0 } else { request.arrival.0 };
                request.arrival = Nanos(now);
            }
            let named = |offset: usize, number: u32| names[offset + number as usize % 4].clone().map(|name| name.trim().to_owned());
            let streams = requests.iter().filter_map(|request| Some((request.stream, named(0, request.stream)?))).collect();
            let devices = requests.iter().filter_map(|request| Some((request.device, named(4, request.device)?))).collect();
            Trace { requests, streams, devices }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parquet_gives_back_every_field(trace in trace(300)) {
        prop_assert_eq!(round_trip(&trace, "parquet"), trace);
    }

    #[test]
    fn csv_gives_back_every_field(trace in trace(300)) {
        prop_assert_eq!(round_trip(&trace, "csv"), trace);
    }

    #[test]
    fn a_fio_log_gives_back_the_fields_it_has(trace in trace(100)) {
        // The reader numbers files in the order they come in.
        let mut numbers = BTreeMap::new();
        let first = trace.requests[0].arrival.0;
        let micros = |time: u64| (time + 500) / 1000 * 1000;
        let expected: Vec<_> = trace.requests.iter().map(|request| {
            let next = numbers.len() as u32;
            let device = *numbers.entry(request.device).or_insert(next);
            (micros(request.arrival.0) - micros(first), device, request.lba, request.sectors, request.op)
        }).collect();
        let read = round_trip(&trace, "fio").requests;
        let got: Vec<_> = read.iter().map(|r| (r.arrival.0, r.device, r.lba, r.sectors, r.op)).collect();
        prop_assert_eq!(got, expected);
    }
}

/// The formats of other tools: the unit of their times in ns, and whether they have response times.
const OTHERS: [(&str, &str, u64, bool); 7] = [
    ("fio2", "fio", 1_000_000, false),
    ("msr", "msr", 100, true),
    ("spc", "spc", 1, false),
    ("systor", "systor", 1, true),
    ("disksim", "disksim", 1, false),
    ("mqsim", "mqsim", 1, false),
    ("oraclegeneral", "oraclegeneral", 1_000_000_000, false),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_formats_of_other_tools_give_back_the_fields_they_have(trace in trace(60), which in 0..OTHERS.len()) {
        let (name, read_as, unit, has_response) = OTHERS[which];
        let format = write::named(name).unwrap();
        let is_oracle = name == "oraclegeneral";
        let mut trace = trace;
        trace.devices.clear();
        trace.requests.retain(|request| format.holds(request));
        for request in &mut trace.requests {
            request.sectors = request.sectors.min(if is_oracle { 1 << 20 } else { u32::MAX });
        }
        prop_assume!(!trace.requests.is_empty());
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("trace");
        write_trace(&trace, name, &path);
        let options = OpenOptions { format: Some(read_as.into()), ..OpenOptions::default() };
        let mut opened = open(&path, &options).unwrap();
        let read: Vec<_> = std::iter::from_fn(|| opened.reader.next_request()).map(Result::unwrap).collect();
        // Whole seconds are not rounded up: libCacheSim counts those that have passed.
        let up = if is_oracle { 0 } else { unit / 2 };
        let in_units = |time: Nanos| (time.0 + up) / unit * unit;
        let first = in_units(trace.requests[0].arrival);
        prop_assert_eq!(read.len(), trace.requests.len());
        let mut devices = BTreeMap::new();
        for (got, wrote) in read.iter().zip(&trace.requests) {
            let op = if is_oracle { Op::Read } else { wrote.op };
            let response = has_response.then_some(wrote.response.map(|time| Nanos(in_units(time)))).flatten();
            let response = if name == "msr" { Some(response.unwrap_or_default()) } else { response };
            let sync = if name == "disksim" { wrote.sync } else { None };
            let expected = (in_units(wrote.arrival) - first, wrote.lba, wrote.sectors, op, response, sync);
            prop_assert_eq!((got.arrival.0, got.lba, got.sectors, got.op, got.response, got.sync), expected, "{}", name);
            let device = if is_oracle { 0 } else { wrote.device };
            prop_assert_eq!(*devices.entry(device).or_insert(got.device), got.device, "{}", name);
        }
        let distinct: std::collections::BTreeSet<_> = devices.values().collect();
        prop_assert_eq!(distinct.len(), devices.len(), "{}: devices stay apart", name);
    }
}

#[test]
fn written_traces_of_other_tools_are_recognised_but_for_mqsims() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("trace");
    let mut trace = long_trace();
    trace.requests.truncate(300);
    for (name, read_as, ..) in OTHERS.into_iter().filter(|(name, ..)| *name != "mqsim") {
        write_trace(&trace, name, &path);
        assert_eq!(open(&path, &OpenOptions::default()).map(|opened| opened.format.name).ok(), Some(read_as), "{name}");
    }
    let names = [(3, "src1.2".to_owned()), (0, "a, b".to_owned())];
    let mut named = Trace { devices: BTreeMap::from(names), ..trace };
    named.requests.truncate(1);
    write_trace(&named, "msr", &path);
    assert!(fs::read_to_string(&path).unwrap().starts_with("0,a_ b,0,"), "a comma separates fields");
    named.requests[0].device = 3;
    write_trace(&named, "msr", &path);
    assert!(fs::read_to_string(&path).unwrap().starts_with("0,src1,2,"), "as MSR's own files name it");
}

/// Disjoint requests one after the other: of overlapping ones blkparse's text cannot say which completion is whose.
#[test]
fn blkparse_text_gives_back_processes_programs_and_response_times() {
    let mut trace = Trace::default();
    for at in 0..5000u64 {
        trace.requests.push(TraceRequest {
            arrival: Nanos(at * 1_000_003),
            device: (at % 3) as u32,
            lba: at * 1000,
            sectors: 1 + (at % 64) as u32,
            op: if at % 5 == 0 { Op::Write } else { Op::Read },
            sync: Some(at % 5 != 0 || at % 10 == 0),
            stream: 100 + (at % 7) as u32,
            priority: Priority::DEFAULT,
            response: (at % 11 != 0).then_some(Nanos(at * 7919 % 40_000_000)),
            service: None,
        });
    }
    trace.streams = (100..107).map(|stream| (stream, format!("program {stream}"))).collect();
    let read = round_trip(&trace, "blkparse");
    assert_eq!(read.requests, trace.requests);
    assert_eq!(read.streams, trace.streams);
}

/// More requests than one row group holds.
fn long_trace() -> Trace {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut trace = Trace::default();
    for at in 0..300_000u64 {
        trace.requests.push(TraceRequest {
            arrival: Nanos(at * 1_000_000),
            device: 0,
            lba: random(),
            sectors: 8,
            op: if random() % 3 == 0 { Op::Write } else { Op::Read },
            sync: None,
            stream: (random() % 20) as u32,
            priority: Priority::DEFAULT,
            response: Some(Nanos(random() % 10_000_000)),
            service: None,
        });
    }
    trace
}

#[test]
fn parquet_spans_row_groups_and_the_same_trace_makes_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let trace = long_trace();
    write_trace(&trace, "parquet", &first);
    write_trace(&trace, "parquet", &second);
    assert!(read_trace(&first, "parquet").unwrap() == trace);
    assert!(fs::read(&first).unwrap() == fs::read(&second).unwrap());
}

/// A small store as bytes.
fn small_store(folder: &Path) -> Vec<u8> {
    let mut trace = long_trace();
    trace.requests.truncate(100);
    trace.streams = (0..20).map(|stream| (stream, format!("stream {stream}"))).collect();
    let path = folder.join("small");
    write_trace(&trace, "parquet", &path);
    fs::read(path).unwrap()
}

/// Reads to the end or the first error.
fn read_bytes(path: &Path, bytes: &[u8], options: &OpenOptions) -> Result<usize, TraceError> {
    fs::write(path, bytes).unwrap();
    read_path(path, options)
}

fn read_path(path: &Path, options: &OpenOptions) -> Result<usize, TraceError> {
    let mut opened = open(path, options)?;
    let mut requests = 0;
    while let Some(request) = opened.reader.next_request() {
        request?;
        requests += 1;
    }
    Ok(requests)
}

fn as_parquet() -> OpenOptions {
    OpenOptions { format: Some("parquet".into()), ..OpenOptions::default() }
}

#[test]
fn a_store_cut_short_anywhere_is_an_error() {
    let folder = TempDir::new().unwrap();
    let bytes = small_store(folder.path());
    let path = folder.path().join("cut");
    for length in 0..bytes.len() {
        let error = read_bytes(&path, &bytes[..length], &as_parquet()).expect_err("a store without its end");
        assert!(error.to_string().contains("cut"), "the message names the file: {error}");
    }
}

/// Assertions of the library are contained, but each panic would fill the test's output.
fn without_the_librarys_panics<T>(work: impl FnOnce() -> T) -> T {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let hook = Arc::new(std::panic::take_hook());
    let before = Arc::clone(&hook);
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|location| location.file().contains("parquet-")) {
            before(panic);
        }
    }));
    let result = work();
    std::panic::set_hook(Box::new(move |panic| hook(panic)));
    result
}

/// Damage anywhere, in the data, in their headers, in the footer or in the checksums themselves.
#[test]
fn a_store_with_any_bit_flipped_is_refused() {
    let folder = TempDir::new().unwrap();
    let bytes = small_store(folder.path());
    let path = folder.path().join("flipped");
    fs::write(&path, &bytes).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    without_the_librarys_panics(|| {
        for (&byte, at) in bytes.iter().zip(0..) {
            for bit in 0..8 {
                file.write_all_at(&[byte ^ 1 << bit], at).unwrap();
                let error = read_path(&path, &as_parquet()).expect_err("a flipped bit").to_string();
                assert!(error.contains("flipped: ") || error.contains("flipped:row "), "byte {at}, bit {bit}: {error}");
            }
            file.write_all_at(&[byte], at).unwrap();
        }
    });
    assert_eq!(read_path(&path, &as_parquet()).unwrap(), 100, "as it was");
}

/// Of a store of several row groups, the rows before the damage are read.
#[test]
fn a_row_group_is_checked_before_it_is_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    write_trace(&long_trace(), "parquet", &path);
    let mut bytes = fs::read(&path).unwrap();
    let (length, bit) = (bytes.len(), 1 << 3);
    for (at, reads) in [(length / 2, 131_072), (length * 9 / 10, 262_144), (100, 0)] {
        bytes[at] ^= bit;
        fs::write(&path, &bytes).unwrap();
        let mut opened = open(&path, &OpenOptions::default()).unwrap();
        let mut read = 0;
        let error = loop {
            match opened.reader.next_request().unwrap() {
                Ok(_) => read += 1,
                Err(error) => break error.to_string(),
            }
        };
        // Requests held back to be sorted are lost.
        assert!((reads - 65_536..=reads).contains(&read) || reads == 0 && read == 0, "{read} requests before byte {at}");
        assert!(
            error.contains(&format!("store:row {}: damaged Parquet: row group {}, bytes ", reads + 1, reads / 131_072)),
            "{error}"
        );
        assert!(error.ends_with("is damaged (CRC-32 mismatch)"), "{error}");
        bytes[at] ^= bit;
    }
}

/// Neither a file of an earlier version, without checksums, nor one of which a part of them is lost is taken for the other.
#[test]
fn a_store_without_checksums_is_read_and_one_that_lost_them_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let earlier = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/trace_help/version-1.parquet");
    assert_eq!(read_trace(&earlier, "parquet").unwrap().requests.len(), 40);
    let bytes = small_store(folder.path());
    let replace = |what: &[u8], with: &[u8]| {
        let at = bytes.windows(what.len()).position(|window| window == what).unwrap();
        let mut changed = bytes.clone();
        changed[at..at + what.len()].copy_from_slice(with);
        read_bytes(&path, &changed, &OpenOptions::default()).unwrap_err().to_string()
    };
    assert!(replace(b"SWCRC32\n", b"swcrc32\n").ends_with("the checksum before its footer is lost"));
    assert!(replace(b"seekwise.trace.crc32", b"seekwise.trace.crc23").ends_with("its footer has lost the list of checksums"));
}

/// As pyarrow does: the metadata stay, the trailer does not, and the footer names the writer.
#[test]
fn a_store_that_another_program_rewrote_is_read_with_a_warning() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let mut bytes = small_store(folder.path());
    let at = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).rposition(|window| window == what).unwrap();
    let trailer = at(&bytes, b"SWCRC32\n");
    bytes.drain(trailer..trailer + 12);
    let lost = read_bytes(&path, &bytes, &OpenOptions::default()).unwrap_err().to_string();
    assert!(lost.ends_with("the checksum before its footer is lost"), "{lost}");
    let writer = at(&bytes, b"seekwise test");
    bytes[writer..writer + 13].copy_from_slice(b"rewriter\x1b 2.0");
    fs::write(&path, &bytes).unwrap();
    let mut opened = open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(
        opened.reader.warnings(),
        ["was rewritten by rewriter\\u{1b} 2.0, without Seekwise's checksums: damage to it may go unnoticed"]
    );
    assert_eq!(std::iter::from_fn(|| opened.reader.next_request()).filter(Result::is_ok).count(), 100);
}

#[test]
fn only_a_store_without_any_checksums_is_warned_of() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let warnings = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        open(&path, &OpenOptions::default()).unwrap().reader.warnings()
    };
    assert_eq!(warnings(&small_store(folder.path())), [""; 0]);
    let other = folder.path().join("other");
    foreign(&other, None, &[(0, 10, 8)]);
    let bytes = fs::read(&other).unwrap();
    assert_eq!(warnings(&bytes), ["has no checksums: damage to it may go unnoticed"]);
    // Pages with a checksum, as `write_table(write_page_checksum=True)` of pyarrow has them.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/trace_help");
    let opened = open(&folder.join("page-checksums.parquet"), &OpenOptions::default()).unwrap();
    assert_eq!(opened.reader.warnings(), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_damaged_in_several_places_is_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 1..9usize), 1..6),
        skip_bad: bool,
    ) {
        let folder = TempDir::new().unwrap();
        let mut bytes = small_store(folder.path());
        for (index, value, count) in changes {
            let at = index.index(bytes.len());
            let end = (at + count).min(bytes.len());
            bytes[at..end].fill(value);
        }
        let path = folder.path().join("damaged");
        if let Ok(requests) = read_bytes(&path, &bytes, &OpenOptions { skip_bad, ..as_parquet() }) {
            prop_assert!(requests <= 100);
        }
    }
}

#[test]
fn other_files_are_rejected_with_a_reason() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("no-store");
    for (bytes, reason) in [
        (&b"PAR1"[..], "is it complete?"),
        (b"PAR1PAR1PAR1", "is it complete?"),
        (b"PAR1 and then nothing but text to the very end of it", "is it complete?"),
        (b"PAR1\xff\xff\xff\x7fPAR1", "is it complete?"),
        (b"PAR1\x00\x00\x00\x00PAR1", "damaged Parquet"),
    ] {
        let error = read_bytes(&path, bytes, &OpenOptions::default()).expect_err("not a store").to_string();
        assert!(error.contains(reason) && error.contains("no-store"), "{error}");
    }
}

#[test]
fn a_store_tells_of_the_device_that_was_recorded() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("trace");
    let known = RecordedDevice {
        capacity_sectors: Some(1 << 33),
        scheduler: Some("bfq:low_latency=0".to_owned()),
        read_ahead_kib: Some(128),
    };
    for device in [Some(known), Some(RecordedDevice { scheduler: Some("none".to_owned()), ..RecordedDevice::default() }), None] {
        let about = About { device: device.clone(), ..About::default() };
        let format = write::named("parquet").unwrap();
        let writer = (format.create)(Box::new(BufWriter::new(fs::File::create(&path).unwrap())), &about).unwrap();
        writer.finish().unwrap();
        assert_eq!(open(&path, &OpenOptions::default()).unwrap().reader.recorded_device(), device.as_ref());
    }
    for (key, value) in [("seekwise.device.capacity_sectors", "-1"), ("seekwise.device.read_ahead_kib", "4294967296")] {
        foreign(&path, Some((key, value)), &[(0, 0, 8)]);
        let error = open(&path, &OpenOptions::default()).err().expect("no number").to_string();
        assert!(error.contains(&format!("{key} is \"{value}\", not a whole number")), "{error}");
    }
}

/// A store as a dataframe library might make it, with a pair of metadata.
fn foreign(path: &Path, pair: Option<(&str, &str)>, rows: &[(i64, i64, i64)]) {
    use parquet::data_type::{BoolType, Int64Type};
    use parquet::file::metadata::KeyValue;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;

    let schema = "message schema { optional int64 lba; required boolean is_read; required double other;
        optional int64 arrival_ns; required int64 sectors; }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let pair = pair.map(|(key, value)| vec![KeyValue::new(key.to_owned(), value.to_owned())]);
    let properties = WriterProperties::builder().set_key_value_metadata(pair).build();
    let mut file = SerializedFileWriter::new(fs::File::create(path).unwrap(), Arc::new(schema), Arc::new(properties)).unwrap();
    let mut group = file.next_row_group().unwrap();
    let levels = vec![1; rows.len()];
    let mut column = group.next_column().unwrap().unwrap();
    let lbas: Vec<i64> = rows.iter().map(|row| row.1).collect();
    column.typed::<Int64Type>().write_batch(&lbas, Some(&levels), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<BoolType>().write_batch(&vec![true; rows.len()], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<parquet::data_type::DoubleType>().write_batch(&vec![0.5; rows.len()], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let arrivals: Vec<i64> = rows.iter().map(|row| row.0).collect();
    column.typed::<Int64Type>().write_batch(&arrivals, Some(&levels), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let sectors: Vec<i64> = rows.iter().map(|row| row.2).collect();
    column.typed::<Int64Type>().write_batch(&sectors, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    file.close().unwrap();
}

#[test]
fn four_columns_of_another_program_are_a_trace_sorted_and_counted_from_zero() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("foreign");
    foreign(&path, None, &[(7_000, 10, 8), (5_000, 20, 16), (6_000, 30, 0)]);
    let mut opened = open(&path, &OpenOptions::default()).unwrap();
    let mut requests = Vec::new();
    while let Some(request) = opened.reader.next_request() {
        requests.push(request.unwrap());
    }
    let seen: Vec<_> = requests.iter().map(|r| (r.arrival.0, r.lba, r.sectors, r.sync, r.response)).collect();
    assert_eq!(seen, [(0, 20, 16, None, None), (2_000, 10, 8, None, None)]);
    assert_eq!(opened.reader.omitted(), 1, "the request of no sectors");
}

#[test]
fn a_bad_value_is_named_with_its_row_or_passed_over_when_asked() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bad");
    foreign(&path, None, &[(0, 10, 8), (1, -20, 8), (2, 30, 8), (3, i64::MAX, 8), (4, 50, 1 << 40)]);
    let mut opened = open(&path, &OpenOptions::default()).unwrap();
    let error = opened.reader.next_request().unwrap().unwrap_err().to_string();
    assert!(error.contains("bad:row 2: lba is -20, not from 0 to"), "{error}");
    let mut opened = open(&path, &OpenOptions { skip_bad: true, ..OpenOptions::default() }).unwrap();
    let read = std::iter::from_fn(|| opened.reader.next_request()).filter(Result::is_ok).count();
    assert_eq!((read, opened.reader.skipped()), (2, 3));
}

/// The results of a reader: requests up to the first error, the error, and the omissions.
type Read = (Vec<TraceRequest>, Option<String>, u64, u64);

fn one_by_one(path: &Path, options: &OpenOptions) -> Read {
    let mut opened = open(path, options).unwrap();
    let mut requests = Vec::new();
    let mut error = None;
    while let Some(request) = opened.reader.next_request() {
        match request {
            Ok(request) => requests.push(request),
            Err(failed) => error = Some(failed.to_string()),
        }
    }
    (requests, error, opened.reader.omitted(), opened.reader.skipped())
}

fn in_batches(path: &Path, options: &OpenOptions, at_most: usize) -> Read {
    let mut opened = open(path, options).unwrap();
    let (mut requests, mut error) = (Vec::new(), None);
    loop {
        let before = requests.len();
        match opened.reader.next_batch(&mut requests, at_most) {
            Ok(false) => break,
            Ok(true) => assert!((1..=at_most).contains(&(requests.len() - before))),
            Err(failed) => error = Some(failed.to_string()),
        }
    }
    (requests, error, opened.reader.omitted(), opened.reader.skipped())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batches_of_a_store_hold_the_same_requests_and_names(trace in trace(300), at_most in 1..300usize) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("trace");
        write_trace(&trace, "parquet", &path);
        let options = OpenOptions::default();
        prop_assert_eq!(in_batches(&path, &options, at_most), one_by_one(&path, &options));
        let mut opened = open(&path, &options).unwrap();
        while opened.reader.next_batch(&mut Vec::new(), at_most).unwrap() {}
        for (stream, name) in &trace.streams {
            prop_assert_eq!(opened.reader.stream_name(*stream), Some(name.as_str()));
        }
        for (device, name) in &trace.devices {
            prop_assert_eq!(opened.reader.device_name(*device), Some(name.as_str()));
        }
    }

    /// Rows out of order, without sectors and with impossible values, in stores of this program and of others.
    #[test]
    fn batches_of_a_bad_store_end_with_the_same_error_and_leave_out_the_same(
        rows in prop::collection::vec((0..40i64, prop_oneof![9 => 0..500i64, 1 => Just(-7i64)], prop_oneof![9 => 1..40i64, 1 => Just(0i64)]), 1..200),
        (in_order, is_ours, skip_bad) in any::<(bool, bool, bool)>(),
        at_most in 1..100usize,
    ) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("rows");
        let mut rows = rows;
        if in_order {
            rows.sort_by_key(|row| row.0);
        }
        foreign(&path, is_ours.then_some(("seekwise.program", "seekwise test")), &rows);
        let options = OpenOptions { format: Some("parquet".into()), skip_bad, ..OpenOptions::default() };
        prop_assert_eq!(in_batches(&path, &options, at_most), one_by_one(&path, &options));
    }
}

#[test]
fn batches_go_over_row_groups() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("long");
    let trace = long_trace();
    write_trace(&trace, "parquet", &path);
    assert!(in_batches(&path, &OpenOptions::default(), 1_000).0 == trace.requests);
}

#[test]
fn a_store_of_another_version_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("later");
    foreign(&path, Some(("seekwise.trace.version", "2")), &[(0, 10, 8)]);
    let error = open(&path, &OpenOptions::default()).err().unwrap().to_string();
    assert!(error.contains("\"2\"") && error.contains("\"1\""), "{error}");
}

#[test]
fn a_dataframe_tool_reads_the_same_numbers() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("trace.parquet");
    let mut trace = long_trace();
    trace.requests.truncate(1000);
    trace.streams = BTreeMap::from([(3, "postgres".into())]);
    write_trace(&trace, "parquet", &path);
    let script = "import sys, pyarrow.parquet as p
t = p.read_table(sys.argv[1]).to_pydict()
print(len(t['lba']), sum(t['lba']), sum(t['response_ns']), t['arrival_ns'][-1], sum(t['is_read']), t['stream_name'].count('postgres'), t['sync'].count(None))";
    let Ok(output) = Command::new("python3").arg("-c").arg(script).arg(&path).output() else {
        println!("skipped: there is no python3");
        return;
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("No module named 'pyarrow'") {
        println!("skipped: python3 has no pyarrow");
        return;
    }
    let requests = &trace.requests;
    let expected = format!(
        "1000 {} {} {} {} {} 1000\n",
        requests.iter().map(|r| r.lba).sum::<u64>(),
        requests.iter().map(|r| r.response.unwrap().0).sum::<u64>(),
        requests[999].arrival.0,
        requests.iter().filter(|r| r.op == Op::Read).count(),
        requests.iter().filter(|r| r.stream == 3).count()
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{complaint}");
}

#[test]
fn losses_of_a_format_are_noticed_once_they_occur() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, "time_us,lba,sectors,op,sync,priority_level\n0,1,8,read,1,4\n1,9,8,write,0,4\n2,9,8,read,0,7\n").unwrap();
    let mut opened = open(&path, &OpenOptions::default()).unwrap();
    let mut losses = Losses::of(write::named("blkparse").unwrap());
    let mut lost = Vec::new();
    while let Some(request) = opened.reader.next_request() {
        losses.see(&request.unwrap(), opened.reader.as_ref());
        lost.push(losses.lost().collect::<Vec<_>>());
    }
    assert_eq!(lost, [vec![], vec![], vec![Field::AsyncRead, Field::Priority]]);
}

#[test]
fn each_written_formats_file_is_in_the_list_and_its_name_is_that_of_a_format_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/write");
    let files = fs::read_dir(folder).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "mod.rs").count();
    // fio's log has two versions, which one reader reads.
    assert_eq!(files + 1, write::ALL.len());
    for format in write::ALL {
        let name = if format.name == "fio2" { "fio" } else { format.name };
        assert!(trace::ALL.iter().any(|read| read.name == name), "{} is read back", format.name);
        let named = write::by_extension(Path::new(&format!("trace.{}", format.extensions[0].to_uppercase())));
        assert_eq!(named.map(|found| found.name), Some(format.name));
    }
}
