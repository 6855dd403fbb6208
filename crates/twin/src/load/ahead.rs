//! Converts a stream to another read-ahead.
//!
//! ```text
//! observed, 128 KiB:  |16|32|64|128|128|128|128|128|128|128|128|128|128|
//! converted:          |16|32|64|128|256    |512            |1024 ...
//! ```
//! Linux reads files ahead in windows: the first one of a run is small, and each further one twice as large, up to the read-ahead
//! (`get_next_ra_size` in `mm/readahead.c`). The next window is issued when the process reaches the last one, so the think time of a window
//! is the sum of the think times of its parts. The read-ahead of a file is set when it is opened (`file_ra_state_init`): a stream whose
//! windows do not match the active read-ahead opened its files earlier, and keeps their read-ahead.

use std::collections::BTreeMap;

use block::{Nanos, read_ahead_response_weight};

use super::Stream;
use super::pace::Step;
use super::places::NOWHERE;

/// Number of latest reads from which a stream's read-ahead is inferred. Choice: several windows of each open file; more would include files
/// that were opened under an earlier read-ahead; not varied.
const LATEST: usize = 32;
/// Maximum sectors of a request; a larger window is split. Source: `BIO_MAX_VECS` in `include/linux/bio.h`, 256 pages of 4 KiB.
pub(crate) const BIO_SECTORS: u32 = 256 * 8;

/// A run that is being read.
struct Reading {
    /// Index of the step that is its latest window, and the limit of that window in sectors.
    window: usize,
    limit: u32,
    /// End of the run so far, in sectors from its start.
    end: u64,
    /// Sizes of its two latest observed parts, in sectors.
    part: u32,
    part_before: u32,
}

impl Stream {
    /// Mean weight of its requests in mean response times.
    pub(super) fn response_weight(&self) -> f64 {
        let counts = |step: &Step| if step.is_read_ahead() { read_ahead_response_weight(step.sectors) } else { 1 };
        self.steps.iter().map(|step| f64::from(counts(step))).sum::<f64>() / self.steps.len() as f64
    }

    /// Its largest observed window under a read-ahead of `from`, and the maximum under `to`, all in sectors; `None` if it is not affected.
    pub(super) fn windows(&self, from: u32, to: u32) -> Option<(u32, u32)> {
        let latest = self.steps.iter().rev().filter(|step| step.is_read_ahead()).take(LATEST);
        let largest = latest.map(|step| step.sectors).max()?;
        // `POSIX_FADV_SEQUENTIAL` doubles the read-ahead.
        let times = if largest >= from.saturating_mul(2) { 2 } else { 1 };
        let has_it = largest >= from.min(BIO_SECTORS) && largest <= from.saturating_mul(2);
        (has_it && from != to).then(|| (largest, to.saturating_mul(times)))
    }

    /// See [`Load::reading_ahead`](super::Load::reading_ahead).
    pub(super) fn reading_ahead(&self, from: u32, to: u32) -> Option<Stream> {
        let (now, most) = self.windows(from, to)?;
        let most = most.max(1);
        let (mut steps, mut within): (Vec<Step>, Vec<(u32, u64)>) = (Vec::new(), Vec::new());
        let mut runs: BTreeMap<u32, Reading> = BTreeMap::new();
        // Gap of steps that were merged into an earlier one.
        let mut gap = Nanos::ZERO;
        for (&step, &(run, begins)) in self.steps.iter().zip(self.places.within()) {
            let step = Step { gap: step.gap + gap, ..step };
            gap = Nanos::ZERO;
            if !step.is_read_ahead() || run == NOWHERE {
                steps.push(step);
                within.push((run, begins));
                continue;
            }
            let follows = runs.remove(&run).filter(|reading| reading.end == begins);
            let end = begins + u64::from(step.sectors);
            let (part, part_before) = (step.sectors, follows.as_ref().map_or(step.sectors, |reading| reading.part));
            let limit = match follows {
                Some(Reading { window, limit, .. }) if part_before >= now && steps[window].sectors + step.sectors <= limit => {
                    let window_step = &mut steps[window];
                    window_step.sectors += step.sectors;
                    window_step.thought = match (window_step.thought, step.thought) {
                        (Some(thought), Some(more)) => Some(thought + more),
                        (thought, more) => thought.or(more),
                    };
                    gap = step.gap;
                    runs.insert(run, Reading { window, limit, end, part, part_before });
                    continue;
                }
                Some(Reading { window, .. }) if part_before >= now => steps[window].sectors.saturating_mul(2).min(most),
                // The run started before the recording: its windows are already at the maximum.
                None if step.sectors >= now => most,
                // Smaller reads have another cause, and keep their size.
                _ => step.sectors.min(most),
            };
            let pieces = step.sectors.div_ceil(limit.max(1)).max(1);
            for piece in 0..pieces {
                let done = piece * limit;
                steps.push(Step {
                    sectors: (step.sectors - done).min(limit.max(1)),
                    gap: Nanos(step.gap.0 / u64::from(pieces)),
                    thought: step.thought.map(|thought| Nanos(thought.0 / u64::from(pieces))),
                    ..step
                });
                within.push((run, begins + u64::from(done)));
            }
            runs.insert(run, Reading { window: steps.len() - 1, limit, end, part, part_before });
        }
        // If a process stops reading a file early, its last window is read in full, in vain. At the end of a file the window is smaller.
        for (run, reading) in runs {
            if !self.places.goes_on(run) && reading.part >= reading.part_before && reading.part >= now {
                let window = &mut steps[reading.window];
                window.sectors = window.sectors.max(reading.limit);
            }
        }
        Some(Stream { steps, places: self.places.asked_as(within), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use block::{Op, Priority, Request};

    use super::super::Load;
    use crate::recording::ObservedRequest;

    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Files read ahead in parts of these sizes in KiB, each issued 1 ms after the last but one completes.
    fn load(files: &[&[u32]]) -> Load {
        let mut seen = Vec::new();
        let mut at = MS(10);
        for (file, parts) in files.iter().enumerate() {
            let mut lba = 1_000_000 * file as u64;
            for kib in *parts {
                let (op, priority, sectors) = (Op::Read, Priority::DEFAULT, 2 * kib);
                let request = Request { id: 0, stream: 1, op, sync: false, priority, sectors, lba, arrival: at };
                seen.push(ObservedRequest { request, dispatched: at, completed: at + MS(21) });
                (lba, at) = (request.end(), at + MS(11));
            }
        }
        Load::infer(&seen, Nanos::ZERO, at + MS(21))
    }

    fn windows(load: &Load) -> Vec<u32> {
        load.streams[0].steps.iter().map(|step| step.sectors / 2).collect()
    }

    #[test]
    fn windows_double_up_to_the_read_ahead() {
        let parts = [&[16, 32, 64][..], &[128; 40]].concat();
        let load = load(&[&parts]);
        let wider = load.reading_ahead(256, 2048).unwrap();
        assert_eq!(windows(&wider)[..8], [16, 32, 64, 128, 256, 512, 1024, 1024]);
        let read: u32 = windows(&wider).iter().sum();
        assert!(read >= windows(&load).iter().sum::<u32>());
        assert_eq!(
            wider.streams[0].steps[7].gap,
            MS(8 * 11),
            "a stream by the clock comes as late as all that it had asked before"
        );
    }

    #[test]
    fn the_think_time_of_a_window_is_the_sum_of_its_parts() {
        let wider = load(&[&[128; 64]]).reading_ahead(256, 2048).unwrap();
        let steps = &wider.streams[0].steps;
        assert_eq!(windows(&wider)[..4], [1024; 4], "it was under way");
        assert_eq!(steps[2].thought, Some(MS(8)));
        assert_eq!(steps[2].in_flight, 1, "as before, it asks while one is under way");
        let narrower = wider.reading_ahead(2048, 256).unwrap();
        assert_eq!(windows(&narrower), [128; 64]);
        assert_eq!(narrower.streams[0].steps[20].thought, Some(MS(1)));
    }

    #[test]
    fn a_file_left_early_has_its_last_window_read_and_one_at_its_end_has_not() {
        let ends = load(&[&[64, 128, 128, 128, 100], &[64, 128]]).reading_ahead(256, 2048).unwrap();
        assert_eq!(windows(&ends), [64, 128, 256, 100, 64, 128]);
        let left = load(&[&[64, 128, 128, 128, 128, 128], &[64, 64, 64, 128]]).reading_ahead(256, 2048).unwrap();
        assert_eq!(windows(&left), [64, 128, 256, 512, 64, 64, 64, 128]);
    }

    #[test]
    fn windows_that_are_small_for_another_reason_stay_unchanged() {
        let small = load(&[&[128, 128, 64, 64, 64, 64]]).reading_ahead(256, 2048).unwrap();
        assert_eq!(windows(&small), [320, 64, 64, 64]);
    }

    #[test]
    fn open_files_keep_their_read_ahead_and_direct_reads_have_none() {
        let load = load(&[&[128; 40]]);
        assert!(load.reading_ahead(2048, 256).is_none(), "its windows are those of 128 KiB");
        assert!(load.reading_ahead(512, 2048).is_none());
        assert!(load.reading_ahead(256, 256).is_none());
        let advised = self::load(&[&[256; 40]]).reading_ahead(256, 2048).unwrap();
        assert_eq!(windows(&advised)[..4], [2048; 4], "twice as much where the program asked for it");
        let mut direct = load.clone();
        direct.streams[0].steps.iter_mut().for_each(|step| step.sync = true);
        assert!(direct.reading_ahead(256, 2048).is_none());
    }

    #[test]
    fn a_window_weighs_as_much_as_the_reads_that_it_replaces() {
        let load = load(&[&[128; 64]]);
        assert_eq!(load.response_weights()[&1], 1.0);
        assert_eq!(load.reading_ahead(256, 2048).unwrap().response_weights()[&1], 8.0);
    }
}
