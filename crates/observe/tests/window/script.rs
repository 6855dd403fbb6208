//! Plausible requests: a few streams that go on, jump and come back, some waited for, done in any order.

use block::{Nanos, Op, Priority, Request};
use observe::Event;
use proptest::prelude::*;

/// One step: time passes, then something happens.
#[derive(Clone, Debug)]
pub enum Step {
    Queue { wait: u64, stream: u32, op: Op, sync: bool, sectors: u32, place: Position },
    Complete { wait: u64, which: prop::sample::Index },
}

#[derive(Clone, Debug)]
pub enum Position {
    /// So far behind the end of the stream's last request.
    Behind(u64),
    At(u64),
}

pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Discard)]
}

fn wait() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0_u64..2_000_000, 0_u64..200_000_000]
}

fn step() -> impl Strategy<Value = Step> {
    let place = prop_oneof![
        (0_u64..100).prop_map(Position::Behind),
        (0_u64..1 << 16).prop_map(Position::At),
        any::<u64>().prop_map(Position::At)
    ];
    let stream = prop_oneof![0_u32..4, Just(u32::MAX), Just(1 << 20)];
    let queue = (wait(), stream, op(), any::<bool>(), prop_oneof![Just(8_u32), 1_u32..5_000], place);
    prop_oneof![
        3 => queue.prop_map(|(wait, stream, op, sync, sectors, place)| Step::Queue { wait, stream, op, sync, sectors, place }),
        2 => (wait(), any::<prop::sample::Index>()).prop_map(|(wait, which)| Step::Complete { wait, which }),
    ]
}

/// Up to four windows' steps.
pub fn windows() -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(), 0..120), 1..4)
}

/// The events of each window and how long it is.
pub fn played(windows: &[Vec<Step>]) -> Vec<(Vec<Event>, Nanos)> {
    let (mut now, mut open, mut ends) = (Nanos(5_000_000_000), Vec::<Request>::new(), std::collections::BTreeMap::new());
    let mut play = |step: &Step, events: &mut Vec<Event>| match step {
        Step::Queue { wait, stream, op, sync, sectors, place } => {
            now += Nanos(*wait);
            let end: u64 = ends.get(stream).copied().unwrap_or_default();
            let lba = match place {
                Position::Behind(gap) => end.saturating_add(*gap),
                Position::At(lba) => *lba,
            };
            let (stream, op, sync, sectors) = (*stream, *op, *sync, *sectors);
            let request = Request { id: 0, stream, op, sync, priority: Priority::DEFAULT, sectors, lba, arrival: now };
            ends.insert(stream, request.end());
            open.push(request);
            events.push(Event::Queued(request));
            Nanos(*wait)
        }
        Step::Complete { wait, which } => {
            if open.is_empty() {
                return Nanos::ZERO;
            }
            now += Nanos(*wait);
            let request = open.swap_remove(which.index(open.len()));
            events.push(Event::Completed { request, dispatched: request.arrival, at: now });
            Nanos(*wait)
        }
    };
    let play_window = |steps: &Vec<Step>| {
        let mut events = Vec::new();
        let duration = steps.iter().fold(Nanos(1), |duration, step| duration + play(step, &mut events));
        (events, duration)
    };
    windows.iter().map(play_window).collect()
}
