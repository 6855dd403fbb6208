//! Lines or records per second of each reader, with the file in the page cache.

use std::fmt::Write as _;
use std::io::Write as _;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tempfile::NamedTempFile;
use trace::{self, OpenOptions};

const RECORDS: u64 = 300_000;

/// A trace, by a function that writes one record.
fn lines(head: &str, line: impl Fn(&mut String, u64, u64)) -> Vec<u8> {
    let mut text = head.to_owned();
    for at in 0..RECORDS {
        line(&mut text, at, at * 7_919 % 1_000_003 * 8);
        text.push('\n');
    }
    text.into_bytes()
}

/// Writing to a string cannot fail.
macro_rules! put {
    ($text:expr, $($rest:tt)*) => {{ let _ = write!($text, $($rest)*); }};
}

fn blktrace() -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in 0..RECORDS / 2 {
        for (action, after) in [(0x0011_0001_u32, 0), (0x0081_0008, 300_000)] {
            bytes.extend(0x6561_7407_u32.to_le_bytes());
            bytes.extend((at as u32).to_le_bytes());
            bytes.extend((at * 100_000 + after).to_le_bytes());
            bytes.extend((at * 7_919 % 1_000_003 * 8).to_le_bytes());
            bytes.extend([4096, action, at as u32 % 7, 8 << 20, 0, 0].map(u32::to_le_bytes).concat());
        }
    }
    bytes
}

fn traces() -> Vec<(&'static str, Vec<u8>)> {
    let csv = lines("time_ms,device,lba,sectors,is_read,response_ms\n", |text, at, lba| put!(text, "{at}.125,0,{lba},8,1,3.125"));
    let compressed = zstd::stream::encode_all(&csv[..], 3).unwrap_or_default();
    vec![
        ("spc", lines("", |text, at, lba| put!(text, "0,{lba},8192,W,{at}.551706"))),
        ("msr", lines("", |text, at, lba| put!(text, "{},hm,0,Read,{},32768,41286", 128_166_372_003_061_629 + at, lba * 512))),
        ("alibaba", lines("", |text, at, lba| put!(text, "419,W,{},4096,{}", lba * 512, 1_577_808_000_000_036_u64 + at))),
        ("tencent", lines("", |text, at, lba| put!(text, "{},{lba},8,1,1063", 1_538_323_200 + at / 100))),
        ("disksim", lines("", |text, at, lba| put!(text, "{at}.005000 0 {lba} 8 1"))),
        ("csv", csv),
        ("csv, zstd", compressed),
        ("fio", lines("fio version 3 iolog\n", |text, at, lba| put!(text, "{at} /dev/sda write {} 4096", lba * 512))),
        (
            "blkparse",
            lines("", |text, at, lba| {
                let (action, at) = if at % 2 == 0 { ("Q", at) } else { ("C", at - 1) };
                put!(text, "  8,0    3 {at:8} {:5}.000000000   697  {action}   W {} + 8 [kjournald]", at, lba / 16 * 16);
            }),
        ),
        ("blktrace", blktrace()),
    ]
}

fn read_all(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(RECORDS)).sample_size(10);
    for (name, bytes) in traces() {
        #[expect(clippy::expect_used, reason = "a benchmark without its file is no benchmark")]
        let file = NamedTempFile::new().and_then(|mut file| file.write_all(&bytes).map(|()| file)).expect("a temporary file");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut count = 0;
                if let Ok(mut opened) = trace::open(file.path(), &OpenOptions::default()) {
                    while let Some(Ok(request)) = opened.reader.next_request() {
                        count += u64::from(request.sectors);
                    }
                }
                assert!(count > 0);
                count
            });
        });
    }
    group.finish();
}

criterion_group!(benches, read_all);
criterion_main!(benches);
