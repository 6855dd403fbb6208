//! The table in the terminal.

use report::comparison::Comparison;
use report::record::Record;
use report::table;

use crate::fixture;

fn text(records: &[Record], width: Option<usize>, colour: bool) -> String {
    table::text(&Comparison::new(records).unwrap(), width, colour)
}

/// Two schedulers with round figures.
fn two() -> Vec<Record> {
    let mut records = fixture::six(0);
    records.truncate(2);
    for (i, record) in records.iter_mut().enumerate() {
        let factor = 1.0 + i as f64;
        let figures = &mut record.figures;
        (figures.throughput_mb_s, figures.iops, figures.fairness_jain) = (12.0 / factor, 1500.0, Some(0.5));
        (figures.worst_slowdown, figures.disk_utilisation, figures.seek_time_share) =
            (Some(1.5 * factor), 1.0, Some(0.25 * factor));
        (figures.mean_seek_cylinders, figures.scheduler_cpu_ns_per_request) = (Some(1234.0 / factor), None);
        figures.queue_size_mean = 3.0 * factor;
        let response = &mut figures.response;
        (response.mean_ms, response.p50_ms, response.p95_ms) = (4.0 * factor, 2.0 * factor, 10.04);
        (response.p99_ms, response.p999_ms, response.max_ms) = (100.0, 1000.0 * factor, 1_059_600.0 * factor);
        response.stdev_ms = 0.0009 * factor;
    }
    records[1].figures.response.p95_ms = 10.01;
    records
}

#[test]
fn a_pipe_gets_one_table_of_full_width() {
    let expected =
        "          throughput  requests  response   std dev   p50   p95  p99  p99.9        max  fairness     worst  queue    disk       seek    seek
scheduler       MB/s       1/s   mean ms        ms    ms    ms   ms     ms         ms      Jain  slowdown   mean  busy %  cylinders  time %
────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
noop            12.0*    1,500*     4.00* 0.000900* 2.00* 10.0* 100* 1,000* 1,060,000*    0.500*     1.50*  3.00     100      1,230    25.0
sstf            6.00     1,500*     8.00   0.00180  4.00  10.0* 100* 2,000  2,120,000     0.500*     3.00   6.00     100        617*   50.0
* best of its column

Throughput: noop wins with 12.0 MB/s, 100% above sstf; response time: noop wins with a mean of 4.00 ms, 50% below sstf; fairness: no scheduler wins by more than 1%.
Not in today's Linux is sstf.
Warning: 412 requests lie beyond the disk's last sector and were folded back onto it.
";
    assert_eq!(text(&two(), None, false), expected);
}

#[test]
fn eighty_columns_get_two_tables_one_below_the_other() {
    let expected = "          throughput  requests  response   std dev   p50   p95  p99  p99.9
scheduler       MB/s       1/s   mean ms        ms    ms    ms   ms     ms
───────────────────────────────────────────────────────────────────────────
noop            12.0*    1,500*     4.00* 0.000900* 2.00* 10.0* 100* 1,000*
sstf            6.00     1,500*     8.00   0.00180  4.00  10.0* 100* 2,000

                max  fairness     worst  queue    disk       seek    seek
scheduler        ms      Jain  slowdown   mean  busy %  cylinders  time %
──────────────────────────────────────────────────────────────────────────
noop      1,060,000*    0.500*     1.50*  3.00     100      1,230    25.0
sstf      2,120,000     0.500*     3.00   6.00     100        617*   50.0
* best of its column

Throughput: noop wins with 12.0 MB/s, 100% above sstf; response time: noop wins
with a mean of 4.00 ms, 50% below sstf; fairness: no scheduler wins by more than
1%.
Not in today's Linux is sstf.
Warning: 412 requests lie beyond the disk's last sector and were folded back
onto it.
";
    assert_eq!(text(&two(), Some(80), false), expected);
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_figure_is_lost() {
    let mut records = fixture::six(0);
    fixture::on_flash_through_memory(&mut records[1]);
    for width in (24..200).chain([usize::MAX]) {
        let text = text(&records, Some(width), false);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{widest} in {width}:\n{text}");
        for record in &records {
            for figure in Comparison::new(&records).unwrap().figures() {
                assert!(text.contains(&figure.text(record)), "{} at {width}:\n{text}", figure.key);
            }
        }
    }
}

#[test]
fn absurdly_narrow_terminals_get_something() {
    for width in 0..24 {
        assert!(text(&fixture::six(0), Some(width), true).contains("16.6"));
    }
}

#[test]
fn colour_adds_bold_to_the_best_and_nothing_else() {
    let plain = text(&two(), Some(100), false);
    let coloured = text(&two(), Some(100), true);
    assert!(!plain.contains('\u{1b}'));
    assert!(coloured.contains("\u{1b}[1m      12.0*\u{1b}[0m") || coloured.contains("\u{1b}[1m      12.0*"), "{coloured}");
    assert_eq!(coloured.replace("\u{1b}[1m", "").replace("\u{1b}[0m", ""), plain);
}

#[test]
fn one_record_has_nothing_to_be_better_than() {
    let text = text(&two()[..1], None, false);
    assert!(!text.contains('*'), "{text}");
    assert!(text.contains("Only noop was run"));
}

#[test]
fn missing_figures_are_dashes_and_columns_of_nothing_are_left_out() {
    let mut records = two();
    records[0].figures.worst_slowdown = None;
    records[1].figures.iops = f64::NAN;
    records[0].figures.response.p99_ms = f64::INFINITY;
    records.iter_mut().for_each(|record| record.figures.fairness_jain = None);
    let text = text(&records, None, false);
    assert!(!text.contains("Jain") && !text.contains("NaN") && !text.contains("inf"), "{text}");
    let row = |label: &str| text.lines().find(|line| line.starts_with(label)).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(row("noop")[2..10], ["1,500*", "4.00*", "0.000900*", "2.00*", "10.0*", "–", "1,000*", "1,060,000*"]);
    assert_eq!(row("noop")[10], "–");
    assert_eq!(row("sstf")[2], "–");
}

#[test]
fn names_that_others_chose_cannot_move_the_cursor() {
    let mut records = two();
    records[0].scheduler.label = "\u{1b}[2Jevil\r\u{7}\u{202e}".to_owned();
    records[0].warnings = vec!["a \u{1b}]0;title\u{7} warning".to_owned()];
    let text = text(&records, Some(80), false);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'), "{text:?}");
    assert!(text.contains("evil"));
}
