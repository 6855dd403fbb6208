//! Accounting of a sweep's thread time. Work is measured in processor time: on a busy machine a thread is often runnable but not running,
//! which says nothing about the sweep. Waiting for a file, a lock or other threads is measured by the wall clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Processor time used by the calling thread.
fn processor() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// A timed interval of the calling thread.
pub struct Stretch {
    began: Instant,
    processor: Duration,
}

impl Stretch {
    /// Starts an interval now.
    pub fn begin() -> Stretch {
        Stretch { began: Instant::now(), processor: processor() }
    }

    /// Processor time since the start.
    pub fn worked(&self) -> Duration {
        processor().saturating_sub(self.processor)
    }

    /// Time since the start in which the thread did not run.
    pub fn waited(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.worked())
    }
}

/// A sum of durations shared by threads.
#[derive(Default)]
pub struct Sum(AtomicU64);

impl Sum {
    /// Adds a duration.
    pub fn add(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The sum in seconds.
    pub fn seconds(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / 1e9
    }
}
