//! Conservation, and comparison with a direct count.

use std::collections::BTreeMap;

use block::Priority;
use proptest::prelude::*;

use super::*;

type Charged = BTreeMap<(Option<UnitId>, Option<UnitId>), u64>;

/// An operation of a unit: time from the previous completion to its own, and time that it waited.
#[derive(Clone, Copy, Debug)]
struct Done {
    unit: UnitId,
    after: u64,
    waited: u64,
    sectors: u32,
    kind: u8,
}

fn done(units: u32) -> impl Strategy<Value = Done> {
    let shape = (0..units, prop_oneof![Just(0), 1..100_u64], prop_oneof![0..200_u64, 0..20_000_u64], 1..9_u32, 0..4_u8);
    shape.prop_map(|(unit, after, waited, sectors, kind)| Done { unit, after, waited, sectors, kind })
}

fn event_of(done: &Done, at: u64) -> Event {
    let (stream, asked, at) = (done.unit, Nanos(at.saturating_sub(done.waited)), Nanos(at));
    let op = match done.kind {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Discard,
        _ => return Event::Flushed { stream, asked, at },
    };
    let sectors = done.sectors;
    let request = Request { id: 0, stream, op, sync: true, priority: Priority::DEFAULT, sectors, lba: 0, arrival: asked };
    Event::Completed { request, dispatched: asked, at }
}

/// With their times, from 1 second.
fn timed(all: &[Done]) -> Vec<(UnitId, Event)> {
    let mut at = 1_000_000_000;
    let event = |done: &Done| {
        at += done.after;
        (done.unit, event_of(done, at))
    };
    all.iter().map(event).collect()
}

fn report(events: &[(UnitId, Event)], to: u64) -> Report {
    let mut units = Units::new();
    events.iter().for_each(|(unit, event)| units.event(*unit, event));
    units.close(Nanos(to))
}

fn charged(report: &Report) -> Charged {
    let of = |row: &Row| row.behind.iter().map(|(unit, waited)| ((row.unit, *unit), waited.0)).collect::<Vec<_>>();
    report.rows.iter().flat_map(of).collect()
}

/// Start of the wait, and completion.
fn span(event: &Event) -> (u64, u64) {
    match event {
        Event::Completed { request, at, .. } => (request.arrival.0, at.0),
        Event::Flushed { asked, at, .. } => (asked.0, at.0),
        _ => panic!("only these are made"),
    }
}

/// Each nanosecond of each wait, charged to the unit of the next completion. Completions must be at different times.
fn counted(events: &[(UnitId, Event)]) -> Charged {
    let mut charged = Charged::new();
    let began = span(&events[0].1).0;
    for (victim, waits) in events {
        let (from, to) = span(waits);
        let mut add = |unit, waited| {
            if waited > 0 {
                *charged.entry((Some(*victim), unit)).or_default() += waited;
            }
        };
        add(None, began.min(to).saturating_sub(from));
        let mut start = began;
        for (unit, completion) in events {
            let end = span(completion).1;
            add(Some(*unit), end.min(to).saturating_sub(start.max(from)));
            start = end;
        }
    }
    charged
}

proptest! {
    #[test]
    fn the_wait_of_a_unit_is_the_sum_of_its_waits_behind_all_units(all in prop::collection::vec(done(300), 1..2_000), cut in 0..2_000_usize) {
        let events = timed(&all);
        let mut units = Units::new();
        units.timeline = Timeline::with_blocks(3);
        let (mut waited, mut operations) = (0, 0);
        for (number, (unit, event)) in events.iter().enumerate() {
            if number == cut {
                units.gap();
            }
            units.event(*unit, event);
            if number % 700 == cut % 700 || number + 1 == events.len() {
                let report = units.close(event.at());
                for row in &report.rows {
                    let sum: u64 = row.behind.iter().map(|(_, waited)| waited.0).sum();
                    prop_assert_eq!(sum, row.waited.0, "{:?}", row);
                    waited += row.waited.0;
                    operations += row.requests() + row.flushes.requests;
                }
            }
        }
        prop_assert_eq!(waited, events.iter().map(|(_, event)| span(event).1 - span(event).0).sum::<u64>());
        prop_assert_eq!(operations, all.len() as u64);
        prop_assert!(units.slots.len() <= MOST_UNITS + 1);
    }

    #[test]
    fn what_is_charged_is_what_a_direct_count_says(mut all in prop::collection::vec(done(6), 1..300)) {
        all.iter_mut().for_each(|done| done.after += 1);
        let events = timed(&all);
        prop_assert_eq!(charged(&report(&events, 2_000_000_000)), counted(&events));
    }

    #[test]
    fn rows_of_units_do_not_depend_on_units_that_they_do_not_meet(
        first in prop::collection::vec(done(3), 1..100),
        second in prop::collection::vec(done(3), 1..100),
    ) {
        let alone = timed(&first);
        let last = alone.last().map_or(0, |(_, event)| event.at().0);
        let mut both = alone.clone();
        // The other units begin after the last completion of these.
        both.extend(timed(&second).into_iter().map(|(unit, event)| (unit + 10, later(event, last))));
        let rows = |report: Report| report.rows.into_iter().filter(|row| row.unit < Some(10)).collect::<Vec<_>>();
        prop_assert_eq!(rows(report(&alone, 9_000_000_000)), rows(report(&both, 9_000_000_000)));
    }

    #[test]
    fn numbers_of_units_do_not_matter(all in prop::collection::vec(done(5), 1..300), by in 1..4_000_000_000_u32) {
        let events = timed(&all);
        let other: Vec<_> = events.iter().map(|(unit, event)| (unit + by, *event)).collect();
        let back = |unit: Option<UnitId>| unit.map(|unit| unit - by);
        let renamed: Charged =
            charged(&report(&other, 2_000_000_000)).into_iter().map(|((one, two), waited)| ((back(one), back(two)), waited)).collect();
        prop_assert_eq!(charged(&report(&events, 2_000_000_000)), renamed);
    }

    #[test]
    fn charging_write_back_moves_and_neither_adds_nor_loses(
        all in prop::collection::vec(done(5), 1..300),
        shares in prop::collection::vec((0..8_u32, 0.0..0.2_f64), 0..5),
    ) {
        let events = timed(&all);
        let mut charged = report(&events, 2_000_000_000);
        let before = charged.clone();
        charged.charge(0, &shares);
        let bytes = |report: &Report| {
            let both = report.rows.iter().map(|row| (row.reads.bytes, row.writes.bytes));
            both.fold((0, 0), |(read, written), (more, wrote)| (read + more, written + wrote))
        };
        prop_assert_eq!(bytes(&before), bytes(&charged));
        let row = |report: &Report, unit| report.rows.iter().find(|row| row.unit == Some(unit)).map_or(0, |row| row.reads.bytes);
        let moved: f64 = shares.iter().filter(|(unit, _)| *unit == 1).map(|(_, share)| share).sum();
        let more = (row(&charged, 1) - row(&before, 1)) as f64;
        prop_assert!((more - moved * row(&before, 0) as f64).abs() < shares.len() as f64 + 1.0);
        for row in &charged.rows {
            prop_assert_eq!(row.behind.iter().map(|(_, waited)| waited.0).sum::<u64>(), row.waited.0);
        }
    }
}

/// The same event, delayed by `by`.
fn later(event: Event, by: u64) -> Event {
    match event {
        Event::Completed { mut request, dispatched, at } => {
            request.arrival += Nanos(by);
            Event::Completed { request, dispatched: dispatched + Nanos(by), at: at + Nanos(by) }
        }
        Event::Flushed { stream, asked, at } => Event::Flushed { stream, asked: asked + Nanos(by), at: at + Nanos(by) },
        other => other,
    }
}

fn completed(unit: UnitId, op: Op, sectors: u32, arrival: u64, at: u64) -> (UnitId, Event) {
    let request =
        Request { id: 0, stream: unit, op, sync: false, priority: Priority::DEFAULT, sectors, lba: 0, arrival: Nanos(arrival) };
    (unit, Event::Completed { request, dispatched: Nanos(arrival), at: Nanos(at) })
}

#[test]
fn a_row_has_rates_quantiles_and_the_neighbour_that_it_waited_for_most() {
    let flush = (1, Event::Flushed { stream: 1, asked: Nanos(400), at: Nanos(1_000) });
    let events =
        [completed(1, Op::Read, 8, 0, 100), completed(2, Op::Write, 80, 100, 300), completed(1, Op::Write, 8, 200, 400), flush];
    let report = report(&events, 2_000_000_000);
    let [first, second] = &report.rows[..] else { panic!("two units: {report:?}") };
    assert_eq!((first.unit, first.requests(), first.waited), (Some(1), 2, Nanos(900)));
    assert_eq!((first.reads.bytes, first.reads.p99, first.writes.p50), (4_096, Some(Nanos(100)), Some(Nanos(200))));
    assert_eq!((first.flushes.requests, first.sync_writes.p50), (1, None));
    assert!(first.flushes.p99.is_some_and(|p99| p99 <= Nanos(600) && p99 > Nanos(590)), "{first:?}");
    assert_eq!(first.behind, [(Some(1), Nanos(800)), (Some(2), Nanos(100))]);
    assert_eq!(first.neighbour(), Some((Some(2), 100.0 / 900.0)));
    assert_eq!((second.neighbour(), report.per_second(second.writes.bytes)), (None, 20_480.0));
    assert_eq!(report.wait(first), 450e-9);
}

#[test]
fn a_call_of_fsync_waits_for_what_the_device_completes_meanwhile_and_counts_once() {
    let (neighbour, database, journal) = (2, 1, 7);
    let events = [
        completed(neighbour, Op::Read, 8, 0, 100),
        (database, Event::Called { stream: 1, at: Nanos(100) }),
        completed(database, Op::Write, 8, 110, 200),
        completed(journal, Op::Write, 8, 150, 500),
        (database, Event::Flushed { stream: 1, asked: Nanos(200), at: Nanos(600) }),
        completed(neighbour, Op::Read, 8, 0, 1_000),
        (database, Event::Returned { stream: 1, op: Op::Write, bytes: 0, called: Nanos(100), at: Nanos(1_050) }),
        // A call with nothing to wait for, and one with an unknown beginning.
        (database, Event::Called { stream: 1, at: Nanos(1_060) }),
        (database, Event::Returned { stream: 1, op: Op::Write, bytes: 0, called: Nanos(1_060), at: Nanos(1_070) }),
        (database, Event::Returned { stream: 3, op: Op::Read, bytes: 0, called: Nanos(0), at: Nanos(1_070) }),
        completed(database, Op::Read, 8, 1_100, 1_200),
    ];
    let report = report(&events, 2_000);
    let row = report.rows.iter().find(|row| row.unit == Some(database)).unwrap();
    assert_eq!((row.flushes.requests, row.waited), (2, Nanos(900 + 100)));
    assert!(row.flushes.p99.is_some_and(|p99| p99 <= Nanos(950) && p99 > Nanos(930)), "{row:?}");
    assert_eq!(row.behind, [(Some(neighbour), Nanos(400)), (Some(database), Nanos(200 + 100)), (Some(journal), Nanos(300))]);
}

#[test]
fn requests_that_complete_at_once_share_the_time_by_their_sizes() {
    let events =
        [completed(3, Op::Read, 8, 0, 1_000), completed(1, Op::Write, 24, 1_000, 1_800), completed(2, Op::Write, 8, 1_000, 1_800)];
    let report = report(&events, 2_000);
    let row = report.rows.iter().find(|row| row.unit == Some(2)).unwrap();
    assert_eq!(row.behind, [(Some(1), Nanos(600)), (Some(2), Nanos(200))]);
}

#[test]
fn time_in_which_events_were_lost_is_of_no_unit() {
    let mut units = Units::new();
    let events = [completed(1, Op::Read, 8, 0, 100), completed(2, Op::Read, 8, 50, 300)];
    units.event(events[0].0, &events[0].1);
    units.gap();
    units.event(events[1].0, &events[1].1);
    let report = units.close(Nanos(1_000));
    let row = report.rows.iter().find(|row| row.unit == Some(2)).unwrap();
    assert_eq!(row.behind, [(None, Nanos(200)), (Some(1), Nanos(50))]);
}

#[test]
fn units_that_come_and_go_find_room_and_an_idle_interval_is_empty() {
    let mut units = Units::new();
    let mut at = 0;
    for unit in 0..10_000 {
        at += 1_000_000_000;
        let (_, event) = completed(unit, Op::Read, 8, at - 1_000_000, at);
        units.event(unit, &event);
        let report = units.close(Nanos(at));
        assert_eq!(report.rows.iter().map(|row| row.unit).collect::<Vec<_>>(), [Some(unit)], "those before it are forgotten");
    }
    assert!(units.slots.len() <= MOST_UNITS + 1);
    assert_eq!(units.close(Nanos(at + 1)).rows, []);
}

#[test]
fn more_units_at_once_than_are_distinguished_share_a_row() {
    let units = MOST_UNITS as u32 + 40;
    let events: Vec<_> = (0..units).map(|unit| completed(unit, Op::Read, 8, 0, 1 + u64::from(unit))).collect();
    let report = report(&events, 1_000);
    let other = report.rows.iter().find(|row| row.unit.is_none()).unwrap();
    assert_eq!((report.rows.len(), other.reads.requests), (MOST_UNITS + 1, 40));
}
