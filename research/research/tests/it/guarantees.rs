//! Guarantees on drawn hosts, at a size that takes seconds; `research/bars/guarantees` has the rest.

use experiment::comparison::regime::scheduler;
use progress::monitor::Quiet;
use research::guarantees::admission::admission;
use research::guarantees::{bars, rates};
use research::worlds::Which;
use testbed::pool::Workers;

#[test]
fn a_tenant_alone_on_its_reference_disk_has_the_performance_of_no_scheduler() {
    let quiet = Quiet::default();
    let pair = ["youchoose", "none"].map(|name| scheduler(name).unwrap());
    let numbers: Vec<u32> = (0..40).collect();
    for result in bars::alone(Which::Learn, 7, &numbers, &pair, Workers::new(&quiet, Some(2))).unwrap() {
        assert!(result.throughput >= 0.99 && result.p99 <= 1.05, "{result:?}");
    }
}

#[test]
fn contracts_are_the_same_for_any_number_of_threads_and_flash_keeps_them() {
    let quiet = Quiet::default();
    let schedulers = ["youchoose", "none"].map(|name| scheduler(name).unwrap());
    let run = |threads| bars::contracts(Which::Learn, 1, &[21, 35], 0.7, &schedulers, Workers::new(&quiet, Some(threads))).unwrap();
    let (one, two) = (run(1), run(2));
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one.text, two.text);
        assert_eq!(
            one.outcomes.iter().map(|o| o.bytes).collect::<Vec<_>>(),
            two.outcomes.iter().map(|o| o.bytes).collect::<Vec<_>>()
        );
        assert_eq!(one.broken(0).0, 0, "{}: {:?}", one.host, one.outcomes[0].tenancy.tenants);
    }
    assert!(one[1].broken(1).0 > 0, "without a scheduler the guarantees of the second break");
}

#[test]
fn of_drawn_contracts_that_a_slower_host_keeps_nearly_all_are_kept() {
    let quiet = Quiet::default();
    let schedulers = ["youchoose", "none"].map(|name| scheduler(name).unwrap());
    let numbers: Vec<u32> = (0..12).collect();
    let all = bars::contracts(Which::Learn, 7, &numbers, 0.7, &schedulers, Workers::new(&quiet, Some(2))).unwrap();
    let broken = |position: usize| all.iter().map(|result| result.broken(position).0).sum::<usize>();
    let kept = all.iter().filter(|result| result.broken(0).0 == 0).count();
    assert!(kept >= 11, "{kept} of 12 kept");
    assert!(8 * broken(0) <= broken(1), "{} and without a scheduler {} broken", broken(0), broken(1));
    assert!(all.iter().all(|result| result.broken(0).1 > 0), "each has a guarantee");
}

#[test]
fn no_limit_is_exceeded_in_any_second_and_nearly_no_reservation_missed() {
    let quiet = Quiet::default();
    let schedulers = ["youchoose", "none"].map(|name| scheduler(name).unwrap());
    let numbers: Vec<u32> = (0..24).collect();
    let all = rates::rates(Which::Learn, 7, &numbers, 0.7, &schedulers, Workers::new(&quiet, Some(2))).unwrap();
    let broken = |position: usize, is_limit: bool| all.iter().map(|result| result.broken(position, is_limit).0).sum::<usize>();
    assert_eq!(broken(0, true), 0, "limits");
    assert!(broken(0, false) <= 1, "{} reservations", broken(0, false));
    assert!(broken(1, true) >= 10 && broken(1, false) >= 10, "without a scheduler: {} and {}", broken(1, true), broken(1, false));
}

#[test]
fn what_is_refused_breaks_again_and_what_is_admitted_is_kept() {
    let quiet = Quiet::default();
    let all = admission(Which::Learn, 7, &[1, 2, 4, 5], Workers::new(&quiet, Some(2))).unwrap();
    let admitted: Vec<bool> = all.iter().map(|result| result.answer.can_be_guaranteed()).collect();
    assert_eq!(admitted, [false, true, false, false]);
    assert!(all.iter().all(|result| result.is_right()), "{:?}", all.iter().map(|result| &result.broken).collect::<Vec<_>>());
}
