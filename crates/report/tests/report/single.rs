//! One run as text.

use report::single::text;

use crate::fixture;

#[test]
fn a_single_run_shows_its_input_and_result() {
    let mut record = fixture::six(0).remove(0);
    fixture::on_flash_through_memory(&mut record);
    let text = text(&record, None, None);
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
fn unmeasured_figures_are_not_shown() {
    let mut record = fixture::six(0).remove(0);
    record.figures.scheduler_cpu_ns_per_request = None;
    record.streams.truncate(1);
    let text = text(&record, Some(80), None);
    for part in ["Flash", "Page cache", "processor time", "postgres"] {
        assert!(!text.contains(part), "'{part}' in\n{text}");
    }
    assert!(text.contains("mean seek 1,630 cylinders"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_stream_has_a_line_for_reads_and_writes_and_a_group_that_is_several_jobs_is_named_with_their_number() {
    let mut record = fixture::six(0).remove(0);
    let lines = |text: &str, name: &str| -> Vec<String> {
        let start = text.lines().position(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{text}"));
        text.lines().skip(start).take(3).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let streams = text(&record, None, None);
    let postgres = lines(&streams, "postgres");
    assert!(postgres[0].starts_with("postgres all 13,500 63.0 1.50 "), "{streams}");
    assert!(postgres[1].starts_with("reads 9,000 42.0 1.00 ") && postgres[2].starts_with("writes 4,500 21.0 0.500 "), "{streams}");
    fixture::of_jobs(&mut record);
    let jobs = text(&record, Some(80), None);
    assert!(!jobs.contains("postgres") && lines(&jobs, "serve, 3 jobs")[2].starts_with("writes 4,500"), "{jobs}");
    assert!(!jobs.contains("1: serve"), "the groups' totals are the jobs' figures:\n{jobs}");
    let clone = record.jobs[1].clone();
    record.jobs.push(clone);
    let jobs = text(&record, Some(80), None);
    assert!(lines(&jobs, "1: serve, 3 jobs")[0].contains("all 13,500"), "{jobs}");
    assert!(jobs.lines().all(|line| line.chars().count() <= 80), "{jobs}");
}

#[test]
fn a_controllers_summary_is_shown_once_with_or_without_its_decisions() {
    let mut record = fixture::six(0).remove(0);
    fixture::steer(&mut record, 10);
    for explained in [None, Some(report::explain::Shown::Changes)] {
        let text = text(&record, None, explained);
        assert_eq!(text.matches("10 windows, preference 2,3,1").count(), 1, "{text}");
        assert_eq!(text.contains("refused: host"), explained.is_some(), "{text}");
    }
}
