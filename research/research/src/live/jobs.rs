//! Jobs for fio on a real device.

use control::search::ioperf::Pattern;

/// Warm-up in seconds before the measurement of each run, in which queues and the disk's own cache fill.
const RAMP_S: f64 = 0.5;
/// Maximum device space of a process, as in the simulator.
const PART_BYTES: u64 = 1 << 30;
/// Alignment of the processes' spaces.
const MEBIBYTE: u64 = 1 << 20;

/// A run of fio on a device.
#[derive(Clone, Debug)]
pub struct FioRun {
    /// The job file.
    pub text: String,
    /// Duration in seconds.
    pub lasts_s: f64,
    /// The size of calls if all are direct and of the same size.
    pub call_bytes: Option<u64>,
}

/// Jobs that run on the device itself, without a file system.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// Sections of the job file, without location and duration.
    pub sections: String,
    /// Measured seconds.
    pub seconds: f64,
    /// Seed of fio's random numbers.
    pub seed: u64,
    /// Device space per process; these are contiguous.
    pub part_bytes: u64,
    /// The size of calls if all are direct and of the same size.
    pub call_bytes: Option<u64>,
    /// Whether each process logs its throughput once per second.
    pub logs: bool,
}

impl Jobs {
    /// A random pattern as in Table 1 of the paper of `IOPerf`, with direct I/O: otherwise the results would depend on this machine's memory,
    /// which differs from the paper's.
    pub fn of_pattern(pattern: &Pattern, size_bytes: u64, seconds: f64) -> Jobs {
        let Pattern { processes, read_percent, random_percent, request_kib } = pattern;
        let sections = format!(
            "[mix]\ndirect=1\nrw=randrw\nrwmixread={read_percent}\npercentage_random={random_percent}\nbs={}k\nnumjobs={processes}\n",
            request_kib.max(&1)
        );
        let (part_bytes, call_bytes) = (part(size_bytes, u64::from(*processes)), Some(1024 * u64::from(*request_kib.max(&1))));
        Jobs { sections, seconds, seed: 1, part_bytes, call_bytes, logs: false }
    }

    /// The same jobs with another measured duration.
    pub fn lasting(&self, seconds: f64) -> Jobs {
        Jobs { seconds, ..self.clone() }
    }

    /// A run on the device with this path.
    pub fn on(&self, path: &str) -> FioRun {
        FioRun { text: self.text(path), lasts_s: self.lasts_s(), call_bytes: self.call_bytes }
    }

    /// Duration of a run in seconds.
    pub fn lasts_s(&self) -> f64 {
        self.seconds + RAMP_S
    }

    /// The job file. Processes run as threads of fio, so that they end with fio however it is terminated.
    pub fn text(&self, path: &str) -> String {
        let us = |seconds: f64| format!("{}us", (1e6 * seconds).round());
        let logs = if self.logs { "write_bw_log=run\nlog_avg_msec=1000\n" } else { "" };
        format!(
            "[global]\nfilename={path}\nthread\nioengine=psync\nfadvise_hint=0\nsize={part}\noffset_increment={part}\ntime_based\nruntime={}\n\
             ramp_time={}\ngroup_reporting\nnorandommap\nrandrepeat=1\nrandseed={}\n\
             lat_percentiles=1\nclat_percentiles=0\n{logs}{}",
            us(self.seconds),
            us(RAMP_S),
            self.seed,
            self.sections,
            part = self.part_bytes,
        )
    }
}

/// Device space of each of this many processes.
pub fn part(size_bytes: u64, processes: u64) -> u64 {
    PART_BYTES.min(size_bytes / processes.max(1) / MEBIBYTE * MEBIBYTE)
}
