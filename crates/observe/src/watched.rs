//! A load that is watched window by window, until another one is there.

use std::collections::VecDeque;

use block::Nanos;

use crate::similarity::{ANOTHER, NOWHERE, Point, approach, load_distance};

/// Windows over which a load's position is a mean, and those over which what is new is.
const MEMORY: f64 = 60.0;
const NEW: usize = 3;

/// A load, as windows under one setting show it.
#[derive(Clone, Debug)]
pub struct WatchedLoad {
    /// When it began.
    pub from: Nanos,
    /// The mean of the windows, and how far they are from it in the mean.
    point: Point,
    spread: f64,
    windows: f64,
    /// The latest windows, with their beginnings: they are not in the mean yet.
    latest: VecDeque<(Nanos, Point)>,
}

impl WatchedLoad {
    /// One that begins here, of which nothing was seen.
    pub fn new(from: Nanos) -> WatchedLoad {
        WatchedLoad { from, point: NOWHERE, spread: 0.0, windows: 0.0, latest: VecDeque::new() }
    }

    /// Takes a window in. When another load began, if this is one by now.
    pub fn look(&mut self, from: Nanos, point: Point) -> Option<Nanos> {
        self.latest.push_back((from, point));
        if self.latest.len() <= NEW {
            return None;
        }
        if let Some((_, point)) = self.latest.pop_front() {
            self.windows = (self.windows + 1.0).min(MEMORY);
            approach(&mut self.point, &point, 1.0, self.windows);
            self.spread += (load_distance(&self.point, &point) - self.spread) / self.windows;
        }
        let is_another = self.windows >= NEW as f64 && load_distance(&self.point, &self.newest()) >= ANOTHER + self.spread;
        self.latest.front().filter(|_| is_another).map(|(from, _)| *from)
    }

    /// The mean of the latest windows.
    pub fn newest(&self) -> Point {
        let mut mean = NOWHERE;
        self.latest.iter().enumerate().for_each(|(number, (_, point))| approach(&mut mean, point, 1.0, number as f64 + 1.0));
        mean
    }

    /// Where it lies without the latest windows, which may be of another load.
    pub fn before(&self) -> Point {
        self.point
    }

    /// The latest windows are those of another load, which began here; they are what is known of it.
    pub fn begin(&mut self, from: Nanos) {
        let latest = std::mem::take(&mut self.latest);
        *self = WatchedLoad::new(from);
        latest.into_iter().for_each(|(from, point)| {
            self.look(from, point);
        });
    }

    /// Something else serves it from now on: what is served changes what is asked.
    pub fn is_served_anew(&mut self) {
        (self.point, self.spread, self.windows) = (NOWHERE, 0.0, 0.0);
        self.latest.clear();
    }
}
