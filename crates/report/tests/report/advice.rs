//! Made-up advice, for tests of how it is shown.

use report::advice::{Advice, Measured, Overload, Phase, Verdict};
use report::record::{Kind, PredictionFigures, SCHEMA};

/// Advice with long names, many candidates and some phases.
pub fn long_names() -> Advice {
    let setting = |number: u32| match number % 3 {
        0 => format!("kyber:read_lat_nsec={},write_lat_nsec=100000000 read_ahead_kb=1024", 1_000_000 * (number + 1)),
        1 => format!("mq-deadline:fifo_batch={},read_expire=100,write_expire=20000,writes_starved=8", number + 1),
        _ => format!("a-scheduler-without-any-place-to-break-its-name-{number}"),
    };
    let prediction = |number: u32| PredictionFigures {
        setting: setting(number),
        throughput_mb_s: 12.5,
        response_ms: 31.25,
        p99_by_bound: 0.5,
        gain_percent: 40.0 - 3.0 * f64::from(number),
        error_percent: 6.0,
    };
    let phase = |number: u32| Phase {
        number,
        spans_s: vec![(f64::from(10 * number), f64::from(10 * number + 9))],
        lasts_s: 9.0,
        requests: 12_345,
        streams: vec!["31346 (a-process-with-a-very-long-name) reads at random, 8 in flight".to_owned(); 3],
        wants: number.is_multiple_of(2).then(|| prediction(number)),
        prediction: Some(prediction(0)),
        measured_percent: Some(12.5),
        off_percent: Some(3.0),
        unanswered: None,
    };
    let text = |words: &str| format!("{words} {}.", "and-a-word-without-any-place-to-break-it".repeat(3));
    Advice {
        overload: None,
        aims: Vec::new(),
        effects: Vec::new(),
        schema: SCHEMA,
        kind: Kind::Advise,
        seekwise_version: "0.1.0".to_owned(),
        load: text("a load"),
        source: text("run on a simulated disk"),
        is_simulated: true,
        requests: 123_456,
        lasts_s: 60.0,
        busy_s: 50.0,
        in_force: setting(1),
        preference: "2,3,1".to_owned(),
        verdict: Verdict { setting: setting(0), is_change: true, text: text("Use"), cost: vec![text("Streams that wait longer:")] },
        candidates: (0..20).map(prediction).collect(),
        measured: vec![Measured {
            setting: setting(0),
            predicted_percent: Some(40.0),
            error_percent: Some(6.0),
            gain_percent: 38.0,
            throughput_mb_s: (10.0, 14.0),
            response_ms: (40.0, 30.0),
            p99_by_bound: 0.5,
        }],
        phases: (1..=5).map(phase).collect(),
        device: vec![("rotation".to_owned(), text("7,200 rpm"), text("from 10,000 requests"))],
        sure: vec![text("The replay error is 3%")],
        udev: vec![format!(
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", KERNEL==\"sdX\", ATTR{{queue/scheduler}}=\"kyber\", {}",
            "ATTR{x}=\"1\", ".repeat(8)
        )],
        notes: vec![text("Note")],
    }
}

#[test]
fn advice_for_an_overloaded_replay_says_so_in_the_text_on_the_page_and_in_json() {
    let calm = long_names();
    assert!(!calm.text(None).contains("Overloaded") && !report::page::advice::html(&calm).contains("Overload"));
    let text = "The disk cannot keep up with 653 requests a second; it served a full queue at --speed 4.5.".to_owned();
    let overload = Overload { offered_iops: 653.4, sustainable_speed: 4.58, text: text.clone() };
    let busy = Advice { overload: Some(overload), ..calm };
    let second = busy.text(None).lines().nth(1).unwrap_or_default().to_owned();
    assert!(second.starts_with("Overloaded: ") && second.contains(&text), "{second}");
    assert!(report::page::advice::html(&busy).contains(&text));
    let json: serde_json::Value = serde_json::from_str(&busy.to_json().unwrap()).unwrap();
    assert_eq!(json["overload"]["sustainable_speed"], 4.58);
}
