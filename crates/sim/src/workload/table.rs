//! The options of job files, how their values are parsed, and the messages for those that are not simulated.

use block::{Nanos, did_you_mean};

use super::composite::{
    amount, at_least_one, block_size, boolean, choice, command_priorities, count, distributions, file_service, names, pattern,
    percent, priority_class, split, steady,
};
use super::options::{BlockSizes, CommandPriority, ExitWhat, Options, Sequencer, SyncMode};
use super::refused::{self, REFUSED};
use super::value::{Fault, KiloBase, integer, range, time, triple};
use crate::host::Advice;

/// How an option is handled.
pub(super) enum Take {
    /// It has a value.
    Value(fn(&mut Options, &str, KiloBase) -> Result<(), Fault>),
    /// It is set by its presence or by the value 1, and cleared by 0.
    Flag(fn(&mut Options, bool)),
    /// It has no effect on the simulation: reports, logs, buffer contents, processors, file creation.
    NoEffect,
}

use Take::{Flag, NoEffect, Value};

/// The names of an option, and how it is handled.
type Entry = (&'static [&'static str], Take);

/// Options that are simulated.
#[rustfmt::skip]
const SIMULATED: &[Entry] = &[
    (&["name"], Value(|o, v, _| { o.name = Some(v.into()); Ok(()) })),
    (&["description"], Value(|o, v, _| { o.description = Some(v.into()); Ok(()) })),
    (&["rw", "readwrite"], Value(|o, v, base| { o.order.pattern = pattern(v, base)?; Ok(()) })),
    (&["rw_sequencer"], Value(|o, v, _| { o.order.sequencer = choice(v, &[("sequential", Sequencer::Sequential), ("identical", Sequencer::Identical)])?; Ok(()) })),
    (&["rwmixread"], Value(|o, v, _| { o.order.mix_read = percent(v)?; Ok(()) })),
    (&["rwmixwrite"], Value(|o, v, _| { o.order.mix_read = 100 - percent(v)?; Ok(()) })),
    (&["bs", "blocksize"], Value(|o, v, base| fill(&mut o.blocks.sizes, triple(v, |v| block_size(v, base).map(|bytes| BlockSizes::Range(bytes, bytes)))?))),
    (&["bsrange", "blocksize_range"], Value(|o, v, base| fill(&mut o.blocks.sizes, triple(v, |v| range(v, false, |v| block_size(v, base)).map(|(low, high)| BlockSizes::Range(low, high)))?))),
    (&["bssplit"], Value(|o, v, base| fill(&mut o.blocks.sizes, triple(v, |v| split(v, base).map(BlockSizes::Split))?))),
    (&["ba", "blockalign"], Value(|o, v, base| { o.blocks.align = triple(v, |v| at_least_one(integer(v, base)?))?; Ok(()) })),
    (&["bs_unaligned", "blocksize_unaligned"], Flag(|o, on| o.blocks.unaligned = on)),
    (&["size"], Value(|o, v, base| { o.files.size = Some(amount(v, base)?); Ok(()) })),
    (&["io_size", "io_limit"], Value(|o, v, base| { o.files.io_size = Some(amount(v, base)?); Ok(()) })),
    (&["offset", "fileoffset"], Value(|o, v, base| { o.files.offset = amount(v, base)?; Ok(()) })),
    (&["offset_increment"], Value(|o, v, base| { o.files.offset_increment = amount(v, base)?; Ok(()) })),
    (&["offset_align"], Value(|o, v, base| { o.files.offset_align = integer(v, base)?; Ok(()) })),
    (&["filesize"], Value(|o, v, base| { o.files.file_size = Some(range(v, true, |v| at_least_one(integer(v, base)?))?); Ok(()) })),
    (&["nrfiles", "nr_files"], Value(|o, v, base| { o.files.number = count(v, base, 1, MAX_FILES)?; Ok(()) })),
    (&["file_service_type"], Value(|o, v, base| { o.files.service = file_service(v, base)?; Ok(()) })),
    (&["filename"], Value(|o, v, _| { o.files.names = names(v)?.into(); Ok(()) })),
    (&["directory"], Value(|o, v, _| { o.files.directories = names(v)?.into(); Ok(()) })),
    (&["filename_format"], Value(|o, v, _| { o.files.name_format = v.into(); Ok(()) })),
    (&["numjobs"], Value(|o, v, base| { o.together.clones = count(v, base, 1, u32::MAX)?; Ok(()) })),
    (&["iodepth"], Value(|o, v, base| { o.queue.depth = count(v, base, 1, MAX_DEPTH)?; Ok(()) })),
    (&["iodepth_batch", "iodepth_batch_submit"], Value(|o, v, base| { o.queue.batch_submit = count(v, base, 0, MAX_DEPTH)?; Ok(()) })),
    (&["iodepth_batch_complete", "iodepth_batch_complete_min"], Value(|o, v, base| { o.queue.batch_complete_min = count(v, base, 0, MAX_DEPTH)?; Ok(()) })),
    (&["iodepth_batch_complete_max"], Value(|o, v, base| { o.queue.batch_complete_max = count(v, base, 0, MAX_DEPTH)?; Ok(()) })),
    (&["iodepth_low"], Value(|o, v, base| { o.queue.depth_low = count(v, base, 0, MAX_DEPTH)?; Ok(()) })),
    (&["ioengine"], Value(|o, v, _| { o.queue.engine = refused::engine(v)?; Ok(()) })),
    (&["direct"], Value(|o, v, _| { o.queue.direct = boolean(v)?; Ok(()) })),
    (&["buffered"], Value(|o, v, _| { o.queue.direct = !boolean(v)?; Ok(()) })),
    (&["sync"], Value(|o, v, _| { o.sync.mode = choice(v, SYNC_MODES)?; Ok(()) })),
    (&["fsync"], Value(|o, v, base| { o.sync.fsync = count(v, base, 0, u32::MAX)?; Ok(()) })),
    (&["fdatasync"], Value(|o, v, base| { o.sync.fdatasync = count(v, base, 0, u32::MAX)?; Ok(()) })),
    (&["end_fsync"], Value(|o, v, _| { o.sync.end_fsync = boolean(v)?; Ok(()) })),
    (&["fsync_on_close"], Value(|o, v, _| { o.sync.fsync_on_close = boolean(v)?; Ok(()) })),
    (&["rate"], Value(|o, v, base| { o.rate.bytes = triple(v, |v| integer(v, base))?.map(Option::unwrap_or_default); Ok(()) })),
    (&["rate_iops"], Value(|o, v, base| { o.rate.ios = triple(v, |v| integer(v, base))?.map(Option::unwrap_or_default); Ok(()) })),
    (&["rate_process"], Value(|o, v, _| { o.rate.poisson = choice(v, &[("linear", false), ("poisson", true)])?; Ok(()) })),
    (&["rate_ignore_thinktime"], Value(|o, v, _| { o.rate.ignore_think = boolean(v)?; Ok(()) })),
    (&["thinktime"], Value(|o, v, _| { o.think.span = time(v, MICROSECOND)?; Ok(()) })),
    (&["thinktime_blocks"], Value(|o, v, base| { o.think.blocks = Some(count(v, base, 1, u32::MAX)?); Ok(()) })),
    (&["thinktime_blocks_type"], Value(|o, v, _| { o.think.at_issue = choice(v, &[("complete", false), ("issue", true)])?; Ok(()) })),
    (&["thinktime_iotime"], Value(|o, v, _| { o.think.every = Some(time(v, SECOND)?); Ok(()) })),
    (&["runtime", "timeout"], Value(|o, v, _| { o.length.runtime = Some(time(v, SECOND)?).filter(|span| *span > Nanos::ZERO); Ok(()) })),
    (&["rate_min", "ratemin"], Value(|o, v, base| { o.rate.min_bytes = triple(v, |v| integer(v, base))?.map(Option::unwrap_or_default); Ok(()) })),
    (&["rate_iops_min"], Value(|o, v, base| { o.rate.min_ios = triple(v, |v| integer(v, base))?.map(Option::unwrap_or_default); Ok(()) })),
    (&["rate_cycle", "ratecycle"], Value(|o, v, base| { o.rate.cycle = Nanos::from_millis(u64::from(count(v, base, 1, u32::MAX)?)); Ok(()) })),
    (&["time_based"], Flag(|o, on| o.length.time_based = on)),
    (&["ramp_time"], Value(|o, v, _| { o.length.ramp = time(v, SECOND)?; Ok(()) })),
    (&["startdelay"], Value(|o, v, _| { o.together.start_delay = range(v, true, |v| time(v, SECOND))?; Ok(()) })),
    (&["stonewall", "wait_for_previous"], Flag(|o, on| o.together.stonewall = on)),
    (&["wait_for"], Value(|o, v, _| { o.together.wait_for = Some(v.into()); Ok(()) })),
    (&["exitall"], Flag(|o, on| o.together.exit_all = on)),
    (&["exitall_on_error"], Flag(|o, on| o.together.exit_all_on_error = on)),
    (&["exit_what"], Value(|o, v, _| { o.together.exit_what = choice(v, &[("group", ExitWhat::Group), ("stonewall", ExitWhat::Running), ("all", ExitWhat::All)])?; Ok(()) })),
    (&["flow"], Value(|o, v, base| { o.flow.weight = count(v, base, 0, 1000)?; Ok(()) })),
    (&["flow_id"], Value(|o, v, base| { o.flow.id = count(v, base, 0, u32::MAX)?; Ok(()) })),
    (&["flow_sleep"], Value(|o, v, base| { o.flow.sleep = Nanos::from_micros(u64::from(count(v, base, 0, u32::MAX)?)); Ok(()) })),
    (&["steadystate", "ss"], Value(|o, v, _| { o.steady.rule = Some(steady(v)?); Ok(()) })),
    (&["steadystate_duration", "ss_dur"], Value(|o, v, _| { o.steady.seconds = whole_seconds(v)?; Ok(()) })),
    (&["steadystate_ramp_time", "ss_ramp"], Value(|o, v, _| { o.steady.ramp = time(v, SECOND)?; Ok(()) })),
    (&["verify"], Value(|o, v, _| { o.verify.on = choice(v, refused::CHECKSUMS)?; Ok(()) })),
    (&["do_verify"], Value(|o, v, _| { o.verify.reads = boolean(v)?; Ok(()) })),
    (&["verify_only"], Flag(|o, on| o.verify.only = on)),
    (&["verify_backlog"], Value(|o, v, base| { o.verify.backlog = count(v, base, 0, u32::MAX)?; Ok(()) })),
    (&["verify_backlog_batch"], Value(|o, v, base| { o.verify.batch = count(v, base, 0, u32::MAX)?; Ok(()) })),
    (&["experimental_verify"], Value(|o, v, _| { o.verify.experimental = boolean(v)?; Ok(()) })),
    (&["fill_device", "fill_fs"], Value(|o, v, _| { o.files.fill_device = boolean(v)?; Ok(()) })),
    (&["new_group"], Flag(|o, on| o.together.new_group = on)),
    (&["group_reporting"], Flag(|o, on| o.together.group_reporting = on)),
    (&["loops"], Value(|o, v, base| { o.length.loops = count(v, base, 0, u32::MAX)?.max(1); Ok(()) })),
    (&["number_ios"], Value(|o, v, base| { o.length.number_ios = Some(integer(v, base)?).filter(|ios| *ios > 0); Ok(()) })),
    (&["percentage_random"], Value(|o, v, _| fill(&mut o.order.percentage_random, triple(v, percent)?))),
    (&["norandommap"], Flag(|o, on| o.order.no_random_map = on)),
    (&["random_distribution"], Value(|o, v, base| fill(&mut o.order.distribution, distributions(v, base)?))),
    (&["zonemode"], Value(|o, v, _| { o.order.strided = refused::zone_mode(v)?; Ok(()) })),
    (&["zonesize"], Value(|o, v, base| { o.order.zone_size = integer(v, base)?; Ok(()) })),
    (&["zonerange"], Value(|o, v, base| { o.order.zone_range = integer(v, base)?; Ok(()) })),
    (&["zoneskip"], Value(|o, v, base| { o.order.zone_skip = integer(v, base)?; Ok(()) })),
    (&["randseed"], Value(|o, v, base| { o.order.seed = Some(integer(v, base)?); Ok(()) })),
    (&["randrepeat"], Value(|o, v, _| { o.order.repeatable = boolean(v)?; Ok(()) })),
    (&["allrandrepeat"], Value(|o, v, _| { if boolean(v)? { o.order.repeatable = true; } Ok(()) })),
    (&["prio"], Value(|o, v, base| { o.priority.level = Some(count(v, base, 0, 7)? as u8); Ok(()) })),
    (&["prioclass"], Value(|o, v, base| { o.priority.class = priority_class(count(v, base, 0, 3)?); Ok(()) })),
    (&["cmdprio_percentage"], Value(|o, v, _| {
        let shares = triple(v, percent)?;
        o.priority.commands.rules = [0, 1].map(|i| shares[i].map(|share| CommandPriority { bytes: None, share, priority: None }).into_iter().collect());
        Ok(())
    })),
    (&["cmdprio_bssplit"], Value(|o, v, base| {
        let rules = triple(v, |v| command_priorities(v, base))?;
        o.priority.commands.rules = [0, 1].map(|i| rules[i].clone().unwrap_or_default());
        Ok(())
    })),
    (&["cmdprio_class"], Value(|o, v, base| {
        let [read, write, _] = triple(v, |v| count(v, base, 0, 3).map(priority_class))?;
        fill(&mut o.priority.command_class, [read.flatten(), write.flatten()])
    })),
    (&["cmdprio"], Value(|o, v, base| {
        let [read, write, _] = triple(v, |v| count(v, base, 0, 7).map(|level| level as u8))?;
        fill(&mut o.priority.command_level, [read, write])
    })),
    // The generator is our own, with the same properties.
    (&["random_generator"], Value(|o, v, _| { o.order.linear_feedback = choice(v, &[("tausworthe", false), ("tausworthe64", false), ("lfsr", true)])?; Ok(()) })),
    (&["io_submit_mode"], Value(|o, v, _| { o.queue.offload = choice(v, &[("inline", false), ("offload", true)])?; Ok(()) })),
    (&["fadvise_hint"], Value(|o, v, _| {
        let hints = [("0", Some(Advice::Normal)), ("1", None), ("random", Some(Advice::Random)), ("sequential", Some(Advice::Sequential))];
        o.queue.fadvise_hint = choice(v, &hints)?;
        Ok(())
    })),
    (&["overwrite"], Value(|o, v, _| { o.files.overwrite = boolean(v)?; Ok(()) })),
    (&["invalidate"], Value(|o, v, _| { o.files.invalidate = boolean(v)?; Ok(()) })),
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
        // Contents and placement of buffers.
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
        // Verification of data read.
        "verify_offset",
        "verify_interval",
        "verify_pattern",
        "verify_fatal",
        "verify_dump",
        "verify_async",
        "verify_async_cpus",
        "verify_state_save",
        "verifysort",
        "verifysort_nr",
        // Processors, users, methods of calling the kernel.
        "thread",
        "threads",
        "nice",
        "cpumask",
        "cpus_allowed",
        "cpus_allowed_policy",
        "numa_cpu_nodes",
        "numa_mem_policy",
        "uid",
        "gid",
        "thinktime_spin",
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
        // Creation and removal of files: here they exist when a job starts.
        "create_serialize",
        "create_fsync",
        "create_on_open",
        "allow_file_create",
        "allow_mounted_write",
        "unique_filename",
        "fallocate",
        "unlink",
        "unlink_each_loop",
        "uncached",
        "hipri_percentage",
        "cgroup_nodelete",
        "comm",
        "continue_on_error",
        "ignore_error",
    ],
    NoEffect,
);

/// Maximum queue depth, above that of any device or kernel.
const MAX_DEPTH: u32 = 65_536;
/// Maximum number of files of one job.
const MAX_FILES: u32 = 1 << 18;
const MICROSECOND: Nanos = Nanos::from_micros(1);
const SECOND: Nanos = Nanos::from_millis(1000);

const SYNC_MODES: &[(&str, SyncMode)] = &[
    ("0", SyncMode::None),
    ("none", SyncMode::None),
    ("1", SyncMode::EachWrite),
    ("sync", SyncMode::EachWrite),
    ("dsync", SyncMode::EachWrite),
];

/// Sets the option `key` to `value`. Returns the first of its names.
pub(super) fn set(options: &mut Options, key: &str, value: Option<&str>, base: KiloBase) -> Result<&'static str, Fault> {
    let Some((names, take)) = SIMULATED.iter().chain([&WITHOUT_EFFECT]).find(|(names, _)| names.contains(&key)) else {
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

/// Whether an option is a flag, which has no value on a command line.
pub(super) fn is_flag(key: &str) -> bool {
    SIMULATED.iter().any(|(names, take)| names.contains(&key) && matches!(take, Flag(_)))
}

/// The reason for which an option is rejected, and the one that may be meant.
fn unknown(key: &str) -> Fault {
    if let Some((_, reason)) = REFUSED.iter().find(|(name, _)| *name == key) {
        return format!("`{key}` is not supported: {reason}");
    }
    let names = SIMULATED.iter().chain([&WITHOUT_EFFECT]).flat_map(|(names, _)| names.iter().copied());
    let meant = did_you_mean(key, names.chain(REFUSED.iter().map(|(name, _)| *name)));
    format!("there is no option `{key}`{meant}")
}

/// Parses a duration in whole seconds, the interval at which fio checks for a steady state.
fn whole_seconds(text: &str) -> Result<u32, Fault> {
    let span = time(text, SECOND)?;
    let whole = u32::try_from(span.0 / SECOND.0).ok().filter(|seconds| *seconds <= 86_400 && span.0.is_multiple_of(SECOND.0));
    whole.ok_or_else(|| format!("`{text}` is out of range; it must be whole seconds, at most a day"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_for_two_options() {
        let mut names: Vec<&str> = SIMULATED.iter().chain([&WITHOUT_EFFECT]).flat_map(|(names, _)| names.iter().copied()).collect();
        names.extend(REFUSED.iter().map(|(name, _)| *name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_misspelled_option_gets_the_nearest_name() {
        assert!(unknown("iodpeth").contains("did you mean iodepth?"));
        assert!(unknown("rwmixreads").contains("did you mean rwmixread?"));
        assert!(unknown("max_latencies").contains("did you mean max_latency?"));
        assert!(!unknown("nfs_url").contains("did you mean"));
        assert!(unknown("pre_read").contains("rw=read"));
    }
}
