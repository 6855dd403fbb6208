//! Controllers' decisions in words.

use report::explain::{Shown, text};

use crate::fixture;

fn steered() -> Vec<report::record::Record> {
    let mut records = fixture::six(0);
    fixture::steer(&mut records[1], 10);
    records
}

#[test]
fn changes_and_refusals_are_shown_with_their_reasons_and_gains() {
    let text = text(&steered(), None, Shown::Changes);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "sstf: 10 windows, preference 2,3,1; changed the setting 3 times, kept it 6 times");
    assert_eq!(lines[1], " 1225.800 s  noop → mq-deadline:read_expire=200 read_ahead_kb=1024");
    assert_eq!(lines[2], "             window 3 reads <in order> & much (expected +12.5%, measured -3.25%)");
    assert_eq!(lines[3], " 1634.400 s  keeps mq-deadline:read_expire=200 read_ahead_kb=1024");
    assert_eq!(lines[5], "             refused: host has no tunable 'a<b'");
    assert_eq!(lines.len(), 10);
}

#[test]
fn all_decisions_are_shown_on_request_and_missing_ones_are_counted() {
    let mut records = steered();
    assert_eq!(text(&records, None, Shown::All).lines().count(), 1 + 11 * 2 + 1);
    records[1].steering.as_mut().unwrap().left_out = 1234;
    assert!(text(&records, None, Shown::All).ends_with("and 1,234 more decisions, which the record omits\n"));
}

#[test]
fn a_change_is_shown_with_its_evidence_prediction_and_result() {
    let mut records = steered();
    fixture::rest_on_evidence(&mut records[1]);
    let text = text(&records, Some(80), Shown::Changes);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| line.contains("noop → mq-deadline")).unwrap();
    assert!(lines[first + 1].contains("observed: stream 7: closed, 1 in flight, 80.0 requests/s; seek"), "{text}");
    let table = &lines[first + 3..first + 3 + 2 + 6 + 1 + 4];
    assert!(table[0].trim_start().starts_with("MB/s") && table[1].trim_start().starts_with("candidate"), "{text}");
    assert!(table[2].contains("(chosen)") || table[2].contains('…'), "{text}");
    assert!(table[2].ends_with("0.25   +12.5% ± 3.0%"), "{text}");
    assert!(table[3].contains("noop (active)") && table[4].ends_with("1.21!   -10.0% ± 3.0%"), "{text}");
    assert_eq!(table[8].trim(), "and 4 with lower predicted gain");
    assert!(table[9].trim().starts_with("trials: mq-deadline") && table[9].ends_with("+9 ± 3% in 1"), "{text}");
    assert!(table[11].trim().starts_with("chosen: window 3 reads"), "{text}");
    assert_eq!(table[12].trim(), "result: -3.2%, predicted +12.5% ± 3.0%");
    assert_eq!(text.matches("stream 7").count(), 1, "unchanged parts are shown once:\n{text}");
    assert!(text.contains("observed since: seek over the whole stroke: 16 ms"), "{text}");
    assert_eq!(text.matches("it is good as it is").count(), 8, "a decision without a change has one sentence:\n{text}");
    assert_eq!(text.matches("memory: ").count(), 1, "the sentence of a source is shown once:\n{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    for width in [40, 60, 200] {
        let text = text(&steered(), Some(width), Shown::All);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

#[test]
fn names_and_reasons_cannot_move_the_cursor() {
    let mut records = steered();
    let decision = &mut records[1].steering.as_mut().unwrap().decisions[3];
    (decision.why, decision.to) = ("\u{1b}[2J".to_owned(), "a\nb".to_owned());
    decision.refused = Some("\u{7}".to_owned());
    let text = text(&records, None, Shown::All);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}') && !text.contains("a\nb"));
}

#[test]
fn a_run_without_changes_says_why_its_setting_was_kept() {
    let mut records = steered();
    let steering = records[1].steering.as_mut().unwrap();
    steering.decisions.retain(|decision| decision.from == decision.to && decision.refused.is_none());
    let last = steering.decisions.last().unwrap().why.clone();
    let text = text(&records, None, Shown::Changes);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.trim_end().ends_with(&format!("kept: {last}")), "{text}");
}

#[test]
fn without_a_controller_there_is_nothing_to_explain() {
    assert_eq!(text(&fixture::six(0), None, Shown::All), "No controller was run: no decisions to explain.\n");
}
