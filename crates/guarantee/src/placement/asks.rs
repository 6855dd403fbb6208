//! Workloads of volumes and their generator: the request source of runs with several arrays.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use block::{Nanos, Priority, StreamId};
use sim::run::{Finished, Issue, RunError, Source};
use sim::store::VolumeIssue;
use sim::streams::COPY;
use testbed::chance;
use testbed::synthetic::{Arrival, Draw, Pattern, Phase};

/// The workload of a volume.
#[derive(Clone, Debug)]
pub enum Asks {
    /// Random requests, in phases that are repeated in a cycle.
    Drawn {
        /// At least one, each of positive length.
        phases: Vec<Phase>,
        /// Whether the requests are synchronous; otherwise writes are buffered.
        is_sync: bool,
    },
    /// Recorded requests at their recorded times, repeated in a cycle.
    Recorded {
        /// In order of arrival; sectors are relative to the start of the volume.
        issues: Arc<[Issue]>,
        /// Period of the cycle; longer than the last arrival.
        lasts: Nanos,
    },
}

/// Budget of a run: a request costs 1, plus 1 for every 16 KiB of its size. A flash drive serves many requests a second; this
/// amount is simulated in a few seconds.
pub const EXTENT: u64 = 1_000_000;
const PAGE_SECTORS: u64 = 32;

/// Length of a run: it ends at the first of both bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLength {
    /// Time at which the workloads end.
    pub until: Nanos,
    /// Budget in requests, of which a large one counts as several (see [`EXTENT`]).
    pub requests: u64,
}

impl From<Nanos> for RunLength {
    /// Until this time, with the default budget.
    fn from(until: Nanos) -> RunLength {
        RunLength { until, requests: EXTENT }
    }
}

/// A time beyond the end of any run.
pub const FOR_EVER: Nanos = Nanos::from_millis(1 << 40);

impl Asks {
    /// One pattern all the time, with this many requests outstanding.
    pub fn always(outstanding: u32, pattern: Pattern) -> Asks {
        let phase = Phase { until: FOR_EVER, arrival: Arrival::Outstanding(outstanding), pattern };
        Asks::Drawn { phases: vec![phase], is_sync: true }
    }
}

/// The workload generator's view of a volume.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The volume's number, which is also the stream of its requests.
    pub volume: usize,
    /// Sectors of the volume.
    pub sectors: u64,
    /// The workload.
    pub asks: Asks,
}

/// A scheduled event. Events at the same time are processed in the order in which they were scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanos,
    number: u64,
    player: usize,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// A request that follows a completed one.
    Done,
    /// A request of an open arrival process, in this phase of the round that began at this time.
    Clock { phase: usize, round: Nanos },
    /// The start of a phase, in the round that began at this time.
    Phase { phase: usize, round: Nanos },
    /// The recorded request of this number, in the round that began at this time.
    Recorded { issue: usize, round: Nanos },
}

struct Player {
    asker: Asker,
    draw: Draw,
    outstanding: u32,
}

/// The request source: the workloads of volumes until a time.
pub struct Askers<'a> {
    players: Vec<Player>,
    by_volume: Vec<Option<usize>>,
    due: BinaryHeap<Reverse<Due>>,
    numbers: u64,
    issued: u64,
    /// The remaining budget (see [`EXTENT`]).
    left: u64,
    /// No requests are issued from this time on.
    until: &'a Cell<Nanos>,
    /// Steps of the copier that remain, and the time for which the run continues after the last.
    copying: Option<(u64, Nanos)>,
}

impl<'a> Askers<'a> {
    /// Starts all workloads at time 0. The random numbers of a volume depend only on its number and `seed`.
    pub fn new(askers: impl IntoIterator<Item = Asker>, seed: u64, until: &'a Cell<Nanos>) -> Askers<'a> {
        let draw = |asker: &Asker| Draw::new(0..asker.sectors, chance::source("volume", seed, asker.volume as u32));
        let players: Vec<Player> = askers.into_iter().map(|asker| Player { draw: draw(&asker), asker, outstanding: 0 }).collect();
        let volumes = players.iter().map(|player| player.asker.volume + 1).max().unwrap_or(0);
        let mut by_volume = vec![None; volumes];
        players.iter().enumerate().for_each(|(number, player)| by_volume[player.asker.volume] = Some(number));
        let mut all =
            Askers { players, by_volume, due: BinaryHeap::new(), numbers: 0, issued: 0, left: EXTENT, until, copying: None };
        for player in 0..all.players.len() {
            let round = Nanos::ZERO;
            match &all.players[player].asker.asks {
                Asks::Drawn { .. } => all.note(round, player, Cause::Phase { phase: 0, round }),
                Asks::Recorded { issues, .. } => {
                    if let Some(first) = issues.first().map(|issue| issue.arrival) {
                        all.note(first, player, Cause::Recorded { issue: 0, round });
                    }
                }
            }
        }
        all
    }

    /// Replaces the budget of the run, in requests (see [`EXTENT`]).
    #[must_use]
    pub fn within(self, requests: u64) -> Askers<'a> {
        Askers { left: requests, ..self }
    }

    /// Ends the run `after` this time from the completion of the given number of the copier's steps.
    pub fn until_copied(self, steps: u64, after: Nanos) -> Askers<'a> {
        Askers { copying: Some((steps, after)), ..self }
    }

    /// Charges a request to the budget, and ends the run when the budget is used up.
    fn count(&mut self, now: Nanos, sectors: u32) {
        self.left = self.left.saturating_sub(1 + u64::from(sectors) / PAGE_SECTORS);
        // While volumes are copied, the copier determines the end.
        if self.left == 0 && self.copying.is_none() {
            self.until.set(self.until.get().min(now));
        }
    }

    fn note(&mut self, at: Nanos, player: usize, cause: Cause) {
        if at < self.until.get() {
            self.due.push(Reverse(Due { at, number: self.numbers, player, cause }));
            self.numbers += 1;
        }
    }

    /// Starts a phase: schedules its first requests and the start of the next phase.
    fn begin_phase(&mut self, player: usize, phase: usize, round: Nanos) {
        let Asks::Drawn { phases, .. } = &self.players[player].asker.asks else { return };
        let begins = round + phase.checked_sub(1).map_or(Nanos::ZERO, |before| phases[before].until);
        let Phase { until, arrival, .. } = phases[phase];
        let (ends, is_last) = (round + until, phase + 1 == phases.len());
        match arrival {
            Arrival::Outstanding(count) => {
                let missing = count.saturating_sub(self.players[player].outstanding);
                (0..missing).for_each(|_| self.note(begins, player, Cause::Done));
            }
            Arrival::Every(_) | Arrival::AtRandom(_) => self.note(begins, player, Cause::Clock { phase, round }),
        }
        let (next, round) = if is_last { (0, ends) } else { (phase + 1, round) };
        self.note(ends, player, Cause::Phase { phase: next, round });
    }

    /// The phase of a player at a time: its number and the start of its round.
    fn phase_at(phases: &[Phase], at: Nanos) -> (usize, Nanos) {
        let round = phases.last().map_or(Nanos(1), |phase| phase.until.max(Nanos(1)));
        let begun = Nanos(at.0 - at.0 % round.0);
        let within = at - begun;
        (phases.iter().position(|phase| within < phase.until).unwrap_or(0), begun)
    }

    fn issue(&mut self, due: Due, now: Nanos) -> Option<VolumeIssue> {
        let volume = self.players[due.player].asker.volume;
        let stream = volume as StreamId;
        match due.cause {
            Cause::Phase { phase, round } => {
                self.begin_phase(due.player, phase, round);
                None
            }
            Cause::Recorded { issue: number, round } => {
                let Asks::Recorded { issues, lasts } = &self.players[due.player].asker.asks else { return None };
                let issue = Issue { arrival: due.at, stream, ..issues[number] };
                let (next, round) = if number + 1 == issues.len() { (0, round + *lasts) } else { (number + 1, round) };
                let at = round + issues[next].arrival;
                self.note(at, due.player, Cause::Recorded { issue: next, round });
                let token = self.token(false);
                self.count(now, issue.sectors);
                Some(VolumeIssue { volume, issue: Issue { token, ..issue } })
            }
            Cause::Done | Cause::Clock { .. } => self.draw(due, now).map(|issue| VolumeIssue { volume, issue }),
        }
    }

    /// A unique token; odd tokens mark requests whose completion triggers another.
    fn token(&mut self, is_followed: bool) -> u64 {
        self.issued += 1;
        2 * self.issued + u64::from(is_followed)
    }

    fn draw(&mut self, due: Due, now: Nanos) -> Option<Issue> {
        let player = &mut self.players[due.player];
        let Asks::Drawn { phases, is_sync } = &player.asker.asks else { return None };
        let (present, begun) = Askers::phase_at(phases, due.at);
        let Phase { arrival, pattern, .. } = &phases[present];
        let next = match (due.cause, *arrival) {
            (Cause::Clock { phase, round }, Arrival::Every(gap)) if phase == present && round == begun => Some(due.at + gap),
            (Cause::Clock { phase, round }, Arrival::AtRandom(mean)) if phase == present && round == begun => {
                Some(due.at + player.draw.gap(mean))
            }
            (Cause::Done, Arrival::Outstanding(count)) if player.outstanding < count => {
                player.outstanding += 1;
                None
            }
            _ => return None,
        };
        let drawn = player.draw.next(pattern);
        let (stream, sync) = (player.asker.volume as StreamId, *is_sync);
        let by_clock = next.is_some();
        if let Some(next) = next {
            self.note(next, due.player, due.cause);
        }
        let arrival = if by_clock { due.at } else { now };
        let token = self.token(!by_clock);
        let (lba, sectors, op) = (drawn.lba, drawn.sectors, drawn.op);
        self.count(now, sectors);
        Some(Issue { arrival, lba, sectors, op, sync, stream, priority: Priority::DEFAULT, token })
    }
}

impl Source for Askers<'_> {
    type Work = VolumeIssue;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        let next = self.due.peek().map(|Reverse(due)| due.at);
        Ok(next.filter(|at| *at < self.until.get()))
    }

    fn take(&mut self, now: Nanos) -> Result<Option<VolumeIssue>, RunError> {
        while let Some(&Reverse(due)) = self.due.peek().filter(|Reverse(due)| due.at <= now && due.at < self.until.get()) {
            self.due.pop();
            if let Some(issue) = self.issue(due, now) {
                return Ok(Some(issue));
            }
        }
        Ok(None)
    }

    fn completed(&mut self, finished: &Finished) {
        if finished.stream() == COPY {
            if let Some((steps, after)) = &mut self.copying {
                *steps -= 1;
                if *steps == 0 {
                    self.until.set(self.until.get().min(finished.at() + *after));
                }
            }
            return;
        }
        let player = self.by_volume.get(finished.stream() as usize).copied().flatten();
        if let Some(player) = player.filter(|_| finished.token() % 2 == 1) {
            self.players[player].outstanding -= 1;
            self.note(finished.at(), player, Cause::Done);
        }
    }

    fn is_measured(&self, finished: &Finished) -> bool {
        finished.stream() != COPY
    }
}
