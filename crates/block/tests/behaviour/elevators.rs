use block::{Nanos, Pick, Request};

use crate::{insert_all, read, scheduler, serve, serve_all};

const NOW: Nanos = Nanos::ZERO;

#[test]
fn noop_serves_in_the_order_of_arrival() {
    let mut noop = scheduler("noop");
    insert_all(&mut *noop, NOW, [read(0, 500), read(1, 100), read(2, 900), read(3, 300)]);
    assert_eq!(serve_all(&mut *noop, NOW), [500, 100, 900, 300]);
}

#[test]
fn sstf_serves_the_nearest_in_either_direction() {
    let mut sstf = scheduler("sstf");
    insert_all(&mut *sstf, NOW, [read(0, 1_000)]);
    assert_eq!(serve(&mut *sstf, NOW), 1_000);
    insert_all(&mut *sstf, NOW, [read(0, 980), read(1, 1_040), read(2, 0), read(3, 3_000)]);
    assert_eq!(serve_all(&mut *sstf, NOW), [980, 1_040, 0, 3_000]);
}

#[test]
fn sstf_lets_a_distant_request_starve_while_near_ones_arrive() {
    let mut sstf = scheduler("sstf");
    insert_all(&mut *sstf, NOW, [read(0, 1 << 30)]);
    for near in 1..1_000 {
        insert_all(&mut *sstf, NOW, [read(near, u64::from(near % 7) * 100)]);
        assert_ne!(serve(&mut *sstf, NOW), 1 << 30);
    }
}

#[test]
fn clook_sweeps_upwards_and_returns_to_the_lowest() {
    let mut clook = scheduler("clook");
    insert_all(&mut *clook, NOW, [read(0, 500), read(1, 100), read(2, 900)]);
    assert_eq!(serve(&mut *clook, NOW), 100);
    assert_eq!(serve(&mut *clook, NOW), 500);
    insert_all(&mut *clook, NOW, [read(3, 400), read(4, 600), read(5, 50)]);
    assert_eq!(serve_all(&mut *clook, NOW), [600, 900, 50, 400]);
}

#[test]
fn clook_is_not_held_by_repeated_requests_for_one_sector() {
    let mut clook = scheduler("clook");
    insert_all(&mut *clook, NOW, [read(0, 100), read(1, 200)]);
    assert_eq!(serve(&mut *clook, NOW), 100);
    insert_all(&mut *clook, NOW, [read(0, 100)]);
    assert_eq!(serve(&mut *clook, NOW), 200);
}

#[test]
fn sptf_serves_the_cheapest_request_or_the_nearest_without_estimates() {
    let order = |mut cost: fn(&Request) -> Option<Nanos>| {
        let mut sptf = scheduler("sptf");
        insert_all(&mut *sptf, NOW, [read(0, 500), read(1, 100), read(2, 900), read(3, 300)]);
        let pick = || if let Pick::Go(request) = sptf.pick_with_cost(NOW, &mut cost) { Some(request.lba) } else { None };
        std::iter::from_fn(pick).collect::<Vec<_>>()
    };
    assert_eq!(order(|request| Some(Nanos(1_000 - request.lba))), [900, 500, 300, 100]);
    assert_eq!(order(|_| Some(NOW)), [500, 100, 900, 300], "of several the oldest");
    assert_eq!(order(|_| None), [100, 300, 500, 900]);
    assert_eq!(order(|request| (request.lba != 300).then_some(NOW)), [100, 300, 500, 900], "as long as one has no cost");
    let mut sptf = scheduler("sptf");
    insert_all(&mut *sptf, NOW, [read(0, 500), read(1, 100), read(2, 900), read(3, 300)]);
    assert_eq!(serve_all(&mut *sptf, NOW), [100, 300, 500, 900]);
}
