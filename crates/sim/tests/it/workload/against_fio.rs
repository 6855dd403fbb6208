//! Compares with the I/O of the real fio, where it is installed: by its null engine and `--write_iolog`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use super::{Short, placed, short};

/// The I/O of fio for a job `j` with these options; `None` if there is no fio.
fn fio(options: &str) -> Option<Vec<Short>> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("fio");
    command.current_dir(folder.path()).args(["--name=j", "--ioengine=null", "--write_iolog=log", "--output=out"]);
    let run = command.args(options.split(' ').map(|option| format!("--{option}"))).output().ok()?;
    assert!(run.status.success(), "{options}: {}", String::from_utf8_lossy(&run.stderr));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let (mut files, mut issued) = (BTreeMap::new(), Vec::new());
    for line in log.lines().skip(1) {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = files.len() as u32;
        let file = *files.entry(fields[1].to_owned()).or_insert(number);
        let letter = match fields[2] {
            "read" => 'r',
            "write" => 'w',
            "trim" => 't',
            "sync" | "datasync" => 'S',
            _ => continue,
        };
        let place = if letter == 'S' { (0, 0) } else { (fields[3].parse().unwrap(), fields[4].parse().unwrap()) };
        issued.push((letter, file, place.0, place.1));
    }
    Some(issued)
}

/// Our own I/O; fio does not log that it drops files from the page cache.
fn stream(options: &str) -> Vec<Short> {
    super::stream(options).into_iter().filter(|action| action.0 != 'I').collect()
}

fn skip() {
    println!("skipped: there is no fio here");
}

#[test]
fn streams_without_chance_are_fios_own_action_by_action() {
    for options in [
        "rw=read size=64k",
        "rw=read size=10k",
        "rw=write size=33k bs=4k nrfiles=2",
        "rw=read size=32k nrfiles=3",
        "rw=write:4k size=64k",
        "rw=read:4 size=64k",
        "rw=read:-8k size=32k",
        "rw=read:4 rw_sequencer=identical size=64k",
        "rw=read size=32k nrfiles=2 file_service_type=roundrobin:2",
        "rw=read size=48k nrfiles=3 file_service_type=sequential",
        "rw=read size=32k io_size=64k",
        "rw=read size=16k io_size=24k",
        "rw=read size=32k io_size=8k",
        "rw=read size=32k filesize=64k offset=16k",
        "rw=read size=32k offset=16k",
        "rw=read filesize=64k offset=16k",
        "rw=read size=64k offset=30%",
        "rw=read size=16k filesize=64k loops=2",
        "rw=read size=48k filesize=16k nrfiles=2",
        "rw=write size=32k fsync=3",
        "rw=write size=32k fsync=3 end_fsync=1",
        "rw=write size=24k fsync=3 fdatasync=2",
        "rw=write size=32k fdatasync=4 fsync_on_close=1",
        "rw=write size=48k fsync=2 nrfiles=2",
        "rw=write size=48k fsync=3 nrfiles=2 end_fsync=1",
        "rw=write size=16k loops=2 end_fsync=1",
        "rw=read size=16k number_ios=6",
        "rw=read size=16k number_ios=6 io_size=64k",
        "rw=read size=128k zonemode=strided zonesize=8k zonerange=32k zoneskip=0",
        "rw=read size=128k zonemode=strided zonesize=8k zoneskip=16k",
        "rw=read size=128k zonemode=strided zonesize=16k zonerange=8k zoneskip=8k",
        "rw=read size=16k zonemode=strided zonesize=10k",
        "rw=randread rwmixread=50 size=64k percentage_random=0",
        "rw=rw rwmixread=100 size=64k",
        "rw=rw rwmixread=0 size=64k bs=4k,8k",
        "rw=read filename=a:b filesize=16k bs=4k",
        "rw=write size=32k verify=crc32c",
        "rw=write size=32k verify=null",
        "rw=write size=32k verify=0",
        "rw=write size=16k verify=crc32c do_verify=0",
        "rw=write size=16k verify=crc32c verify_only",
        "rw=read size=16k verify=crc32c",
        "rw=write size=16k loops=2 verify=crc32c",
        "rw=write size=16k nrfiles=2 verify=crc32c",
        "rw=write size=16k io_size=24k verify=crc32c",
        "rw=write:4k size=32k verify=crc32c",
        "rw=write size=16k verify=crc32c fsync=2 end_fsync=1",
        "rw=write size=64k number_ios=3 verify=meta",
        "rw=write size=32k verify=md5 verify_backlog=2",
        "rw=write size=32k verify=md5 verify_backlog=3",
        "rw=write size=48k verify=md5 verify_backlog=4 verify_backlog_batch=2",
        "rw=write size=24k verify=md5 verify_backlog=2 loops=2",
        "rw=write size=24k verify=md5 experimental_verify=1",
    ] {
        let Some(real) = fio(options) else { return skip() };
        assert_eq!(stream(options), real, "{options}");
    }
}

#[test]
fn blocks_are_trimmed_and_then_written_as_fio_does() {
    for options in [
        "rw=trimwrite size=16k verify=md5",
        "rw=trimwrite size=32k",
        "rw=trimwrite size=32k number_ios=5",
        "rw=trimwrite size=32k io_size=8k",
        "rw=trim size=32k",
    ] {
        let Some(real) = fio(options) else { return skip() };
        assert_eq!(stream(&format!("{options} filename=/dev/sda")), real, "{options}");
    }
    let pairs = stream("rw=randtrimwrite size=1m filename=/dev/sda");
    assert!(pairs.chunks(2).all(|pair| (pair[0].0, pair[1].0) == ('t', 'w') && pair[0].2 == pair[1].2));
}

#[test]
fn random_maps_cover_the_same_blocks_with_as_many_ios() {
    for options in [
        "rw=randread size=1m",
        "rw=randread size=1030k",
        "rw=randwrite size=1m nrfiles=3",
        "rw=randrw size=1m",
        "rw=randread size=1m loops=2",
        "rw=randread size=1m io_size=1536k",
        "rw=randwrite size=1m fsync=5",
        "rw=randread size=1m random_generator=lfsr",
        "rw=randwrite size=1m random_generator=lfsr norandommap loops=2",
        "rw=randwrite size=1m verify=md5",
        "rw=randwrite size=1m verify=md5 verify_backlog=16",
        "rw=randwrite size=256k io_size=1m verify=md5",
    ] {
        let Some(real) = fio(options) else { return skip() };
        let ours = stream(options);
        let places = |stream: &[Short]| stream.iter().map(|s| (s.1, s.2, s.3)).collect::<BTreeSet<_>>();
        assert_eq!(ours.len(), real.len(), "{options}");
        if !options.contains("io_size") {
            assert_eq!(places(&ours), places(&real), "{options}");
        }
    }
}

#[test]
fn random_writes_are_read_back_in_the_order_that_fio_reads_them() {
    for options in [
        "rw=randwrite size=256k verify=md5",
        "rw=randwrite size=256k verify=md5 norandommap",
        "rw=randwrite size=256k verify=md5 norandommap nrfiles=2",
        "rw=randwrite size=64k io_size=256k verify=md5 norandommap",
        "rw=randwrite size=256k verify=md5 random_generator=lfsr",
        "rw=randwrite size=256k verify=md5 random_distribution=zipf:1.2",
        "rw=randwrite size=256k verify=md5 bsrange=4k-16k",
        "rw=randwrite size=256k verify=md5 bsrange=4k-16k norandommap",
        "rw=randwrite size=256k verify=md5 norandommap experimental_verify=1",
    ] {
        let Some(real) = fio(options) else { return skip() };
        for stream in [&stream(options), &real] {
            let (written, read): (Vec<Short>, Vec<Short>) = stream.iter().partition(|s| s.0 == 'w');
            let place = |s: &Short| (s.1, s.2, s.3);
            let read: Vec<_> = read.iter().map(place).collect();
            let in_order =
                options.contains("experimental") || !["norandommap", "lfsr", "zipf"].iter().any(|word| options.contains(word));
            if in_order {
                assert_eq!(read, written.iter().map(place).collect::<Vec<_>>(), "{options}");
                continue;
            }
            // Sorted, without overwritten pieces.
            let mut last: BTreeMap<(u32, u64), u32> = BTreeMap::new();
            for &(_, file, offset, bytes) in &written {
                last.retain(|&(other, at), length| {
                    other != file || at + u64::from(*length) <= offset || at >= offset + u64::from(bytes)
                });
                last.insert((file, offset), bytes);
            }
            assert_eq!(
                read,
                last.into_iter().map(|((file, offset), bytes)| (file, offset, bytes)).collect::<Vec<_>>(),
                "{options}"
            );
        }
    }
}

#[test]
fn mixed_sequential_io_has_a_position_for_each_direction_and_ends_with_the_first_at_its_end() {
    for options in ["rw=rw size=1m rwmixread=70", "rw=rw size=1m bs=4k,16k", "rw=rw size=1m io_size=4m", "rw=rw size=1m fsync=4"] {
        let Some(real) = fio(options) else { return skip() };
        for stream in [&stream(options), &real] {
            for letter in ['r', 'w'] {
                let one: Vec<&Short> = stream.iter().filter(|s| s.0 == letter).collect();
                let goes_on = |pair: &[&Short]| pair[1].2 == pair[0].2 + u64::from(pair[0].3) || pair[1].2 == 0;
                assert!(one.len() > 10 && one.windows(2).all(goes_on), "{options}: {one:?}");
            }
        }
        let total = |stream: &[Short]| stream.iter().map(|s| u64::from(s.3)).sum::<u64>();
        assert!(total(&stream(options)).abs_diff(total(&real)) <= 16384, "{options}");
    }
}

#[test]
fn chance_has_the_same_shares_as_fios() {
    /// Share of I/Os for which something holds.
    fn share(stream: &[Short], holds: impl Fn(&Short) -> bool) -> f64 {
        stream.iter().filter(|s| holds(s)).count() as f64 / stream.len() as f64
    }
    for (options, mib) in [
        ("rw=randread size=4m io_size=100m norandommap bsrange=3k-9k", 4),
        ("rw=randread size=4m io_size=100m norandommap bssplit=4k/30:8k/50:12k/20", 4),
        ("rw=randread size=4m io_size=100m norandommap bssplit=4k/30:8k/45:12k/20", 4),
        ("rw=randread size=4m io_size=100m norandommap bssplit=4k/30:8k/20:12k", 4),
        ("rw=randread size=4m io_size=100m norandommap bssplit=4k/0:8k:12k/60", 4),
        ("rw=randread size=4096k io_size=100m random_distribution=zipf:1.1:0.25", 4),
        ("rw=randread size=4096k io_size=100m random_distribution=pareto:0.2:0.5", 4),
        ("rw=randread size=4096k io_size=100m random_distribution=normal:10", 4),
        ("rw=randread size=4000k io_size=100m random_distribution=normal:30:0.75", 4),
        ("rw=randread size=4096k io_size=100m random_distribution=zoned:50/10:30/20:20/70", 4),
        ("rw=randrw size=64m io_size=100m norandommap rwmixread=25", 64),
        ("rw=randread:8 size=64m io_size=400m norandommap", 64),
        ("rw=randread size=64m io_size=100m norandommap ba=64k", 64),
        ("rw=randread size=64m io_size=800m percentage_random=20 norandommap", 64),
        ("rw=randread size=4m io_size=64m zonemode=strided zonesize=256k zonerange=512k zoneskip=512k", 4),
    ] {
        let Some(real) = fio(options) else { return skip() };
        let ours = stream(options);
        assert!(ours.len().abs_diff(real.len()) * 50 < real.len(), "{options}: {} against {}", ours.len(), real.len());
        for eighth in 0..8 {
            let end = (mib as u64) << 20;
            let inside = |s: &Short| s.2 * 8 / end == eighth;
            let (a, b) = (share(&ours, inside), share(&real, inside));
            assert!((a - b).abs() < 0.02, "{options}: {a} of the I/O in eighth {eighth}, fio has {b}");
        }
        for bytes in [3072, 4096, 6144, 8192, 9216, 12288] {
            let (a, b) = (share(&ours, |s| s.3 == bytes), share(&real, |s| s.3 == bytes));
            assert!((a - b).abs() < 0.02, "{options}: {a} of the I/O of {bytes} bytes, fio has {b}");
        }
        let (a, b) = (share(&ours, |s| s.0 == 'r'), share(&real, |s| s.0 == 'r'));
        assert!((a - b).abs() < 0.02, "{options}: {a} reads, fio has {b}");
        let following = |stream: &[Short]| {
            stream.windows(2).filter(|p| p[1].2 == p[0].2 + u64::from(p[0].3)).count() as f64 / stream.len() as f64
        };
        assert!((following(&ours) - following(&real)).abs() < 0.02, "{options}");
    }
}

#[test]
fn the_popular_blocks_are_fios() {
    for options in [
        "rw=randread size=4000k io_size=200m random_distribution=zipf:1.1:0.25",
        "rw=randread size=4096k io_size=200m random_distribution=zipf:1.3:0.9",
        "rw=randread size=4000k io_size=200m random_distribution=pareto:0.2:0.5",
    ] {
        let Some(real) = fio(options) else { return skip() };
        let popular = |stream: &[Short]| {
            let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
            stream.iter().for_each(|s| *counts.entry(s.2).or_default() += 1);
            let mut ranked: Vec<_> = counts.into_iter().map(|(offset, count)| (count, offset)).collect();
            ranked.sort_unstable_by(|a, b| b.cmp(a));
            ranked[..3].to_vec()
        };
        for (ours, real) in popular(&stream(options)).into_iter().zip(popular(&real)) {
            assert_eq!(ours.1, real.1, "{options}: the popular block");
            assert!((f64::from(ours.0) / f64::from(real.0) - 1.0).abs() < 0.06, "{options}: {ours:?}, fio has {real:?}");
        }
    }
}

/// fio on a file, since its null engine completes only every other I/O with a depth. It may be slow, but never faster than its think time.
#[test]
fn with_a_depth_a_job_thinks_as_often_as_fios() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data"), vec![0; 1 << 20]).unwrap();
    let options = "rw=randread size=1m ioengine=libaio direct=1 iodepth=8 filename=data thinktime=20ms number_ios=40";
    let mut command = Command::new("fio");
    command.current_dir(folder.path()).args(["--name=j", "--output-format=terse"]);
    let Ok(run) = command.args(options.split(' ').map(|option| format!("--{option}"))).output() else { return skip() };
    let report = String::from_utf8(run.stdout).unwrap();
    // Field 9 of fio's terse report, version 3: the run time of reads in ms.
    let Some(real) = report.split(';').nth(8).and_then(|field| field.parse::<f64>().ok()).filter(|_| run.status.success()) else {
        return println!("skipped: there is no O_DIRECT in {}", folder.path().display());
    };
    let text = format!("[j]\n{}\n", options.replace(' ', "\n"));
    let ours = super::timing::run_against(&text, 100, None).1.spans[0].unwrap().ended.as_millis_f64();
    assert!(ours <= real && real < 3.0 * ours, "{ours} ms, fio takes {real} ms");
}

#[test]
fn a_command_line_has_the_same_meaning_as_for_fio() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        "fio --ioengine=null --rw=write --bs 8k --output=out --minimal --name=a --size=64k --name=b -bs=16k --size 96k --rw=read";
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let (line, log) = (format!("{line} --name=c --size=8k"), format!("--write_iolog={name}"));
        let mut words: Vec<&str> = line.split(' ').skip(1).collect();
        // Each job in turn gets a log.
        let place = words.iter().position(|word| *word == format!("--name={name}")).unwrap();
        words.insert(place + 1, &log);
        let Ok(run) = Command::new("fio").current_dir(folder.path()).args(words).output() else { return skip() };
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let log = std::fs::read_to_string(folder.path().join(name)).unwrap();
        let real: Vec<String> = log
            .lines()
            .filter(|line| line.contains(" read ") || line.contains(" write "))
            .map(|line| line.split(' ').skip(2).collect::<Vec<_>>().join(" "))
            .collect();
        let placed = placed(&line);
        let ours = placed.requests(number).map(short).filter(|action| action.0 != 'I');
        let ours: Vec<String> = ours
            .map(|(letter, _, offset, bytes)| format!("{} {offset} {bytes}", if letter == 'r' { "read" } else { "write" }))
            .collect();
        assert_eq!(ours, real, "{name}");
    }
}
