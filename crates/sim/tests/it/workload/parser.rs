use proptest::prelude::*;
use sim::workload::{BlockSizes, Distribution, Engine, JobKind, Workload};

fn parse(text: &str) -> Result<Workload, String> {
    Workload::parse(text, "t.fio").map_err(|error| error.to_string())
}

#[test]
fn global_sections_are_defaults_of_the_jobs_below_them() {
    let workload = parse(
        "; a comment\n# another\n[global]\nbs=8k\nrw=randread ; behind a value\n[a]\n[b]\nbs = 4096,64k\n[global]\nioengine=libaio\niodepth=16\ndirect=1\n[c]\nnumjobs=2\nstonewall\n",
    );
    // A number behind a blank is refused, with its line.
    assert_eq!(workload.unwrap_err(), "t.fio:8: bs: fio loses the unit of a number after a blank; write bs=4096,64k");
    let workload = parse("[global]\nbs=8k\nrw=randread ; behind a value\n[a]\n[b]\nbs=4k,64k\n[global]\nioengine=libaio\niodepth=16\ndirect=1\n[c]\nnumjobs=2\nstonewall\n").unwrap();
    let jobs: Vec<_> =
        workload.jobs().iter().map(|job| (job.name(), job.stream(), job.phase(), job.options().queue.depth)).collect();
    assert_eq!(jobs, [("a", 0, 0, 1), ("b", 1, 0, 1), ("c.0", 2, 1, 16), ("c.1", 3, 1, 16)]);
    let options = |job: usize| workload.jobs()[job].options().clone();
    assert_eq!(options(0).blocks.sizes[1], BlockSizes::Range(8192, 8192));
    assert_eq!(
        options(1).blocks.sizes,
        [BlockSizes::Range(4096, 4096), BlockSizes::Range(65536, 65536), BlockSizes::Range(65536, 65536)]
    );
    assert_eq!((options(1).queue.engine, options(2).queue.engine), (Engine::Sync, Engine::Libaio));
    assert!(options(3).queue.direct && options(3).order.pattern.random && options(3).order.pattern.kind == JobKind::Read);
}

#[test]
fn well_formed_job_files_are_read() {
    for (line, check) in [
        ("rw=randrw:8", (|o| o.order.pattern.every == 8) as fn(&sim::workload::Options) -> bool),
        ("rw=read:-8k", |o| o.order.pattern.skip == -8192),
        ("rwmixwrite=30", |o| o.order.mix_read == 70),
        ("bsrange=16k-4k", |o| o.blocks.sizes[2] == BlockSizes::Range(4096, 16384)),
        ("bssplit=4k/50:64k/,8k/100", |o| o.blocks.sizes[0] == BlockSizes::Split(vec![(4096, 50), (65536, 50)])),
        ("random_distribution=zipf:1.2", |o| o.order.distribution[0] == Distribution::Zipf(1.2, None)),
        ("random_distribution=zoned:60/10:40/90", |o| o.order.distribution[2] == Distribution::Zoned(vec![(60, 10), (40, 90)])),
        ("time_based=0", |o| !o.length.time_based),
        ("norandommap", |o| o.order.no_random_map),
        ("runtime=2m", |o| o.length.runtime.is_some_and(|runtime| runtime.as_secs_f64() == 120.0)),
        ("thinktime=5", |o| o.think.span.0 == 5000),
        ("startdelay=1-3", |o| o.together.start_delay.1.as_secs_f64() == 3.0),
        ("filename=a\\:b:c", |o| o.files.names[..] == ["a:b", "c"]),
        ("rate=1m,", |o| o.rate.bytes == [1 << 20, 0, 0]),
        ("kb_base=1000\nsize=1k", |o| o.files.size == Some(sim::workload::Amount::Bytes(1000))),
        ("size=1ki\nkb_base=1000", |o| o.files.size == Some(sim::workload::Amount::Bytes(1024))),
        ("random_distribution=zoned:50/5:30/15:20/", |o| {
            o.order.distribution[0] == Distribution::Zoned(vec![(50, 5), (30, 15), (20, 80)])
        }),
        ("ratemin=10k\nrate_iops_min=5,6", |o| o.rate.min_bytes == [10240; 3] && o.rate.min_ios == [5, 6, 6]),
        ("ss=bw_slope:0.3%\nss_dur=1m\nss_ramp=5", |o| {
            o.steady.rule.is_some_and(|s| s.bandwidth && s.slope && s.percent) && o.steady.seconds == 60
        }),
        ("verify=meta\nverify_pattern=0xff\nverify_backlog=8\ndo_verify=0", |o| {
            o.verify.on && !o.verify.reads && o.verify.backlog == 8
        }),
        ("exitall=1\nexit_what=all", |o| o.together.exit_all && o.together.exit_what == sim::workload::ExitWhat::All),
        ("bs=2*$pagesize", |o| o.blocks.sizes[0] == BlockSizes::Range(8192, 8192)),
        ("threads=1\nioengine=null\nfileoffset=4k\nfill_fs=1", |o| o.queue.engine == Engine::Null && o.files.fill_device),
        ("write_bw_log=x\nthread\nnice=3\nbuffer_compress_percentage=50", |o| o.queue.depth == 1),
        ("prioclass=1\nprio=3", |o| o.priority.level == Some(3)),
    ] {
        let workload = parse(&format!("[j]\n{line}\n")).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(check(workload.jobs()[0].options()), "{line}");
    }
}

#[test]
fn a_report_shows_a_group_in_one_row_and_others_in_their_own() {
    let text =
        "[a]\nnumjobs=2\n[b]\ngroup_reporting\nnumjobs=2\n[c]\ngroup_reporting\nnew_group\n[d]\ngroup_reporting\n[e]\nstonewall\n";
    let workload = parse(text).unwrap();
    let of = |number: fn(&sim::workload::Job) -> u32| workload.jobs().iter().map(number).collect::<Vec<_>>();
    assert_eq!(of(|job| job.group()), [0, 0, 0, 0, 1, 1, 2]);
    // As in fio: b shares a row with the job before it in its group, though that one does not ask for it.
    assert_eq!(of(|job| job.report_row()), [0, 1, 1, 1, 2, 2, 3]);
    assert_eq!(of(|job| job.phase()), [0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn errors_name_line_option_value_and_remedy() {
    for (text, words) in [
        ("bs=4k\n", "t.fio:1: `bs=4k` is before the first section; put [global] or [NAME] above it"),
        ("", "t.fio: it holds no job"),
        ("[global]\nbs=4k\n", "holds no job"),
        ("[j\nbs=4k\n", "t.fio:1: `[j` is not a section"),
        ("[j]\n\niodpeth=4\n", "t.fio:3: there is no option `iodpeth`; did you mean iodepth?"),
        ("[j]\nnfs_url=${URL}\nioengine=nfs\n", "t.fio:3: ioengine: `nfs` is not supported: it uses a network"),
        ("[j]\nnfs_url=x\n", "t.fio:2: there is no option `nfs_url`"),
        ("[j]\nverify=crc23\n", "; did you mean crc32?"),
        ("[j]\nBS=4k\n", "there is no option `BS`"),
        ("[j]\nbs=4x\n", "t.fio:2: bs: `4x` has the unknown unit `x`"),
        ("[j]\nbs=0\n", "bs: `0` is out of range; it must be from 1 byte to 1g"),
        ("[j]\nbs=\n", "t.fio:2: `bs` has no value"),
        ("[j]\ndirect\n", "`direct` needs a value"),
        ("[j]\ndirect=2\n", "direct: `2` is not supported; it must be one of 0, 1"),
        ("[j]\nrw=READ\n", "rw: `READ` is not supported; it must be one of read, write"),
        (
            "[j]\nioengine=libiao\n",
            "it must be one of psync, sync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio, null; did you mean libaio?",
        ),
        ("[j]\nioengine=mmap\n", "ioengine: `mmap` is not supported: page faults"),
        ("[j]\nioengine=sg\n", "ioengine: `sg` is not supported: it passes commands to the drive past the I/O scheduler"),
        ("[j]\nioengine=librpma_apm_client\n", "`librpma_apm_client` is not supported: it uses a network"),
        ("[j]\nss=iops\n", "ss: `iops` has no limit; it must be such as iops:2%"),
        ("[j]\nss=ipos:2%\n", "it must be one of iops, iops_slope, bw, bw_slope; did you mean iops?"),
        ("[j]\nss=iops_slope:2%\nss_dur=1\n", "t.fio:3: steadystate_duration: a slope needs at least 2 seconds"),
        ("[j]\nss_dur=1500ms\n", "ss_dur: `1500ms` is out of range; it must be whole seconds"),
        (
            "[a]\nss=iops:2%\nss_dur=5\n[b]\n",
            "t.fio:4: steadystate: a and b are of one group and must have the same; give new_group",
        ),
        ("[a]\nflow=1\n[b]\nstonewall\nflow=1\n", "t.fio:5: flow: a and b share flow_id=0 but do not run at the same time"),
        ("[j]\ncmdprio_percentage=20\n", "t.fio:2: cmdprio: only ioengine=libaio and io_uring"),
        ("[j]\ncmdprio_bssplit=4k\n", "`4k` must be SIZE/PERCENTAGE or SIZE/PERCENTAGE/CLASS/LEVEL"),
        ("[j]\nexit_what=everything\n", "it must be one of group, stonewall, all"),
        ("[j]\nrandom_generator=lsfr\n", "; did you mean lfsr?"),
        ("[j]\niodepth=0\n", "iodepth: `0` is out of range; it must be from 1 to 65536"),
        ("[j]\nrwmixread=101\n", "rwmixread: `101` is out of range"),
        ("[j]\nsize=${SIZE}\n", "t.fio:2: size: the environment variable SIZE is not set"),
        ("[j]\nsize=8*$mb_memory\n", "`$mb_memory` depends on the machine"),
        ("[j]\ninclude x.fio\n", "t.fio:2: include: x.fio cannot be included here; copy its lines"),
        ("[j]\nrandom_distribution=zipf:1\n", "not 1"),
        ("[j]\nrandom_distribution=zoned:60/10:50/90\n", "add up to 110"),
        ("[j]\nbssplit=4k/60:8k/60\n", "t.fio:2: bssplit: the percentages add up to 120; they must add up to 100"),
        ("[j]\ntime_based\n", "t.fio:2: time_based requires runtime"),
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

/// Options of all kinds: simulated, without effect, refused, unknown.
const KEYS: &[&str] = &[
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
    "verify",
    "verify_backlog",
    "verify_only",
    "flow",
    "fill_device",
    "ioengine",
    "cmdprio_bssplit",
    "steadystate",
    "nonsense",
];

fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(KEYS);
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
            "null",
            "libaio",
            "md5",
            "iops:2%",
            "4k/50/1/2:8k/50",
            "${HOME}",
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
