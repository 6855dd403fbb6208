//! The thread that talks to the server, and its non-blocking interface.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use block::Nanos;

use super::{Exchange, Job, Reply};

/// Delay of the first exchange; short, so that outcomes of other machines are available early. Choice: a shorter one comes before the
/// devices are known; not varied.
const FIRST: Nanos = Nanos(5_000_000_000);

/// Timeout of an exchange: longer than the server's statement timeout, and than the delivery of a month's outcomes. Choice: six times the
/// statement timeout of 600 s (`knowledge::server`); not varied.
const STALLED: Nanos = Nanos(3_600_000_000_000);

/// Passes jobs to a thread and receives its replies, without blocking.
pub struct FleetLink {
    jobs: Sender<Job>,
    replies: Receiver<Reply>,
    exchange: Exchange,
    /// Start of the running job; `None` if the thread is idle.
    busy_since: Option<Nanos>,
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
        let (jobs, replies) = FleetLink::thread(exchange.clone())?;
        Ok(FleetLink { jobs, replies, exchange, busy_since: None, interval, next: now + FIRST, trouble: None })
    }

    fn thread(exchange: Exchange) -> std::io::Result<(Sender<Job>, Receiver<Reply>)> {
        let (jobs, of_daemon) = channel::<Job>();
        let (to_daemon, replies) = channel();
        thread::Builder::new().name("fleet".to_owned()).spawn(move || {
            // Ends when the daemon drops its end of the channel.
            while let Ok(job) = of_daemon.recv() {
                if to_daemon.send(exchange.run(&job)).is_err() {
                    break;
                }
            }
        })?;
        Ok((jobs, replies))
    }

    /// Whether a job is due and the thread is idle. A thread that is stalled on an unresponsive server is abandoned and replaced; delivery is
    /// idempotent, so its late completion is harmless.
    pub fn is_due(&mut self, now: Nanos) -> bool {
        let is_stalled = self.busy_since.is_some_and(|since| now > since + STALLED);
        if is_stalled && let Ok((jobs, replies)) = FleetLink::thread(self.exchange.clone()) {
            (self.jobs, self.replies, self.busy_since) = (jobs, replies, None);
        }
        self.busy_since.is_none() && now >= self.next
    }

    /// Submits a job.
    pub fn ask(&mut self, now: Nanos, job: Job) {
        self.next = now + self.interval;
        self.busy_since = self.jobs.send(job).is_ok().then_some(now);
    }

    /// The reply of the last job; `None` while it is running.
    pub fn reply(&mut self) -> Option<Reply> {
        let reply = self.replies.try_recv().ok()?;
        self.busy_since = None;
        Some(reply)
    }
}
