//! Every option of job files, how its value is parsed, and the messages for those that are not simulated.

use block::{Nanos, PriorityClass};

use super::options::{Amount, BlockSizes, Distribution, Engine, FileService, Kind, Options, Pattern, Sequencer, SyncMode};
use super::value::{Fault, KiloBase, float, integer, range, signed, time, triple};

/// How an option is handled.
pub(super) enum Take {
    /// It has a value.
    Value(fn(&mut Options, &str, KiloBase) -> Result<(), Fault>),
    /// It is set by its presence or by the value 1, and cleared by 0.
    Flag(fn(&mut Options, bool)),
    /// It affects nothing that is simulated: reports, logs, buffer contents, processors, file creation.
    NoEffect,
}

use Take::{Flag, NoEffect, Value};

/// All names of an option and how it is handled.
type Entry = (&'static [&'static str], Take);

/// Options that are simulated.
#[rustfmt::skip]
const MEANT: &[Entry] = &[
    (&["name"], Value(|o, v, _| { o.name = Some(v.into()); Ok(()) })),
    (&["description"], Value(|o, v, _| { o.description = Some(v.into()); Ok(()) })),
    (&["rw", "readwrite"], Value(|o, v, base| { o.pattern = pattern(v, base)?; Ok(()) })),
    (&["rw_sequencer"], Value(|o, v, _| { o.sequencer = choice(v, &[("sequential", Sequencer::Sequential), ("identical", Sequencer::Identical)])?; Ok(()) })),
    (&["rwmixread"], Value(|o, v, _| { o.mix_read = percent(v)?; Ok(()) })),
    (&["rwmixwrite"], Value(|o, v, _| { o.mix_read = 100 - percent(v)?; Ok(()) })),
    (&["bs", "blocksize"], Value(|o, v, base| fill(&mut o.block_sizes, triple(v, |v| block_size(v, base).map(|bytes| BlockSizes::Range(bytes, bytes)))?))),
    (&["bsrange", "blocksize_range"], Value(|o, v, base| fill(&mut o.block_sizes, triple(v, |v| range(v, false, |v| block_size(v, base)).map(|(low, high)| BlockSizes::Range(low, high)))?))),
    (&["bssplit"], Value(|o, v, base| fill(&mut o.block_sizes, triple(v, |v| split(v, base).map(BlockSizes::Split))?))),
    (&["ba", "blockalign"], Value(|o, v, base| { o.block_align = triple(v, |v| at_least_one(integer(v, base)?))?; Ok(()) })),
    (&["bs_unaligned", "blocksize_unaligned"], Flag(|o, on| o.unaligned = on)),
    (&["size"], Value(|o, v, base| { o.size = Some(amount(v, base)?); Ok(()) })),
    (&["io_size", "io_limit"], Value(|o, v, base| { o.io_size = Some(amount(v, base)?); Ok(()) })),
    (&["offset"], Value(|o, v, base| { o.offset = amount(v, base)?; Ok(()) })),
    (&["offset_increment"], Value(|o, v, base| { o.offset_increment = amount(v, base)?; Ok(()) })),
    (&["offset_align"], Value(|o, v, base| { o.offset_align = integer(v, base)?; Ok(()) })),
    (&["filesize"], Value(|o, v, base| { o.file_size = Some(range(v, true, |v| at_least_one(integer(v, base)?))?); Ok(()) })),
    (&["nrfiles", "nr_files"], Value(|o, v, base| { o.files = count(v, base, 1, MAX_FILES)?; Ok(()) })),
    (&["file_service_type"], Value(|o, v, base| { o.file_service = file_service(v, base)?; Ok(()) })),
    (&["filename"], Value(|o, v, _| { o.file_names = names(v)?.into(); Ok(()) })),
    (&["directory"], Value(|o, v, _| { o.directories = names(v)?.into(); Ok(()) })),
    (&["filename_format"], Value(|o, v, _| { o.file_name_format = v.into(); Ok(()) })),
    (&["numjobs"], Value(|o, v, base| { o.clones = count(v, base, 1, u32::MAX)?; Ok(()) })),
    (&["iodepth"], Value(|o, v, base| { o.depth = count(v, base, 1, MAX_DEPTH)?; Ok(()) })),
    (&["iodepth_batch", "iodepth_batch_submit"], Value(|o, v, base| { o.batch_submit = count(v, base, 0, MAX_DEPTH)?; Ok(()) })),
    (&["iodepth_batch_complete", "iodepth_batch_complete_min"], Value(|o, v, base| { o.batch_complete_min = count(v, base, 0, MAX_DEPTH)?; Ok(()) })),
    (&["iodepth_batch_complete_max"], Value(|o, v, base| { o.batch_complete_max = count(v, base, 0, MAX_DEPTH)?; Ok(()) })),
    (&["iodepth_low"], Value(|o, v, base| { o.depth_low = count(v, base, 0, MAX_DEPTH)?; Ok(()) })),
    (&["ioengine"], Value(|o, v, _| { o.engine = choice(v, ENGINES)?; Ok(()) })),
    (&["direct"], Value(|o, v, _| { o.direct = boolean(v)?; Ok(()) })),
    (&["buffered"], Value(|o, v, _| { o.direct = !boolean(v)?; Ok(()) })),
    (&["sync"], Value(|o, v, _| { o.sync = choice(v, SYNC_MODES)?; Ok(()) })),
    (&["fsync"], Value(|o, v, base| { o.fsync = count(v, base, 0, u32::MAX)?; Ok(()) })),
    (&["fdatasync"], Value(|o, v, base| { o.fdatasync = count(v, base, 0, u32::MAX)?; Ok(()) })),
    (&["end_fsync"], Value(|o, v, _| { o.end_fsync = boolean(v)?; Ok(()) })),
    (&["fsync_on_close"], Value(|o, v, _| { o.fsync_on_close = boolean(v)?; Ok(()) })),
    (&["rate"], Value(|o, v, base| { o.rate = triple(v, |v| integer(v, base))?.map(Option::unwrap_or_default); Ok(()) })),
    (&["rate_iops"], Value(|o, v, base| { o.rate_iops = triple(v, |v| integer(v, base))?.map(Option::unwrap_or_default); Ok(()) })),
    (&["rate_process"], Value(|o, v, _| { o.poisson = choice(v, &[("linear", false), ("poisson", true)])?; Ok(()) })),
    (&["rate_ignore_thinktime"], Value(|o, v, _| { o.rate_ignore_think = boolean(v)?; Ok(()) })),
    (&["thinktime"], Value(|o, v, _| { o.think = time(v, MICROSECOND)?; Ok(()) })),
    (&["thinktime_blocks"], Value(|o, v, base| { o.think_blocks = Some(count(v, base, 1, u32::MAX)?); Ok(()) })),
    (&["thinktime_blocks_type"], Value(|o, v, _| { o.think_at_issue = choice(v, &[("complete", false), ("issue", true)])?; Ok(()) })),
    (&["thinktime_iotime"], Value(|o, v, _| { o.think_every = Some(time(v, SECOND)?); Ok(()) })),
    (&["runtime", "timeout"], Value(|o, v, _| { o.runtime = Some(time(v, SECOND)?).filter(|span| *span > Nanos::ZERO); Ok(()) })),
    (&["time_based"], Flag(|o, on| o.time_based = on)),
    (&["ramp_time"], Value(|o, v, _| { o.ramp = time(v, SECOND)?; Ok(()) })),
    (&["startdelay"], Value(|o, v, _| { o.start_delay = range(v, true, |v| time(v, SECOND))?; Ok(()) })),
    (&["stonewall", "wait_for_previous"], Flag(|o, on| o.stonewall = on)),
    (&["wait_for"], Value(|o, v, _| { o.wait_for = Some(v.into()); Ok(()) })),
    (&["new_group"], Flag(|o, on| o.new_group = on)),
    (&["group_reporting"], Flag(|o, on| o.group_reporting = on)),
    (&["loops"], Value(|o, v, base| { o.loops = count(v, base, 0, u32::MAX)?.max(1); Ok(()) })),
    (&["number_ios"], Value(|o, v, base| { o.number_ios = Some(integer(v, base)?).filter(|ios| *ios > 0); Ok(()) })),
    (&["percentage_random"], Value(|o, v, _| fill(&mut o.percentage_random, triple(v, percent)?))),
    (&["norandommap"], Flag(|o, on| o.no_random_map = on)),
    (&["random_distribution"], Value(|o, v, base| fill(&mut o.distribution, distributions(v, base)?))),
    (&["zonemode"], Value(|o, v, _| { o.strided = choice(v, &[("none", false), ("strided", true)])?; Ok(()) })),
    (&["zonesize"], Value(|o, v, base| { o.zone_size = integer(v, base)?; Ok(()) })),
    (&["zonerange"], Value(|o, v, base| { o.zone_range = integer(v, base)?; Ok(()) })),
    (&["zoneskip"], Value(|o, v, base| { o.zone_skip = integer(v, base)?; Ok(()) })),
    (&["randseed"], Value(|o, v, base| { o.seed = Some(integer(v, base)?); Ok(()) })),
    (&["randrepeat"], Value(|o, v, _| { o.repeatable = boolean(v)?; Ok(()) })),
    (&["allrandrepeat"], Value(|o, v, _| { if boolean(v)? { o.repeatable = true; } Ok(()) })),
    (&["prio"], Value(|o, v, base| { o.priority = Some(count(v, base, 0, 7)? as u8); Ok(()) })),
    (&["prioclass"], Value(|o, v, base| { o.priority_class = priority_class(count(v, base, 0, 3)?); Ok(()) })),
    // The generator is our own, with the same properties. The others only allow the default, so that the value is checked, not
    // ignored.
    (&["random_generator"], Value(|_, v, _| choice(v, &[("tausworthe", ()), ("tausworthe64", ())]))),
    (&["io_submit_mode"], Value(|_, v, _| choice(v, &[("inline", ())]))),
    (&["fadvise_hint"], Value(|_, v, _| choice(v, &[("0", ()), ("1", ())]))),
    (&["invalidate"], Value(|o, v, _| { o.invalidate = boolean(v)?; Ok(()) })),
];

/// Options without an effect on the simulated disk.
const WITHOUT_EFFECT: Entry = (
    &[
        // Reports and logs.
        "gtod_reduce",
        "gtod_cpu",
        "clocksource",
        "disable_lat",
        "disable_clat",
        "disable_slat",
        "disable_bw_measurement",
        "disable_bw",
        "clat_percentiles",
        "lat_percentiles",
        "slat_percentiles",
        "percentile_list",
        "significant_figures",
        "disk_util",
        "stats",
        "unified_rw_reporting",
        "per_job_logs",
        "write_bw_log",
        "write_lat_log",
        "write_iops_log",
        "write_hist_log",
        "write_iolog",
        "bwavgtime",
        "iopsavgtime",
        "log_entries",
        "log_avg_msec",
        "log_hist_msec",
        "log_hist_coarseness",
        "log_max_value",
        "log_offset",
        "log_prio",
        "log_compression",
        "log_compression_cpus",
        "log_store_compressed",
        "log_unix_epoch",
        "log_alternate_epoch",
        "log_alternate_epoch_clock_id",
        "block_error_percentiles",
        "unit_base",
        "error_dump",
        "kb_base",
        // The contents and placement of buffers.
        "zero_buffers",
        "refill_buffers",
        "scramble_buffers",
        "buffer_pattern",
        "buffer_compress_percentage",
        "buffer_compress_chunk",
        "dedupe_percentage",
        "dedupe_mode",
        "dedupe_working_set_percentage",
        "dedupe_global",
        "mem",
        "iomem",
        "iomem_align",
        "mem_align",
        "hugepage-size",
        "lockmem",
        "write_hint",
        // Processors, users, the ways of calling the kernel.
        "thread",
        "nice",
        "cpumask",
        "cpus_allowed",
        "cpus_allowed_policy",
        "numa_cpu_nodes",
        "numa_mem_policy",
        "uid",
        "gid",
        "thinktime_spin",
        "rate_cycle",
        "hipri",
        "fixedbufs",
        "registerfiles",
        "nonvectored",
        "sqthread_poll",
        "sqthread_poll_cpu",
        "force_async",
        "userspace_reap",
        "nowait",
        "softrandommap",
        // Creation and removal of files: here they exist in full size when a job begins.
        "create_serialize",
        "create_fsync",
        "create_on_open",
        "allow_file_create",
        "allow_mounted_write",
        "unique_filename",
        "fallocate",
        "overwrite",
        "unlink",
        "unlink_each_loop",
        "continue_on_error",
        "ignore_error",
        "exitall_on_error",
    ],
    NoEffect,
);

/// Options of fio that would change the simulation, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("lfsr", "leave it out: every block is visited once without it, too"),
    ("verify", "data is not simulated; use rw=read to read what was written"),
    ("do_verify", "data is not simulated"),
    ("verify_only", "data is not simulated"),
    ("read_iolog", "replay the log itself as a trace"),
    ("merge_blktrace_file", "replay the trace itself"),
    ("ioscheduler", "the scheduler is chosen when the workload is run"),
    ("exitall", "the nearest supported option is runtime with time_based, which ends every job at a given time"),
    ("exit_what", "the nearest supported option is runtime with time_based"),
    ("flow", "the nearest supported options are rate and rate_iops"),
    ("flow_id", "the nearest supported options are rate and rate_iops"),
    ("rate_min", "the nearest supported option is rate"),
    ("rate_iops_min", "the nearest supported option is rate_iops"),
    ("latency_target", "the nearest supported option is iodepth"),
    ("latency_run", "the nearest supported option is iodepth"),
    ("max_latency", "the nearest supported option is runtime"),
    ("steadystate", "the nearest supported option is runtime with ramp_time"),
    ("ss", "the nearest supported option is runtime with ramp_time"),
    ("sync_file_range", "the nearest supported option is fdatasync"),
    ("write_barrier", "the nearest supported option is fsync"),
    ("file_append", "the nearest supported option is offset"),
    ("fill_device", "the nearest supported option is size=100% on a /dev file"),
    ("zonecapacity", "zoned block devices are not simulated; the nearest supported option is zonesize with zonemode=strided"),
    ("max_open_zones", "zoned block devices are not simulated"),
    ("openfiles", "all files of a job are open all the time; leave it out"),
    ("opendir", "the nearest supported options are directory and nrfiles"),
    ("lockfile", "files are not locked here"),
    ("pre_read", "the nearest supported way is an earlier job with rw=read and stonewall behind it"),
    ("create_only", "files are always there"),
    ("trim_percentage", "the nearest supported option is rw=trimwrite"),
    ("serialize_overlap", "the nearest supported option is iodepth=1"),
    ("cmdprio_percentage", "the nearest supported option is prioclass"),
    ("cgroup", "the nearest supported option is prio"),
    ("bs_is_seq_rand", "the nearest supported option is bssplit"),
    ("exec_prerun", "commands are not run"),
    ("exec_postrun", "commands are not run"),
    ("profile", "write the profile's jobs out"),
    ("include", "copy the included lines into this file"),
];

/// More I/Os in flight than any device or kernel holds.
const MAX_DEPTH: u32 = 65_536;
/// Maximum number of files of one job.
const MAX_FILES: u32 = 1 << 18;
const MICROSECOND: Nanos = Nanos::from_micros(1);
const SECOND: Nanos = Nanos::from_millis(1000);

const ENGINES: &[(&str, Engine)] = &[
    ("psync", Engine::Sync),
    ("sync", Engine::Sync),
    ("vsync", Engine::Sync),
    ("pvsync", Engine::Sync),
    ("pvsync2", Engine::Sync),
    ("libaio", Engine::Libaio),
    ("io_uring", Engine::IoUring),
    ("posixaio", Engine::PosixAio),
];

const SYNC_MODES: &[(&str, SyncMode)] = &[
    ("0", SyncMode::None),
    ("none", SyncMode::None),
    ("1", SyncMode::EachWrite),
    ("sync", SyncMode::EachWrite),
    ("dsync", SyncMode::EachWrite),
];

/// Sets the option `key` to `value`. Returns the first of its names.
pub(super) fn set(options: &mut Options, key: &str, value: Option<&str>, base: KiloBase) -> Result<&'static str, Fault> {
    let Some((names, take)) = MEANT.iter().chain([&WITHOUT_EFFECT]).find(|(names, _)| names.contains(&key)) else {
        return Err(unknown(key));
    };
    let fault = |fault: Fault| format!("{key}: {fault}");
    match (take, value) {
        (Flag(set), value) => set(options, value.map_or(Ok(true), boolean).map_err(fault)?),
        (NoEffect, _) => {}
        (Value(_), None) => return Err(format!("`{key}` needs a value: {key}=…")),
        (Value(set), Some(value)) => set(options, value, base).map_err(fault)?,
    }
    Ok(names[0])
}

/// Why an option is rejected, and the nearest one.
fn unknown(key: &str) -> Fault {
    if let Some((_, advice)) = REFUSED.iter().find(|(name, _)| *name == key) {
        return format!("`{key}` is not supported: {advice}");
    }
    let names = MEANT.iter().chain([&WITHOUT_EFFECT]).flat_map(|(names, _)| names.iter());
    let nearest = names.min_by_key(|name| distance(key, name)).copied().unwrap_or("rw");
    format!("there is no supported option `{key}`; the nearest one is `{nearest}`")
}

/// Levenshtein distance of keys, cut to a length that no option reaches.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(*letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Assigns the values that are given.
fn fill<T, const N: usize>(places: &mut [T; N], values: [Option<T>; N]) -> Result<(), Fault> {
    for (place, value) in places.iter_mut().zip(values) {
        if let Some(value) = value {
            *place = value;
        }
    }
    Ok(())
}

fn choice<T: Clone>(text: &str, choices: &[(&str, T)]) -> Result<T, Fault> {
    let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| value.clone());
    found.ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        match names.as_slice() {
            [only] => format!("`{text}` is not supported; it must be {only}"),
            _ => format!("`{text}` is not supported; it must be one of {}", names.join(", ")),
        }
    })
}

fn boolean(text: &str) -> Result<bool, Fault> {
    choice(text, &[("0", false), ("1", true)])
}

fn percent(text: &str) -> Result<u8, Fault> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    let value = digits.parse::<u8>().ok().filter(|percent| *percent <= 100);
    value.ok_or_else(|| format!("`{text}` is out of range; it must be a whole number from 0 to 100"))
}

fn count(text: &str, base: KiloBase, least: u32, most: u32) -> Result<u32, Fault> {
    let value = integer(text, base)?;
    let fitting = u32::try_from(value).ok().filter(|value| (least..=most).contains(value));
    fitting.ok_or_else(|| format!("`{text}` is out of range; it must be from {least} to {most}"))
}

fn at_least_one(value: u64) -> Result<u64, Fault> {
    if value == 0 { Err("0 is out of range; it must be at least 1".to_owned()) } else { Ok(value) }
}

fn block_size(text: &str, base: KiloBase) -> Result<u32, Fault> {
    let bytes = integer(text, base)?;
    let fitting = u32::try_from(bytes).ok().filter(|bytes| (1..=1 << 30).contains(bytes));
    fitting.ok_or_else(|| format!("`{text}` is out of range; it must be from 1 byte to 1g"))
}

fn amount(text: &str, base: KiloBase) -> Result<Amount, Fault> {
    match text.strip_suffix('%') {
        Some(_) => percent(text).map(Amount::Percent),
        None => integer(text, base).map(Amount::Bytes),
    }
}

fn pattern(text: &str, base: KiloBase) -> Result<Pattern, Fault> {
    const KINDS: &[(&str, (Kind, bool))] = &[
        ("read", (Kind::Read, false)),
        ("write", (Kind::Write, false)),
        ("trim", (Kind::Trim, false)),
        ("rw", (Kind::Mixed, false)),
        ("readwrite", (Kind::Mixed, false)),
        ("randread", (Kind::Read, true)),
        ("randwrite", (Kind::Write, true)),
        ("randtrim", (Kind::Trim, true)),
        ("randrw", (Kind::Mixed, true)),
        ("trimwrite", (Kind::TrimWrite, false)),
        ("randtrimwrite", (Kind::TrimWrite, true)),
    ];
    let (name, number) = match text.split_once(':') {
        Some((name, number)) => (name.trim(), Some(number.trim())),
        None => (text, None),
    };
    let (kind, random) = choice(name, KINDS)?;
    let mut pattern = Pattern { kind, random, every: 1, skip: 0 };
    match number {
        Some(number) if random => pattern.every = count(number, base, 0, u32::MAX)?.max(1),
        Some(number) => pattern.skip = signed(number, base)?,
        None => {}
    }
    Ok(pattern)
}

fn file_service(text: &str, base: KiloBase) -> Result<(FileService, u32), Fault> {
    let (name, number) = text.split_once(':').unwrap_or((text, "1"));
    let kinds = [("roundrobin", FileService::RoundRobin), ("sequential", FileService::Sequential), ("random", FileService::Random)];
    Ok((choice(name, &kinds)?, count(number, base, 1, u32::MAX)?))
}

/// Names separated by colons; a backslash before a colon makes it part of the name.
fn names(text: &str) -> Result<Vec<String>, Fault> {
    let mut names = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ':' => names.push(String::new()),
            '\\' if letters.peek() == Some(&':') => names.last_mut().into_iter().for_each(|name| name.push(':')),
            _ => names.last_mut().into_iter().for_each(|name| name.push(letter)),
        }
        if letter == '\\' && letters.peek() == Some(&':') {
            letters.next();
        }
    }
    match names.iter().find(|name| name.is_empty() || *name == "-") {
        Some(name) => Err(format!("`{text}` holds the name `{name}`; names must not be empty or `-`")),
        None => Ok(names),
    }
}

/// `4k/50:64k/:…`: blank percentages share the remainder.
fn split(text: &str, base: KiloBase) -> Result<Vec<(u32, u8)>, Fault> {
    const MOST: usize = 64;
    let mut sizes = Vec::new();
    for part in text.split(':').map(str::trim) {
        let (bytes, share) = part.split_once('/').unwrap_or((part, ""));
        sizes.push((block_size(bytes, base)?, if share.is_empty() { None } else { Some(percent(share)?) }));
    }
    if sizes.len() > MOST {
        return Err(format!("{} sizes are too many; at most {MOST} are allowed", sizes.len()));
    }
    shares(sizes)
}

/// Fills in blank percentages; they must add up to at most 100, and to exactly 100 if none is blank.
fn shares<T>(parts: Vec<(T, Option<u8>)>) -> Result<Vec<(T, u8)>, Fault> {
    let given: u32 = parts.iter().filter_map(|(_, share)| *share).map(u32::from).sum();
    let blank = parts.iter().filter(|(_, share)| share.is_none()).count() as u32;
    let left = 100u32.checked_sub(given).ok_or_else(|| format!("the percentages add up to {given}; they must add up to 100"))?;
    if blank == 0 && left > 0 {
        return Err(format!("the percentages add up to {given}; they must add up to 100, or leave one blank"));
    }
    let mut blanks = 0..blank;
    let parts = parts.into_iter().map(|(what, share)| {
        // Rounded so that the blanks together get the whole remainder.
        let shared = |i: u32| left * (i + 1) / blank - left * i / blank;
        (what, share.unwrap_or_else(|| blanks.next().map_or(0, shared) as u8))
    });
    Ok(parts.collect())
}

fn distributions(text: &str, base: KiloBase) -> Result<[Option<Distribution>; 3], Fault> {
    let (name, rest) = text.split_once([':', '=']).unwrap_or((text, ""));
    match name {
        "zoned" => triple(rest, |part| zones(part, percent).map(Distribution::Zoned)),
        "zoned_abs" => triple(rest, |part| zones(part, |v| integer(v, base)).map(Distribution::ZonedAbsolute)),
        _ => distribution(name, rest).map(|distribution| [0; 3].map(|_| Some(distribution.clone()))),
    }
}

fn distribution(name: &str, rest: &str) -> Result<Distribution, Fault> {
    let mut parts = rest.split(':').map(str::trim).filter(|part| !part.is_empty());
    let first = parts.next().map(float).transpose()?;
    let center = parts.next().map(float).transpose()?;
    if let Some(center) = center.filter(|center| !(0.0..=1.0).contains(center)) {
        return Err(format!("the centre `{center}` is out of range; it must be from 0 to 1"));
    }
    if let Some(part) = parts.next() {
        return Err(format!("`{part}` is one number too many"));
    }
    let inside = |value: f64, right: bool, range: &str| {
        if right { Ok(value) } else { Err(format!("`{value}` is out of range; {name} needs {range}")) }
    };
    match name {
        "random" if first.is_none() => Ok(Distribution::Uniform),
        "zipf" => {
            let theta = first.unwrap_or(1.1);
            Ok(Distribution::Zipf(
                inside(theta, theta > 0.0 && theta != 1.0 && theta <= 10.0, "a theta above 0 and at most 10, not 1")?,
                center,
            ))
        }
        "pareto" => {
            let h = first.unwrap_or(0.2);
            Ok(Distribution::Pareto(inside(h, h > 0.0 && h < 1.0, "an h above 0 and below 1")?, center))
        }
        "normal" => {
            let deviation = first.ok_or_else(|| "normal needs a deviation in percent: normal:20".to_owned())?;
            Ok(Distribution::Normal(
                inside(deviation, (0.0..100.0).contains(&deviation), "a deviation from 0 to below 100")?,
                center,
            ))
        }
        _ => Err(format!(
            "`{name}` is not supported; it must be one of random, zipf:THETA, pareto:H, normal:DEVIATION, zoned:SHARE/SIZE:…, zoned_abs:SHARE/SIZE:…"
        )),
    }
}

/// `60/10:30/20:…`: percentages of the I/Os, sizes.
fn zones<T>(text: &str, size: impl Fn(&str) -> Result<T, Fault>) -> Result<Vec<(u8, T)>, Fault> {
    const MOST: usize = 256;
    let mut zones = Vec::new();
    for part in text.split(':').map(str::trim) {
        let (share, zone) = part.split_once('/').ok_or_else(|| format!("`{part}` must be SHARE/SIZE, such as 60/10"))?;
        zones.push((size(zone)?, if share.is_empty() { None } else { Some(percent(share)?) }));
    }
    if zones.len() > MOST {
        return Err(format!("{} zones are too many; at most {MOST} are allowed", zones.len()));
    }
    Ok(shares(zones)?.into_iter().map(|(zone, share)| (share, zone)).collect())
}

/// fio's numbers are those of ioprio.h: 0 none, 1 real time, 2 best effort, 3 idle.
fn priority_class(number: u32) -> Option<PriorityClass> {
    [None, Some(PriorityClass::RealTime), Some(PriorityClass::BestEffort), Some(PriorityClass::Idle)][number as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_for_two_options() {
        let mut names: Vec<&str> = MEANT.iter().chain([&WITHOUT_EFFECT]).flat_map(|(names, _)| names.iter().copied()).collect();
        names.extend(REFUSED.iter().map(|(name, _)| *name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_misspelled_option_is_told_the_nearest_one() {
        assert!(unknown("iodpeth").contains("`iodepth`"));
        assert!(unknown("rwmixreads").contains("`rwmixread`"));
        assert!(unknown("verify").contains("rw=read"));
    }

    #[test]
    fn a_colon_behind_a_backslash_is_part_of_a_name() {
        assert_eq!(names(r"/dev/foo@3,0\:c:b").as_deref(), Ok(&["/dev/foo@3,0:c".to_owned(), "b".to_owned()][..]));
        assert!(names("a::b").is_err());
    }

    #[test]
    fn blank_shares_share_what_is_left() {
        let base = KiloBase::Old;
        assert_eq!(split("4k/50:1k/:32k/", base), Ok(vec![(4096, 50), (1024, 25), (32768, 25)]));
        assert_eq!(split("4k/34:1k:32k:8k", base), Ok(vec![(4096, 34), (1024, 22), (32768, 22), (8192, 22)]));
        assert!(split("4k/60:8k/60", base).is_err());
        assert!(split("4k/30:8k/30", base).is_err());
    }
}
