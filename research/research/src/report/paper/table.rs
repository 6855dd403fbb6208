//! Tables of a paper: its numbers, and ours next to them.

use serde::Serialize;

use ::report::number::{self, three_digits};
use ::report::text::printable;

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Its name on the command line: `table-1`.
    pub id: String,
    /// The paper's number and title.
    pub title: String,
    /// The method by which our values were measured.
    pub method: String,
    /// The heading of the row names.
    pub corner: String,
    /// The quantities.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its name, with the unit.
    pub name: String,
    /// Whether the ratio of our value to the paper's is meaningful: not for differences, which may be near zero.
    pub has_ratio: bool,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

/// A number of the paper, and ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// The paper's number; `None` if it prints none.
    pub paper: Option<f64>,
    /// Our number; `None` if there is none.
    pub ours: Option<f64>,
    /// Whether ours meets its target; `None` without a target.
    pub met: Option<bool>,
}

impl Cell {
    /// A cell with our number only.
    pub fn ours(ours: Option<f64>) -> Cell {
        Cell { ours, ..Cell::default() }
    }

    /// The same cell with the paper's number.
    pub fn with_paper(self, paper: Option<f64>) -> Cell {
        Cell { paper, ..self }
    }

    /// Our number divided by the paper's; `None` if one is missing or the paper's is 0.
    pub fn ratio(&self) -> Option<f64> {
        self.paper.zip(self.ours).filter(|(paper, _)| *paper != 0.0).map(|(paper, ours)| ours / paper)
    }
}

/// A table as text, for terminal and page: a column of the table becomes up to three of these.
pub(super) struct Written {
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// Names and cells of the rows; cells that miss their target are marked.
    pub rows: Vec<(String, Vec<(String, bool)>)>,
}

impl Table {
    /// A column with this name and unit; `has_ratio` as in [`Column::has_ratio`].
    pub fn column(name: &str, has_ratio: bool) -> Column {
        Column { name: name.to_owned(), has_ratio }
    }

    pub(super) fn written(&self) -> Written {
        let has_paper = |column: usize| self.rows.iter().any(|row| row.cells.get(column).is_some_and(|cell| cell.paper.is_some()));
        let mut heads = Vec::new();
        for (number, column) in self.columns.iter().enumerate() {
            let name = printable(&column.name);
            if !has_paper(number) {
                heads.push(name);
                continue;
            }
            heads.extend([format!("{name}: paper"), "ours".to_owned()]);
            heads.extend(column.has_ratio.then(|| "ratio".to_owned()));
        }
        let cells = |row: &Row| {
            let mut cells = Vec::new();
            for (number, (column, cell)) in self.columns.iter().zip(&row.cells).enumerate() {
                let is_missed = cell.met == Some(false);
                let ours = (shown(cell.ours) + if is_missed { " missed" } else { "" }, is_missed);
                if !has_paper(number) {
                    cells.push(ours);
                    continue;
                }
                cells.extend([(shown(cell.paper), false), ours]);
                cells.extend(column.has_ratio.then(|| (shown(cell.ratio()), false)));
            }
            cells
        };
        Written { heads, rows: self.rows.iter().map(|row| (printable(&row.name), cells(row))).collect() }
    }

    /// The table for a terminal.
    pub(super) fn lines(&self) -> Vec<String> {
        let written = self.written();
        let names = written.rows.iter().map(|(name, _)| name.chars().count());
        let first = names.chain([self.corner.chars().count()]).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = written.rows.iter().filter_map(|(_, cells)| cells.get(column)).map(|(text, _)| text.chars().count());
            cells.chain([written.heads[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..written.heads.len()).map(width).collect();
        let line = |name: &str, cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.zip(&widths).map(|(cell, width)| format!("  {cell:>width$}"));
            format!("  {name:first$}") + &cells.collect::<String>()
        };
        let head = line(&self.corner, &mut written.heads.iter().map(String::as_str));
        let rows = written.rows.iter().map(|(name, cells)| line(name, &mut cells.iter().map(|(text, _)| text.as_str())));
        std::iter::once(head).chain(rows).collect()
    }
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| number::MISSING.to_owned(), three_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_number_ours_and_their_ratio_stand_side_by_side_and_what_is_missed_says_so() {
        let cell = |ours, paper, met| Cell { paper, ours: Some(ours), met };
        let table = Table {
            id: "table-1".to_owned(),
            title: "Table I".to_owned(),
            method: String::new(),
            corner: "cycle".to_owned(),
            columns: vec![Table::column("error, %", false), Table::column("MB/s", true), Table::column("bfq", false)],
            rows: vec![
                Row {
                    name: "100".to_owned(),
                    cells: vec![cell(0.5, Some(12.2), Some(true)), cell(14.4, Some(7.2), None), cell(2.0, None, None)],
                },
                Row { name: "mean".to_owned(), cells: vec![cell(1.5, None, Some(false)), Cell::default(), Cell::ours(Some(1.0))] },
            ],
        };
        assert_eq!(
            table.lines(),
            [
                "  cycle  error, %: paper         ours  MB/s: paper  ours  ratio   bfq",
                "  100               12.2        0.500         7.20  14.4   2.00  2.00",
                "  mean                 –  1.50 missed            –     –      –  1.00",
            ]
        );
    }
}
