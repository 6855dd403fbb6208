//! `steadystate`: ends jobs once their throughput is steady (fio's steadystate.c).

use std::collections::VecDeque;

use block::Nanos;

use super::job::Job;
use super::options::Steady;
use super::process::Process;

const SECOND: Nanos = Nanos::from_millis(1000);

/// Jobs whose throughput is observed together: those of a reporting group, or a single one.
pub(super) struct Observed {
    members: Vec<Member>,
    rule: Steady,
    /// Length of the window in samples, one per second.
    length: usize,
    ramp: Nanos,
    window: VecDeque<f64>,
    /// Time of the next observation; `None` before the first and after the last one.
    next: Option<Nanos>,
}

struct Member {
    job: usize,
    started: Option<Nanos>,
    /// Its bytes or I/Os done at the last observation.
    before: u64,
}

impl Observed {
    /// All groups with `steadystate` among `jobs`.
    pub(super) fn all(jobs: &[Job]) -> Vec<Observed> {
        let mut all: Vec<(Option<u32>, Observed)> = Vec::new();
        for (job, options) in jobs.iter().map(Job::options).enumerate() {
            let Some(rule) = options.steady.rule.filter(|_| options.steady.seconds > 0) else { continue };
            let group = options.together.group_reporting.then_some(jobs[job].group());
            let member = Member { job, started: None, before: 0 };
            if let Some((_, observed)) = all.iter_mut().find(|(other, _)| group.is_some() && *other == group) {
                observed.members.push(member);
                continue;
            }
            let length = options.steady.seconds as usize;
            let window = VecDeque::with_capacity(length);
            all.push((group, Observed { members: vec![member], rule, length, ramp: options.steady.ramp, window, next: None }));
        }
        all.into_iter().map(|(_, observed)| observed).collect()
    }

    /// Time of the next observation; `None` if there is none.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.next
    }

    /// Starts observing a job at `now`.
    pub(super) fn begin(&mut self, job: usize, now: Nanos) {
        if let Some(member) = self.members.iter_mut().find(|member| member.job == job) {
            member.started = Some(now);
            self.next.get_or_insert(now + SECOND);
        }
    }

    /// Observes the jobs at `now`; `process` returns the running ones. Returns whether they are steady, which ends the observation.
    pub(super) fn is_steady<'a>(&mut self, now: Nanos, process: impl Fn(usize) -> Option<&'a Process>) -> bool {
        let (mut sum, mut running, mut counts) = (0, false, false);
        for member in &mut self.members {
            let Some((process, started)) = process(member.job).zip(member.started) else { continue };
            running = true;
            let done = process.done(self.rule.bandwidth);
            // Samples begin a second after the ramp.
            if self.ramp == Nanos::ZERO || now >= started + self.ramp + SECOND {
                sum += done - member.before;
                counts = true;
            }
            member.before = done;
        }
        self.next = running.then_some(now + SECOND);
        if counts {
            if self.window.len() == self.length {
                self.window.pop_front();
            }
            self.window.push_back(sum as f64);
        }
        let steady = counts && self.window.len() == self.length && self.criterion() < self.rule.limit;
        if steady {
            self.next = None;
        }
        steady
    }

    /// Indices of the jobs.
    pub(super) fn jobs(&self) -> impl Iterator<Item = usize> {
        self.members.iter().map(|member| member.job)
    }

    /// The slope or deviation to compare with the limit.
    fn criterion(&self) -> f64 {
        let n = self.window.len() as f64;
        let mean = self.window.iter().sum::<f64>() / n;
        let value = if self.rule.slope {
            let middle = (n - 1.0) / 2.0;
            let (mut products, mut squares) = (0.0, 0.0);
            for (x, y) in self.window.iter().enumerate() {
                products += (x as f64 - middle) * y;
                squares += (x as f64 - middle).powi(2);
            }
            (products / squares).abs()
        } else {
            self.window.iter().map(|y| (y - mean).abs()).fold(0.0, f64::max)
        };
        if self.rule.percent { 100.0 * value / mean } else { value }
    }
}
