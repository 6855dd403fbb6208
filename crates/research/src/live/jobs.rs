//! What fio is given on a real device.

use control::search::ioperf::Pattern;

/// Seconds of each run before what is measured, in which queues and the disk's own cache fill.
const RAMP_S: f64 = 0.5;
/// A process has so much of the device to itself, at most: as in the simulator.
const PART_BYTES: u64 = 1 << 30;
/// Parts are whole multiples of this.
const MEBIBYTE: u64 = 1 << 20;

/// A run of fio on a device.
#[derive(Clone, Debug)]
pub struct FioRun {
    /// The job file.
    pub text: String,
    /// How long it takes, in seconds.
    pub lasts_s: f64,
    /// The size of each call, where all are of one size and past the page cache.
    pub call_bytes: Option<u64>,
}

/// Jobs that run on the device itself, without a file system.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// Sections with what they do, without where and how long.
    pub sections: String,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Of fio's random numbers.
    pub seed: u64,
    /// How much of the device each process has, one after the other.
    pub part_bytes: u64,
    /// The size of each call, where all are of one size and past the page cache.
    pub call_bytes: Option<u64>,
    /// Whether each process logs its throughput, second by second.
    pub logs: bool,
}

impl Jobs {
    /// A pattern drawn as in Table 1 of the paper of `IOPerf`, past the page cache: on a machine with other memory than the paper's, it is the
    /// memory that would be measured.
    pub fn of_pattern(pattern: &Pattern, size_bytes: u64, seconds: f64) -> Jobs {
        let Pattern { processes, read_percent, random_percent, request_kib } = pattern;
        let sections = format!(
            "[mix]\ndirect=1\nrw=randrw\nrwmixread={read_percent}\npercentage_random={random_percent}\nbs={}k\nnumjobs={processes}\n",
            request_kib.max(&1)
        );
        let (part_bytes, call_bytes) = (part(size_bytes, u64::from(*processes)), Some(1024 * u64::from(*request_kib.max(&1))));
        Jobs { sections, seconds, seed: 1, part_bytes, call_bytes, logs: false }
    }

    /// The same, for longer or shorter.
    pub fn lasting(&self, seconds: f64) -> Jobs {
        Jobs { seconds, ..self.clone() }
    }

    /// On the device with this path.
    pub fn on(&self, path: &str) -> FioRun {
        FioRun { text: self.text(path), lasts_s: self.lasts_s(), call_bytes: self.call_bytes }
    }

    /// How long a run takes.
    pub fn lasts_s(&self) -> f64 {
        self.seconds + RAMP_S
    }

    /// The job file. Processes are fio's threads: they end with it, whoever ends it.
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

/// How much each of this many processes has.
pub fn part(size_bytes: u64, processes: u64) -> u64 {
    PART_BYTES.min(size_bytes / processes.max(1) / MEBIBYTE * MEBIBYTE)
}
