use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use block::{Nanos, Op, Request};
use sim::device::{Completion, Device};
use sim::host::{Access, Action};

use crate::host::machine::{KIB, MIB, Machine, SECTORS, direct, files, fsync, read, scramble, write};

/// Takes 100 µs for a request and 10 ms for a flush, of which it is given one at a time.
struct Cached {
    under_way: Vec<(Nanos, u32)>,
    flushing: Option<(Nanos, u32)>,
    flushes: Arc<AtomicU32>,
}

impl Device for Cached {
    fn capacity_sectors(&self) -> u64 {
        SECTORS
    }
    fn queue_depth(&self) -> usize {
        4
    }
    fn has_write_cache(&self) -> bool {
        true
    }
    fn submit(&mut self, now: Nanos, request: &Request) {
        self.under_way.push((now + Nanos::from_micros(100), request.id));
    }
    fn flush(&mut self, now: Nanos, id: u32) -> bool {
        assert!(self.flushing.is_none(), "the queue sends one flush at a time");
        self.flushes.fetch_add(1, Relaxed);
        self.flushing = Some((now + Nanos::from_millis(10), id));
        true
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.under_way.iter().chain(&self.flushing).map(|(at, _)| *at).min()
    }
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let none = Nanos::ZERO;
        let over = self.under_way.extract_if(.., |(at, _)| *at <= now).chain(self.flushing.take_if(|(at, _)| *at <= now));
        done.extend(over.map(|(at, id)| Completion {
            id,
            at,
            seek: none,
            rotation: none,
            seek_cylinders: 0,
            cache_hit: false,
            work: None,
        }));
    }
    fn busy(&self) -> Nanos {
        Nanos::ZERO
    }
}

fn cached(sizes: &[u64]) -> (Machine, Arc<AtomicU32>) {
    let flushes = Arc::new(AtomicU32::new(0));
    let device = Cached { under_way: Vec::new(), flushing: None, flushes: flushes.clone() };
    (Machine::on_device(Box::new(device), "noop", files(sizes), ""), flushes)
}

/// The mean time that 50 calls take, each after a pause, at places far from each other.
fn mean_ms(machine: &mut Machine, prepare: bool, action: impl Fn(u64) -> Action) -> f64 {
    let mut sum = 0.0;
    for number in 0..50 {
        let offset = scramble(number) % 16_384 * MIB / 4;
        if prepare {
            machine.call(1, write(0, offset, 4 * KIB));
        }
        let start = machine.now;
        sum += (machine.call(1, action(offset)).at() - start).as_secs_f64() * 1000.0;
        machine.pass_until(machine.now + Nanos::from_millis(50));
    }
    sum / 50.0
}

#[test]
fn on_a_drive_with_a_write_cache_fsync_takes_the_platters_time_and_a_write_without_it_is_acknowledged_at_once() {
    let machine = || Machine::on_disk("sata7200", "noop", files(&[4096 * MIB]), "");
    let acknowledged = mean_ms(&mut machine(), false, |offset| direct(Op::Write, 0, offset, 4 * KIB));
    let read_from_platter = mean_ms(&mut machine(), false, |offset| direct(Op::Read, 0, offset, 4 * KIB));
    let access = Access::Synchronous;
    let synchronous =
        mean_ms(&mut machine(), false, |offset| Action::Access { op: Op::Write, file: 0, offset, bytes: 4096, access });
    let synced = mean_ms(&mut machine(), true, |_| fsync(0));
    assert!(acknowledged < 0.5 && read_from_platter > 4.0, "{acknowledged} and {read_from_platter} ms");
    for took in [synced, synchronous] {
        assert!((took / read_from_platter - 1.0).abs() < 0.35, "{took} ms; a read takes {read_from_platter}");
    }
}

#[test]
fn a_direct_write_is_on_the_media_after_an_fsync_and_an_idle_fsync_costs_a_command() {
    let mut machine = Machine::on_disk("sata7200", "noop", files(&[4096 * MIB]), "");
    machine.call(1, direct(Op::Write, 0, 3000 * MIB, 4 * KIB));
    let start = machine.now;
    let first = machine.call(1, fsync(0)).at() - start;
    let start = machine.now;
    let second = machine.call(1, fsync(0)).at() - start;
    assert!(first.0 > 10 * second.0, "{first}, then {second}");
}

#[test]
fn an_fsync_during_a_flush_waits_for_the_next_one_and_shares_it() {
    let (mut machine, flushes) = cached(&[MIB; 4]);
    let first = machine.start(0, fsync(0));
    machine.pass_until(Nanos::from_millis(4));
    let others = [machine.start(1, fsync(1)), machine.start(2, fsync(2))];
    machine.pass_until(Nanos::from_millis(100));
    let ended: Vec<(u64, u64)> = machine.take_finished().iter().map(|done| (done.token(), done.at().0 / 1_000_000)).collect();
    assert_eq!(ended, [(first, 10), (others[0], 20), (others[1], 20)]);
    assert_eq!(flushes.load(Relaxed), 2);
}

#[test]
fn concurrent_fsyncs_need_far_fewer_flushes_than_there_are_of_them() {
    let (mut machine, flushes) = cached(&[MIB; 8]);
    let process = |file: u32| -> Box<dyn Iterator<Item = Action>> {
        Box::new((0..50).flat_map(move |page| [write(file, page * 4 * KIB, 4 * KIB), fsync(file)]))
    };
    machine.race((0..8).map(process).collect());
    let (flushes, least) = (flushes.load(Relaxed), machine.now.0 / 10_100_000);
    assert!(flushes <= 110 && u64::from(flushes) >= least, "{flushes} flushes for nearly 400 fsyncs");
}

#[test]
fn a_flush_does_not_delay_reads_and_an_unsynced_write_sends_none() {
    let (mut machine, flushes) = cached(&[MIB; 2]);
    machine.call(0, write(0, 0, 4 * KIB));
    machine.call(0, direct(Op::Write, 0, 8 * KIB, 4 * KIB));
    assert_eq!(flushes.load(Relaxed), 0);
    machine.start(0, fsync(0));
    machine.pass_until(machine.now + Nanos::from_millis(1));
    let start = machine.now;
    assert!(machine.call(1, read(1, 0, 4 * KIB)).at() - start < Nanos::from_millis(1));
}

/// Ends in µs of a flush and, sorted, of eight direct requests of 100 µs that were issued before it to a device that takes four at once.
fn flush_after(op: Op, scheduler: &str) -> (u64, Vec<u64>) {
    let device = Cached { under_way: Vec::new(), flushing: None, flushes: Arc::default() };
    let mut machine = Machine::on_device(Box::new(device), scheduler, files(&[64 * MIB; 2]), "");
    (0..8).for_each(|number| _ = machine.start(1 + number, direct(op, 0, u64::from(number) * 4 * MIB, 4 * KIB)));
    let flush = machine.start(0, fsync(1));
    machine.pass_until(Nanos::from_millis(50));
    let ended = machine.take_finished();
    let us = |of_flush: bool| {
        let chosen = ended.iter().filter(move |done| (done.token() == flush) == of_flush);
        let mut ends: Vec<u64> = chosen.map(|done| done.at().0 / 1000).collect();
        ends.sort_unstable();
        ends
    };
    (us(true)[0], us(false))
}

#[test]
fn a_flush_waits_for_room_at_the_device_and_takes_it_before_requests_that_wait() {
    // Three of the waiting reads were dispatched with the flush, the last when they had completed.
    assert_eq!(flush_after(Op::Read, "noop"), (10_100, vec![100, 100, 100, 100, 200, 200, 200, 300]));
}

#[test]
fn without_a_scheduler_a_flush_gets_a_tag_after_those_that_wait_for_one() {
    assert_eq!(flush_after(Op::Read, "none"), (10_200, vec![100, 100, 100, 100, 200, 200, 200, 200]));
}

#[test]
fn a_flush_gets_a_free_tag_although_writers_wait_for_their_share() {
    assert_eq!(flush_after(Op::Write, "mq-deadline:async_depth=4"), (10_100, vec![100, 100, 100, 100, 200, 200, 200, 300]));
}
