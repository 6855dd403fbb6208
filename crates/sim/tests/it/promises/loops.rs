//! Tenants in closed loops, each on sectors of its own, and the completions of their requests.

use std::ops::Range;

use block::{Nanos, Op, Priority};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::host::Queue;
use sim::run::{Finished, Issue, Measure, RunError, Source, Watch, run};

/// The access pattern of a tenant.
#[derive(Clone, Debug)]
pub struct Habit {
    /// The chance, in percent, that a request follows the one before on the disk, from a time on.
    pub locality: Vec<(Nanos, u32)>,
    /// Requests in flight.
    pub at_once: u32,
    pub sectors: u32,
    /// Number of writes among three requests.
    pub writes: u32,
    /// Time between a completion and the next request.
    pub think: Nanos,
    /// When it is active.
    pub active: Vec<Range<Nanos>>,
    pub sync: bool,
}

impl Habit {
    pub fn saturating(locality: u32, at_once: u32) -> Habit {
        let active = vec![Nanos::ZERO..Nanos::MAX];
        Habit { locality: vec![(Nanos::ZERO, locality)], at_once, sectors: 8, writes: 1, think: Nanos::ZERO, active, sync: true }
    }
}

/// A completed request: arrival and completion.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub asked: Nanos,
    pub done: Nanos,
}

struct Tenant {
    habit: Habit,
    sectors: Range<u64>,
    random: Xoshiro256PlusPlus,
    next: u64,
    /// Times of its coming requests.
    due: Vec<Nanos>,
}

/// All tenants, and the end of time.
pub struct Loops<'a> {
    tenants: Vec<Tenant>,
    end: Nanos,
    answers: &'a mut Vec<Vec<Answer>>,
}

impl Tenant {
    fn issue(&mut self, now: Nanos, number: usize) -> Issue {
        let locality = self.habit.locality.iter().rev().find(|(from, _)| *from <= now).map_or(0, |&(_, percent)| percent);
        let sectors = u64::from(self.habit.sectors);
        let follows = self.random.random_range(0..100) < locality && self.next + sectors <= self.sectors.end;
        let places = (self.sectors.end - self.sectors.start) / sectors;
        // Drawn whether it is needed or not, so that the same tenant accesses the same places on every disk.
        let place = self.sectors.start + self.random.random_range(0..places) * sectors;
        let lba = if follows { self.next } else { place };
        self.next = lba + sectors;
        let op = if self.random.random_range(0..3) < self.habit.writes { Op::Write } else { Op::Read };
        let (stream, priority) = (number as u32 + 1, Priority::DEFAULT);
        let (sectors, sync) = (self.habit.sectors, self.habit.sync);
        Issue { arrival: now, lba, sectors, op, sync, stream, priority, token: 0 }
    }

    /// When a request due at `at` is issued, since the tenant is not always active.
    fn active_from(&self, at: Nanos) -> Option<Nanos> {
        self.habit.active.iter().find(|active| at < active.end).map(|active| at.max(active.start))
    }

    fn ask_at(&mut self, at: Nanos) {
        let at = self.active_from(at);
        self.due.extend(at);
    }
}

impl Source for Loops<'_> {
    type Work = Issue;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        let next = self.tenants.iter().flat_map(|tenant| &tenant.due).min().copied();
        Ok(next.filter(|&next| next < self.end))
    }

    fn take(&mut self, now: Nanos) -> Result<Option<Issue>, RunError> {
        let first = self.tenants.iter().enumerate().flat_map(|(n, tenant)| tenant.due.iter().map(move |&at| (at, n))).min();
        let Some((at, number)) = first else { return Ok(None) };
        let tenant = &mut self.tenants[number];
        let place = tenant.due.iter().position(|&due| due == at);
        place.map(|place| tenant.due.swap_remove(place));
        Ok(Some(tenant.issue(now, number)))
    }

    fn completed(&mut self, finished: &Finished) {
        let number = finished.stream() as usize - 1;
        let (asked, done) = (finished.arrival(), finished.at());
        self.answers[number].push(Answer { asked, done });
        let think = self.tenants[number].habit.think;
        self.tenants[number].ask_at(done + think);
    }
}

/// Runs tenants until `end`, each with its seed. Returns the completions by tenant, in order of completion.
pub fn ask(queue: &mut Queue, tenants: &[(Habit, Range<u64>, u64)], end: Nanos) -> Vec<Vec<Answer>> {
    let mut answers = vec![Vec::new(); tenants.len()];
    let tenants = tenants.iter().map(|(habit, sectors, seed)| {
        let random = Xoshiro256PlusPlus::seed_from_u64(*seed);
        let mut tenant = Tenant { habit: habit.clone(), sectors: sectors.clone(), random, next: sectors.start, due: Vec::new() };
        (0..habit.at_once).for_each(|_| tenant.ask_at(Nanos::ZERO));
        tenant
    });
    let loops = Loops { tenants: tenants.collect(), end, answers: &mut answers };
    run(loops, queue, Measure::new([]), &Watch::default(), None).expect("nothing fails");
    answers
}
