//! The thread that talks to the server.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use block::Nanos;

use super::{Exchange, Job, Reply};

/// Scores that wait for a server at most: a day of one device.
const MAX_SCORES: usize = 1_000;
/// The first exchange comes this soon, so that what others know serves from the beginning.
const FIRST: Nanos = Nanos(5_000_000_000);

/// Hands jobs to a thread, and takes its replies, without ever waiting.
pub struct FleetLink {
    jobs: Sender<Job>,
    replies: Receiver<Reply>,
    is_busy: bool,
    interval: Nanos,
    next: Nanos,
    /// What failed last, so that it is said once.
    pub trouble: Option<String>,
}

impl FleetLink {
    /// Starts the thread.
    ///
    /// # Errors
    /// There cannot be one.
    pub fn start(exchange: Exchange, now: Nanos) -> std::io::Result<FleetLink> {
        let interval = Nanos::from_secs_f64(60.0 * f64::from(exchange.settings.exchange_minutes));
        let (jobs, of_daemon) = channel::<Job>();
        let (to_daemon, replies) = channel();
        thread::Builder::new().name("fleet".to_owned()).spawn(move || {
            let mut scores = Vec::new();
            // Ends with the daemon, which drops its end.
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

    /// Whether a job is due and can be taken.
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.is_busy && now >= self.next
    }

    /// Begins a job.
    pub fn ask(&mut self, now: Nanos, job: Job) {
        self.next = now + self.interval;
        self.is_busy = self.jobs.send(job).is_ok();
    }

    /// The reply, once it is there.
    pub fn reply(&mut self) -> Option<Reply> {
        let reply = self.replies.try_recv().ok()?;
        self.is_busy = false;
        Some(reply)
    }
}
