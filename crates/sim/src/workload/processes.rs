//! Runs all jobs of a workload as processes: start order and turns.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::Nanos;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::place::{PlacedWorkload, Target};
use super::process::{Next, Process};
use crate::host::{Action, Call};
use crate::run::{Finished, Measure, Pilot, RunError, Server, Source, Watch};

/// When a job ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it could issue its first I/O.
    pub started: Nanos,
    /// When measuring begins: `ramp_time` later.
    pub measured_from: Nanos,
    /// When its last I/O completed.
    pub ended: Nanos,
}

/// The result of a run of a workload.
#[derive(Clone, Debug)]
pub struct WorkloadRun {
    /// Response times and curves, without jobs' ramp times.
    pub measure: Measure,
    /// When each job ran, in the order of [`PlacedWorkload::jobs`]; `None` if it did not run.
    pub spans: Vec<Option<Span>>,
}

/// Runs all jobs of `placed` against `server`, or `only` one of them, alone and from the beginning, for its service without the
/// others. `pilot`, if given, steers the server, if that can be steered.
///
/// # Errors
/// If it is interrupted through `watch`.
pub fn run(
    placed: &PlacedWorkload,
    server: &mut impl Server<Work = Call>,
    only: Option<usize>,
    measure: Measure,
    watch: &Watch,
    pilot: Option<&mut dyn Pilot>,
) -> Result<WorkloadRun, RunError> {
    let mut processes = Processes::new(placed, only);
    let mut measure = crate::run::run(&mut processes, server, measure, watch, pilot)?;
    let spans: Vec<Option<Span>> = processes.states.iter().map(State::span).collect();
    leave_out_ramps(placed, &spans, &mut measure);
    Ok(WorkloadRun { measure, spans })
}

/// A request that was issued during the ramp and done after it is counted, but the time of the ramp is not: what it did then is not
/// counted either.
fn leave_out_ramps(placed: &PlacedWorkload, spans: &[Option<Span>], measure: &mut Measure) {
    for (job, span) in placed.jobs().iter().zip(spans) {
        if let Some(span) = span {
            measure.begin_stream(job.stream(), span.measured_from);
        }
    }
    if let Some(first) = spans.iter().flatten().map(|span| span.measured_from).min() {
        measure.begin(first);
    }
}

enum State {
    /// It will not run.
    Left,
    Waiting,
    Running(Box<Process>, Nanos, Nanos),
    Done(Span),
}

impl State {
    fn span(&self) -> Option<Span> {
        match self {
            State::Done(span) => Some(*span),
            _ => None,
        }
    }
}

struct Processes<'a> {
    placed: &'a PlacedWorkload,
    /// State of each job.
    states: Vec<State>,
    /// Processes that continue at a known time: the time, the order in which they asked, the process.
    ready: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    order: u64,
    /// Whether each job is in `ready`.
    is_ready: Vec<bool>,
    /// Each job's files still to be dropped from the page cache before it begins.
    to_invalidate: Vec<&'a [Target]>,
    calls: u64,
}

impl<'a> Processes<'a> {
    fn new(placed: &'a PlacedWorkload, only: Option<usize>) -> Processes<'a> {
        let number = placed.jobs().len();
        let state = |index| if only.is_none_or(|only| only == index) { State::Waiting } else { State::Left };
        let mut processes = Processes {
            placed,
            states: (0..number).map(state).collect(),
            ready: BinaryHeap::with_capacity(number),
            order: 0,
            is_ready: vec![false; number],
            to_invalidate: (0..number).map(|index| placed.to_invalidate(index)).collect(),
            calls: 0,
        };
        processes.start_those_that_may();
        processes
    }

    /// Starts the jobs that no longer have to wait. A job may be done at once if its files are empty.
    fn start_those_that_may(&mut self) {
        while let Some((index, at)) = self.next_start() {
            let (job, plan) = (&self.placed.jobs()[index], self.placed.plan(index));
            let at = at + start_delay(job.options().start_delay, plan.seed);
            let process = Process::start(job, plan, self.placed.stream(index), at);
            self.states[index] = State::Running(Box::new(process), at, at + job.options().ramp);
            self.go_on(index, at);
        }
    }

    /// The first job that may start, and when.
    fn next_start(&self) -> Option<(usize, Nanos)> {
        let jobs = self.placed.jobs();
        let done = |index: usize| match &self.states[index] {
            State::Left => Some(Nanos::ZERO),
            State::Done(span) => Some(span.ended),
            State::Waiting | State::Running(..) => None,
        };
        for index in (0..jobs.len()).filter(|&index| matches!(self.states[index], State::Waiting)) {
            let job = &jobs[index];
            let earlier = (0..index).take_while(|&other| jobs[other].phase() < job.phase());
            // Phases are in order: if this one has not begun, no later one has.
            let begun = earlier.map(done).try_fold(Nanos::ZERO, |latest, ended| Some(latest.max(ended?)))?;
            let named = (0..index).filter(|&other| Some(jobs[other].section_number()) == job.waits_for());
            if let Some(from) = named.map(done).try_fold(begun, |latest, ended| Some(latest.max(ended?))) {
                return Some((index, from));
            }
        }
        None
    }

    /// Determines a running process's next step. True if it is done.
    fn go_on(&mut self, index: usize, now: Nanos) -> bool {
        let State::Running(process, started, measured_from) = &mut self.states[index] else { return false };
        match process.next(now) {
            Next::At(at) => {
                self.is_ready[index] = true;
                self.order += 1;
                self.ready.push(Reverse((at, self.order, index)));
                false
            }
            Next::Blocked => false,
            Next::Done(ended) => {
                self.states[index] = State::Done(Span { started: *started, measured_from: *measured_from, ended });
                true
            }
        }
    }
}

/// Draws one from a range.
fn start_delay((least, most): (Nanos, Nanos), seed: u64) -> Nanos {
    Nanos(Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xde_1a_f5).random_range(least.0..=most.0))
}

impl Source for &mut Processes<'_> {
    type Work = Call;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        Ok(self.ready.peek().map(|Reverse((at, ..))| *at))
    }

    fn take(&mut self, now: Nanos) -> Result<Option<Call>, RunError> {
        while let Some(&Reverse((at, _, index))) = self.ready.peek()
            && at <= now
        {
            if let Some((&Target { file, start, bytes }, rest)) = self.to_invalidate[index].split_first() {
                self.to_invalidate[index] = rest;
                let job = &self.placed.jobs()[index];
                let action = Action::Invalidate { file, offset: start, bytes };
                // Nothing comes back by the token.
                return Ok(Some(Call { arrival: now, stream: job.stream(), priority: job.priority(), token: u64::MAX, action }));
            }
            self.ready.pop();
            self.is_ready[index] = false;
            let State::Running(process, ..) = &mut self.states[index] else { continue };
            let action = process.go();
            if self.go_on(index, now) {
                self.start_those_that_may();
            }
            if let Some(action) = action {
                let job = &self.placed.jobs()[index];
                self.calls += 1;
                return Ok(Some(Call {
                    arrival: now,
                    stream: job.stream(),
                    priority: job.priority(),
                    token: self.calls - 1,
                    action,
                }));
            }
        }
        Ok(None)
    }

    fn completed(&mut self, finished: &Finished) {
        let index = finished.stream() as usize;
        let Some(State::Running(process, ..)) = self.states.get_mut(index) else { return };
        process.completed(finished.arrival(), finished.at());
        if !self.is_ready[index] && self.go_on(index, finished.at()) {
            self.start_those_that_may();
        }
    }

    fn is_measured(&self, finished: &Finished) -> bool {
        match self.states.get(finished.stream() as usize) {
            Some(State::Running(process, ..)) => process.is_measured(finished.at()),
            _ => true,
        }
    }
}
