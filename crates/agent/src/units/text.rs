//! The table of units as text.

use report::number::{MISSING, three_digits};
use report::{printable, shortened};

use super::{Times, UnitRow, UnitTable};

/// Minimum width of names while columns can be omitted instead. Choice: a shorter one hides the service, a longer one hides columns;
/// not varied.
const LEAST_NAME: usize = 16;
/// Maximum width of names. Choice: room for all columns on a usual terminal; not varied.
const MOST_NAME: usize = 48;
/// Spaces between columns. Choice: two spaces, so that names with a space stay legible; not varied.
const GAP: usize = 2;
/// ANSI: bold, and back to normal. Source: ECMA-48, SGR.
const BOLD: (&str, &str) = ("\u{1b}[1m", "\u{1b}[0m");

/// Output format of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// Maximum line width in characters; `None`: unlimited.
    pub width: Option<usize>,
    /// Maximum number of units; `None`: all.
    pub rows: Option<usize>,
    /// Whether the headings are bold.
    pub colour: bool,
}

/// Escapes control characters in JSON text that a terminal could interpret: all that are neither ASCII nor alphanumeric. The parsed value is
/// unchanged.
pub fn json_for_terminals(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || c.is_alphanumeric() || c.is_ascii() && !c.is_control() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out += &format!("\\u{unit:04x}"));
        }
    }
    out
}

struct Column {
    heading: [&'static str; 2],
    cells: Vec<String>,
    is_left: bool,
    /// Order in which columns are omitted if space is short; `None`: never.
    leaves: Option<u8>,
    width: usize,
}

impl Column {
    fn new(heading: [&'static str; 2], leaves: Option<u8>, rows: &[UnitRow], cell: impl Fn(&UnitRow) -> String) -> Column {
        let cells: Vec<String> = rows.iter().map(cell).collect();
        let texts = heading.into_iter().chain(cells.iter().map(String::as_str));
        let width = texts.map(|text| text.chars().count()).max().unwrap_or(0);
        Column { heading, cells, is_left: false, leaves, width }
    }

    /// A column of names, which can be truncated.
    fn of_names(self) -> Column {
        Column { is_left: true, width: self.width.min(MOST_NAME), ..self }
    }

    fn line(&self, text: &str) -> String {
        let text = shortened(text, self.width);
        let width = self.width;
        if self.is_left { format!("{text:<width$}") } else { format!("{text:>width$}") }
    }
}

/// The table as text, one line per unit; columns that do not fit are omitted, IOPS first. A sentence if there are no units.
pub fn text(table: &UnitTable, screen: Screen) -> String {
    if table.units.is_empty() {
        return "no requests\n".to_owned();
    }
    let shown = screen.rows.unwrap_or(usize::MAX).clamp(1, table.units.len());
    let rows = &table.units[..shown];
    let columns = fitting(columns(rows), screen.width);
    let line = |cell: &dyn Fn(&Column) -> String| {
        let gap = " ".repeat(GAP);
        let line = columns.iter().map(cell).collect::<Vec<_>>().join(&gap);
        shortened(line.trim_end(), screen.width.unwrap_or(usize::MAX))
    };
    let mut out = String::new();
    for number in 0..2 {
        let heading = line(&|column| column.line(column.heading[number]));
        out += &if screen.colour { format!("{}{heading}{}\n", BOLD.0, BOLD.1) } else { heading + "\n" };
    }
    for number in 0..shown {
        out += &(line(&|column| column.line(&column.cells[number])) + "\n");
    }
    if shown < table.units.len() {
        out += &format!("and {} more\n", table.units.len() - shown);
    }
    out
}

fn columns(rows: &[UnitRow]) -> Vec<Column> {
    let number = |value: f64| if value == 0.0 { MISSING.to_owned() } else { three_digits(value) };
    let times = |times: &Option<Times>| match times {
        Some(times) => format!("{}/{}", three_digits(times.p50_ms), three_digits(times.p99_ms)),
        None => MISSING.to_owned(),
    };
    let behind = |row: &UnitRow| match row.neighbour() {
        Some(neighbour) if neighbour.share_percent >= 0.5 => {
            format!("{:.0}% {}", neighbour.share_percent, printable(&neighbour.unit))
        }
        _ => MISSING.to_owned(),
    };
    vec![
        Column::new(["", "unit"], None, rows, |row| printable(&row.unit)).of_names(),
        Column::new(["read", "MB/s"], Some(6), rows, |row| number(row.read_mb_s)),
        Column::new(["write", "MB/s"], Some(5), rows, |row| number(row.write_mb_s)),
        Column::new(["", "IOPS"], Some(1), rows, |row| number(row.iops)),
        Column::new(["read ms", "p50/p99"], Some(4), rows, |row| times(&row.read)),
        Column::new(["write ms", "p50/p99"], Some(2), rows, |row| times(&row.write)),
        Column::new(["fsync ms", "p50/p99"], Some(3), rows, |row| times(&row.fsync)),
        Column::new(["", "wait"], None, rows, |row| number(row.wait)),
        Column::new(["", "behind"], None, rows, behind).of_names(),
    ]
}

/// Selects the columns that fit: names are truncated first, then columns omitted, then names truncated further.
fn fitting(mut columns: Vec<Column>, width: Option<usize>) -> Vec<Column> {
    let Some(width) = width else { return columns };
    let excess = |columns: &[Column]| {
        let needed: usize = columns.iter().map(|column| column.width + GAP).sum();
        needed.saturating_sub(GAP + width)
    };
    let cut = |columns: &mut Vec<Column>, least: usize| {
        while excess(columns) > 0 {
            let Some(widest) =
                columns.iter_mut().filter(|column| column.is_left && column.width > least).max_by_key(|column| column.width)
            else {
                break;
            };
            widest.width -= 1;
        }
    };
    cut(&mut columns, LEAST_NAME);
    while excess(&columns) > 0 {
        let first = columns.iter().enumerate().filter_map(|(at, column)| Some((column.leaves?, at))).min();
        let Some((_, at)) = first else { break };
        columns.remove(at);
    }
    // Names get the space of omitted columns.
    cut(&mut columns, 4);
    columns
}

#[cfg(test)]
mod tests {
    use super::super::Behind;
    use super::*;

    fn table() -> UnitTable {
        let behind = |unit: &str, share_percent| Behind { unit: unit.to_owned(), share_percent };
        let times = |p50_ms, p99_ms| Some(Times { p50_ms, p99_ms });
        let database = UnitRow {
            unit: "postgresql.service".to_owned(),
            read_mb_s: 1.234,
            iops: 150.0,
            read: times(10.0, 240.0),
            fsync: times(33.0, 412.0),
            wait: 3.21,
            behind: vec![behind("backup.service", 83.4), behind("postgresql.service", 16.6)],
            ..UnitRow::default()
        };
        let backup = UnitRow {
            unit: "backup\u{1b}[31m\nservice".to_owned(),
            write_mb_s: 104.0,
            iops: 100.0,
            write: times(150.0, 160.0),
            wait: 15.9,
            behind: vec![behind("backup\u{1b}[31m\nservice", 99.9), behind("postgresql.service", 0.1)],
            ..UnitRow::default()
        };
        UnitTable { seconds: 2.0, units: vec![backup, database] }
    }

    #[test]
    fn a_row_has_the_requests_of_a_unit_and_the_units_that_it_waited_for() {
        let expected = "\
                     read  write        read ms   write ms  fsync ms
unit                 MB/s   MB/s  IOPS  p50/p99    p50/p99   p50/p99  wait  behind
backup�[31m�service     –    104   100        –    150/160         –  15.9  –
postgresql.service   1.23      –   150  10.0/240         –  33.0/412  3.21  83% backup.service
";
        let shown = text(&table(), Screen::default());
        let words = |text: &str| text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
        assert_eq!(words(&shown), words(expected), "{shown}");
        assert!(!shown.contains('\u{1b}'));
        assert_eq!(text(&UnitTable::default(), Screen::default()), "no requests\n");
    }

    #[test]
    fn json_means_the_same_without_characters_that_a_terminal_acts_on() {
        let mut table = table();
        table.units[0].unit = "a\u{9b}31m\u{1b}\u{7f}\u{202e}\u{1f600}ä\n\"".to_owned();
        let json = serde_json::to_string_pretty(&table).unwrap();
        let escaped = json_for_terminals(&json);
        assert!(escaped.chars().all(|c| c == '\n' || !c.is_control() && printable(&c.to_string()) == c.to_string()), "{escaped}");
        assert_eq!(serde_json::from_str::<UnitTable>(&escaped).unwrap(), table);
    }

    #[test]
    fn it_fits_any_width_and_height() {
        for width in 0..140 {
            let shown = text(&table(), Screen { width: Some(width), ..Screen::default() });
            assert!(shown.lines().all(|line| line.chars().count() <= width.max(1)), "{width}:\n{shown}");
            if width >= 40 {
                assert!(shown.contains("wait") && shown.contains("83%"), "what matters most stays at {width}:\n{shown}");
            }
        }
        let shown = text(&table(), Screen { rows: Some(1), colour: true, ..Screen::default() });
        assert!(shown.ends_with("and 1 more\n") && shown.starts_with(BOLD.0), "{shown}");
    }
}
