//! The comparison for programs.

use report::comparison::Comparison;
use report::{figure, json};
use serde_json::Value;

use crate::fixture;

fn output(records: &[report::record::Record]) -> Value {
    let comparison = Comparison::new(records).unwrap();
    let text = json::text(&comparison);
    assert_eq!(text, json::text(&comparison));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_figure_of_the_table_is_there_with_its_value_and_its_best() {
    let mut records = fixture::six(0);
    fixture::steer(&mut records[2], 10);
    let comparison = Comparison::new(&records).unwrap();
    let output = output(&records);
    assert_eq!(output["schedulers"][2]["steering"]["decisions"][3]["expected_gain_percent"], 12.5);
    assert_eq!(output["schedulers"][1]["steering"], Value::Null);
    for (i, record) in records.iter().enumerate() {
        let scheduler = &output["schedulers"][i];
        assert_eq!(scheduler["label"], record.scheduler.label.as_str());
        for figure in figure::ALL {
            assert_eq!(scheduler["figures"][figure.key].as_f64(), figure.value(record), "{}", figure.key);
            let best = scheduler["best"].as_array().unwrap().iter().any(|key| key == figure.key);
            assert_eq!(best, comparison.best(figure)[i], "{}", figure.key);
        }
    }
    assert_eq!(output["schedulers"][3]["tunables"]["read_expire"], 200);
    assert_eq!(output["trace"]["requests"], 60_000);
    assert_eq!(output["disk"]["name"], "atlas10k");
    assert_eq!(output["replay"]["speed"], 2.5);
    assert_eq!(output["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn winners_have_their_lead_and_near_equals_have_no_winner() {
    let mut records = fixture::six(0);
    for (record, throughput) in records.iter_mut().zip([10.0, 10.05, 5.0, 4.0, 3.0, 2.0]) {
        record.figures.throughput_mb_s = throughput;
        record.figures.response.mean_ms = 2.0 * throughput;
        record.figures.fairness_jain = None;
    }
    let winners = &output(&records)["winners"];
    assert_eq!(winners["throughput"]["scheduler"], Value::Null);
    assert_eq!(winners["throughput"]["leaders"], serde_json::json!(["sstf", "noop"]));
    let response = &winners["response_time"];
    assert_eq!((&response["scheduler"], &response["next"], &response["worst"]), (&"bfq".into(), &"kyber".into(), &"sstf".into()));
    assert_eq!(response["figure"], "response_mean_ms");
    assert!((response["over_next_percent"].as_f64().unwrap() - 33.333).abs() < 0.01);
    assert!((response["over_worst_percent"].as_f64().unwrap() - 80.1).abs() < 0.01);
    assert_eq!(winners["fairness"], Value::Null);
}

#[test]
fn what_is_not_finite_is_null() {
    let mut records = fixture::six(0);
    records[0].figures.iops = f64::NAN;
    records[0].figures.duration_s = f64::INFINITY;
    records[0].figures.throughput_mb_s = f64::NAN;
    let output = output(&records);
    assert_eq!(output["schedulers"][0]["figures"]["iops"], Value::Null);
    assert_eq!(output["schedulers"][0]["duration_s"], Value::Null);
    assert_ne!(output["winners"]["throughput"]["worst"], "noop");
}
