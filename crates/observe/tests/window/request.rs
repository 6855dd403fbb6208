//! Features of one request at its arrival.

use block::{Nanos, Op, Priority, Request};
use observe::window::{History, REQUEST_FEATURES, RequestFeatures};

const MS: fn(u64) -> Nanos = Nanos::from_millis;

fn request(at_ms: u64, stream: u32, op: Op, lba: u64) -> Request {
    Request { id: 0, stream, op, sync: false, priority: Priority::DEFAULT, sectors: 8, lba, arrival: MS(at_ms) }
}

fn value(features: &RequestFeatures, name: &str) -> f64 {
    features.values()[REQUEST_FEATURES.iter().position(|feature| feature.name == name).unwrap()]
}

#[test]
fn the_first_request_knows_only_itself() {
    let features = History::new().queued(&request(5, 1, Op::Write, 800));
    let known: Vec<&str> = REQUEST_FEATURES
        .iter()
        .zip(features.values())
        .filter(|(_, value)| !value.is_nan())
        .map(|(feature, _)| feature.name)
        .collect();
    assert_eq!(
        known,
        [
            "write",
            "discard",
            "sync",
            "size_bytes",
            "lba_sectors",
            "sequential",
            "sequential_overall",
            "depth",
            "stream_depth",
            "streams"
        ]
    );
    assert_eq!(features.values()[..5], [1.0, 0.0, 0.0, 4096.0, 800.0]);
    assert_eq!(value(&features, "streams"), 1.0);
}

#[test]
fn features_include_the_three_previous_requests_and_the_end_of_the_stream() {
    let mut history = History::new();
    history.queued(&request(0, 9, Op::Read, 0));
    history.queued(&request(10, 1, Op::Read, 1_000));
    history.queued(&request(30, 2, Op::Write, 5_000));
    history.queued(&request(60, 2, Op::Discard, 9_000));
    let features = history.queued(&request(100, 1, Op::Read, 1_072));
    assert!(features.is_sequential() && !features.is_sequential_overall());
    let of = |names: [&str; 3]| names.map(|name| value(&features, name));
    assert_eq!(of(["previous_1_write", "previous_2_write", "previous_3_write"]), [1.0, 1.0, 0.0]);
    assert_eq!(of(["previous_1_gap_s", "previous_2_gap_s", "previous_3_gap_s"]), [0.040, 0.070, 0.090]);
    assert_eq!(
        of(["previous_1_distance_sectors", "previous_2_distance_sectors", "previous_3_distance_sectors"]),
        [-7_936.0, -3_936.0, 64.0]
    );
    assert_eq!(of(["depth", "stream_depth", "streams"]), [4.0, 1.0, 3.0]);
    assert_eq!(value(&features, "stream_distance_sectors"), 64.0);
    let next = history.queued(&request(100, 1, Op::Read, 1_145));
    assert!(!next.is_sequential(), "65 sectors are a jump");
}

#[test]
fn think_time_runs_from_a_completion_to_the_next_request_if_nothing_else_is_outstanding() {
    let mut history = History::new();
    let (read, other, write) = (request(0, 1, Op::Read, 0), request(0, 2, Op::Read, 0), request(1, 1, Op::Write, 0));
    history.queued(&read);
    history.queued(&other);
    history.completed(&read, MS(10));
    let written = history.queued(&write);
    assert_eq!((written.is_dependent, written.think), (false, None), "it is asynchronous");
    history.completed(&other, MS(12));
    let next = history.queued(&request(15, 1, Op::Read, 0));
    assert_eq!((next.is_dependent, next.think), (true, Some(MS(5))));
    let with_others = history.queued(&request(16, 1, Op::Read, 0));
    assert_eq!((with_others.is_dependent, with_others.think), (false, None), "its stream waits for the one before");
}

#[test]
fn completed_requests_are_not_outstanding() {
    let mut history = History::new();
    let requests = [1, 1, 2].map(|stream| request(0, stream, Op::Read, 0));
    for request in &requests {
        history.queued(request);
    }
    assert_eq!(history.depth(), 3);
    history.completed(&requests[0], MS(1));
    history.completed(&requests[2], MS(1));
    let features = history.queued(&request(2, 3, Op::Read, 0));
    assert_eq!((features.depth, features.stream_depth, features.streams), (1, 0, 2));
}
