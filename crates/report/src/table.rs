//! The comparison as text, for a terminal of any width or for a pipe.

use crate::comparison::Comparison;
use crate::figure::Figure;
use crate::tenants;
use crate::text::{paragraph, printable, wrapped};
use crate::verdict;

/// Marks the best of a column without relying on colour.
const MARK: char = '*';
/// Gap between columns, not counting the place for the mark.
const GAP: usize = 1;
const BOLD: (&str, &str) = ("\u{1b}[1m", "\u{1b}[0m");

/// The comparison as text: a row per scheduler, a column per figure that any record has, the best of each column marked; then the
/// verdict and the warnings.
///
/// `width` is the terminal's, in characters: columns that do not fit continue in a further table below, and long labels are
/// broken. `None`, for a pipe, keeps everything in one table and each sentence on one line. `colour` sets the best in bold.
pub fn text(comparison: &Comparison, width: Option<usize>, colour: bool) -> String {
    let labels = Labels::new(comparison, width);
    let columns: Vec<Column> = comparison.figures().into_iter().map(|figure| Column::new(comparison, figure)).collect();
    let mut out = String::new();
    for stacked in fitting(&columns, labels.width, width) {
        if !out.is_empty() {
            out.push('\n');
        }
        print(&mut out, &labels, stacked, colour);
    }
    if comparison.records().len() > 1 {
        out.push_str(&format!("{MARK} best of its column\n"));
    }
    out.push('\n');
    paragraph(&mut out, &verdict::sentence(comparison), width);
    verdict::not_settable(comparison).iter().for_each(|sentence| paragraph(&mut out, sentence, width));
    for line in tenants::lines(comparison.records()) {
        paragraph(&mut out, &line, width);
    }
    for warning in comparison.warnings() {
        paragraph(&mut out, &format!("Warning: {warning}"), width);
    }
    out
}

/// The first column. Labels with tunables are long and wrap rather than take room from the figures.
struct Labels {
    rows: Vec<Vec<String>>,
    width: usize,
}

impl Labels {
    fn new(comparison: &Comparison, width: Option<usize>) -> Self {
        let limit = width.map_or(usize::MAX, |width| (width / 3).max(8));
        let rows: Vec<Vec<String>> =
            comparison.records().iter().map(|record| wrapped(&printable(&record.scheduler.label), limit)).collect();
        let longest = rows.iter().flatten().map(|line| line.chars().count()).max().unwrap_or(0);
        Self { rows, width: longest.max("scheduler".len()) }
    }
}

struct Column {
    heading: [&'static str; 2],
    cells: Vec<String>,
    best: Vec<bool>,
    width: usize,
}

impl Column {
    fn new(comparison: &Comparison, figure: &Figure) -> Self {
        let cells: Vec<String> = comparison.records().iter().map(|record| figure.text(record)).collect();
        let texts = figure.heading.into_iter().chain(cells.iter().map(String::as_str));
        let width = texts.map(|text| text.chars().count()).max().unwrap_or(0);
        Self { heading: figure.heading, best: comparison.best(figure), cells, width }
    }

    /// Including the gap before it and the place for the mark after it.
    fn full_width(&self) -> usize {
        GAP + self.width + 1
    }
}

/// Splits the columns into runs that fit the width, each of at least one column.
fn fitting(columns: &[Column], label_width: usize, width: Option<usize>) -> Vec<&[Column]> {
    let mut runs = Vec::new();
    let (mut start, mut used) = (0, label_width);
    for (i, column) in columns.iter().enumerate() {
        if i > start && width.is_some_and(|width| used + column.full_width() > width) {
            runs.push(&columns[start..i]);
            (start, used) = (i, label_width);
        }
        used += column.full_width();
    }
    runs.push(&columns[start..]);
    runs
}

fn print(out: &mut String, labels: &Labels, columns: &[Column], colour: bool) {
    for (line, title) in ["", "scheduler"].into_iter().enumerate() {
        let mut text = format!("{title:<0$}", labels.width);
        for column in columns {
            text.push_str(&format!("{:GAP$}{:>2$} ", "", column.heading[line], column.width));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    let rule = labels.width + columns.iter().map(Column::full_width).sum::<usize>();
    out.push_str(&"─".repeat(rule));
    out.push('\n');
    for (row, label) in labels.rows.iter().enumerate() {
        let mut lines = label.iter();
        let mut text = format!("{:<1$}", lines.next().map_or("", String::as_str), labels.width);
        for column in columns {
            let cell = format!("{:>1$}", column.cells[row], column.width);
            let (on, off) = if colour && column.best[row] { BOLD } else { ("", "") };
            let mark = if column.best[row] { MARK } else { ' ' };
            text.push_str(&format!("{:GAP$}{on}{cell}{mark}{off}", ""));
        }
        out.push_str(text.trim_end());
        out.push('\n');
        for rest in lines {
            out.push_str(&format!("{rest}\n"));
        }
    }
}
