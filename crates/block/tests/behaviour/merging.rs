use block::{Insertion, Limits, Merges, Nanos, Op, Pick, Priority, PriorityClass, Request, Scheduler};

use crate::{ms, read, scheduler, scheduler_with, serve_all, write};

const NOW: Nanos = Nanos::ZERO;

fn merged(into: u32) -> Insertion {
    Insertion::Merged { into, absorbed: None }
}

#[track_caller]
fn picks(scheduler: &mut dyn Scheduler, id: u32, lba: u64, sectors: u32) {
    let Pick::Go(request) = scheduler.pick(ms(60_000)) else { panic!("nothing goes") };
    assert_eq!((request.id, request.lba, request.sectors), (id, lba, sectors));
}

#[test]
fn a_request_joins_the_one_that_ends_where_it_begins() {
    let mut clook = scheduler("clook");
    assert_eq!(clook.insert(NOW, read(7, 100)), Insertion::Queued);
    assert_eq!(clook.insert(NOW, read(8, 108)), merged(7));
    assert_eq!(clook.insert(NOW, read(9, 116)), merged(7));
    picks(&mut *clook, 7, 100, 24);
    assert_eq!(clook.pick(NOW), Pick::Empty);
}

#[test]
fn a_request_joins_the_one_that_begins_where_it_ends() {
    let mut clook = scheduler("clook");
    clook.insert(NOW, read(7, 108));
    assert_eq!(clook.insert(NOW, read(8, 100)), merged(7));
    picks(&mut *clook, 7, 100, 16);
}

#[test]
fn a_request_that_closes_a_gap_merges_three_into_one() {
    let mut clook = scheduler("clook");
    clook.insert(NOW, read(1, 100));
    clook.insert(NOW, read(2, 116));
    assert_eq!(clook.insert(NOW, read(3, 108)), Insertion::Merged { into: 1, absorbed: Some(2) });
    picks(&mut *clook, 1, 100, 24);
    assert_eq!(clook.pick(NOW), Pick::Empty);
}

#[test]
fn a_merged_request_takes_the_age_of_an_older_absorbed_one() {
    let mut deadline = scheduler("deadline:read_expire=100");
    for (id, lba, at) in [(1, 908, 0), (2, 500, 10), (3, 892, 20)] {
        deadline.insert(ms(at), Request { arrival: ms(at), ..read(id, lba) });
    }
    let closing = Request { arrival: ms(30), ..read(4, 900) };
    assert_eq!(deadline.insert(ms(30), closing), Insertion::Merged { into: 3, absorbed: Some(1) });
    let Pick::Go(first) = deadline.pick(ms(105)) else { panic!("nothing goes") };
    assert_eq!((first.id, first.arrival), (3, ms(0)));
}

#[test]
fn the_limit_of_a_merged_request_holds() {
    let mut clook = scheduler_with("clook", Limits { max_sectors: 20, merges: Merges::All });
    clook.insert(NOW, read(1, 100));
    clook.insert(NOW, read(2, 116));
    assert_eq!(clook.insert(NOW, read(3, 108)), merged(1), "with the third it would be 24");
    assert_eq!(clook.insert(NOW, read(4, 92)), Insertion::Queued);
    let mut never = scheduler_with("clook", Limits { max_sectors: 0, merges: Merges::All });
    never.insert(NOW, read(1, 100));
    assert_eq!(never.insert(NOW, read(2, 108)), Insertion::Queued);
}

#[test]
fn nomerges_restricts_merging_to_the_last_request_or_disables_it() {
    let limits = |merges| Limits { merges, ..Limits::default() };
    for name in ["noop", "sstf", "clook", "deadline", "anticipatory", "cfq"] {
        let mut last = scheduler_with(name, limits(Merges::WithLast));
        last.insert(NOW, read(1, 100));
        assert_eq!(last.insert(NOW, read(2, 108)), merged(1), "{name}");
        assert_eq!(last.insert(NOW, read(3, 900)), Insertion::Queued);
        assert_eq!(last.insert(NOW, read(4, 116)), Insertion::Queued, "{name}: the last one was at 900");
        let mut never = scheduler_with(name, limits(Merges::Never));
        never.insert(NOW, read(1, 100));
        assert_eq!(never.insert(NOW, read(2, 108)), Insertion::Queued, "{name}");
        never.set_limits(&limits(Merges::All));
        assert_eq!(never.insert(NOW, read(3, 116)), merged(2), "{name}");
    }
}

#[test]
fn reads_writes_synchronous_asynchronous_and_priorities_do_not_mix() {
    let strangers = [
        write(2, 108),
        Request { sync: true, ..write(2, 108) },
        Request { priority: Priority { class: PriorityClass::RealTime, level: 4 }, ..read(2, 108) },
        Request { priority: Priority { level: 5, ..Priority::DEFAULT }, ..read(2, 108) },
    ];
    for stranger in strangers {
        let mut noop = scheduler("noop");
        noop.insert(NOW, read(1, 100));
        assert_eq!(noop.insert(NOW, stranger), Insertion::Queued);
    }
    let mut noop = scheduler("noop");
    noop.insert(NOW, Request { op: Op::Write, sync: true, ..read(1, 100) });
    assert_eq!(noop.insert(NOW, write(2, 108)), Insertion::Queued);
}

#[test]
fn discards_merge_with_discards_only_and_are_written_in_the_order_of_writes() {
    let discard = |id, lba| Request { op: Op::Discard, ..write(id, lba) };
    for name in ["noop", "clook", "deadline", "anticipatory", "cfq"] {
        let mut queue = scheduler(name);
        queue.insert(NOW, write(1, 100));
        assert_eq!(queue.insert(NOW, discard(2, 108)), Insertion::Queued, "{name}");
        assert_eq!(queue.insert(NOW, discard(3, 116)), Insertion::Merged { into: 2, absorbed: None }, "{name}");
        assert_eq!(queue.insert(NOW, write(4, 124)), Insertion::Queued, "{name}");
        assert_eq!(queue.insert(NOW, read(5, 124)), Insertion::Queued, "{name}");
    }
    // Reads go before writes, and a discard is no read.
    let mut deadline = scheduler("deadline");
    deadline.insert(NOW, discard(1, 8));
    deadline.insert(NOW, read(2, 1000));
    assert_eq!(serve_all(&mut *deadline, NOW), [1000, 8]);
}

#[test]
fn overlapping_requests_stay_apart() {
    let mut clook = scheduler("clook");
    clook.insert(NOW, read(1, 100));
    assert_eq!(clook.insert(NOW, read(2, 104)), Insertion::Queued);
    assert_eq!(clook.insert(NOW, read(3, 100)), Insertion::Queued);
    picks(&mut *clook, 1, 100, 8);
}

#[test]
fn streams_share_a_request_unless_the_scheduler_works_by_process() {
    let other = |lba| Request { stream: 2, ..read(2, lba) };
    for (name, shares) in [("noop", true), ("clook", true), ("deadline", true), ("anticipatory", false), ("cfq", false)] {
        let mut one = scheduler(name);
        one.insert(NOW, read(1, 100));
        assert_eq!(one.insert(NOW, other(108)) == merged(1), shares, "{name}");
    }
}

#[test]
fn front_merges_can_be_turned_off() {
    let mut deadline = scheduler("deadline:front_merges=0");
    deadline.insert(NOW, read(1, 108));
    assert_eq!(deadline.insert(NOW, read(2, 100)), Insertion::Queued);
    deadline.retune(&[500, 5_000, 16, 2, 1]);
    assert_eq!(deadline.insert(NOW, read(3, 92)), merged(2));
}

#[test]
fn a_request_at_the_largest_lba_is_served_and_never_merged() {
    for name in ["noop", "sstf", "clook", "deadline", "anticipatory", "cfq"] {
        let mut one = scheduler(name);
        let last = Request { sectors: u32::MAX, ..read(1, u64::MAX - 8) };
        assert_eq!(one.insert(NOW, read(0, u64::MAX - 16)), Insertion::Queued);
        assert_eq!(one.insert(NOW, last), Insertion::Queued, "{name}");
        assert!(matches!(one.pick(NOW), Pick::Go(_)));
    }
}
