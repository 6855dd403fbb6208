use proptest::prelude::*;
use sim::workload::{BlockSizes, Distribution, Engine, Kind, Workload};

fn parse(text: &str) -> Result<Workload, String> {
    Workload::parse(text, "t.fio").map_err(|error| error.to_string())
}

#[test]
fn global_sections_give_what_jobs_below_them_do_not_say() {
    let workload = parse(
        "; a comment\n# another\n[global]\nbs=8k\nrw=randread ; behind a value\n[a]\n[b]\nbs = 4096,64k\n[global]\nioengine=libaio\niodepth=16\ndirect=1\n[c]\nnumjobs=2\nstonewall\n",
    );
    // A number behind a blank is refused, with its line.
    assert_eq!(workload.unwrap_err(), "t.fio:8: bs: fio loses the unit of a number after a blank; write bs=4096,64k");
    let workload = parse("[global]\nbs=8k\nrw=randread ; behind a value\n[a]\n[b]\nbs=4k,64k\n[global]\nioengine=libaio\niodepth=16\ndirect=1\n[c]\nnumjobs=2\nstonewall\n").unwrap();
    let jobs: Vec<_> = workload.jobs().iter().map(|job| (job.name(), job.stream(), job.phase(), job.options().depth)).collect();
    assert_eq!(jobs, [("a", 0, 0, 1), ("b", 1, 0, 1), ("c.0", 2, 1, 16), ("c.1", 3, 1, 16)]);
    let options = |job: usize| workload.jobs()[job].options().clone();
    assert_eq!(options(0).block_sizes[1], BlockSizes::Range(8192, 8192));
    assert_eq!(
        options(1).block_sizes,
        [BlockSizes::Range(4096, 4096), BlockSizes::Range(65536, 65536), BlockSizes::Range(65536, 65536)]
    );
    assert_eq!((options(1).engine, options(2).engine), (Engine::Sync, Engine::Libaio));
    assert!(options(3).direct && options(3).pattern.random && options(3).pattern.kind == Kind::Read);
}

#[test]
fn what_is_well_formed_is_read() {
    for (line, check) in [
        ("rw=randrw:8", (|o| o.pattern.every == 8) as fn(&sim::workload::Options) -> bool),
        ("rw=read:-8k", |o| o.pattern.skip == -8192),
        ("rwmixwrite=30", |o| o.mix_read == 70),
        ("bsrange=16k-4k", |o| o.block_sizes[2] == BlockSizes::Range(4096, 16384)),
        ("bssplit=4k/50:64k/,8k/100", |o| o.block_sizes[0] == BlockSizes::Split(vec![(4096, 50), (65536, 50)])),
        ("random_distribution=zipf:1.2", |o| o.distribution[0] == Distribution::Zipf(1.2, None)),
        ("random_distribution=zoned:60/10:40/90", |o| o.distribution[2] == Distribution::Zoned(vec![(60, 10), (40, 90)])),
        ("time_based=0", |o| !o.time_based),
        ("norandommap", |o| o.no_random_map),
        ("runtime=2m", |o| o.runtime.is_some_and(|runtime| runtime.as_secs_f64() == 120.0)),
        ("thinktime=5", |o| o.think.0 == 5000),
        ("startdelay=1-3", |o| o.start_delay.1.as_secs_f64() == 3.0),
        ("filename=a\\:b:c", |o| o.file_names[..] == ["a:b", "c"]),
        ("rate=1m,", |o| o.rate == [1 << 20, 0, 0]),
        ("kb_base=1000\nsize=1k", |o| o.size == Some(sim::workload::Amount::Bytes(1000))),
        ("size=1ki\nkb_base=1000", |o| o.size == Some(sim::workload::Amount::Bytes(1024))),
        ("write_bw_log=x\nthread\nnice=3\nbuffer_compress_percentage=50", |o| o.depth == 1),
        ("prioclass=1\nprio=3", |o| o.priority == Some(3)),
    ] {
        let workload = parse(&format!("[j]\n{line}\n")).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(check(workload.jobs()[0].options()), "{line}");
    }
}

#[test]
fn what_is_not_says_line_option_value_and_what_is_right() {
    for (text, words) in [
        ("bs=4k\n", "t.fio:1: `bs=4k` is before the first section; put [global] or [NAME] above it"),
        ("", "t.fio: it holds no job"),
        ("[global]\nbs=4k\n", "holds no job"),
        ("[j\nbs=4k\n", "t.fio:1: `[j` is not a section"),
        ("[j]\n\niodpeth=4\n", "t.fio:3: there is no supported option `iodpeth`; the nearest one is `iodepth`"),
        ("[j]\nverify=crc32c\n", "t.fio:2: `verify` is not supported: data is not simulated"),
        ("[j]\nBS=4k\n", "no supported option `BS`"),
        ("[j]\nbs=4x\n", "t.fio:2: bs: `4x` has the unknown unit `x`"),
        ("[j]\nbs=0\n", "bs: `0` is out of range; it must be from 1 byte to 1g"),
        ("[j]\nbs=\n", "t.fio:2: `bs` has no value"),
        ("[j]\ndirect\n", "`direct` needs a value"),
        ("[j]\ndirect=2\n", "direct: `2` is not supported; it must be one of 0, 1"),
        ("[j]\nrw=READ\n", "rw: `READ` is not supported; it must be one of read, write"),
        ("[j]\nioengine=mmap\n", "ioengine: `mmap` is not supported; it must be one of psync, sync"),
        ("[j]\niodepth=0\n", "iodepth: `0` is out of range; it must be from 1 to 65536"),
        ("[j]\nrwmixread=101\n", "rwmixread: `101` is out of range"),
        ("[j]\nsize=${SIZE}\n", "size: `${SIZE}` depends on the machine"),
        ("[j]\nsize=8*$mb_memory\n", "`$mb_memory` depends on the machine"),
        ("[j]\ninclude x.fio\n", "copy the lines of x.fio into this file"),
        ("[j]\nrandom_distribution=zipf:1\n", "not 1"),
        ("[j]\nrandom_distribution=zoned:60/10:50/90\n", "add up to 110"),
        ("[j]\nbssplit=4k/60\n", "add up to 60"),
        ("[j]\ntime_based\n", "t.fio:2: time_based: how long is not said"),
        ("[j]\nrate=1m\nrate_iops=10\n", "t.fio:3: rate and rate_iops exclude each other"),
        ("[j]\ndirect=1\nbs=1000\n", "t.fio:3: bs: 1000 is not a multiple of 512"),
        ("[j]\nrw=read:4\ndirect=1\n", "t.fio:2: rw: 4 is not a multiple of 512"),
        ("[j]\nnumjobs=1000000000\n", "t.fio:2: numjobs: with these 1000000000 there are more than 4096 jobs"),
        ("[j]\nwait_for=k\n[k]\n", "t.fio:2: wait_for: no job above has the name `k`"),
        ("[j]\nzonemode=strided\n", "need their zonesize"),
        ("[j]\nzonemode=zbd\n", "zonemode: `zbd` is not supported"),
        (
            "[j]\nzonemode=strided\nzonesize=4k\nrandom_distribution=zipf:1.1\n",
            "t.fio:4: random_distribution with zonemode=strided",
        ),
        ("[j]\nkb_base=1025\n", "kb_base: `1025` is not supported; it must be 1000 or 1024"),
        ("[j]\nsize=99999999999999999999\n", "too large"),
        ("[j]\nruntime=1.5\n", "runtime: `1.5` is not a time"),
        ("[j]\ninvalidate=2\n", "invalidate: `2` is not supported; it must be one of 0, 1"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(words), "{text}: {error}");
    }
}

fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "rw",
        "bs",
        "bsrange",
        "bssplit",
        "ba",
        "size",
        "io_size",
        "offset",
        "offset_increment",
        "filesize",
        "nrfiles",
        "filename",
        "numjobs",
        "iodepth",
        "rate",
        "rate_iops",
        "runtime",
        "time_based",
        "loops",
        "number_ios",
        "random_distribution",
        "zonemode",
        "zonesize",
        "zonerange",
        "zoneskip",
        "kb_base",
        "percentage_random",
        "startdelay",
        "file_service_type",
        "direct",
        "rwmixread",
        "fsync",
        "directory",
        "thinktime",
        "norandommap",
        "description",
        "offset_align",
        "nonsense",
    ]);
    let value = prop_oneof![
        "[0-9]{1,20}[kKmMgGtTpPi%]{0,2}",
        "[0-9]{1,3}[km]?[-:/,][0-9]{1,3}[km]?[-:/,][0-9]{0,3}",
        prop::sample::select(vec![
            "randrw:3",
            "read:-4k",
            "write",
            "randread",
            "strided",
            "zipf:1.1",
            "pareto:0.3",
            "zoned:50/10:50/",
            "/dev/sda",
            "a:b",
            "random:2",
            "0",
            "1",
            "(2^60*9)",
            "1000"
        ])
        .prop_map(str::to_owned),
        ".{0,12}",
    ];
    prop_oneof![
        4 => (key, value).prop_map(|(key, value)| format!("{key}={value}")),
        1 => "\\[[a-z]{1,6}\\]",
        1 => Just("[global]".to_owned()),
        1 => ".{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_text_makes_it_panic_or_run_away(lines in prop::collection::vec(line(), 0..12), capacity in prop_oneof![0u64..1 << 26, any::<u64>()]) {
        let text = format!("[j]\n{}\n", lines.join("\n"));
        if let Ok(workload) = Workload::parse(&text, "fuzz")
            && let Ok(placed) = workload.place(capacity, 3)
        {
            for job in 0..placed.jobs().len().min(4) {
                let files = placed.files();
                for action in placed.requests(job).take(200) {
                    if let sim::host::Action::Access { file, offset, bytes, .. } = action {
                        prop_assert!(bytes > 0 && offset + u64::from(bytes) <= files[file as usize].bytes, "{}\n{:?}", text, action);
                    }
                }
            }
        }
    }

    #[test]
    fn any_bytes_at_all_are_an_error_or_a_workload(text in "\\PC{0,400}") {
        let _ = Workload::parse(&text, "fuzz");
    }
}
