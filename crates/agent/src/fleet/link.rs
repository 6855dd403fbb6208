//! The thread that talks to the server, and its non-blocking interface.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use block::Nanos;

use super::{Exchange, Job, Reply};

/// Maximum scores queued for delivery: a day of one device.
const MAX_SCORES: usize = 1_000;
/// Delay of the first exchange; short, so that outcomes of other machines are available early.
const FIRST: Nanos = Nanos(5_000_000_000);

/// Passes jobs to a thread and receives its replies, without blocking.
pub struct FleetLink {
    jobs: Sender<Job>,
    replies: Receiver<Reply>,
    is_busy: bool,
    interval: Nanos,
    next: Nanos,
    /// Last error, so that each is logged once.
    pub trouble: Option<String>,
}

impl FleetLink {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(exchange: Exchange, now: Nanos) -> std::io::Result<FleetLink> {
        let interval = Nanos::from_secs_f64(60.0 * f64::from(exchange.settings.exchange_minutes));
        let (jobs, of_daemon) = channel::<Job>();
        let (to_daemon, replies) = channel();
        thread::Builder::new().name("fleet".to_owned()).spawn(move || {
            let mut scores = Vec::new();
            // Ends when the daemon drops its end of the channel.
            while let Ok(job) = of_daemon.recv() {
                let reply = exchange.run(&job, &mut scores);
                let excess = scores.len().saturating_sub(MAX_SCORES);
                scores.drain(..excess);
                if to_daemon.send(reply).is_err() {
                    break;
                }
            }
        })?;
        Ok(FleetLink { jobs, replies, is_busy: false, interval, next: now + FIRST, trouble: None })
    }

    /// Whether a job is due and the thread is idle.
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.is_busy && now >= self.next
    }

    /// Submits a job.
    pub fn ask(&mut self, now: Nanos, job: Job) {
        self.next = now + self.interval;
        self.is_busy = self.jobs.send(job).is_ok();
    }

    /// The reply of the last job; `None` while it is running.
    pub fn reply(&mut self) -> Option<Reply> {
        let reply = self.replies.try_recv().ok()?;
        self.is_busy = false;
        Some(reply)
    }
}
