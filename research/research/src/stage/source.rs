//! Tenants' random requests as a source of the event loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use block::{Nanos, Priority};
use sim::run::{Finished, Issue, RunError, Source};
use testbed::chance;
use testbed::synthetic::{Arrival, Draw, Phase};

use super::Actor;

/// A scheduled request. Requests at the same time are issued in the order in which they were scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanos,
    number: u64,
    player: usize,
    /// The phase with open arrivals that it belongs to; `None`: it follows a completed request.
    by_clock: Option<usize>,
}

/// The state of an actor.
struct Player {
    stream: u32,
    phases: Vec<Phase>,
    draw: Draw,
    /// Number of outstanding requests whose completion triggers another.
    outstanding: u32,
}

/// The request source of several actors.
pub(super) struct Drawn {
    players: Vec<Player>,
    due: BinaryHeap<Reverse<Due>>,
    numbers: u64,
    issued: u64,
}

impl Drawn {
    /// Schedules actors, given with their numbers and volumes.
    pub(super) fn new<'a>(actors: impl Iterator<Item = (usize, (&'a Actor, Range<u64>))>, seed: u64) -> Drawn {
        let player = |(number, (actor, volume)): (usize, (&Actor, Range<u64>))| Player {
            stream: number as u32,
            phases: actor.phases.clone(),
            draw: Draw::new(volume, chance::source("stage", seed, number as u32)),
            outstanding: 0,
        };
        let players: Vec<Player> = actors.map(player).collect();
        let mut drawn = Drawn { players, due: BinaryHeap::new(), numbers: 0, issued: 0 };
        for player in 0..drawn.players.len() {
            let mut begins = Nanos::ZERO;
            for phase in 0..drawn.players[player].phases.len() {
                let Phase { until, arrival, .. } = drawn.players[player].phases[phase];
                match arrival {
                    Arrival::Outstanding(count) => (0..count).for_each(|_| drawn.note(begins, player, None)),
                    Arrival::Every(_) | Arrival::AtRandom(_) => drawn.note(begins, player, Some(phase)),
                }
                begins = until;
            }
        }
        drawn
    }

    fn note(&mut self, at: Nanos, player: usize, by_clock: Option<usize>) {
        self.due.push(Reverse(Due { at, number: self.numbers, player, by_clock }));
        self.numbers += 1;
    }

    /// Issues a scheduled request, unless its phase has ended or the queue depth is reached.
    fn issue(&mut self, due: Due, now: Nanos) -> Option<Issue> {
        let player = &mut self.players[due.player];
        let phase = player.phases.iter().position(|phase| due.at < phase.until)?;
        let Phase { until, arrival, pattern } = &player.phases[phase];
        let (until, arrival) = (*until, *arrival);
        let next = match (due.by_clock, arrival) {
            (Some(by), Arrival::Every(gap)) if by == phase => Some(due.at + gap),
            (Some(by), Arrival::AtRandom(mean)) if by == phase => Some(due.at + player.draw.gap(mean)),
            (None, Arrival::Outstanding(count)) if player.outstanding < count => {
                player.outstanding += 1;
                None
            }
            _ => return None,
        };
        let drawn = player.draw.next(pattern);
        let stream = player.stream;
        if let Some(next) = next.filter(|next| *next < until) {
            self.note(next, due.player, due.by_clock);
        }
        // Odd tokens mark requests whose completion triggers another.
        let token = 2 * self.issued + u64::from(due.by_clock.is_none());
        self.issued += 1;
        // Open arrivals: the response time counts from the scheduled time.
        let arrival = if due.by_clock.is_some() { due.at } else { now };
        let (lba, sectors, op) = (drawn.lba, drawn.sectors, drawn.op);
        Some(Issue { arrival, lba, sectors, op, sync: true, stream, priority: Priority::DEFAULT, token })
    }
}

impl Source for Drawn {
    type Work = Issue;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        Ok(self.due.peek().map(|Reverse(due)| due.at))
    }

    fn take(&mut self, now: Nanos) -> Result<Option<Issue>, RunError> {
        while let Some(&Reverse(due)) = self.due.peek().filter(|Reverse(due)| due.at <= now) {
            self.due.pop();
            if let Some(issue) = self.issue(due, now) {
                return Ok(Some(issue));
            }
        }
        Ok(None)
    }

    fn completed(&mut self, finished: &Finished) {
        if finished.token().is_multiple_of(2) {
            return;
        }
        let Some(player) = self.players.iter().position(|player| player.stream == finished.stream()) else { return };
        self.players[player].outstanding -= 1;
        self.note(finished.at(), player, None);
    }
}
