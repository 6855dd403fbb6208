//! Guarantees on drawn hosts, at a size that takes seconds; `tests/bars/guarantees` has the rest.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use experiment::comparison::regime::scheduler;
use experiment::pool::Workers;
use progress::monitor::Quiet;
use research::guarantees::bars;
use research::worlds::Which;

#[test]
fn a_tenant_alone_on_the_disk_that_it_is_guaranteed_has_what_it_has_without_a_scheduler() {
    let quiet = Quiet::default();
    let pair = ["youchoose", "none"].map(|name| scheduler(name).unwrap());
    let numbers: Vec<u32> = (0..40).collect();
    for result in bars::alone(Which::Learn, 7, &numbers, &pair, Workers::new(&quiet, Some(2))).unwrap() {
        assert!(result.throughput >= 0.99 && result.p99 <= 1.05, "{result:?}");
    }
}

#[test]
fn contracts_are_the_same_whatever_the_number_of_threads_and_flash_keeps_them() {
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
