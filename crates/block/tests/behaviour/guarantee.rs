//! The rules of `guarantee`, each by itself, and the shares of tenants together.

use std::sync::Arc;

use block::tenants::ConstantTime;
use block::{Limits, Nanos, Pick, Request, RequestId, Roster, Scheduler, Tenant};

use crate::disk::{Process, Report, run};
use crate::youchoose::{VOLUME, alone, guaranteed, seeker};
use crate::{insert_all, ms, pick_all, read, scheduler_with, write};

/// A scheduler that does not merge, with a volume for each tenant.
fn with_tenants(setting: &str, tenants: Vec<Tenant>, is_rotational: bool) -> Box<dyn Scheduler> {
    let mut scheduler = scheduler_with(setting, Limits { max_sectors: 0, ..Limits::default() });
    let number = tenants.len();
    let volumes = (0..number as u64).map(|n| (n * VOLUME..(n + 1) * VOLUME, n as usize)).collect();
    let streams: Vec<_> = (0..number).map(|n| (n as u32, n)).collect();
    scheduler.set_roster(&Roster::new(tenants, volumes, &streams, 1).unwrap().with_rotational(is_rotational));
    scheduler
}

/// A tenant that is promised a request in each interval of this length.
fn each(millis: u64) -> Tenant {
    Tenant::new("promised").with_reference(Arc::new(ConstantTime { request: ms(millis), sector: Nanos::ZERO }))
}

fn best_effort() -> Tenant {
    Tenant::new("best effort")
}

/// Request `id` of a tenant, far from all others.
fn of(tenant: u64, id: RequestId) -> Request {
    read(id, tenant * VOLUME + 10_000 * u64::from(id))
}

fn volume_of(pick: Pick) -> Option<u64> {
    if let Pick::Go(request) = pick { Some(request.lba / VOLUME) } else { None }
}

/// Serves one request of each of these tenants by itself, so that costs are known: `took` each, ending at `start` plus their sum.
fn learn(scheduler: &mut dyn Scheduler, start: Nanos, took: Nanos, tenants: &[u64]) -> Nanos {
    let mut now = start;
    for (place, &tenant) in tenants.iter().cycle().take(40 * tenants.len()).enumerate() {
        insert_all(scheduler, now, [of(tenant, place as RequestId)]);
        let request = loop {
            match scheduler.pick(now) {
                Pick::Go(request) => break request,
                Pick::WaitUntil(until) => now = until,
                Pick::Empty => panic!("a request was lost"),
            }
        };
        now += took;
        scheduler.completed(now, &request, took);
    }
    now
}

fn share(tenants: Vec<Tenant>, processes: &[Process], seconds: u64) -> Report {
    run(&mut *with_tenants("guarantee", tenants, false), processes, ms(seconds * 1_000))
}

#[test]
fn the_earliest_due_goes_first() {
    let mut scheduler = with_tenants("guarantee", vec![each(12), each(10)], false);
    let now = learn(&mut *scheduler, Nanos::ZERO, ms(4), &[0, 1]);
    // A tenant's first request is due after its own time, the second after twice that.
    insert_all(&mut *scheduler, now, [of(0, 100), of(1, 101), of(1, 102)]);
    let mut order = Vec::new();
    let mut at = now;
    while let Pick::Go(request) = scheduler.pick(at) {
        at += ms(4);
        scheduler.completed(at, &request, ms(4));
        order.push(request.id);
    }
    assert_eq!(order, [101, 100, 102]);
}

#[test]
fn others_go_first_as_long_as_a_promise_is_not_due() {
    let mut scheduler = with_tenants("guarantee", vec![each(50), best_effort()], false);
    let now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
    insert_all(&mut *scheduler, now, [of(0, 100), of(1, 101), of(1, 102)]);
    assert_eq!(volume_of(scheduler.pick(now)), Some(1), "there is time for it");
    let mut late = with_tenants("guarantee", vec![each(50), best_effort()], false);
    let now = learn(&mut *late, Nanos::ZERO, ms(5), &[0, 1]);
    insert_all(&mut *late, now, [of(0, 100)]);
    insert_all(&mut *late, now + ms(44), [of(1, 101)]);
    assert_eq!(volume_of(late.pick(now + ms(44))), Some(0), "it has to be done in 6 ms");
}

/// The first tenant's request and one of best effort 20 ms later, of the 50 in which it is promised; and which of them goes first.
fn first_after_20_ms(scheduler: &mut dyn Scheduler, now: Nanos, request: Request) -> Option<u64> {
    insert_all(scheduler, now, [request]);
    insert_all(scheduler, now + ms(20), [of(1, 901)]);
    volume_of(scheduler.pick(now + ms(20)))
}

#[test]
fn on_a_single_disk_the_pace_of_a_tenant_is_kept_with_usual_times_and_its_worst_case_with_the_worst() {
    let first = |(at_once, is_rotational): (u32, bool)| {
        let mut scheduler = with_tenants("guarantee", vec![each(50), best_effort()], is_rotational);
        // Its reference disk responds within as many times 50 ms.
        insert_all(&mut *scheduler, Nanos::ZERO, (0..at_once).map(|id| of(0, 700 + id)));
        let mut now = Nanos::ZERO;
        let mut serve = |scheduler: &mut dyn Scheduler, took: u64| {
            while let Pick::Go(request) = scheduler.pick(now) {
                now += ms(took);
                scheduler.completed(now, &request, ms(took));
            }
            now
        };
        let start = serve(&mut *scheduler, 5);
        insert_all(&mut *scheduler, start, [of(0, 800)]);
        let start = serve(&mut *scheduler, 30);
        let now = learn(&mut *scheduler, start, ms(5), &[0, 1]);
        first_after_20_ms(&mut *scheduler, now, of(0, 900))
    };
    assert_eq!([(1, true), (4, true), (4, false)].map(first), [Some(0), Some(1), Some(0)]);
}

#[test]
fn only_writes_of_a_tenant_that_syncs_are_due_earlier() {
    let first = |is_write: bool| {
        let mut scheduler = with_tenants("guarantee", vec![each(50), best_effort()], false);
        scheduler.flush_began(Nanos::ZERO, 0);
        scheduler.flush_ended(ms(40), 0, Nanos::ZERO);
        let now = learn(&mut *scheduler, ms(40), ms(5), &[0, 1]);
        let request = if is_write { write(900, 7_000) } else { of(0, 900) };
        first_after_20_ms(&mut *scheduler, now, request)
    };
    assert_eq!([true, false].map(first), [Some(0), Some(1)]);
}

#[test]
fn on_a_single_disk_a_promised_request_is_not_sent_ahead_of_its_time_while_best_effort_waits_for_room() {
    let next = |is_rotational: bool| {
        let mut scheduler = with_tenants("guarantee", vec![each(40), best_effort(), each(1_000)], is_rotational);
        let now = learn(&mut *scheduler, Nanos::ZERO, ms(20), &[1]);
        let now = learn(&mut *scheduler, now, ms(5), &[0, 2]);
        insert_all(&mut *scheduler, now, [of(1, 900), of(1, 901), of(2, 902)]);
        assert_eq!(volume_of(scheduler.pick(now)), Some(1));
        // The other one of best effort would leave the first tenant too little of 35 ms.
        volume_of(scheduler.pick(now))
    };
    assert_eq!([true, false].map(next), [None, Some(2)]);
}

#[test]
fn requests_in_flight_leave_room_for_a_request_that_may_come() {
    let mut scheduler = with_tenants("guarantee", vec![each(20), best_effort()], true);
    let now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
    insert_all(&mut *scheduler, now, (100..110).map(|id| of(1, id)));
    let sent = (0..10).take_while(|_| volume_of(scheduler.pick(now)) == Some(1)).count();
    // Of 20 ms its own request needs 5.
    assert_eq!(sent, 3, "15 ms are left for others");
    // After a second without a request it is not waited for.
    let later = now + ms(1_001);
    let sent = (0..10).take_while(|_| volume_of(scheduler.pick(later)) == Some(1)).count();
    assert_eq!(sent, 7);
}

#[test]
fn parallel_units_get_as_many_requests_as_they_complete_in_time() {
    let mut scheduler = with_tenants("guarantee", vec![each(1_000), best_effort()], false);
    let mut now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
    insert_all(&mut *scheduler, now, (100..140).map(|id| of(1, id)));
    let mut flying = pick_all(&mut *scheduler, now);
    assert_eq!(flying.len(), 2, "the first bound, although 995 ms are left for others");
    // A request of the promised tenant is in time with two others: there may be one more.
    insert_all(&mut *scheduler, now, [of(0, 200)]);
    flying.extend(pick_all(&mut *scheduler, now));
    let promised = flying.pop().unwrap();
    assert_eq!(promised.id, 200);
    now += ms(5);
    scheduler.completed(now, &promised, ms(5));
    flying.extend(pick_all(&mut *scheduler, now));
    assert_eq!(flying.len(), 3);
    // The next is kept by the device until the other one in flight is complete, and is late.
    let last = flying.pop().unwrap();
    flying.drain(..).for_each(|request| scheduler.completed(now, &request, ms(5)));
    insert_all(&mut *scheduler, now, [of(0, 201)]);
    let Pick::Go(promised) = scheduler.pick(now + ms(990)) else { panic!("it is urgent") };
    assert_eq!(promised.id, 201);
    scheduler.completed(now + ms(2_900), &last, ms(2_905));
    scheduler.completed(now + ms(2_905), &promised, ms(1_915));
    assert_eq!(pick_all(&mut *scheduler, now + ms(2_905)).len(), 2);
}

#[test]
fn parallel_units_get_fewer_requests_if_those_of_a_tenant_are_late_on_average() {
    let sent = |took: u64| {
        let mut scheduler = with_tenants("guarantee", vec![each(20), best_effort()], false);
        let mut now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
        // Four at once: its reference disk responds within 80 ms.
        insert_all(&mut *scheduler, now, (100..104).map(|id| of(0, id)));
        while let Pick::Go(request) = scheduler.pick(now) {
            now += ms(5);
            scheduler.completed(now, &request, ms(5));
        }
        let mut others = 0;
        for round in 0..20 {
            insert_all(&mut *scheduler, now, (0..20).map(|n| of(1, 1_000 + 20 * round + n)));
            let mut flying = pick_all(&mut *scheduler, now);
            others = flying.len();
            insert_all(&mut *scheduler, now, [of(0, 200 + round)]);
            flying.extend(pick_all(&mut *scheduler, now + ms(15)));
            // The last to be complete is the promised one.
            flying.sort_by_key(|request| request.lba < VOLUME);
            for (place, request) in flying.iter().enumerate() {
                let at = now + Nanos(ms(took).0 * (place as u64 + 1) / flying.len() as u64).max(ms(15));
                scheduler.completed(at, request, ms(5));
            }
            now += ms(took);
        }
        others
    };
    assert_eq!([20, 60].map(sent), [2, 1]);
}

#[test]
fn overdue_requests_are_sent_to_free_units_although_the_room_is_used_up() {
    let sent = |is_rotational: bool| {
        let mut scheduler = with_tenants("guarantee", (0..12).map(|_| each(20)).collect(), is_rotational);
        let mut now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let insert =
            |scheduler: &mut dyn Scheduler, now: Nanos| insert_all(scheduler, now, (0..12).map(|n| of(u64::from(n), 500 + n)));
        // Units that complete all that they get in time: the bound rises.
        for _ in 0..12 {
            insert(&mut *scheduler, now);
            let mut left = 12;
            while left > 0 {
                let flying = pick_all(&mut *scheduler, now);
                now += ms(1);
                flying.iter().for_each(|request| scheduler.completed(now, request, ms(1)));
                left -= flying.len();
            }
        }
        insert(&mut *scheduler, now);
        pick_all(&mut *scheduler, now + ms(300)).len()
    };
    assert_eq!((sent(true), sent(false)), (2, 6));
}

#[test]
fn on_a_single_disk_nothing_is_sent_that_could_overtake_a_request_that_is_nearly_due() {
    let picks = |is_rotational: bool| {
        let mut scheduler = with_tenants("guarantee", vec![each(40), best_effort(), each(400)], is_rotational);
        let now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1, 2]);
        insert_all(&mut *scheduler, now, [of(0, 200)]);
        assert_eq!(volume_of(scheduler.pick(now)), Some(0));
        // The disk has left it lying for 32 ms.
        insert_all(&mut *scheduler, now + ms(32), [of(1, 201)]);
        volume_of(scheduler.pick(now + ms(32)))
    };
    assert_eq!((picks(true), picks(false)), (None, Some(1)));
}

#[test]
fn a_request_of_a_tenant_with_many_queued_is_not_overtaken_either() {
    let mut scheduler = with_tenants("guarantee", vec![each(40), best_effort()], true);
    let now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
    insert_all(&mut *scheduler, now, (200..220).map(|id| of(0, id)));
    assert_eq!(volume_of(scheduler.pick(now)), Some(0));
    insert_all(&mut *scheduler, now + ms(32), [of(1, 300)]);
    assert_eq!(volume_of(scheduler.pick(now + ms(32))), None, "the one in flight is due in 6 ms, although the last is in 800");
}

#[test]
fn a_request_that_takes_longer_than_the_forgiven_time_keeps_its_due_time() {
    let mut scheduler = with_tenants("guarantee:debt_ms=500", vec![each(800), best_effort()], false);
    let now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
    insert_all(&mut *scheduler, now, [of(0, 100)]);
    insert_all(&mut *scheduler, now + ms(700), [of(0, 101), of(1, 102)]);
    assert_eq!(volume_of(scheduler.pick(now + ms(785))), Some(0), "its reference disk would soon complete it");
}

#[test]
fn a_write_that_the_cache_has_acknowledged_is_outstanding_until_its_time_at_the_media_has_passed() {
    let mut scheduler = with_tenants("guarantee", vec![each(20), best_effort()], true);
    let mut now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
    let from_write = |disk_time: Nanos| {
        insert_all(&mut *scheduler, now, [write(100, VOLUME + 7_000), of(1, 101)]);
        let Pick::Go(request) = scheduler.pick(now) else { panic!("an idle device") };
        assert_eq!(request.id, 100);
        now += Nanos(100_000);
        scheduler.record_disk_time(&request, disk_time);
        scheduler.completed(now, &request, Nanos(100_000));
        let next = scheduler.pick(now);
        // Its time passes.
        now += ms(50);
        if let Pick::Go(request) = next {
            scheduler.completed(now, &request, ms(5));
        } else {
            let Pick::Go(request) = scheduler.pick(now) else { panic!("the cache is clean") };
            scheduler.completed(now, &request, ms(5));
        }
        matches!(next, Pick::Go(_))
    };
    assert_eq!([ms(1), ms(30)].map(from_write), [true, false]);
}

#[test]
fn nothing_is_sent_to_a_single_disk_during_a_flush() {
    for is_rotational in [true, false] {
        let mut scheduler = with_tenants("guarantee", vec![each(20), best_effort()], is_rotational);
        insert_all(&mut *scheduler, Nanos::ZERO, [of(1, 1)]);
        scheduler.flush_began(Nanos::ZERO, 0);
        assert_eq!(matches!(scheduler.pick(ms(5)), Pick::WaitUntil(_)), is_rotational);
        scheduler.flush_ended(ms(10), 0, Nanos::ZERO);
        assert_eq!(matches!(scheduler.pick(ms(10)), Pick::Go(_)), is_rotational, "the other one has gone");
    }
}

#[test]
fn one_that_is_late_is_sent_although_the_room_of_others_is_used_up() {
    let mut scheduler = with_tenants("guarantee", vec![each(6), each(20)], false);
    let now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
    // The first leaves others 1 ms.
    insert_all(&mut *scheduler, now, (100..104).map(|id| of(1, id)));
    assert_eq!(volume_of(scheduler.pick(now)), None, "it is not due");
    let late = now + ms(39);
    assert_eq!([(); 2].map(|()| volume_of(scheduler.pick(late))), [Some(1), Some(1)]);
    assert_eq!(volume_of(scheduler.pick(late)), None, "two are in flight");
}

#[test]
fn tenants_without_a_guarantee_are_served_once_a_second_and_with_long_requests_more_rarely() {
    let report = share(vec![guaranteed(1), best_effort()], &[seeker(0, 8), seeker(1, 8)], 20);
    assert!((15..=25).contains(&report.served[1]), "{:?}", report.served);
    // 57.6 ms each: one in 128 parts of the time.
    let long = Process { sectors: 1_000, ..seeker(1, 8) };
    let report = share(vec![guaranteed(1), best_effort()], &[seeker(0, 8), long], 40);
    assert!((4..=8).contains(&report.served[1]), "{:?}", report.served);
}

#[test]
fn spare_capacity_is_shared_by_weight() {
    let tenants = || vec![guaranteed(2), best_effort(), best_effort().with_weight(3)];
    let processes = [seeker(0, 8), seeker(1, 8), seeker(2, 8)];
    let report = share(tenants(), &processes, 40);
    assert!(report.served[0] as f64 >= 0.99 * alone(seeker(0, 8), 2, 40) as f64, "{:?}", report.served);
    let ratio = report.served[2] as f64 / report.served[1] as f64;
    assert!((2.7..3.3).contains(&ratio), "{:?}", report.served);
}

#[test]
fn a_tenant_is_served_at_its_rate_and_not_more_before_others() {
    let report = share(vec![guaranteed(2), guaranteed(4), best_effort()], &[seeker(0, 8), seeker(1, 128), seeker(2, 32)], 40);
    for (number, slowness, at_once) in [(0, 2, 8), (1, 4, 128)] {
        let owed = alone(seeker(number, at_once), slowness, 40);
        let served = report.served[number as usize];
        assert!((0.99..1.2).contains(&(served as f64 / owed as f64)), "tenant {number}: {served} of {owed}");
    }
    assert!(report.total() >= 4_900, "the disk serves 5,000 in this time: {}", report.total());
}

#[test]
fn merged_requests_do_not_make_the_next_one_due_early() {
    let mut scheduler = scheduler_with("guarantee", Limits::default());
    let volumes = vec![(0..VOLUME, 0), (VOLUME..2 * VOLUME, 1)];
    scheduler.set_roster(&Roster::new(vec![each(50), best_effort()], volumes, &[], 1).unwrap());
    let mut now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
    insert_all(&mut *scheduler, now, [of(1, 900)]);
    // Pairs of neighbours, each served as one request of two parts.
    insert_all(&mut *scheduler, now, (100..120).map(|id| of(0, id)));
    for id in 100..110 {
        let first = of(0, id);
        scheduler.insert(now, Request { id: id + 100, lba: first.end(), arrival: now, ..first });
    }
    for _ in 0..10 {
        let Pick::Go(request) = scheduler.pick(now) else { panic!("an idle device") };
        now += ms(5);
        scheduler.completed(now, &request, ms(5));
    }
    insert_all(&mut *scheduler, now, [of(1, 901)]);
    assert_eq!(volume_of(scheduler.pick(now)), Some(1), "twenty requests in a second are promised, and ten were served in 50 ms");
}

#[test]
fn it_says_how_each_guarantee_stands() {
    let mut scheduler = with_tenants("guarantee", vec![guaranteed(4), guaranteed(4), best_effort()], false);
    let report = run(&mut *scheduler, &[seeker(0, 8), seeker(1, 8), seeker(2, 64)], ms(20_000));
    assert_eq!([2, 3].map(|tenant| scheduler.standing(ms(20_000), tenant)), [None, None]);
    for number in 0..2 {
        let standing = scheduler.standing(ms(20_000), number).unwrap();
        assert_eq!(standing.completed, report.served[number]);
        assert!(standing.late * 100 <= standing.completed && standing.behind <= ms(64), "{standing:?}");
    }
}

#[test]
fn a_new_roster_keeps_requests_queued_and_in_flight() {
    let mut scheduler = with_tenants("guarantee", vec![each(50), best_effort()], true);
    let now = learn(&mut *scheduler, Nanos::ZERO, ms(5), &[0, 1]);
    insert_all(&mut *scheduler, now, [of(0, 100), of(0, 101), of(1, 102)]);
    let Pick::Go(in_flight) = scheduler.pick(now) else { panic!("an idle device") };
    let named = |name: &str, tenant: Tenant| Tenant { name: name.to_owned(), ..tenant };
    let tenants = vec![named("new", each(5)), named("promised", each(50))];
    scheduler.set_roster(&Roster::new(tenants, vec![(VOLUME..2 * VOLUME, 0), (0..VOLUME, 1)], &[], 1).unwrap());
    scheduler.completed(now + ms(5), &in_flight, ms(5));
    let mut left = Vec::new();
    let mut at = now + ms(5);
    while left.len() < 2 {
        match scheduler.pick(at) {
            Pick::Go(request) => {
                at += ms(5);
                scheduler.completed(at, &request, ms(5));
                left.push(request.id);
            }
            Pick::WaitUntil(until) => at = until,
            Pick::Empty => panic!("a request was lost: {left:?}"),
        }
    }
    assert_eq!(scheduler.pick(at), Pick::Empty);
    let both = left.contains(&101) || in_flight.id == 101;
    assert!(both, "{left:?} after {}", in_flight.id);
}
