//! Promises to cgroups on drawn hosts, at a size that takes seconds; `seekwise-lab protect` has the rest.

use progress::monitor::Quiet;
use research::protect::draw::PromiseKind;
use research::protect::{Draws, ProtectResult, protect};
use research::worlds::Which;
use testbed::pool::Workers;

#[test]
fn drawn_promises_are_kept_where_nothing_keeps_them_and_threads_change_nothing() {
    let quiet = Quiet::default();
    let run = |threads| protect(Draws::of(Which::Learn), 1, &[0, 1], Workers::new(&quiet, Some(threads))).unwrap();
    let (one, two): (Vec<ProtectResult>, _) = (run(1), run(2));
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
        let [nothing, _, _, fixed, protected] = &one.outcomes;
        assert!(!nothing.is_kept() && fixed.is_kept(), "{one:?}");
        assert!(protected.is_kept(), "{one:?}");
        // 0.74 and 1.06 of the fixed limit's, which knew the load before.
        assert!(protected.bytes * 10 >= 7 * fixed.bytes, "{one:?}");
        assert!(protected.bytes_in_pause * 10 >= 9 * nothing.bytes_in_pause, "{one:?}");
    }
}

#[test]
fn a_share_and_the_speed_of_a_reference_disk_are_kept_and_forecast() {
    let quiet = Quiet::default();
    let draws = Draws { kinds: &[PromiseKind::Share, PromiseKind::Reference], ..Draws::of(Which::Learn) };
    let all = protect(draws, 5, &[4, 11], Workers::new(&quiet, None)).unwrap();
    assert_eq!([all[0].kind, all[1].kind], [PromiseKind::Reference, PromiseKind::Share]);
    for result in &all {
        let [nothing, _, _, fixed, protected] = &result.outcomes;
        assert!(!nothing.is_kept() && fixed.is_kept() && protected.is_kept(), "{result:?}");
        // 0.74 and 1.04 of the fixed limit's, which knew the load before.
        assert!(protected.bytes * 10 >= 7 * fixed.bytes, "{result:?}");
        let (alone, forecast) = (result.alone.0, result.alone.1.as_ref().unwrap());
        assert!((forecast / alone - 1.0).abs() < 0.1, "{forecast} {alone}");
    }
}
