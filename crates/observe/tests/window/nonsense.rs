//! Events of no sane host: times that run backwards, requests done that never were queued, windows without length.

use block::{Nanos, Priority, Request};
use observe::Event;
use observe::Preference;
use observe::window::{Extractor, FEATURES, Tally};
use proptest::prelude::*;

use crate::script;

fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..10, (0_u64..10).prop_map(|less| u64::MAX - less), Just(1 << 63), any::<u64>()]
}

fn request() -> impl Strategy<Value = Request> {
    let stream = prop_oneof![Just(0), Just(u32::MAX), any::<u32>()];
    let sectors = prop_oneof![Just(0), Just(1), Just(u32::MAX), any::<u32>()];
    (stream, script::op(), any::<bool>(), sectors, extreme(), extreme()).prop_map(|(stream, op, sync, sectors, lba, arrival)| {
        Request { id: 0, stream, op, sync, priority: Priority::DEFAULT, sectors, lba, arrival: Nanos(arrival) }
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        request().prop_map(Event::Queued),
        (request(), extreme(), extreme()).prop_map(|(request, dispatched, at)| Event::Completed {
            request,
            dispatched: Nanos(dispatched),
            at: Nanos(at)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nothing_makes_a_feature_infinite_a_share_more_than_all_or_a_score_no_number(
        windows in prop::collection::vec((prop::collection::vec(event(), 0..40), extreme()), 1..4),
    ) {
        let (mut extractor, mut tally) = (Extractor::new(), Tally::new());
        for (events, duration) in windows {
            for event in &events {
                extractor.event(event);
                tally.event(event);
            }
            let features = extractor.close(Nanos(duration));
            for (feature, value) in FEATURES.iter().zip(features.0) {
                prop_assert!(!value.is_infinite(), "{}", feature.name);
                prop_assert!(value.is_nan() || value >= 0.0, "{}: {value}", feature.name);
                prop_assert!(!feature.name.ends_with("share") || value.is_nan() || value <= 1.0, "{}: {value}", feature.name);
            }
            let outcome = tally.close(Nanos(duration));
            prop_assert!((0.0..=1.0).contains(&outcome.fairness), "{}", outcome.fairness);
            prop_assert!(outcome.throughput().is_finite() && outcome.rate().is_finite());
            prop_assert!(outcome.score(&Preference::default()) < f64::INFINITY);
        }
    }
}

#[test]
fn more_streams_than_can_be_followed_are_counted_as_they_come_and_forgotten_as_they_go() {
    let (mut extractor, mut tally) = (Extractor::new(), Tally::new());
    let request = |stream| Request {
        id: 0,
        stream,
        op: block::Op::Read,
        sync: true,
        priority: Priority::DEFAULT,
        sectors: 8,
        lba: u64::from(stream) * 1_000,
        arrival: Nanos(u64::from(stream)),
    };
    let mut tell = |event: Event| {
        extractor.event(&event);
        tally.event(&event);
    };
    (0..20_000).for_each(|stream| tell(Event::Queued(request(stream))));
    let done = |stream| Event::Completed { request: request(stream), dispatched: Nanos(20_000), at: Nanos(30_000) };
    (0..20_000).for_each(|stream| tell(done(stream)));
    tell(Event::Queued(request(19_999)));
    let features = extractor.close(Nanos::from_millis(1));
    assert_eq!(features.get("streams"), Some(20_000.0), "the last one is still known");
    assert_eq!(features.get("depth_max"), Some(19_999.0));
    assert_eq!(tally.close(Nanos::from_millis(1)).unfinished, 1);
}
