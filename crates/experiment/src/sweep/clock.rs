//! Where the time of a sweep's threads goes. In processor time, since on a machine that does other work a thread is often ready and not run,
//! which says nothing about the sweep; a thread that waits for a file, for a lock or for others to end is counted by the wall clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Processor time of the calling thread.
fn processor() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// A stretch of the calling thread's work.
pub struct Stretch {
    began: Instant,
    processor: Duration,
}

impl Stretch {
    /// Begins now.
    pub fn begin() -> Stretch {
        Stretch { began: Instant::now(), processor: processor() }
    }

    /// Processor time since then.
    pub fn worked(&self) -> Duration {
        processor().saturating_sub(self.processor)
    }

    /// Time since then in which the thread did not run.
    pub fn waited(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.worked())
    }
}

/// A sum that threads add to.
#[derive(Default)]
pub struct Sum(AtomicU64);

impl Sum {
    /// Adds.
    pub fn add(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// In seconds.
    pub fn seconds(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / 1e9
    }
}
