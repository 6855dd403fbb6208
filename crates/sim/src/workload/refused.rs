//! Options and engines of fio that are not supported, with the reasons.

use super::composite::choice;
use super::options::Engine;
use super::value::Fault;

/// Options of fio that would change the simulation, with the reason or the nearest supported alternative.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("read_iolog", "replay the log itself as a trace"),
    ("merge_blktrace_file", "replay the trace itself"),
    ("ioscheduler", "the scheduler is chosen when the workload is run"),
    ("latency_target", "the nearest supported option is iodepth"),
    ("latency_run", "the nearest supported option is iodepth"),
    ("max_latency", "the nearest supported option is runtime"),
    ("sync_file_range", "the nearest supported option is fdatasync"),
    ("write_barrier", "the nearest supported option is fsync"),
    ("file_append", "the nearest supported option is offset"),
    ("verify_state_load", "no state of an earlier run is kept"),
    ("verify_write_sequence", "every read back is one of the same run"),
    ("trim_backlog", "the nearest supported option is rw=trimwrite"),
    ("trim_backlog_batch", "the nearest supported option is rw=trimwrite"),
    ("trim_verify_zero", "the nearest supported option is rw=trimwrite"),
    ("latency_window", "the nearest supported option is iodepth"),
    ("latency_percentile", "the nearest supported option is iodepth"),
    ("read_iolog_chunked", "replay the log itself as a trace"),
    ("replay_no_stall", "replay the log itself as a trace, with --mode closed"),
    ("replay_redirect", "replay the log itself as a trace"),
    ("replay_scale", "replay the log itself as a trace"),
    ("replay_align", "replay the log itself as a trace"),
    ("replay_time_scale", "replay the log itself as a trace, with --speed"),
    ("replay_skip", "replay the log itself as a trace"),
    ("merge_blktrace_scalars", "replay the trace itself"),
    ("merge_blktrace_iters", "replay the trace itself"),
    ("atomic", "writes that the device makes atomic are not simulated; leave it out"),
    ("cgroup_weight", "the nearest supported option is prio"),
    ("job_max_open_zones", ZONED),
    ("ignore_zone_limits", ZONED),
    ("read_beyond_wp", ZONED),
    ("zone_reset_threshold", ZONED),
    ("zone_reset_frequency", ZONED),
    ("zonecapacity", "zoned block devices are not simulated; the nearest supported option is zonesize with zonemode=strided"),
    ("max_open_zones", ZONED),
    ("openfiles", "all files of a job are open all the time; leave it out"),
    ("opendir", "the nearest supported options are directory and nrfiles"),
    ("lockfile", "files are not locked here"),
    ("pre_read", "the nearest supported way is an earlier job with rw=read and stonewall behind it"),
    ("create_only", "files are always there"),
    ("trim_percentage", "the nearest supported option is rw=trimwrite"),
    ("serialize_overlap", "the nearest supported option is iodepth=1"),
    ("cgroup", "the nearest supported option is prio"),
    ("bs_is_seq_rand", "the nearest supported option is bssplit"),
    ("exec_prerun", "commands are not run"),
    ("exec_postrun", "commands are not run"),
    ("profile", "write the profile's jobs out"),
];

const ZONED: &str = "zoned block devices are not simulated";

/// The values of `verify`, and whether each enables it; all checksums cause the same reads.
pub(super) const CHECKSUMS: &[(&str, bool)] = &[
    ("0", false),
    ("md5", true),
    ("crc64", true),
    ("crc32", true),
    ("crc32c-intel", true),
    ("crc32c", true),
    ("crc16", true),
    ("crc7", true),
    ("sha1", true),
    ("sha256", true),
    ("sha512", true),
    ("sha3-224", true),
    ("sha3-256", true),
    ("sha3-384", true),
    ("sha3-512", true),
    ("xxhash", true),
    ("meta", true),
    ("pattern", true),
    ("null", true),
];

const ENGINES: &[(&str, Engine)] = &[
    ("psync", Engine::Sync),
    ("sync", Engine::Sync),
    ("vsync", Engine::Sync),
    ("pvsync", Engine::Sync),
    ("pvsync2", Engine::Sync),
    ("libaio", Engine::Libaio),
    ("io_uring", Engine::IoUring),
    ("posixaio", Engine::PosixAio),
    ("null", Engine::Null),
];

const PAST_THE_SCHEDULER: &str =
    "it passes commands to the drive past the I/O scheduler; the nearest engine is io_uring with direct=1";
const NETWORK: &str = "it uses a network, which is not simulated";
const OTHER_STORE: &str = "it uses a storage service or a library of its own, not a block device";
const METADATA: &str = "it only changes or reads the file system's metadata, which are not simulated";
const MEMORY: &str = "it uses memory, not a block device";
const NO_BLOCK: &str = "it does no I/O to a block device";

/// Engines of fio that are not simulated, by prefixes of their names; the longest match applies.
const OTHER_ENGINES: &[(&str, &str)] = &[
    ("sg", PAST_THE_SCHEDULER),
    ("io_uring_cmd", PAST_THE_SCHEDULER),
    ("libzbc", ZONED),
    ("xnvme", PAST_THE_SCHEDULER),
    ("libblkio", PAST_THE_SCHEDULER),
    ("mmap", "page faults on mapped files are not simulated; the nearest engine is psync"),
    ("splice", "pipes are not simulated; the nearest engine is psync"),
    ("copy_file_range", "copies inside the file system are not simulated; the nearest is rw=rw with psync"),
    ("solarisaio", "it is not an engine of Linux; the nearest is libaio"),
    ("windowsaio", "it is not an engine of Linux; the nearest is libaio"),
    ("net", NETWORK),
    ("netsplice", NETWORK),
    ("rdma", NETWORK),
    ("librpma", NETWORK),
    ("nbd", NETWORK),
    ("nfs", NETWORK),
    ("libiscsi", NETWORK),
    ("http", NETWORK),
    ("rados", OTHER_STORE),
    ("rbd", OTHER_STORE),
    ("gfapi", OTHER_STORE),
    ("libhdfs", OTHER_STORE),
    ("dfs", OTHER_STORE),
    ("ime_", OTHER_STORE),
    ("libcufile", "it moves data between files and a graphics processor; the nearest engine is psync with direct=1"),
    ("filecreate", METADATA),
    ("filestat", METADATA),
    ("filedelete", METADATA),
    ("falloc", METADATA),
    ("ftruncate", METADATA),
    ("e4defrag", METADATA),
    ("mtd", "raw flash chips are not simulated"),
    ("pmemblk", MEMORY),
    ("libpmem", MEMORY),
    ("dev-dax", MEMORY),
    ("cpuio", NO_BLOCK),
    ("exec", NO_BLOCK),
    ("cpp_null", "it is an example of an external engine; the nearest is null"),
    ("external", "the code of other engines cannot be run"),
];

/// Parses `zonemode`: whether it is `strided`.
pub(super) fn zone_mode(text: &str) -> Result<bool, Fault> {
    match text {
        "zbd" => Err(format!("`zbd` is not supported: {ZONED}; the nearest is strided")),
        _ => choice(text, &[("none", false), ("strided", true)]),
    }
}

/// Parses `ioengine`.
pub(super) fn engine(text: &str) -> Result<Engine, Fault> {
    let other = OTHER_ENGINES.iter().filter(|(name, _)| text.starts_with(name)).max_by_key(|(name, _)| name.len());
    match (ENGINES.iter().find(|(name, _)| *name == text), other) {
        (Some((_, engine)), _) => Ok(*engine),
        (None, Some((_, reason))) => Err(format!("`{text}` is not supported: {reason}")),
        (None, None) => choice(text, ENGINES),
    }
}
