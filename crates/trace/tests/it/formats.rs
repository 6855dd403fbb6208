//! Each format is recognised by its content and read as its documentation says.

use crate::trace_help::{error, read, read_as, shown};
use block::{Nanos, Priority, PriorityClass};

#[test]
fn spc_counts_lba_in_sectors_and_rounds_sizes_up() {
    let read = read("0,20941264,8192,W,0.551706\n1,100,1000,r,0.554041\n\n0,7,512,R,1.5\n0,8,0,R,2,further,fields\n").unwrap();
    assert_eq!(read.format, "spc");
    assert_eq!(shown(&read), ["0 0 0 Write 20941264+16", "2335000 1 1 Read 100+2", "948294000 0 0 Read 7+1"]);
    assert_eq!(read.reader.omitted(), 1, "the request of length zero");
}

#[test]
fn msr_counts_in_ticks_of_100_ns_and_names_host_and_disk() {
    let read = read(
        "128166372003061629,hm,0,Read,383496192,32768,41286\n128166372003061729,src1,2,Write,1000,24,10\n128166372003061730,hm,0,Write,512,0,1\n",
    )
    .unwrap();
    assert_eq!(read.format, "msr");
    assert_eq!(shown(&read), ["0 0 0 Read 749016+64 response=4128600", "10000 1 1 Write 1+1 response=1000"]);
    assert_eq!((read.reader.stream_name(0), read.reader.device_name(1)), (Some("hm.0"), Some("src1.2")));
    assert_eq!(read.reader.omitted(), 1);
}

#[test]
fn bytes_are_rounded_outward_to_whole_sectors() {
    let read = read("7,W,511,2,1577808000000000\n7,R,512,512,1577808000000001\n7,R,1023,1,1577808000000002\n").unwrap();
    assert_eq!(read.format, "alibaba");
    assert_eq!(shown(&read), ["0 7 7 Write 0+2", "1000 7 7 Read 1+1", "2000 7 7 Read 1+1"]);
}

#[test]
fn tencent_counts_sectors_and_whole_seconds_and_keeps_the_order_within_one() {
    let read = read("1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n1538323201,1,1,1,1627\n").unwrap();
    assert_eq!(read.format, "tencent");
    assert_eq!(shown(&read), ["0 1063 1063 Read 12910952+128", "0 1627 1627 Write 6338688+8", "1000000000 1627 1627 Write 1+1"]);
}

#[test]
fn disksim_flags_give_direction_and_synchrony() {
    let read = read("0.005000 0 100 8 1\n  1.5  2 2312 4 0x80\n2 2 5 1 101\n3.25 2 5 1 2\n").unwrap();
    assert_eq!(read.format, "disksim");
    let expected = [
        "0 0 0 Read 100+8",
        "1495000 2 2 Write 2312+4 sync=true",
        "1995000 2 2 Read 5+1 sync=false",
        "3245000 2 2 Write 5+1 sync=true",
    ];
    assert_eq!(shown(&read), expected);
}

#[test]
fn disksim_validation_adds_up_response_and_think_times() {
    let lines = "R Hit   16904996   8   6040.00000  34702.00000\nW Miss   1541652   4    980.50000      0\nR Doub 7 0 1000 2000\n\
                 R Trip         0  12    100.00000    100.00000\n";
    let read = read(lines).unwrap();
    assert_eq!(read.format, "disksim-validation");
    let expected = [
        "0 0 0 Read 16904996+8 sync=true response=6040000",
        "40742000 0 0 Write 1541652+4 sync=true response=980500",
        "44722500 0 0 Read 0+12 sync=true response=100000",
    ];
    assert_eq!(shown(&read), expected);
    assert_eq!(read.reader.omitted(), 1, "the request of no sectors takes its time all the same");
}

#[test]
fn errors_in_disksim_validation_lines_name_the_missing_field() {
    let sound = "R Hit 1 8 6040.0 34702.0\n".repeat(3);
    for (line, message) in [
        ("R Hit 1 8 6040.0", "4: lacks the think time: a validation line is R or W, cache action, block, size"),
        ("R Hit 1 8 6040.0 1 2", "4: has more than six fields"),
        ("D Hit 1 8 6040.0 1", "4: the direction is \"D\", not R or W"),
        ("R Hit -1 8 6040.0 1", "4: the block is \"-1\""),
        ("R Hit 1 8 6040.0 -1", "4: the think time is \"-1\", not a time in us"),
        ("R Hit 1 8 18446744073709551.0 1", "4: lasts beyond 2^64 ns"),
    ] {
        let message_here = error(read(format!("{sound}{line}\n")));
        assert!(message_here.starts_with(message), "{message_here}");
    }
}

#[test]
fn fio_version_2_waits_until_a_time_since_the_start() {
    let log = "fio version 2 iolog\n/d/a add\n/d/b add\n/d/a open\n/d/a read 4096 1024\n/d/a wait 1500 0\n/d/b write 0 512\n/d/b wait 50 0\n\
               /d/b trim 0 4096\n/d/a sync 0 0\n/d/a datasync 0 0\n/d/a wait 1600 0\n/d/b read 512 100\n/d/a close\n";
    let read = read(log).unwrap();
    assert_eq!(read.format, "fio");
    assert_eq!(
        shown(&read),
        ["0 0 0 Read 8+2", "1500000000 1 1 Write 0+1", "1500000000 1 1 Discard 0+8", "1600000000 1 1 Read 1+1"]
    );
    assert_eq!((read.reader.stream_name(1), read.reader.omitted()), (Some("/d/b"), 2));
}

#[test]
fn fio_version_3_carries_microseconds() {
    let log = "fio version 3 iolog\n36 /f add\n182 /f open\n186 /f write 61440 4096\n215 /f read 774144 4096\n300 /f close\n";
    assert_eq!(shown(&read(log).unwrap()), ["0 0 0 Write 120+8", "29000 0 0 Read 1512+8"]);
}

fn vscsi(version: u16, records: &[(u16, u32, u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (serial, &(command, length, lba, time)) in (0_u32..).zip(records) {
        if version == 2 {
            bytes.extend([command.to_le_bytes(), (version << 8).to_le_bytes()].concat());
        }
        bytes.extend([serial, length, 1].map(u32::to_le_bytes).concat());
        if version == 1 {
            bytes.extend([command.to_le_bytes(), (version << 8).to_le_bytes()].concat());
        }
        bytes.extend([lba, time].map(u64::to_le_bytes).concat());
        if version == 2 {
            bytes.extend(77_u64.to_le_bytes());
        }
    }
    bytes
}

#[test]
fn vscsi_reads_both_versions_and_all_lengths_of_read_and_write() {
    let commands = [0x08, 0x0a, 0x28, 0x2a, 0xa8, 0xaa, 0x88, 0x8a, 0x35, 0x42];
    let records: Vec<_> = (0_u64..).zip(commands).map(|(at, command)| (command, 1000, at * 10, 5_000 + at)).collect();
    for version in [1, 2] {
        let read = read(vscsi(version, &records)).unwrap();
        assert_eq!((read.format, read.requests.len(), read.reader.omitted()), ("vscsi", 8, 2), "version {version}");
        let response = if version == 2 { " response=77000" } else { "" };
        assert_eq!(shown(&read)[0], format!("0 0 0 Read 0+2{response}"));
        assert_eq!(shown(&read)[7], format!("7000 0 0 Write 70+2{response}"));
    }
}

#[test]
fn csv_reads_its_columns_in_any_order_unit_and_separator() {
    let read = read(
        "op;time_us;offset_bytes;size_bytes;stream_name;device;sync;response_ms;priority_class;priority_level;note\r\n\
         read;1.5;1000;24;\"a;\"\"b\"\"\";3;1;0.25;realtime;2;x\r\nW;2.5;0;512;c;3;0;;;;\r\nr;3e0;0;512;c;3;;;idle;7;\r\n",
    )
    .unwrap();
    assert_eq!(read.format, "csv");
    let expected = ["0 3 0 Read 1+1 sync=true response=250000", "1000 3 1 Write 0+1 sync=false", "1500 3 1 Read 0+1"];
    assert_eq!(shown(&read), expected);
    assert_eq!(read.requests[0].priority, Priority { class: PriorityClass::RealTime, level: 2 });
    assert_eq!(read.requests[1].priority, Priority::DEFAULT);
    assert_eq!(read.requests[2].priority, Priority { class: PriorityClass::Idle, level: 7 });
    assert_eq!(read.reader.stream_name(1), Some("c"));
}

#[test]
fn csv_may_count_places_and_sizes_in_different_units() {
    assert_eq!(shown(&read("time_s,lba,size_bytes,op\n1,10,513,r\n").unwrap()), ["0 0 0 Read 10+2"]);
    assert_eq!(shown(&read("time_s,offset_bytes,sectors,op\n1,1000,2,w\n").unwrap()), ["0 0 0 Write 1+3"]);
}

#[test]
fn without_a_column_for_streams_each_device_is_one() {
    let read = read("time_ns,lba,sectors,is_read,device,device_name\n5,1,1,1,7,sda\n9,2,2,0,8,sdb\n").unwrap();
    assert_eq!(shown(&read), ["0 7 7 Read 1+1", "4 8 8 Write 2+2"]);
    assert_eq!((read.reader.stream_name(7), read.reader.stream_name(8)), (Some("sda"), Some("sdb")));
}

#[test]
fn a_heading_decides_where_the_lines_alone_would_not() {
    let read = read("time_ms,lba,size_bytes,op,stream\n0,1,512,r,3\n1,9,512,w,4\n").unwrap();
    assert_eq!((read.format, shown(&read)), ("csv", vec!["0 0 3 Read 1+1".to_owned(), "1000000 0 4 Write 9+1".to_owned()]));
}

#[test]
fn times_are_exact_to_the_nanosecond_and_rounded_beyond() {
    let read = read("time_ms,lba,sectors,op\n0,1,1,r\n0.0000004,1,1,r\n.0000005,1,1,r\n18446744073709.551614,1,1,r\n18446744073709.551615,1,1,r\n").unwrap();
    let arrivals: Vec<_> = read.requests.iter().map(|request| request.arrival.0).collect();
    assert_eq!(arrivals, [0, 0, 1, u64::MAX - 1, u64::MAX]);
}

#[test]
fn csv_names_belong_to_numbers_where_there_are_numbers() {
    let read =
        read("time_ns,lba,sectors,is_read,stream,stream_name,device,device_name\n5,1,1,1,42,gcc,7,sda\n9,2,2,false,42,,7,\n")
            .unwrap();
    assert_eq!(shown(&read), ["0 7 42 Read 1+1", "4 7 42 Write 2+2"]);
    assert_eq!(
        (read.reader.stream_name(42), read.reader.device_name(7), read.reader.stream_name(0)),
        (Some("gcc"), Some("sda"), None)
    );
}

const BLKPARSE: &str = "Input file sda.blktrace.0 added
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  P   N [kjournald]
  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]
  8,0    3        4     0.000005533   697  M   W 223498 + 8 [kjournald]
  8,0    1        5     0.000005600   698  Q  WS 223498 + 8 [my [odd] name]
  8,0    3        6     0.000009000   697  A   W 223498 + 8 <- (8,1) 100
  8,0    1        7     0.000010000   699  Q  RA 500 + 64 [cat]
  8,0    3        8     0.000011000   697  U   N [kjournald] 1
  8,0    3        9     0.000012000   697  D   W 223490 + 16 [kjournald]
  8,0    1       10     0.000013000   699  D  RA 500 + 32 [cat]
  8,0    1       11     0.000014000     0  C  RA 500 + 32 [0]
  8,0    1       12     0.000015000   700  Q FWFS 900 + 8 [jbd2/sda-8]
  8,0    1       13     0.000016000   700  Q   D 1000 + 2048 [fstrim]
  8,0    1       14     0.000017000   700  Q  FN [fsync]
  8,0    1       15     0.000018000     0  C  RA 532 + 32 [0]
  8,0    3       16     0.000020000     0  C   W 223490 + 16 [0]
  8,0    1       16     0.000020500   700  Q  DE 9000 + 8 [blkdiscard]
  8,0    1       16     0.000020900     0  C   D 1000 + 2048 [0]
  8,0    1       17     0.000021000     0  m   N cfq schedule dispatch
  8,0    1       18     0.000022000     5  D   R 77 + 8 [kworker/0:1]
  8,0    1       19     0.000023000     0  C   R 77 + 8 (  1000) [0]
CPU0 (sda):
 Reads Queued:           1,       32KiB\t Writes Queued:           3,       12KiB

Total (sda):
 Reads Queued:           1,       32KiB
Skips: 0 forward (0 -   0.0%)
";

#[test]
fn blkparse_text_gives_queued_requests_answered_by_the_completions_that_cover_them() {
    let read = read(BLKPARSE).unwrap();
    assert_eq!(read.format, "blkparse");
    let expected = [
        "0 0 697 Write 223490+8 sync=false response=17803 service=8000",
        "3403 0 698 Write 223498+8 sync=true response=14400 service=8000",
        "7803 0 699 Read 500+64 sync=true response=8000 service=5000",
        "12803 0 700 Write 900+8 sync=true",
        "13803 0 700 Discard 1000+2048 sync=false response=4900",
        // Sent to the driver without a recorded queue event: it arrives then.
        "19803 0 5 Read 77+8 sync=true response=1000 service=1000",
    ];
    assert_eq!(shown(&read), expected);
    assert_eq!(read.reader.omitted(), 2, "the flush and the secure erase");
    assert_eq!((read.reader.stream_name(697), read.reader.stream_name(698)), (Some("kjournald"), Some("my [odd] name")));
    assert_eq!(read.reader.device_name(0), Some("8,0"));
}

#[test]
fn two_requests_for_the_same_sectors_are_answered_in_turn() {
    let text =
        "8,0 0 1 0.1 1 Q R 8 + 8 [a]\n8,0 0 2 0.2 2 Q R 8 + 8 [b]\n8,0 0 3 0.3 0 C R 8 + 8 [0]\n8,0 0 4 0.7 0 C R 8 + 8 [0]\n";
    let responses: Vec<_> = read(text).unwrap().requests.iter().map(|request| request.response).collect();
    assert_eq!(responses, [Some(Nanos::from_millis(200)), Some(Nanos::from_millis(500))]);
}

#[test]
fn a_completion_answers_the_request_of_just_its_sectors_before_one_that_merely_overlaps() {
    let text =
        "8,0 0 1 0.1 1 Q R 8 + 16 [a]\n8,0 0 2 0.2 2 Q R 8 + 8 [b]\n8,0 0 3 0.3 0 C R 8 + 8 [0]\n8,0 0 4 0.7 0 C R 8 + 16 [0]\n";
    let responses: Vec<_> = read(text).unwrap().requests.iter().map(|request| request.response).collect();
    assert_eq!(responses, [Some(Nanos::from_millis(600)), Some(Nanos::from_millis(100))]);
}

#[test]
fn a_completion_of_another_device_or_direction_answers_nothing() {
    let text = "8,0 0 1 0.1 1 Q R 8 + 8 [a]\n8,16 0 2 0.2 0 C R 8 + 8 [0]\n8,0 0 3 0.3 0 C W 8 + 8 [0]\n";
    assert_eq!(read(text).unwrap().requests[0].response, None);
}

#[test]
fn headings_byte_order_marks_and_dos_line_ends_do_no_harm() {
    let with_heading =
        "\u{feff}Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n128166372003061629,hm,0,Read,0,512,1\r\n";
    assert_eq!(read(with_heading).unwrap().requests.len(), 1);
    assert_eq!(read("device_id,opcode,offset,length,timestamp\n1,R,0,512,1577808000000000").unwrap().format, "alibaba");
    assert_eq!(read("Timestamp,Offset,Size,IOType,VolumeID\n1538323200,0,8,1,5\n").unwrap().format, "tencent");
    assert_eq!(read("\u{feff}time_ms,lba,sectors,op\n1,2,3,r\n").unwrap().format, "csv");
}

#[test]
fn a_format_can_be_named_where_detection_would_decline() {
    assert!(read("5,6,7,1,8\n").is_err());
    assert_eq!(shown(&read_as("tencent", "5,6,7,1,8\n").unwrap()), ["0 8 8 Write 6+7"]);
}

#[test]
fn a_pipe_is_read_like_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    if !std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        println!("skipped: no mkfifo here");
        return;
    }
    let trace: String = (0..10_000).map(|at| format!("0,{at},512,R,{at}\n")).collect();
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, trace).unwrap()
    });
    let read = crate::trace_help::read_path(&pipe, &trace::OpenOptions::default()).unwrap();
    writer.join().unwrap();
    assert_eq!((read.format, read.requests.len()), ("spc", 10_000));
}

#[test]
fn each_formats_file_is_in_the_list_and_described() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_format =
        |path: &std::path::PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.contains("pub static FORMAT: Format"));
    assert_eq!(files.filter(is_format).count(), trace::ALL.len());
    let mut names: Vec<_> = trace::ALL.iter().map(|format| format.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), trace::ALL.len(), "names are unique");
    assert!(trace::ALL.iter().all(|format| !format.summary.is_empty() && !format.source.is_empty()));
}

/// A damaged line behind three sound ones is an error that begins with this message.
fn expect_damage(sound: &str, cases: &[(&str, &str)]) {
    for (line, message) in cases {
        let message_here = error(read(format!("{}{line}\n", sound.repeat(3))));
        assert!(message_here.starts_with(&format!("4: {message}")), "{line}: {message_here}");
    }
}

#[test]
fn systor_counts_seconds_and_bytes_and_may_lack_the_response() {
    let lines = "1455667209.000132,0.000312,R,4,45056,8192\n1455667209.000032,0.5,W,4,1000,24\n1455667210.102132,,W,3,512,512\n\
                 1455667210.2,,W,3,512,0\n";
    let read = read(format!("Timestamp,Response,IOType,LUN,Offset,Size\n{lines}")).unwrap();
    assert_eq!(read.format, "systor");
    let expected = ["0 4 4 Write 1+1 response=500000000", "100000 4 4 Read 88+16 response=312000", "1102100000 3 3 Write 1+1"];
    assert_eq!(shown(&read), expected);
    assert_eq!(read.reader.omitted(), 1, "the request of length zero");
    assert_eq!(crate::trace_help::read(lines).unwrap().format, "systor", "also without a heading");
}

#[test]
fn errors_in_systor_lines_name_field_and_value() {
    expect_damage(
        "1455667209.5,0.1,R,4,0,8192\n",
        &[
            ("1455667209.5,0.1,R,4,0", "has 5 fields; a SYSTOR line is Timestamp,Response,IOType,LUN,Offset,Size"),
            ("then,0.1,R,4,0,8192", "the Timestamp is \"then\", not a time in s"),
            ("1455667209.5,-1,R,4,0,8192", "the Response is \"-1\", not a time in s"),
            ("1455667209.5,0.1,,4,0,8192", "the IOType is \"\", not R or W"),
            ("1455667209.5,0.1,R,4294967296,0,8192", "the LUN is \"4294967296\", beyond 2^32 - 1"),
            ("1455667209.5,0.1,R,4,0x0,8192", "the Offset is \"0x0\""),
            ("1455667209.5,0.1,R,4,0,8 KiB", "the Size is \"8 KiB\""),
        ],
    );
}

#[test]
fn fiu_takes_the_fields_behind_the_process_from_the_end() {
    let digest = "d41d8cd98f00b204e9800998ecf8427e";
    let lines = format!(
        "100000498150363 402 rsyslogd 401840632 8 W 8 0 {digest}\n100000647905925 733 my  odd 8 R name 727540496 1 R 6 17 {digest}\n\
         100000647905926 402 rsyslogd 5 0 W 8 0 {digest}\n"
    );
    let read = read(lines).unwrap();
    assert_eq!(read.format, "fiu");
    assert_eq!(shown(&read), ["0 0 402 Write 401840632+8", "149755562 1 733 Read 727540496+1"]);
    assert_eq!((read.reader.stream_name(402), read.reader.stream_name(733)), (Some("rsyslogd"), Some("my  odd 8 R name")));
    assert_eq!((read.reader.device_name(1), read.reader.omitted()), (Some("6,17"), 1));
}

#[test]
fn errors_in_fiu_lines_name_field_and_value() {
    expect_damage(
        "100000498150363 402 rsyslogd 401840632 8 W 8 0 d41d8cd9\n",
        &[
            ("1 402 401840632 8 W 8 0 d41d8cd9", "has 8 fields; an FIU line is time, pid, process, sector, sectors, R or W, major"),
            ("now 402 a 401840632 8 W 8 0 d41d8cd9", "the time is \"now\", not a time in ns"),
            ("1 -1 a 401840632 8 W 8 0 d41d8cd9", "the pid is \"-1\""),
            ("1 402 a 4018406e2 8 W 8 0 d41d8cd9", "the sector is \"4018406e2\""),
            ("1 402 a 401840632 eight W 8 0 d41d8cd9", "the number of sectors is \"eight\""),
            ("1 402 a 401840632 8 D 8 0 d41d8cd9", "the direction is \"D\", not R or W"),
            ("1 402 a 401840632 8 W sda 0 d41d8cd9", "the major number is \"sda\""),
            ("1 402 a 401840632 8 W 8 : d41d8cd9", "the minor number is \":\""),
        ],
    );
}

#[test]
fn biosnoop_of_bcc_arrives_before_its_completion_by_the_latency() {
    let text = "TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  LAT(ms)\n\
                0.000000    jbd2/sda1-8    301    sda       W 93670200   65536     7.82\n\
                0.002000    Web Content    2204   sdb       R 88103888   1000     10.82\n\
                0.003000    ?              0                R 0          4096      0.10\n\
                0.004000    kworker/0:1    77     sda       R 0          0         0.10\n";
    let read = read(text).unwrap();
    assert_eq!(read.format, "biosnoop");
    // Disks are numbered in the order of the lines.
    let expected = [
        "0 1 2204 Read 88103888+2 response=10820000 service=10820000",
        "1000000 0 301 Write 93670200+128 response=7820000 service=7820000",
    ];
    assert_eq!(shown(&read), expected);
    assert_eq!((read.reader.stream_name(2204), read.reader.device_name(1)), (Some("Web Content"), Some("sdb")));
    assert_eq!(read.reader.omitted(), 2, "one of an unknown disk, one without bytes");
}

#[test]
fn biosnoop_with_the_queue_arrives_before_that() {
    // As bcc prints -Q, and as libbpf-tools does.
    let text = "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  QUE(ms) LAT(ms)\n\
                0.010000    fio            9      sda     W 8          4096      2.00    3.00\n\
                0.020000    fio            9      sda     WS   16         4096      0.250   1.500\n\
                0.021000    fio            9      sda     FF   0          0         0.000   1.500\n\
                0.030000    fio            9      sda     D    32         4096     -1.000   1.000\n";
    let read = read(text).unwrap();
    let expected = [
        "0 0 9 Write 8+8 response=5000000 service=3000000",
        "13250000 0 9 Write 16+8 sync=true response=1750000 service=1500000",
        "24000000 0 9 Discard 32+8 response=1000000 service=1000000",
    ];
    assert_eq!((read.format, shown(&read)), ("biosnoop", expected.map(str::to_owned).to_vec()));
    assert_eq!(read.reader.omitted(), 1, "the flush");
}

#[test]
fn errors_in_biosnoop_lines_name_column_and_value() {
    expect_damage(
        "0.006229    rsync     301    sda       W 93670200   65536     7.82\n",
        &[
            ("0.0 rsync 301 sda W 93670200 65536", "has 7 fields; a line of biosnoop is TIME(s) COMM PID DISK T SECTOR BYTES"),
            ("noon rsync 301 sda W 93670200 65536 7.82", "the TIME(s) is \"noon\", not a time in s"),
            ("0.1 rsync -1 sda W 93670200 65536 7.82", "the PID is \"-1\""),
            ("0.1 rsync 301 sda w 93670200 65536 7.82", "the kind T is \"w\", not R, W or letters such as WS"),
            ("0.1 rsync 301 sda W -1 65536 7.82", "the SECTOR is \"-1\""),
            ("0.1 rsync 301 sda W 1 64K 7.82", "the BYTES is \"64K\""),
            ("0.1 rsync 301 sda W 1 65536 fast", "the LAT(ms) is \"fast\", not a time in ms"),
            ("0.1 rsync 301 sda W 1 65536 -2 7.82", "the QUE(ms) is \"-2\", not a time in ms"),
            ("0.1 rsync 301 sda W 1 65536 86400000.1", "the LAT(ms) is \"86400000.1\": more than a day"),
            ("18446744073 rsync 301 sda W 1 65536 0", "the TIME(s) is \"18446744073\", beyond 2^64 ns"),
        ],
    );
}

fn read_columns(columns: &str, content: &str) -> Result<crate::trace_help::Read, trace::TraceError> {
    let columns = Some(columns.parse().unwrap());
    crate::trace_help::read_path(
        crate::trace_help::file(content).path(),
        &trace::OpenOptions { columns, ..trace::OpenOptions::default() },
    )
}

#[test]
fn any_csv_is_read_by_its_columns() {
    let text = "timestamp,offset,size,op\n1700000000.2,8192,4096,WRITE\n1700000000.1,1000,24,Read\n1700000000.3,0,0,w\n";
    let read =
        read_columns("time=timestamp,offset=OFFSET,size=3,op=op,time-unit=s,offset-unit=bytes,size-unit=bytes", text).unwrap();
    assert_eq!(read.format, "columns");
    assert_eq!(shown(&read), ["0 0 0 Read 1+1", "100000000 0 0 Write 16+8"]);
    assert_eq!((read.reader.omitted(), read.reader.stream_name(0)), (1, None));
    assert!(error(crate::trace_help::read(text)).ends_with("; or say with --columns which column is what"));
}

#[test]
fn columns_have_names_or_numbers_units_separators_and_values() {
    let columns = "time=1,offset=2,size=3,op=4,stream=5,device=6,latency=7,time-unit=us,offset-unit=sectors,size-unit=bytes,\
                   latency-unit=ms,read=0,write=1,separator=semicolon";
    let lines = "5;10;513;0;\"a;b\";sda;0.25;more\n7;20;512;1;c;sdb;\n8;30;512;discard;c;sda;1\n";
    let expected = ["0 0 0 Read 10+2 response=250000", "2000 1 1 Write 20+1", "3000 0 1 Discard 30+1 response=1000000"];
    for heading in ["", "us;lba;len;rw;who;disk;ms\n"] {
        let read = read_columns(columns, &format!("{heading}{lines}")).unwrap();
        assert_eq!(shown(&read), expected);
        assert_eq!((read.reader.stream_name(0), read.reader.device_name(1)), (Some("a;b"), Some("sdb")));
    }
    let blanks = "time=at,offset=where,size=long,op=kind,time-unit=ns,offset-unit=bytes,size-unit=sectors,separator=space";
    let read = read_columns(blanks, "  kind  at\t long where\nr 7   1 512\n W  8 2\t1024 \n").unwrap();
    assert_eq!(shown(&read), ["0 0 0 Read 1+1", "1 0 0 Write 2+2"]);
    let tabs = "time=t,offset=o,size=s,op=k,device=d,time-unit=ms,offset-unit=sectors,size-unit=sectors";
    let read = read_columns(tabs, "t\to\ts\tk\td\n1\t2\t3\tr\tx\n2\t2\t3\tr\ty\n").unwrap();
    assert_eq!(shown(&read), ["0 0 0 Read 2+3", "1000000 1 1 Read 2+3"], "without a column for streams each device is one");
    assert_eq!(read.reader.stream_name(1), Some("y"));
}

#[test]
fn a_misspelt_description_of_columns_says_what_would_be_right() {
    let sound = "time=1,offset=2,size=3,op=4,time-unit=s,offset-unit=bytes,size-unit=bytes";
    for (text, message) in [
        (
            "tiem=1",
            "there is no key \"tiem\"; the keys are time, offset, size, op, device, stream, latency, time-unit, offset-unit, \
                    size-unit, latency-unit, read, write, separator; did you mean time?",
        ),
        ("time", "\"time\" is not key=value; give --columns time=NAME|NUMBER,offset=..."),
        ("time=", "time has no value; give --columns time="),
        ("time=0", "time=0: columns are numbered from 1, or named as in the heading"),
        ("time=99999999999999999999", "time=99999999999999999999: columns are numbered from 1"),
        ("time=1,time=2", "time is given twice"),
        ("time=1,offset=2,size=3", "op is missing; give --columns"),
        ("time=1,offset=2,size=3,op=4", "time-unit is missing: s, ms, us, ns"),
        ("time=1,offset=2,size=3,op=4,time-unit=sm", "time-unit is \"sm\", not one of s, ms, us, ns"),
        ("time=1,offset=2,size=3,op=4,time-unit=s", "offset-unit is missing: bytes, sectors"),
        (
            "time=1,offset=2,size=3,op=4,time-unit=s,offset-unit=byte",
            "offset-unit is \"byte\", not one of bytes, sectors; did you mean bytes?",
        ),
        (&format!("{sound},separator=,"), "separator: for a comma write separator=comma"),
        (
            &format!("{sound},separator=xx"),
            "separator is \"xx\", not one of comma, semicolon, tab, space, pipe, or one sign such as ;",
        ),
        (&format!("{sound},latency-unit=m"), "latency-unit is \"m\", not one of s, ms, us, ns"),
    ] {
        let error = text.parse::<trace::Columns>().unwrap_err();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    assert!(sound.parse::<trace::Columns>().is_ok());
}

#[test]
fn columns_that_the_file_does_not_have_are_errors() {
    let units = "time-unit=s,offset-unit=bytes,size-unit=bytes";
    let failing = |columns: &str, content: &str| error(read_columns(&format!("{columns},{units}"), content));
    let text = "timestamp,offset,size,op\n1,4096,4096,r\n";
    assert_eq!(
        failing("time=timestmap,offset=offset,size=size,op=op", text),
        "1: --columns time: there is no column \"timestmap\"; the heading has \"timestamp\", \"offset\", \"size\", \"op\"; did you mean \
         timestamp?"
    );
    assert_eq!(failing("time=1,offset=2,size=3,op=5", text), "1: --columns op=5: the line has 4 columns");
    assert!(
        failing("time=a,offset=b,size=3,op=4", "a,b,B,b\n").starts_with("1: --columns offset=b: the heading has that name twice")
    );
    let numbers = "time=1,offset=2,size=3,op=4";
    assert_eq!(failing(numbers, &format!("{text}2,4096\n")), "3: has 2 fields; size is field 3");
    assert_eq!(failing(numbers, "-1,0,512,r\n"), "1: the time is \"-1\", not a time in s from 0 to 2^64 ns");
    assert!(failing(numbers, &format!("{text}2,4k,1,r\n")).starts_with("3: the offset is \"4k\""));
    assert!(failing(numbers, &format!("{text}2,4,-1,r\n")).starts_with("3: the size is \"-1\""));
    assert_eq!(
        failing(numbers, &format!("{text}2,4,1,2\n")),
        "3: op is \"2\", not read, write, discard, r, w or d (or say what it means: read=..., write=...)"
    );
    assert!(failing(&format!("{numbers},latency=5"), "1,0,512,r,soon\n").starts_with("1: the latency is \"soon\""));
    let hostile = failing(numbers.replace("time=1", "time=x").as_str(), &format!("{},b,c\n", "\u{1b}".repeat(9_000)));
    assert!(hostile.len() < 500 && !hostile.contains('\u{1b}'), "{hostile}");
}

#[test]
fn columns_are_one_format_and_no_other() {
    let columns: trace::Columns = "time=1,offset=2,size=3,op=4,time-unit=s,offset-unit=bytes,size-unit=bytes".parse().unwrap();
    let open = |format: &str, columns: Option<trace::Columns>| {
        let options = trace::OpenOptions { format: Some(format.into()), columns, ..trace::OpenOptions::default() };
        crate::trace_help::read_path(crate::trace_help::file("1,0,512,r\n").path(), &options)
    };
    assert_eq!(open("columns", Some(columns.clone())).unwrap().requests.len(), 1);
    assert_eq!(error(open("spc", Some(columns))), "--columns describes the format columns, not spc: give one of the two");
    assert!(error(open("columns", None)).starts_with("which column is what? give --columns time=NAME|NUMBER"));
}

#[test]
fn trace_cmd_reports_are_read_like_the_kernels_text() {
    let text = "version = 6\nCPU 0 is empty\ncpus=4\n\
             my fio-12345 [002]  1000.000001: block_bio_queue:      8,0 WS 12345678 + 8 [my fio]\n\
             my fio-12345 [002] d..1. 1000.000101: block_rq_issue:       8,0 WS 4096 () 12345678 + 8 [my fio]\n\
          <idle>-0     [002]  1000.002101: block_rq_complete:    8,0 WS () 12345678 + 8 [0]\n";
    let read = read(text).unwrap();
    assert_eq!(read.format, "tracefs");
    assert_eq!(shown(&read), ["0 0 12345 Write 12345678+8 sync=true response=2100000 service=2000000"]);
    assert_eq!(read.reader.stream_name(12345), Some("my fio"));
    let holes = ["CPU:7 [204600 EVENTS DROPPED]", "CPU:7 [EVENTS DROPPED]", "CPU:1 [LOST 42 EVENTS]"];
    for hole in holes {
        let message = error(crate::trace_help::read(format!("{text}{hole}\n")));
        assert!(message.starts_with("7: ") && message.ends_with("the trace has a hole"), "{message}");
    }
    assert!(error(crate::trace_help::read(format!("{text}cpus=four\n"))).contains("has no [processor]"));
}

#[test]
fn perf_scripts_text_separates_program_and_thread_by_a_blank() {
    let text = "# captured on    : Thu Nov 26 18:00:00 2026\n\
             my-fio 12345 [002]  1000.000001: block:block_bio_queue: 8,0 WS 12345678 + 8 [my-fio]\n\
             my-fio 12340/12345 [002]  1000.000101:      block:block_rq_issue: 8,0 WS 4096 () 12345678 + 8 be,0,4 [my-fio]\n\
             my-fio 12345 [002]  1000.000102:  sched:sched_switch: prev_comm=fio\n\
            swapper     0 [002]  1000.002101:   block:block_rq_complete: 8,0 WS () 12345678 + 8 be,0,4 [0]\n";
    let read = read(text).unwrap();
    assert_eq!(read.format, "tracefs");
    assert_eq!(shown(&read), ["0 0 12345 Write 12345678+8 sync=true response=2100000 service=2000000"]);
    assert_eq!(read.reader.stream_name(12345), Some("my-fio"));
}

#[test]
fn mqsim_counts_nanoseconds_and_writes_are_0() {
    let lines = "34647 3 118445 32 0\n51748 0 165119 8 1\n51749 0 165119 0 1\n";
    let read = read_as("mqsim", lines).unwrap();
    assert_eq!(shown(&read), ["0 3 3 Write 118445+32", "17101 0 0 Read 165119+8"]);
    assert_eq!(read.reader.omitted(), 1);
}

#[test]
fn mqsim_and_disksim_are_distinguished_only_where_one_is_impossible() {
    // Milliseconds or nanoseconds?
    assert_eq!(error(read("34647 3 118445 32 0\n51748 0 165119 8 1\n")), "may be disksim, mqsim: say which with --format");
    // DiskSim's floating-point numbers, or its other flags, even in one line of many.
    assert_eq!(read("34647 3 118445 32 0\n51748.5 0 165119 8 1\n51749 0 1 8 1\n").unwrap().format, "disksim");
    assert_eq!(read("34647 3 118445 32 0\n51748 0 165119 8 1\n51749 0 1 8 81\n").unwrap().format, "disksim");
    // More milliseconds than 2^64 ns.
    assert_eq!(read("18446744073710000 3 118445 32 0\n18446744073710001 0 165119 8 1\n").unwrap().format, "mqsim");
}

#[test]
fn errors_in_mqsim_lines_name_field_and_value() {
    expect_damage(
        "18446744073710000 3 118445 32 0\n",
        &[
            ("18446744073710000 3 118445 32", "has 4 fields; an MQSim line is time, device, sector, sectors, 0 or 1"),
            ("soon 3 118445 32 0", "the arrival time is \"soon\", not a time in ns"),
            ("18446744073710000 -3 118445 32 0", "the device is \"-3\""),
            ("18446744073710000 3 1e5 32 0", "the sector is \"1e5\""),
            ("18446744073710000 3 118445 all 0", "the number of sectors is \"all\""),
        ],
    );
    let message = |line: &str| error(read_as("mqsim", line));
    assert_eq!(message("1 3 4 5 R\n"), "1: the type is \"R\", not 0 (write) or 1 (read)");
    assert!(message("1.5 3 4 5 1\n").ends_with("DiskSim's are in ms (format disksim)"));
}

/// A record of libCacheSim: time, object, size, operation and tenant from version 2 on, the next request for the object.
fn object(version: u64, (time, object, size): (u32, u64, u32), (op, tenant): (u8, u32), next: i64) -> Vec<u8> {
    let mut bytes = [&time.to_le_bytes()[..], &object.to_le_bytes()].concat();
    if version < 3 {
        bytes.extend(size.to_le_bytes());
    } else {
        bytes.extend(i64::from(size).to_le_bytes());
    }
    if version > 1 {
        bytes.extend((u32::from(op) | tenant << 8).to_le_bytes());
    }
    if version > 2 {
        bytes.extend(60_u32.to_le_bytes());
    }
    bytes.extend(next.to_le_bytes());
    let features = [0, 0, 0, 0, 1, 2, 4, 8, 16][version as usize];
    bytes.resize(bytes.len() + 4 * features, 0xee);
    bytes
}

/// The header of an lcs trace.
fn lcs_header(version: u64, bytes: usize) -> Vec<u8> {
    let magic = 0x1234_5678_9abc_def0_u64.to_le_bytes();
    let mut header = [magic, version.to_le_bytes()].concat();
    header.resize(bytes - 8, 0);
    header.extend(magic);
    header
}

#[test]
fn objects_of_oraclegeneral_become_places_and_requests_reads() {
    let records: [_; 5] = [
        object(1, (10, 81_920, 65_536), (0, 0), 3),
        object(1, (10, 1 << 63 | 7, 1), (0, 0), 5),
        object(1, (12, 81_920, 512), (0, 0), -1),
        object(1, (12, 9, 0), (0, 0), i64::MAX),
        object(1, (13, 1 << 63 | 7, 1_000), (0, 0), 900),
    ];
    let read = read(records.concat()).unwrap();
    assert_eq!(read.format, "oraclegeneral");
    let expected = ["0 0 0 Read 81920+128", "0 0 0 Read 7+1", "2000000000 0 0 Read 81920+1", "3000000000 0 0 Read 7+2"];
    assert_eq!(shown(&read), expected);
    assert_eq!(read.reader.omitted(), 1, "the object of size zero");
}

#[test]
fn oraclegeneral_is_recognised_only_where_each_record_says_which_comes_next() {
    let record = |time: u32, name: u64, next: i64| object(1, (time, name, 512), (0, 0), next);
    let is_recognised =
        |records: &[Vec<u8>]| crate::trace_help::read(records.concat()).is_ok_and(|read| read.format == "oraclegeneral");
    assert!(is_recognised(&[record(1, 5, 3), record(1, 6, -1), record(2, 5, -1)]));
    assert!(is_recognised(&[record(1, 5, 2), record(1, 6, -1), record(2, 5, -1)]), "numbered from 0");
    for (wrong, why) in [
        ([record(1, 5, 9), record(1, 6, -1), record(2, 7, -1), record(2, 5, -1)], "another record asks for it again"),
        ([record(1, 5, -1), record(1, 6, -1), record(2, 7, -1), record(2, 5, -1)], "one that was to come no more comes"),
        ([record(1, 5, 9), record(1, 6, -1), record(2, 7, 2), record(2, 8, -1)], "an announcement of the past"),
        ([record(2, 5, 9), record(1, 6, -1), record(2, 7, -1), record(2, 8, -1)], "back in time"),
        ([record(1, 5, 9), record(1, 6, -2), record(2, 7, -1), record(2, 8, -1)], "no number"),
    ] {
        assert!(!is_recognised(&wrong), "{why}");
        assert_eq!(read_as("oraclegeneral", wrong.concat()).unwrap().requests.len(), 4, "{why}, but the format is named");
    }
    assert!(!is_recognised(&[record(1, 5, 3)]), "a single record says nothing");
    for nothing in [vec![0; 2400], vec![0xff; 2400], b"0123456789abcdef".repeat(150)] {
        assert!(!is_recognised(&[nothing]));
    }
}

#[test]
fn lcs_has_operations_and_tenants_from_version_2_on() {
    for version in 1..=8 {
        let record = |op: u8, tenant: u32| object(version, (7, 100 + u64::from(op), 4_096), (op, tenant), -1);
        let records = [record(12, 3), record(13, 0xab_cdef), record(0, 3), record(255, 3), record(9, 3), record(6, 3)].concat();
        for header in [8192, 1024] {
            let read = read([lcs_header(version, header), records.clone()].concat()).unwrap();
            assert_eq!(read.format, "lcs");
            if version == 1 {
                assert_eq!((read.requests.len(), &*shown(&read)[1]), (6, "0 0 0 Read 113+8"));
                continue;
            }
            let expected = [
                "0 3 3 Read 112+8",
                "0 11259375 11259375 Write 113+8",
                "0 3 3 Read 100+8",
                "0 3 3 Read 355+8",
                "0 3 3 Write 106+8",
            ];
            assert_eq!(shown(&read), expected, "version {version}");
            assert_eq!(read.reader.omitted(), 1, "delete");
        }
    }
}

#[test]
fn errors_in_libcachesims_traces_name_record_and_value() {
    let lcs = |version: u64, records: Vec<u8>| read_as("lcs", [lcs_header(version, 8192), records].concat());
    let sound = object(3, (7, 100, 4_096), (12, 0), -1);
    let operation = object(3, (7, 100, 4_096), (77, 0), -1);
    let message = error(lcs(3, [sound.clone(), operation.clone()].concat()));
    assert_eq!(message, "record 2: the operation is 77, none of libCacheSim's (0 to 14, 255)");
    let mut negative = sound.clone();
    negative[19] = 0x80;
    assert!(error(lcs(3, negative)).starts_with("record 1: the size is -9223372036854771712, below 0"));
    assert_eq!(error(lcs(3, sound[..20].to_vec())), "record 1: the file ends after 20 of the record's 36 bytes");
    assert_eq!(error(lcs(9, sound.clone())), "is an lcs trace of version 9; versions 1 to 8 are read");
    assert!(error(read_as("lcs", &sound)).starts_with("is no lcs trace: its header"));
    let skipping = crate::trace_help::read_skipping([lcs_header(3, 8192), sound.clone(), operation, sound].concat()).unwrap();
    assert_eq!((skipping.requests.len(), skipping.reader.skipped()), (2, 1));
    let cut = [object(1, (1, 5, 512), (0, 0), 3), object(1, (1, 6, 512), (0, 0), -1), vec![1; 7]].concat();
    assert_eq!(error(read(cut)), "record 3: the file ends after 7 of the record's 24 bytes");
}

#[test]
fn an_fio_log_in_nanoseconds_is_doubted() {
    let log = |step: u64, requests: u64| {
        let lines = (0..requests).map(|at| format!("{} /f write {} 4096\n", at * step, at * 4_096));
        format!("fio version 3 iolog\n0 /f add\n0 /f open\n{}", lines.collect::<String>())
    };
    let warnings = |log: String| read(log).unwrap().reader.warnings();
    assert_eq!(
        warnings(log(250_000, 100)),
        ["its times may be nanoseconds: in fio's microseconds there is one request every 250 ms; if so, divide them by 1000"]
    );
    assert_eq!(warnings(log(250_000, 99)), [""; 0], "too few to say");
    assert_eq!(warnings(log(99_999, 100)), [""; 0], "often enough");
    let waits = (0..100).map(|at| format!("/f wait {} 0\n/f read 0 512\n", at * 250)).collect::<String>();
    assert_eq!(warnings(format!("fio version 2 iolog\n{waits}")), [""; 0]);
}

#[test]
fn the_reference_lists_every_format() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/traces.md")).unwrap();
    let (table, _) = text.split_once("Written are").unwrap();
    for format in trace::ALL {
        assert!(table.contains(&format!("`{}`", format.name)), "{}", format.name);
    }
}
