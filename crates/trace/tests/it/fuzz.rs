//! Traces of arbitrary bytes: requests or an error, in bounded memory, never a panic. `SEEKWISE_FUZZ_SECONDS=300` runs on.

use std::time::{Duration, Instant};

use crate::trace_help::*;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use trace::{ALL, OpenOptions};

/// libCacheSim's records, of which each object is asked for by every tenth.
fn libcachesim(version: u64) -> Vec<u8> {
    let record = |at: u64| {
        let next = if at < 30 { at + 11 } else { u64::MAX };
        let operation = if version > 1 { vec![12 + (at % 2) as u8, at as u8 % 3, 0, 0] } else { Vec::new() };
        let front = [&(at as u32).to_le_bytes()[..], &(at % 10 * 800).to_le_bytes(), &(at as u32 * 100 + 1).to_le_bytes()].concat();
        [front, operation, next.to_le_bytes().to_vec()].concat()
    };
    (0..40).flat_map(record).collect()
}

/// How a format is opened that is not recognised by content.
fn options(format: &str) -> OpenOptions {
    const COLUMNS: &str = "time=t,offset=where,size=3,op=kind,stream=who,latency=took,device=7,time-unit=ms,offset-unit=sectors,\
                           size-unit=bytes,read=yes";
    OpenOptions { columns: (format == "columns").then(|| COLUMNS.parse().unwrap()), ..OpenOptions::default() }
}

/// Forty records: number, place, size and kind of each.
fn numbers() -> impl Iterator<Item = (u64, u64, u64, u64)> {
    (0_u64..40).map(|at| (at, at * 7_919 % 1_000, 1 + at % 64, at % 3))
}

/// A sound trace of each format, of a few dozen records.
fn sound(format: &str) -> Vec<u8> {
    binary(format)
        .or_else(|| text(format))
        .unwrap_or_else(|| b"a format without a sample here is still given arbitrary bytes\n".repeat(10))
}

/// A sound trace of a binary format, if it is one of them.
fn binary(format: &str) -> Option<Vec<u8>> {
    let blk = |at: u64, place: u64, size: u64, kind: u64| {
        let action = [Q | READ, Q | WRITE | SYNC, Q | DISCARD][kind as usize];
        let queued = Blk::new(at * 1_000, action, place * 8, size as u32, at as u32 % 5);
        [queued.clone(), Blk { time: at * 1_000 + 600, action: action & !0xf0_ffff | C, ..queued }, Blk::name(at as u32, "a name")]
    };
    Some(match format {
        "blktrace" => blktrace(&numbers().flat_map(|(at, place, size, kind)| blk(at, place, size, kind)).collect::<Vec<_>>()),
        "vscsi" => numbers()
            .flat_map(|(at, place, size, kind)| {
                let (serial, length, command) = (at as u32, size as u32 * 512, [0x28_u16, 0x2a, 0x88][kind as usize]);
                let words = [serial, length, 1].map(u32::to_le_bytes).concat();
                let rest = [place, at * 1_000].map(u64::to_le_bytes).concat();
                [words, command.to_le_bytes().to_vec(), 0x100_u16.to_le_bytes().to_vec(), rest].concat()
            })
            .collect(),
        "oraclegeneral" => libcachesim(1),
        "lcs" => {
            let magic = 0x1234_5678_9abc_def0_u64.to_le_bytes();
            let mut file = [magic, 2_u64.to_le_bytes()].concat();
            file.resize(8184, 0);
            file.extend(magic);
            file.extend(libcachesim(2));
            file
        }
        _ => return None,
    })
}

/// A sound trace of a format of lines, if it is one of them.
fn text(format: &str) -> Option<Vec<u8>> {
    let lines = |head: &str, line: &dyn Fn(u64, u64, u64, u64) -> String| -> Vec<u8> {
        numbers().fold(head.to_owned(), |text, (at, place, size, kind)| text + &line(at, place, size, kind) + "\n").into_bytes()
    };
    Some(match format {
        "blkparse" => lines("Input file sda.blktrace.0 added\n", &|at, place, size, kind| {
            let (action, rwbs) = (["Q", "D", "C"][kind as usize], ["R", "WS", "FN"][(at % 3) as usize]);
            format!("  8,{kind}    3  {at:7}  {:4}.{at:09}   697  {action}  {rwbs} {place} + {size} [kjournald]", at / 10)
        }),
        "tracefs" => lines("# tracer: nop\n#\n", &|at, place, size, kind| {
            let (event, command) =
                [("block_bio_queue", ""), ("block_rq_issue", "4096 () "), ("block_rq_complete", "() ")][kind as usize];
            let rwbs = ["RA", "WS", "FF"][(at % 3) as usize];
            format!("  a name-{at} [001] ..s.. {at}.{place:06}: {event}: 8,0 {rwbs} {command}{place} + {size} be,0,4 [a name]")
        }),
        "fio" => lines("fio version 2 iolog\n/f add\n/f open\n", &|at, place, size, kind| {
            format!("/f{kind} {} {} {}", ["read", "write", "wait", "sync"][(at % 4) as usize], place * 512, size * 512)
        }),
        "spc" => {
            lines("", &|at, place, size, kind| format!("{kind},{place},{},{},{}.5", size * 512, ["r", "W"][(at % 2) as usize], at))
        }
        "msr" => lines("", &|at, place, size, kind| {
            format!(
                "{},h{kind},{kind},{},{},{},{at}",
                128_166_372_003_061_629 + at,
                ["Read", "Write"][(at % 2) as usize],
                place * 100,
                size * 100
            )
        }),
        "disksim" => lines("", &|at, place, size, kind| format!("{at}.{place:03} {kind} {place} {size} {:x}", at * 13 % 512)),
        "disksim-validation" => lines("", &|at, place, size, kind| {
            format!(
                "{} {:4} {place:9} {size:3} {:11}.00000 {at}.5",
                ["R", "W"][(at % 2) as usize],
                ["Hit", "Miss", "Doub"][kind as usize],
                at * 100
            )
        }),
        "alibaba" => lines("", &|at, place, size, kind| {
            format!("{kind},{},{},{},{}", ["R", "W"][(at % 2) as usize], place * 100, size * 100, 1_577_808_000_000_000 + at)
        }),
        "tencent" => lines("", &|at, place, size, kind| format!("{},{place},{size},{},{kind}", 1_538_323_200 + at / 4, at % 2)),
        "csv" => lines("time_ms,lba,size_bytes,op,stream_name,sync,response_us,device\n", &|at, place, size, kind| {
            format!("{at}.25,{place},{},{},\"s{kind}\",{},{}e1,{kind}", size * 100, ["r", "write"][(at % 2) as usize], at % 2, at)
        }),
        "systor" => lines("Timestamp,Response,IOType,LUN,Offset,Size\n", &|at, place, size, kind| {
            let response = ["", "0.000312", "1"][kind as usize];
            format!("1455667209.{at:06},{response},{},{kind},{},{}", ["R", "W"][(at % 2) as usize], place * 100, size * 100)
        }),
        "fiu" => lines("", &|at, place, size, kind| {
            let (pid, direction) = (at % 5, ["R", "W"][(at % 2) as usize]);
            format!("{} {pid} a name {place} {size} {direction} 8 {kind} {at:032x}", 89_966_921_819_946 + at * 1_000)
        }),
        "biosnoop" => lines("TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n", &|at, place, size, kind| {
            let (letters, queue) = (["R", "WS", "D"][kind as usize], ["0.25 ", "", "-1.000 "][(at % 3) as usize]);
            format!("{at}.{place:06} a name {} sd{kind} {letters} {place} {} {queue}{size}.82", at % 5, size * 100)
        }),
        "columns" => lines("t;where;bytes;kind;who;took;disk\n", &|at, place, size, kind| {
            let (op, took) = (["r", "WRITE", "yes"][kind as usize], ["", "0.5"][(at % 2) as usize]);
            format!("{at}.25;{place};{};{op};\"s{kind}\";{took};d{kind};more", size * 100)
        }),
        "mqsim" => lines("", &|at, place, size, kind| {
            // In milliseconds, as DiskSim counts, that is beyond 2^64 ns.
            format!("{} {kind} {place} {size} {}", 20_000_000_000_000 + at * 1_000, at % 2)
        }),
        _ => return None,
    })
}

/// One change to a trace.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Flip(Index, u8),
    Remove(Index, u16),
    Repeat(Index, u16, u8),
    Insert(Index, Vec<u8>),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let tricky: Vec<&[u8]> = vec![
        b"18446744073709551615",
        b"18446744073709551616",
        b"4294967295",
        b"4294967296",
        b"-1",
        b"1e300",
        b"nan",
        b"0.0000000001",
        b",",
        b",,",
        b"\n",
        b"\r\n",
        b"\"",
        b" ",
        b"\t",
        b"\0",
        b"\x07taea\x07taea",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"[",
        b"]",
        b"+",
        b"\xef\xbb\xbf",
        b"CPU",
        b"wait",
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<Index>(), 0_u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (any::<Index>(), 0_u16..200).prop_map(|(at, count)| Change::Remove(at, count)),
        (any::<Index>(), 0_u16..200, 1_u8..5).prop_map(|(at, count, times)| Change::Repeat(at, count, times)),
        (any::<Index>(), prop::sample::select(tricky)).prop_map(|(at, bytes)| Change::Insert(at, bytes.to_vec())),
        (any::<Index>(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        any::<Index>().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let at = |index: &Index, bytes: &Vec<u8>| index.index(bytes.len() + 1);
    match change {
        Change::Set(index, byte) => {
            let at = at(index, bytes);
            if let Some(place) = bytes.get_mut(at) {
                *place = *byte;
            }
        }
        Change::Flip(index, bit) => {
            let at = at(index, bytes);
            if let Some(place) = bytes.get_mut(at) {
                *place ^= 1 << bit;
            }
        }
        Change::Remove(index, count) => {
            let at = at(index, bytes);
            let end = bytes.len().min(at + usize::from(*count));
            bytes.drain(at..end);
        }
        Change::Repeat(index, count, times) => {
            let at = at(index, bytes);
            let end = bytes.len().min(at + usize::from(*count));
            let part = bytes[at..end].repeat(usize::from(*times));
            bytes.splice(at..at, part);
        }
        Change::Insert(index, part) => {
            let at = at(index, bytes);
            bytes.splice(at..at, part.iter().copied());
        }
        Change::Cut(index) => bytes.truncate(at(index, bytes)),
    }
}

/// A file to be read: a changed sound trace or arbitrary bytes, perhaps compressed, perhaps changed after that.
#[derive(Clone, Debug)]
struct Case {
    format: &'static str,
    named: bool,
    skip_bad: bool,
    arbitrary: Option<Vec<u8>>,
    changes: Vec<Change>,
    compression: u8,
    later_changes: Vec<Change>,
}

impl Case {
    fn file(&self) -> Vec<u8> {
        let mut bytes = self.arbitrary.clone().unwrap_or_else(|| sound(self.format));
        self.changes.iter().for_each(|change| apply(&mut bytes, change));
        let Some((_, pack)) = PACKERS.get(usize::from(self.compression)) else { return bytes };
        let mut bytes = pack(&bytes);
        self.later_changes.iter().for_each(|change| apply(&mut bytes, change));
        bytes
    }

    /// Reads it, and checks the contract of readers.
    fn check(&self) {
        let bytes = self.file();
        let format = self.named.then(|| self.format.to_owned());
        let options = OpenOptions { format, skip_bad: self.skip_bad, ..options(self.format) };
        match read_path(file(&bytes).path(), &options) {
            Err(error) => assert!(error.to_string().len() < 1_000, "{error}"),
            Ok(read) => {
                let requests = &read.requests;
                assert!(requests.first().is_none_or(|request| request.arrival.0 == 0), "the first request is at zero");
                assert!(requests.is_sorted_by_key(|request| request.arrival), "in the order of arrival");
                assert!(requests.iter().all(|request| request.sectors > 0 && request.lba + u64::from(request.sectors) <= 1 << 55));
                assert!(self.skip_bad || read.reader.skipped() == 0);
                for request in requests {
                    read.reader.stream_name(request.stream);
                    read.reader.device_name(request.device);
                }
            }
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let formats: Vec<&'static str> = ALL.iter().map(|format| format.name).collect();
    let changes = || prop::collection::vec(change(), 0..6);
    let arbitrary = prop::option::weighted(0.15, prop::collection::vec(any::<u8>(), 0..600));
    (prop::sample::select(formats), any::<bool>(), any::<bool>(), arbitrary, changes(), 0_u8..10, changes()).prop_map(
        |(format, named, skip_bad, arbitrary, changes, compression, later_changes)| Case {
            format,
            named,
            skip_bad,
            arbitrary,
            changes,
            compression,
            later_changes,
        },
    )
}

#[test]
fn sound_traces_are_recognised_and_read_whole() {
    for format in ALL.iter().filter(|format| !sound(format.name).starts_with(b"a format without")) {
        let packed = PACKERS.iter().map(|(_, pack)| pack(&sound(format.name)));
        for bytes in packed.chain([sound(format.name)]) {
            let read = read_path(file(bytes).path(), &options(format.name)).unwrap();
            assert_eq!(read.format, format.name);
            assert!(read.requests.len() >= 10, "{}: {} requests", format.name, read.requests.len());
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 3_000, failure_persistence: None, rng_algorithm: RngAlgorithm::ChaCha, ..Config::default() })]

    #[test]
    fn any_file_gives_requests_or_an_error(case in case()) {
        case.check();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "only the length of the run depends on the clock, not the traces")]
fn many_more_files_do_too() {
    let seconds = std::env::var("SEEKWISE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    if seconds == 0 {
        println!("skipped: set SEEKWISE_FUZZ_SECONDS to how long to run");
        return;
    }
    let seed = std::env::var("SEEKWISE_FUZZ_SEED").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &key));
    let (strategy, end) = (case(), Instant::now() + Duration::from_secs(seconds));
    let mut cases = 0_u64;
    while Instant::now() < end {
        let case = strategy.new_tree(&mut runner).unwrap().current();
        let start = Instant::now();
        if std::panic::catch_unwind(|| case.check()).is_err() {
            panic!("seed {seed}, case {cases}: {case:?}");
        }
        assert!(start.elapsed() < Duration::from_secs(20), "seed {seed}, case {cases} takes too long: {case:?}");
        cases += 1;
    }
    println!("{cases} files, seed {seed}");
}
