//! One run as text.

use report::single::text;

use crate::fixture;

#[test]
fn one_run_tells_what_was_run_and_what_came_of_it() {
    let mut record = fixture::six(0).remove(0);
    fixture::on_flash_through_memory(&mut record);
    let text = text(&record, None);
    for part in [
        "office-server.vscsi on atlas10k under noop",
        "Host: nr_requests = 256",
        "60,000",
        "postgres",
        "stream 1085",
        "65.4% hits",
        "98,765 pages read ahead, 432 of them unused",
        "write amplification 2.34",
        "87.6% hits in the cached mapping table",
        "garbage collection took 43.2 s",
        "Warning: 412 requests",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    assert!(!text.contains("cylinders"), "a device without an arm does not seek:\n{text}");
}

#[test]
fn what_was_not_measured_is_not_told() {
    let mut record = fixture::six(0).remove(0);
    record.figures.scheduler_cpu_ns_per_request = None;
    record.streams.truncate(1);
    let text = text(&record, Some(80));
    for part in ["Flash", "Page cache", "processor time", "postgres"] {
        assert!(!text.contains(part), "'{part}' in\n{text}");
    }
    assert!(text.contains("mean seek 1630 cylinders"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
