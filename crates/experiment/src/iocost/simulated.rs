//! Probes of a simulated device, without a scheduler.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use anyhow::Context as _;
use block::{Nanos, Priority, Request};
use sim::device::Device;
use testbed::world::World;

use super::probe::{Place, Places, Probe, Prober, Sample};

/// Start of the file, as a part of the device.
const FILE_AT: f64 = 0.25;

/// A simulated device with a scratch file on it.
pub struct Simulated {
    device: Box<dyn Device>,
    /// The sectors of the file.
    file: Range<u64>,
    now: Nanos,
    seed: u64,
    samples: u32,
    flushes: bool,
}

impl Simulated {
    /// A device at rest with a file of this many sectors, but at most half of the device.
    pub fn new(world: &World, file_sectors: u64, seed: u64) -> Simulated {
        Simulated::of(world.profile.build(world.device), file_sectors, seed)
    }

    /// Uses an existing device.
    pub fn of(device: Box<dyn Device>, file_sectors: u64, seed: u64) -> Simulated {
        let capacity = device.capacity_sectors();
        // Aligned to a page.
        let begins = (capacity as f64 * FILE_AT) as u64 / 8 * 8;
        let file = begins..begins + file_sectors.min(capacity / 2);
        Simulated { device, file, now: Nanos::ZERO, seed, samples: 0, flushes: true }
    }

    /// The simulated time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Ends writes without a flush.
    #[must_use]
    pub fn without_flushes(self) -> Simulated {
        Simulated { flushes: false, ..self }
    }

    /// Replaces the file.
    #[must_use]
    pub fn with_file(self, file: Range<u64>) -> Simulated {
        Simulated { file, ..self }
    }

    /// Advances to the device's next event; appends ids and times of completed requests.
    fn advance(&mut self, done: &mut Vec<(u32, Nanos)>) -> anyhow::Result<()> {
        let mut completions = Vec::new();
        self.now = self.now.max(self.device.wake_at().context("the simulated device has stalled")?);
        self.device.advance(self.now, &mut completions);
        done.extend(completions.iter().map(|completion| (completion.id, completion.at)));
        Ok(())
    }
}

impl Prober for Simulated {
    fn run(&mut self, probe: &Probe, requests: u64, round: usize) -> anyhow::Result<Sample> {
        let places = Places { device: self.device.capacity_sectors(), file: self.file.end - self.file.start };
        let mut asked = probe.requests(requests, places, (self.seed, self.samples), round);
        self.samples += 1;
        let begins = if probe.place == Place::File { self.file.start } else { 0 };
        let (start, room) = (self.now, self.device.queue_depth());
        let mut arrived: VecDeque<Nanos> = vec![start; probe.depth as usize].into();
        let (mut under_way, mut done, mut sample) = (BTreeMap::new(), Vec::new(), Sample::default());
        let (mut id, mut last_arrival) = (0, start);
        loop {
            while under_way.len() < room
                && let Some(&arrival) = arrived.front()
                && let Some(next) = asked.next()
            {
                arrived.pop_front();
                last_arrival = arrival;
                let (priority, sectors, lba) = (Priority::DEFAULT, probe.sectors, begins + next.sector);
                let request = Request { id, stream: 0, op: next.op, sync: true, priority, sectors, lba, arrival };
                self.device.submit(self.now, &request);
                under_way.insert(id, arrival);
                id += 1;
            }
            if under_way.is_empty() {
                break;
            }
            self.advance(&mut done)?;
            for (id, at) in done.drain(..) {
                if let Some(arrival) = under_way.remove(&id) {
                    sample.latencies.push(at - arrival);
                    // A closed loop: each completion is followed by the next request.
                    arrived.push_back(at);
                }
            }
        }
        if self.flushes && probe.read_percent < 100 && self.device.flush(self.now, id) {
            while !done.iter().any(|(done, _)| *done == id) {
                self.advance(&mut done)?;
            }
        }
        sample.close(probe, requests, last_arrival - start, self.now - start);
        Ok(sample)
    }
}
