//! Tests that no data are lost while volumes are copied.

use std::collections::BTreeMap;

use block::{Limits, Priority};
use proptest::prelude::*;

use super::*;
use crate::host::QueueSettings;
use crate::profile::{DeviceOptions, load};
use crate::run::ServerEvent;

const SECTORS: u64 = 256;

fn queue() -> Queue {
    let spec = block::find("noop").unwrap();
    let scheduler = (spec.build)(&Limits::default(), &spec.defaults());
    let mut queue = Queue::new(scheduler, load("atlas10k").unwrap().build(DeviceOptions::default()), QueueSettings::default());
    queue.record_events();
    queue
}

/// The content of the arrays, according to the events of their queues.
#[derive(Default)]
struct Contents {
    data: BTreeMap<(usize, u64), u64>,
    /// The expected content of each sector of a volume: its last completed write.
    truth: BTreeMap<(usize, u64), u64>,
    /// The chunk that the copier has read.
    chunk: Vec<u64>,
}

impl Contents {
    fn read(&self, array: usize, issue: &Issue) -> Vec<u64> {
        (issue.lba..issue.lba + u64::from(issue.sectors)).map(|lba| self.data.get(&(array, lba)).copied().unwrap_or(0)).collect()
    }

    fn follow(&mut self, array: usize, note: &ServerEvent, volume_of: impl Fn(usize, u64) -> (usize, u64)) {
        match note {
            // Assume that the copier reads the content at issue time: the worst case.
            ServerEvent::Issued(issue) if issue.stream == COPY && issue.op == Op::Read => self.chunk = self.read(array, issue),
            ServerEvent::Issued(issue) if issue.op == Op::Read => {
                for (sector, found) in (issue.lba..).zip(self.read(array, issue)) {
                    let truth = self.truth.get(&volume_of(array, sector)).copied().unwrap_or(0);
                    assert_eq!(found, truth, "sector {sector} of array {array} is read and not up to date");
                }
            }
            ServerEvent::Finished(done) if done.issue.op == Op::Write => {
                let issue = &done.issue;
                for (place, sector) in (issue.lba..issue.lba + u64::from(issue.sectors)).enumerate() {
                    let value = if issue.stream == COPY { self.chunk[place] } else { issue.arrival.0 };
                    self.data.insert((array, sector), value);
                    if issue.stream != COPY {
                        self.truth.insert(volume_of(array, sector), value);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Two volumes swap arrays while these requests are issued. Returns the completions, and the number of bytes copied.
fn swap(requests: &[(u64, usize, u64, u32, Op)], pace: CopyPace) -> (Vec<Finished>, u64) {
    let places = vec![Place { array: 0, start: 0 }, Place { array: 1, start: 0 }];
    let mut store = Store::new(vec![queue(), queue()], places);
    let to = |array| Place { array, start: 1000 };
    let copies = [0, 1].map(|volume| Copy { volume, sectors: SECTORS, to: to(1 - volume) });
    store.copy(Nanos::from_millis(5), vec![copies.to_vec()], pace);
    let volume_of = |array: usize, sector: u64| if sector >= 1000 { (1 - array, sector - 1000) } else { (array, sector) };
    let mut contents = Contents::default();
    let (mut finished, mut notes) = (Vec::new(), Vec::new());
    let mut requests = requests.iter().enumerate().peekable();
    loop {
        let arrival = requests.peek().map(|(_, request)| Nanos::from_micros(request.0));
        let Some(now) = [arrival, store.next_event()].into_iter().flatten().min() else { break };
        if store.next_event().is_some_and(|at| at <= now) {
            store.advance(now, &mut finished);
        }
        while let Some((number, &(_, volume, lba, sectors, op))) =
            requests.next_if(|(_, request)| Nanos::from_micros(request.0) <= now)
        {
            // Arrivals differ, so that each identifies its write.
            let arrival = Nanos(now.0 + 1 + number as u64);
            let (sync, stream, priority, token) = (true, 1, Priority::DEFAULT, number as u64);
            store.admit(now, VolumeIssue { volume, issue: Issue { arrival, lba, sectors, op, sync, stream, priority, token } });
        }
        store.dispatch(now);
        for array in [0, 1] {
            store.queue_mut(array).take_events(&mut notes);
            notes.drain(..).for_each(|note| contents.follow(array, &note, volume_of));
        }
    }
    assert_eq!([0, 1].map(|volume| store.place(volume)), [to(1), to(0)]);
    for (&(volume, sector), &value) in &contents.truth {
        let there = contents.data.get(&(1 - volume, 1000 + sector)).copied();
        assert_eq!(there, Some(value), "sector {sector} of volume {volume} after the move");
    }
    (finished, store.copied_bytes())
}

const PACE: CopyPace = CopyPace { bytes_per_s: 1 << 20, chunk_sectors: 32 };

#[test]
fn a_swap_without_requests_copies_each_sector_once_and_says_when_it_is_done() {
    let (finished, copied) = swap(&[], PACE);
    assert_eq!(copied, 2 * SECTORS * 512);
    let [Finished::Flush(done)] = &finished[..] else { panic!("{finished:?}") };
    assert_eq!((done.stream, done.token), (COPY, 0));
    // 256 KiB at 1 MiB per second; the copy does not wait after the last chunk.
    assert!((0.22..0.27).contains(&done.at.as_secs_f64()), "{:?}", done.at);
}

#[test]
fn endless_writes_to_a_chunk_do_not_prevent_its_copy() {
    let writes: Vec<_> = (0..500).map(|number| (number * 10_000, 0, 8, 8, Op::Write)).collect();
    let (finished, copied) = swap(&writes, PACE);
    assert!(copied > 2 * SECTORS * 512, "its chunk is copied again");
    let done = finished.iter().find(|finished| finished.stream() == COPY).unwrap().at();
    assert!(done < Nanos::from_millis(1000), "{done:?}: long before the last write");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_write_survives_the_move_and_every_read_finds_the_written_data(
        mut requests in proptest::collection::vec(
            (0u64..400_000, 0usize..2, 0u64..SECTORS - 40, 1u32..40, prop_oneof![Just(Op::Read), Just(Op::Write)]), 0..250),
    ) {
        requests.sort_by_key(|request| request.0);
        let (finished, _) = swap(&requests, PACE);
        let done = finished.iter().filter(|finished| finished.stream() != COPY).count();
        prop_assert_eq!(done, requests.len(), "each is reported once");
    }
}
