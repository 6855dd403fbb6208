//! What volumes are asked for, and who asks: the source of runs with several arrays.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use block::{Nanos, Priority, StreamId};
use sim::run::{Finished, Issue, RunError, Source};
use sim::store::VolumeIssue;
use sim::streams::COPY;

use crate::chance;
use crate::synthetic::asks::{Arrival, Draw, Pattern, Phase};

/// What a volume is asked for.
#[derive(Clone, Debug)]
pub enum Asks {
    /// Requests that are drawn, in phases that are gone through again and again.
    Drawn {
        /// At least one; each lasts.
        phases: Vec<Phase>,
        /// Whether they are synchronous; other writes are buffered.
        is_sync: bool,
    },
    /// Requests at the times at which they were recorded, again and again.
    Recorded {
        /// In order of arrival; sectors count from the volume's first.
        issues: Arc<[Issue]>,
        /// After this time the first comes again; longer than the last takes to come.
        lasts: Nanos,
    },
}

/// A run ends with this many requests, where every [`PAGE_SECTORS`] of a request count as one more: that much of a flash drive is simulated
/// in a few seconds, however many requests it serves in one.
const EXTENT: u64 = 1_000_000;
const PAGE_SECTORS: u64 = 32;

/// Longer than any run.
pub const FOR_EVER: Nanos = Nanos::from_millis(1 << 40);

impl Asks {
    /// One pattern all the time, with this many requests outstanding.
    pub fn always(outstanding: u32, pattern: Pattern) -> Asks {
        let phase = Phase { until: FOR_EVER, arrival: Arrival::Outstanding(outstanding), pattern };
        Asks::Drawn { phases: vec![phase], is_sync: true }
    }
}

/// A volume as far as its requests are concerned.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The volume's number, which is the stream of its requests.
    pub volume: usize,
    /// Sectors of the volume.
    pub sectors: u64,
    /// What is asked.
    pub asks: Asks,
}

/// A request that is due; the first noted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanos,
    number: u64,
    player: usize,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// It follows one that is done.
    Done,
    /// The clock of this phase, in the round that began at this time.
    Clock { phase: usize, round: Nanos },
    /// A phase begins.
    Phase { phase: usize, round: Nanos },
    /// The recorded one of this number, in the round that began at this time.
    Recorded { issue: usize, round: Nanos },
}

struct Player {
    asker: Asker,
    draw: Draw,
    outstanding: u32,
}

/// Askers at work until a time.
pub struct Askers<'a> {
    players: Vec<Player>,
    by_volume: Vec<Option<usize>>,
    due: BinaryHeap<Reverse<Due>>,
    numbers: u64,
    issued: u64,
    /// What is still simulated, as [`EXTENT`] counts it.
    left: u64,
    /// Nothing is asked from this time on.
    until: &'a Cell<Nanos>,
    /// What is done of the copier's: steps that are still to come, and for how long all go on then.
    copying: Option<(u64, Nanos)>,
}

impl<'a> Askers<'a> {
    /// These, from time 0 on. What an asker draws depends on its volume's number and `seed` alone.
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

    /// The same; ends `after` this many steps of the copier.
    pub fn until_copied(self, steps: u64, after: Nanos) -> Askers<'a> {
        Askers { copying: Some((steps, after)), ..self }
    }

    /// Counts a request, and ends the run if it was the last.
    fn count(&mut self, now: Nanos, sectors: u32) {
        self.left = self.left.saturating_sub(1 + u64::from(sectors) / PAGE_SECTORS);
        // While volumes are copied, it is the copier that ends it.
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

    /// A phase begins: its first requests are due, and the next phase when it ends.
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

    /// The phase of a player at a time: its number and when its round began.
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

    /// A token that no other request has; odd ones are of requests that others follow.
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
