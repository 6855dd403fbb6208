//! blktrace recordings: several files, both byte orders, damage; and agreement with the field's own tools.

use std::path::Path;
use std::process::Command;

use crate::trace_help::*;
use block::{Nanos, Op};
use trace::{OpenOptions, TraceRequest};

/// A recording of two processors, with the events of a real system: names, merges, splits, remaps, a discard, a flush.
fn recording() -> [Vec<Blk>; 2] {
    let remap =
        Blk { payload: [8_u32 << 20, (8 << 20) | 1].map(u32::to_be_bytes).concat(), ..Blk::new(1_000, A | WRITE, 223_490, 8, 697) };
    let remap = Blk { payload: [remap.payload.clone(), 100_u64.to_be_bytes().to_vec()].concat(), ..remap };
    let first = vec![
        Blk::name(697, "kjournald"),
        Blk::name(699, "my [odd] name"),
        remap,
        Blk::new(2_000, Q | WRITE, 223_490, 8, 697),
        Blk::new(2_500, G | WRITE, 223_490, 8, 697),
        Blk::new(6_500, Q | READ | AHEAD, 500, 64, 699),
        Blk::new(7_000, I | WRITE, 223_490, 16, 697),
        Blk::new(8_000, D | WRITE, 223_490, 16, 697),
        Blk::new(30_000, C | READ | AHEAD, 500, 32, 0),
        Blk { bytes: 0, ..Blk::new(31_000, Q | WRITE | FLUSH, 0, 0, 697) },
        Blk::new(32_000, Q | DISCARD, 4_096, 2048, 701),
    ];
    let second = vec![
        Blk::name(698, "postgres"),
        Blk::new(3_000, Q | WRITE | SYNC, 223_498, 8, 698),
        Blk::new(3_500, M | WRITE | SYNC, 223_498, 8, 698),
        Blk::new(20_000, C | WRITE, 223_490, 16, 0),
        Blk::new(40_000, C | READ | AHEAD, 532, 32, 0),
        Blk::new(41_000, Q | WRITE | FUA, 7, 1, 698),
        Blk { device: 259 << 20 | 3, ..Blk::new(42_000, Q | READ, 9, 2, 698) },
        Blk { device: 259 << 20 | 3, ..Blk::new(43_000, C | READ, 9, 2, 0) },
    ];
    let number = |cpu: u32| move |(sequence, record): (usize, Blk)| Blk { sequence: sequence as u32 + 1, cpu, ..record };
    [first.into_iter().enumerate().map(number(0)).collect(), second.into_iter().enumerate().map(number(1)).collect()]
}

const EXPECTED: [&str; 6] = [
    "0 0 697 Write 223490+8 sync=false response=18000 service=12000",
    "1000 0 698 Write 223498+8 sync=true response=17000 service=12000",
    "4500 0 699 Read 500+64 sync=true response=33500",
    "30000 0 701 Discard 4096+2048 sync=false",
    "39000 0 698 Write 7+1 sync=true",
    "40000 1 698 Read 9+2 sync=true response=1000",
];

fn record_into(folder: &Path, big_endian: bool) {
    for (cpu, records) in recording().iter().enumerate() {
        let bytes: Vec<u8> = records.iter().flat_map(|record| record.bytes(big_endian)).collect();
        std::fs::write(folder.join(format!("sda.blktrace.{cpu}")), bytes).unwrap();
    }
    // A processor without requests, and another device's recording.
    std::fs::write(folder.join("sda.blktrace.2"), "").unwrap();
    std::fs::write(folder.join("sdb.blktrace.0"), blktrace(&[Blk::new(1, Q | READ, 1, 1, 1)])).unwrap();
}

#[test]
fn the_files_of_all_processors_are_read_together_in_both_byte_orders() {
    for big_endian in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        record_into(folder.path(), big_endian);
        for name in ["sda.blktrace.0", "sda.blktrace.1", "sda.blktrace.2", "sda"] {
            let read = read_path(&folder.path().join(name), &OpenOptions::default()).unwrap();
            assert_eq!((read.format, shown(&read)), ("blktrace", EXPECTED.map(String::from).to_vec()), "{name}, big {big_endian}");
            assert_eq!((read.reader.omitted(), read.reader.skipped()), (1, 0));
            assert_eq!(read.reader.stream_name(699), Some("my [odd] name"));
            assert_eq!((read.reader.device_name(0), read.reader.device_name(1)), (Some("8,0"), Some("259,3")));
        }
    }
}

#[test]
fn a_compressed_recording_is_read_whole_too() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = recording();
    std::fs::write(folder.path().join("sda.blktrace.0.gz"), gzip(&blktrace(&first))).unwrap();
    std::fs::write(folder.path().join("sda.blktrace.1.zst"), zstandard(&blktrace(&second))).unwrap();
    let read = read_path(&folder.path().join("sda"), &OpenOptions::default()).unwrap();
    assert_eq!(shown(&read), EXPECTED);
}

#[test]
fn a_control_group_id_in_front_of_a_name_is_cut_off() {
    let mut name = Blk::name(5, "cat");
    name.action |= 1 << 8;
    name.payload.splice(0..0, 0x4141_4141_4141_4141_u64.to_le_bytes());
    let read = read(blktrace(&[name, Blk { action: Q | READ | 1 << 8, ..Blk::new(9, 0, 8, 8, 5) }])).unwrap();
    assert_eq!((read.requests.len(), read.reader.stream_name(5)), (1, Some("cat")));
}

#[test]
fn damage_names_the_record_and_can_be_passed_over_to_the_next_magic() {
    let records = [Blk::new(1, Q | READ, 8, 8, 1), Blk::new(2, Q | READ, 16, 8, 1), Blk::new(3, Q | READ, 24, 8, 1)];
    let mut bytes = blktrace(&records);
    bytes[48] ^= 0xff;
    assert_eq!(error(read(&bytes)), "record 2: begins with 0x656174f8, not with the magic 0x656174 and version 07");
    let skipped = read_skipping(&bytes).unwrap();
    assert_eq!(shown(&skipped), ["0 0 1 Read 8+8 sync=true", "2 0 1 Read 24+8 sync=true"]);
    assert_eq!(skipped.reader.skipped(), 1);

    let mut bytes = blktrace(&records);
    bytes.truncate(48 + 48 + 5);
    assert_eq!(error(read(&bytes)), "record 3: the file ends after 5 of the record's 48 bytes");
    assert_eq!(read_skipping(&bytes).unwrap().requests.len(), 2);
    let mut bytes = blktrace(&[Blk::new(1, Q | READ, 8, 8, 1), Blk::name(4, "cat")]);
    bytes.truncate(bytes.len() - 1);
    assert_eq!(error(read(&bytes)), "record 2: the file ends after 15 of the payload's 16 bytes");
}

#[test]
fn another_version_is_refused_by_name() {
    let mut bytes = blktrace(&[Blk::new(1, Q | READ, 8, 8, 1)]);
    bytes[0] = 8;
    assert_eq!(error(read(&bytes)), "is of blktrace version 8; only version 7 can be read");
}

#[test]
fn requests_without_completion_block_nothing_forever() {
    let records: Vec<Blk> = (0..100_000).map(|at| Blk::new(at, Q | READ, at * 8, 8, 1)).collect();
    let read = read(blktrace(&records)).unwrap();
    assert_eq!(read.requests.len(), 100_000);
    assert!(read.requests.iter().all(|request| request.response.is_none()));
}

/// A busy recording of four processors, made without a random source: merges, splits, several devices and processes.
fn busy_recording(folder: &Path) {
    let mut files: [Vec<Blk>; 4] = Default::default();
    let mut state: u64 = 7;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for pid in 1..20 {
        files[0].push(Blk::name(pid, &format!("program-{pid}")));
    }
    let mut time = 1_000_000;
    for number in 0..5_000_u32 {
        time += draw(200_000);
        let cpu = draw(4) as u32;
        let direction = [READ, READ | SYNC, WRITE, WRITE | SYNC, WRITE | FUA | SYNC, READ | AHEAD][draw(6) as usize];
        let (sector, sectors) = (draw(1 << 30) * 8, 8 * (1 + draw(32) as u32));
        let device = SDA + draw(2) as u32 * 16;
        let event = |after: u64, action: u32| Blk {
            device,
            cpu,
            sequence: number * 4 + 1,
            ..Blk::new(time + after, action | direction, sector, sectors, 1 + number % 19)
        };
        let latency = 10_000 + draw(3_000_000);
        files[cpu as usize].extend([event(0, Q), event(100, G), event(200, I), event(1_000, D)]);
        let done = (cpu as usize + 1) % 4;
        files[done].push(Blk { cpu: done as u32, pid: 0, ..event(latency, C) });
    }
    for (cpu, file) in files.iter_mut().enumerate() {
        file.sort_by_key(|record| record.time);
        std::fs::write(folder.join(format!("busy.blktrace.{cpu}")), blktrace(file)).unwrap();
    }
}

/// A program's output, or `None` with a printed reason if it is not installed.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).current_dir(folder).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is not installed (apt install blktrace fio)");
            None
        }
        Err(error) => panic!("{program}: {error}"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{program}: {}{text}", String::from_utf8_lossy(&output.stderr));
            Some(text)
        }
    }
}

/// The fields that do not depend on the numbers given to devices.
fn essence(request: &TraceRequest) -> (Nanos, u32, u64, u32, Op, Option<bool>, Option<Nanos>) {
    (request.arrival, request.stream, request.lba, request.sectors, request.op, request.sync, request.response)
}

/// Writes a recording into a folder.
type Recorder = fn(&Path);

#[test]
fn blkparse_prints_the_requests_that_we_read() {
    let recordings: [(&str, Recorder); 3] =
        [("sda", |folder| record_into(folder, false)), ("sda", |folder| record_into(folder, true)), ("busy", busy_recording)];
    for (name, write) in recordings {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let Some(text) = run(folder.path(), "blkparse", &["-i", name]) else { return };
        let binary = read_path(&folder.path().join(name), &OpenOptions::default()).unwrap();
        let printed = read(&text).unwrap();
        assert_eq!(printed.format, "blkparse");
        let essences = |read: &Read| read.requests.iter().map(essence).collect::<Vec<_>>();
        assert_eq!(essences(&binary), essences(&printed), "our blktrace reader against blkparse and our reader of its text");
        assert_eq!(binary.reader.omitted(), printed.reader.omitted());
        for request in &binary.requests {
            assert_eq!(binary.reader.stream_name(request.stream), printed.reader.stream_name(request.stream));
        }

        // Independent of our reader of its text: blkparse's own fields of queue events, in its own order.
        let format = "%T %t %p %S %n %d\\n";
        let Some(text) = run(folder.path(), "blkparse", &["-q", "-i", name, "-a", "queue", "-f", "", "-F", &format!("Q,{format}")])
        else {
            return;
        };
        let number = |field: &str| field.parse::<u64>().unwrap();
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|fields| fields.len() == 6);
        let requests: Vec<_> = lines.filter(|fields| fields[4] != "0").collect();
        assert_eq!(requests.len(), binary.requests.len());
        let time = |fields: &[&str]| number(fields[0]) * 1_000_000_000 + number(fields[1]);
        let zero = time(&requests[0]);
        for (fields, request) in requests.iter().zip(&binary.requests) {
            assert_eq!(time(fields) - zero, request.arrival.0);
            let ours = (u64::from(request.stream), request.lba, u64::from(request.sectors), request.op);
            let op = match fields[5].trim_start_matches('F').as_bytes() {
                [b'R', ..] => Op::Read,
                [b'D', ..] => Op::Discard,
                _ => Op::Write,
            };
            assert_eq!((number(fields[2]), number(fields[3]), number(fields[4]), op), ours);
        }
    }
}

#[test]
fn blkparse_joins_the_files_into_one_that_we_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    busy_recording(folder.path());
    if run(folder.path(), "blkparse", &["-q", "-O", "-i", "busy", "-d", "joined.bin"]).is_none() {
        return;
    }
    let apart = read_path(&folder.path().join("busy"), &OpenOptions::default()).unwrap();
    let joined = read_path(&folder.path().join("joined.bin"), &OpenOptions::default()).unwrap();
    let essences = |read: &Read| read.requests.iter().map(essence).collect::<Vec<_>>();
    assert_eq!(essences(&apart), essences(&joined));
}

#[test]
fn fio_writes_logs_of_which_we_read_every_request() {
    let folder = tempfile::tempdir().unwrap();
    let job = "--name=job --rw=randrw --bsrange=512-16k --bs_unaligned --size=1m --nrfiles=3 --number_ios=300 --fsync=20 --rate_iops=2000,2000";
    let arguments: Vec<&str> = job.split(' ').chain(["--write_iolog=log", "--output-format=json"]).collect();
    let Some(json) = run(folder.path(), "fio", &arguments) else { return };
    let read = read_path(&folder.path().join("log"), &OpenOptions::default()).unwrap();
    assert_eq!(read.format, "fio");
    // fio's own account of its I/O.
    let count = |direction: &str| {
        let section = json.split(&format!("\"{direction}\" : {{")).nth(1).unwrap();
        let field = |name: &str| {
            section
                .split(&format!("\"{name}\" : "))
                .nth(1)
                .unwrap()
                .split([',', '\n'])
                .next()
                .unwrap()
                .trim()
                .parse::<u64>()
                .unwrap()
        };
        (field("total_ios"), field("io_bytes"))
    };
    for (op, direction) in [(Op::Read, "read"), (Op::Write, "write")] {
        let ours = read.requests.iter().filter(|request| request.op == op);
        assert_eq!(ours.count() as u64, count(direction).0, "{direction}");
    }
    // Its log, line by line, by another path than ours.
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let lines = log
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|line| ["read", "write"].contains(line.get(2).unwrap_or(&"")));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), read.requests.len());
    let number = |field: &str| field.parse::<u64>().unwrap();
    for (line, request) in lines.iter().zip(&read.requests) {
        let (offset, length) = (number(line[3]), number(line[4]));
        assert_eq!(request.lba, offset / 512);
        assert_eq!(request.lba + u64::from(request.sectors), (offset + length).div_ceil(512));
        assert_eq!(request.arrival.0, (number(line[0]) - number(lines[0][0])) * 1_000);
        assert_eq!(read.reader.device_name(request.device), Some(line[1]));
    }
    assert!(read.reader.omitted() > 0, "the fsyncs");
}

#[test]
fn fio_replays_a_blktrace_recording_with_the_requests_that_we_read() {
    let folder = tempfile::tempdir().unwrap();
    busy_recording(folder.path());
    // fio reads one file: let blkparse join them.
    if run(folder.path(), "blkparse", &["-q", "-O", "-i", "busy", "-d", "joined.bin"]).is_none() {
        return;
    }
    let options = "--name=replay --ioengine=null --replay_no_stall=1 --replay_redirect=/dev/null --read_iolog=joined.bin --write_lat_log=fio --log_offset=1";
    if run(folder.path(), "fio", &options.split(' ').collect::<Vec<_>>()).is_none() {
        return;
    }
    // Its log of its I/O: time, latency, direction (0 read, 1 write), bytes, offset, priority.
    let log = std::fs::read_to_string(folder.path().join("fio_clat.1.log")).unwrap();
    let number = |field: &str| field.trim().parse::<u64>().unwrap();
    let theirs = log.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let theirs: Vec<_> = theirs.map(|line| (number(line[2]) == 0, number(line[3]), number(line[4]))).collect();
    let ours = read_path(&folder.path().join("joined.bin"), &OpenOptions::default()).unwrap();
    let ours: Vec<_> =
        ours.requests.iter().map(|request| (request.op == Op::Read, u64::from(request.sectors) * 512, request.lba * 512)).collect();
    // fio stops before it logs its very last request.
    assert_eq!((ours.len(), theirs.len()), (5_000, 4_999));
    let differing = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    assert_eq!(differing, None, "ours and fio's");
}
