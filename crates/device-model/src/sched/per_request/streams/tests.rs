//! Learning from streams whose requests are served one at a time.

use super::*;
use block::{Op, Priority};

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// Streams whose requests are served one at a time.
struct Served {
    streams: Streams,
    now: u64,
    ends: [u64; 8],
}

impl Served {
    fn new() -> Served {
        let ends = std::array::from_fn(|stream| stream as u64 * 1_000_000_000);
        Served { streams: Streams::default(), now: 0, ends }
    }

    /// A request issued `thought` after the stream's last one completed, with service time `service`, `away` sectors after its end.
    fn serve(&mut self, stream: u32, thought: u64, service: u64, away: u64) {
        let lba = self.ends[stream as usize] + away;
        let arrival = Nanos(self.now + thought);
        let request = Request { id: 0, stream, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 256, lba, arrival };
        self.now += thought + service;
        self.ends[stream as usize] = request.end();
        self.streams.done(&request, arrival, Nanos(self.now));
    }
}

#[test]
fn a_stream_with_short_think_times_is_waited_for_about_as_long_as_it_thinks() {
    let mut served = Served::new();
    for _ in 0..20 {
        for stream in [1, 2] {
            served.serve(stream, 0, 9 * MILLI, 0);
            (0..10).for_each(|_| served.serve(stream, 200 * MICRO, MILLI, 0));
        }
    }
    let wait = |other_ns: f64| served.streams.wait_ns(1, other_ns);
    assert!((200e3..=600e3).contains(&wait(8e6)), "{}", wait(8e6));
    assert_eq!(wait(0.9e6), 0.0, "the waiting request is done sooner");
    assert!(served.streams.is_local(1));
}

#[test]
fn streams_that_think_for_long_or_are_unknown_are_not_waited_for() {
    let mut served = Served::new();
    (0..50).for_each(|_| served.serve(1, 30 * MILLI, MILLI, 0));
    assert_eq!(served.streams.wait_ns(1, 8e6), 0.0);
    assert!(served.streams.asks_for_little(1));
    assert_eq!(served.streams.wait_ns(7, 8e6), 0.0);
    assert!(!served.streams.asks_for_little(7) && !served.streams.is_local(7));
}

#[test]
fn a_stream_that_was_waited_for_in_vain_is_not_waited_for_again() {
    let mut served = Served::new();
    (0..20).for_each(|_| served.serve(1, 200 * MICRO, MILLI, 0));
    assert!(served.streams.wait_ns(1, 8e6) > 0.0);
    (0..60).for_each(|_| served.streams.stayed_away(1));
    assert_eq!(served.streams.wait_ns(1, 8e6), 0.0);
}

#[test]
fn seeking_and_its_absence_are_both_detected() {
    let mut served = Served::new();
    assert!(!served.streams.nothing_seeks());
    (0..400).for_each(|number| served.serve(number % 4, 0, 80 * MICRO, 0));
    assert!(served.streams.nothing_seeks());
    (0..8).for_each(|number| served.serve(number % 4, 0, 9 * MILLI, 0));
    assert!(!served.streams.nothing_seeks());
}
