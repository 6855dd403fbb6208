//! Runs the jobs of a workload as processes: their start order, and which of them continues next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use block::Nanos;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::flow::Flows;
use super::job::Job;
use super::options::ExitWhat;
use super::place::PlacedWorkload;
use super::plan::Target;
use super::process::{Ending, Next, Process};
use super::steady::Observed;
use crate::host::{Action, Call};
use crate::run::{Finished, Measure, Pilot, RunError, Server, Source, Watch};

/// The time in which a job ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start: the time of its first possible I/O.
    pub started: Nanos,
    /// Start of measurement: `ramp_time` after the start.
    pub measured_from: Nanos,
    /// End: the completion of its last I/O.
    pub ended: Nanos,
    /// The reason for its end.
    pub ending: Ending,
}

/// The result of a run of a workload.
#[derive(Clone, Debug)]
pub struct WorkloadRun {
    /// Response times and curves, excluding ramp times.
    pub measure: Measure,
    /// Time in which each job ran, in the order of [`PlacedWorkload::jobs`]; `None` if it did not run.
    pub spans: Vec<Option<Span>>,
}

/// Runs the jobs of `placed` against `server`: all of them, or `only` those with these indices, from the beginning and without the
/// others. `pilot`, if given, controls the server, if that is supported.
///
/// # Errors
/// It is interrupted through `watch`.
pub fn run(
    placed: &PlacedWorkload,
    server: &mut impl Server<Work = Call>,
    only: Option<&[usize]>,
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

/// Excludes the ramps. A request issued during the ramp and completed after it counts, but the ramp's time does not.
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
    /// It does not run.
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
    /// Processes that continue at a known time: time, sequence number, index. An entry is stale unless `turns` has its sequence
    /// number.
    ready: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    order: u64,
    /// Sequence number of each job's valid entry in `ready`; `None` if it has none.
    turns: Vec<Option<u64>>,
    /// For each job: files still to be dropped from the page cache before its first I/O.
    to_invalidate: Vec<&'a [Target]>,
    calls: u64,
    flows: Flows,
    /// Jobs whose share of a flow is used up, in order of waiting, and for each job whether it is among them.
    stalled: VecDeque<usize>,
    is_stalled: Vec<bool>,
    /// Jobs that have ended and may end others.
    exits: Vec<usize>,
    /// Whether a waiting job may have become ready since the last check.
    may_start: bool,
    observed: Vec<Observed>,
    /// Whether any job has `exitall`; it then applies to all, as in fio.
    exit_all: bool,
}

impl<'a> Processes<'a> {
    fn new(placed: &'a PlacedWorkload, only: Option<&[usize]>) -> Processes<'a> {
        let jobs = placed.jobs();
        let number = jobs.len();
        let runs = |index| only.is_none_or(|only| only.contains(&index));
        let mut processes = Processes {
            placed,
            states: (0..number).map(|index| if runs(index) { State::Waiting } else { State::Left }).collect(),
            ready: BinaryHeap::with_capacity(number),
            order: 0,
            turns: vec![None; number],
            to_invalidate: (0..number).map(|index| placed.to_invalidate(index)).collect(),
            calls: 0,
            flows: Flows::new(jobs, runs),
            stalled: VecDeque::with_capacity(number),
            is_stalled: vec![false; number],
            exits: Vec::with_capacity(number),
            may_start: true,
            observed: Observed::all(jobs),
            exit_all: jobs.iter().any(|job| job.options().together.exit_all),
        };
        processes.start_ready_jobs(Nanos::ZERO);
        processes
    }

    /// Starts the jobs whose conditions are met at `now`. A job without I/O ends immediately.
    fn start_ready_jobs(&mut self, now: Nanos) {
        while std::mem::take(&mut self.may_start)
            && let Some((index, at)) = self.next_start()
        {
            self.may_start = true;
            let (job, plan) = (&self.placed.jobs()[index], self.placed.plan(index));
            let at = at + plan.late + start_delay(job.options().together.start_delay, plan.seed);
            let process = Process::start(job, plan, self.placed.stream(index), at);
            self.states[index] = State::Running(Box::new(process), at, at + job.options().length.ramp);
            self.observed.iter_mut().for_each(|observed| observed.begin(index, at));
            // Its first I/O must count in its flow when it is issued, not earlier.
            if at > now && job.options().flow.weight > 0 {
                self.wake_at(index, at)
            } else {
                self.step(index, at)
            }
            self.settle(now);
        }
    }

    /// The first job that may start, and the time from which it may; `None` if there is none.
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
            // Phases are in order: if this one cannot begin, no later one can.
            let begun = earlier.map(done).try_fold(Nanos::ZERO, |latest, ended| Some(latest.max(ended?)))?;
            let named = (0..index).filter(|&other| Some(jobs[other].section_number()) == job.waits_for());
            if let Some(from) = named.map(done).try_fold(begun, |latest, ended| Some(latest.max(ended?))) {
                return Some((index, from));
            }
        }
        None
    }

    /// Determines the next step of a running process, and applies its consequences for others.
    fn advance_process(&mut self, index: usize, now: Nanos) {
        self.step(index, now);
        self.settle(now);
    }

    /// Applies the consequences of steps for other processes.
    fn settle(&mut self, now: Nanos) {
        loop {
            if let Some(done) = self.exits.pop() {
                self.exit(done, now);
            } else if self.flows.take_changed() {
                for _ in 0..self.stalled.len() {
                    let Some(index) = self.stalled.pop_front() else { break };
                    self.is_stalled[index] = false;
                    self.step(index, now);
                }
            } else {
                return;
            }
        }
    }

    /// Determines the next step of a running process.
    fn step(&mut self, index: usize, now: Nanos) {
        let State::Running(process, started, measured_from) = &mut self.states[index] else { return };
        self.turns[index] = None;
        match process.next(now, &mut self.flows) {
            Next::At(at) => self.wake_at(index, at),
            Next::Blocked => {}
            Next::Stalled(end) => {
                if !std::mem::replace(&mut self.is_stalled[index], true) {
                    self.stalled.push_back(index);
                }
                if let Some(end) = end {
                    self.wake_at(index, end);
                }
            }
            Next::Done(ended) => {
                let options = self.placed.jobs()[index].options();
                // It sleeps until its end, on which others may depend.
                if ended > now && (options.flow.weight > 0 || self.exit_all) {
                    return self.wake_at(index, ended);
                }
                let ending = process.ending();
                let span = Span { started: *started, measured_from: *measured_from, ended, ending };
                self.states[index] = State::Done(span);
                self.flows.leave(index);
                self.may_start = true;
                if self.exit_all || options.together.exit_all_on_error && ending == Ending::TooSlow {
                    self.exits.push(index);
                }
            }
        }
    }

    fn wake_at(&mut self, index: usize, at: Nanos) {
        self.order += 1;
        self.turns[index] = Some(self.order);
        self.ready.push(Reverse((at, self.order, index)));
    }

    /// Ends other jobs when one has ended, as its `exit_what` requires.
    fn exit(&mut self, done: usize, now: Nanos) {
        let jobs = self.placed.jobs();
        let what = jobs[done].options().together.exit_what;
        for (index, job) in jobs.iter().enumerate() {
            let meant = match what {
                ExitWhat::All => true,
                ExitWhat::Group => job.group() == jobs[done].group(),
                ExitWhat::Running => self.runs(index, now),
            };
            if meant {
                self.end(index, now, Ending::Exit);
            }
        }
    }

    /// Whether a job has started by `now`, and not ended.
    fn runs(&self, index: usize, now: Nanos) -> bool {
        matches!(self.states[index], State::Running(_, started, _) if started <= now)
    }

    /// Ends a job, or prevents its start.
    fn end(&mut self, index: usize, now: Nanos, ending: Ending) {
        if self.runs(index, now) {
            if let State::Running(process, ..) = &mut self.states[index] {
                process.end(now, ending);
            }
            self.step(index, now);
        } else if let State::Waiting | State::Running(..) = self.states[index] {
            self.states[index] = State::Left;
            self.turns[index] = None;
            self.flows.leave(index);
            self.may_start = true;
        }
    }

    /// Observes the jobs with `steadystate` and ends those that are steady.
    fn observe(&mut self, now: Nanos) {
        for number in 0..self.observed.len() {
            let observed = &mut self.observed[number];
            let states = &self.states;
            let process = |job: usize| match &states[job] {
                State::Running(process, ..) => Some(process.as_ref()),
                _ => None,
            };
            if observed.next().is_none_or(|at| at > now) || !observed.is_steady(now, process) {
                continue;
            }
            let jobs: Vec<usize> = observed.jobs().collect();
            for job in jobs {
                self.end(job, now, Ending::Steady);
            }
            self.settle(now);
        }
    }

    /// The next process to continue, and when; `None` if all wait.
    fn next_turn(&mut self) -> Option<(Nanos, usize)> {
        while let Some(&Reverse((at, order, index))) = self.ready.peek() {
            if self.turns[index] == Some(order) {
                return Some((at, index));
            }
            self.ready.pop();
        }
        None
    }

    fn next_observation(&self) -> Option<Nanos> {
        self.observed.iter().filter_map(Observed::next).min()
    }
}

/// Draws a delay from a range.
fn start_delay((least, most): (Nanos, Nanos), seed: u64) -> Nanos {
    Nanos(Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xde_1a_f5).random_range(least.0..=most.0))
}

impl Source for &mut Processes<'_> {
    type Work = Call;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        let look = self.next_observation();
        Ok(self.next_turn().map(|(at, _)| at).into_iter().chain(look).min())
    }

    fn take(&mut self, now: Nanos) -> Result<Option<Call>, RunError> {
        if self.next_observation().is_some_and(|at| at <= now) {
            self.observe(now);
            self.start_ready_jobs(now);
        }
        while let Some((at, index)) = self.next_turn()
            && at <= now
        {
            let job = &self.placed.jobs()[index];
            if let Some((&Target { file, start, bytes, .. }, rest)) = self.to_invalidate[index].split_first() {
                self.to_invalidate[index] = rest;
                return Ok(Some(advice(job, now, Action::Invalidate { file, offset: start, bytes })));
            }
            self.ready.pop();
            self.turns[index] = None;
            let State::Running(process, ..) = &mut self.states[index] else { continue };
            let action = process.go(now);
            let priority = action.map(|action| process.priority(&action));
            self.advance_process(index, now);
            self.start_ready_jobs(now);
            match action.zip(priority) {
                Some((action @ Action::Invalidate { .. }, _)) => return Ok(Some(advice(job, now, action))),
                Some((action, priority)) => {
                    self.calls += 1;
                    let token = self.calls - 1;
                    let (stream, advice) = (job.stream(), job.options().advice());
                    return Ok(Some(Call { arrival: now, stream, priority, token, advice, action }));
                }
                None => {}
            }
        }
        Ok(None)
    }

    fn completed(&mut self, finished: &Finished) {
        let index = finished.stream() as usize;
        let Some(State::Running(process, ..)) = self.states.get_mut(index) else { return };
        process.completed(finished);
        if self.turns[index].is_none() {
            self.advance_process(index, finished.at());
            self.start_ready_jobs(finished.at());
        }
    }

    fn is_measured(&self, finished: &Finished) -> bool {
        match self.states.get(finished.stream() as usize) {
            Some(State::Running(process, ..)) => process.is_measured(finished.at()),
            _ => true,
        }
    }
}

/// A call that gives advice to the kernel; it has no completion.
fn advice(job: &Job, now: Nanos, action: Action) -> Call {
    let (stream, priority, advice) = (job.stream(), job.priority(), job.options().advice());
    Call { arrival: now, stream, priority, token: u64::MAX, advice, action }
}
