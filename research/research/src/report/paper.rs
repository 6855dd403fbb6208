//! A paper's experiments repeated: its figures redrawn from our runs, its statements next to our results, and targets met or
//! missed.
//!
//! Text, page and JSON show only data of a [`Replication`], so they always agree.

mod figure;
mod overview;
mod plot;
mod statement;
mod table;

use askama::Template;
use serde::Serialize;

use ::report::curves::{CurvesPart, curves_part};
use ::report::number;
use ::report::text::{printable, wrapped};
use figure::shown;
use table::Written;

pub use ::report::curves::{Curves, Line, Plot, Quantity};
pub use figure::{Best, Figure, Panel, Unit};
pub use overview::Overview;
pub use statement::{Counts, Statement, Verdict};
pub use table::{Cell, Column, Row, Table};

/// The version of the JSON's layout.
pub const SCHEMA: u32 = 2;

/// A paper's experiments, repeated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replication {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// Its name on the command line.
    pub name: String,
    /// Authors.
    pub authors: String,
    /// Title.
    pub title: String,
    /// Place and year of publication.
    pub published: String,
    /// The command that reproduces it.
    pub command: String,
    /// The setup: name and value.
    pub setup: Vec<(String, String)>,
    /// Notes on comparing the figures.
    pub notes: Vec<String>,
    /// Every statement of the paper with a number or a name, in its order.
    pub statements: Vec<Statement>,
    /// Figures and tables of the paper that have nothing to repeat.
    pub not_repeated: Vec<NotRepeated>,
    /// The targets.
    pub bars: Vec<Bar>,
    /// The paper's bar charts.
    pub figures: Vec<Figure>,
    /// The paper's tables, and ours.
    pub tables: Vec<Table>,
    /// The paper's line charts.
    pub curves: Vec<Curves>,
}

/// A figure or table of the paper with nothing to repeat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotRepeated {
    /// `fig-1`.
    pub id: String,
    /// The paper's number and title.
    pub title: String,
    /// Why there is nothing to repeat.
    pub reason: String,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Its identifier.
    pub id: String,
    /// Its subject.
    pub about: String,
    /// The condition on the figure.
    pub wanted: String,
    /// The figure, in percent; `None` if it could not be measured.
    pub percent: Option<f64>,
    /// Whether the condition is met; `None` if it could not be measured.
    pub met: Option<bool>,
    /// Details, such as the worst case.
    pub detail: String,
}

impl Replication {
    /// The replication as JSON.
    ///
    /// # Errors
    /// None for these types.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// The replication as one self-contained HTML page without network access or scripts. Deterministic: equal replications give equal bytes.
    pub fn html(&self) -> String {
        let page = Page::new(self);
        #[expect(clippy::expect_used, reason = "the template formats strings only, and writing to a String does not fail")]
        page.render().expect("the page's template formats strings only")
    }

    /// The replication as text for a terminal: the targets, the paper's statements, then its figures.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("{}, {}", self.authors, self.title), String::new()];
        for bar in &self.bars {
            let figure = bar.percent.map_or_else(|| number::MISSING.to_owned(), percent);
            lines.push(format!("{:12} {figure:>8}  {} ({})", verdict(bar.met), bar.about, bar.wanted));
        }
        lines.extend([String::new(), format!("Statements of the paper: {}", Counts::of(&self.statements).text())]);
        lines.extend(self.statements.iter().map(|statement| format!("  {}", statement.line())));
        for figure in &self.figures {
            lines.extend([String::new(), format!("{}: {} [{}]", figure.id, figure.title, figure.unit.title())]);
            lines.extend(figure.lines());
        }
        for table in &self.tables {
            lines.extend([String::new(), format!("{}: {}", table.id, table.title)]);
            lines.extend(table.lines());
        }
        for curves in &self.curves {
            lines.extend([String::new(), format!("{}: {} (drawn in the page)", curves.id, curves.title)]);
        }
        for note in &self.notes {
            lines.push(String::new());
            lines.extend(wrapped(note, 110));
        }
        lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

fn percent(value: f64) -> String {
    format!("{value:.1}%")
}

fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "not measured",
    }
}

#[derive(Template)]
#[template(path = "paper.html")]
struct Page<'a> {
    paper: &'a Replication,
    counts: String,
    statements: Vec<StatementRow>,
    bars: Vec<BarRow>,
    figures: Vec<FigurePart>,
    tables: Vec<TablePart>,
    lines: Vec<LinesPart>,
}

struct BarRow {
    about: String,
    wanted: String,
    figure: String,
    verdict: &'static str,
    class: &'static str,
    detail: String,
}

struct FigurePart {
    id: String,
    title: String,
    method: String,
    plots: Vec<String>,
    marks: bool,
    series: Vec<String>,
    panels: Vec<PanelPart>,
}

struct PanelPart {
    name: String,
    rows: Vec<(String, Vec<Value>)>,
}

struct Value {
    text: String,
    best: bool,
}

struct TablePart {
    id: String,
    title: String,
    method: String,
    corner: String,
    written: Written,
}

struct LinesPart {
    id: String,
    curves: CurvesPart,
}

struct StatementRow {
    /// The part's location on the page.
    part: String,
    about: String,
    section: String,
    paper: String,
    printed: String,
    ours: String,
    verdict: &'static str,
    reason: String,
    quote: String,
}

impl<'a> Page<'a> {
    fn new(paper: &'a Replication) -> Page<'a> {
        Page {
            paper,
            counts: Counts::of(&paper.statements).text(),
            statements: paper.statements.iter().map(statement_row).collect(),
            bars: paper.bars.iter().map(bar_row).collect(),
            figures: paper.figures.iter().map(figure_part).collect(),
            tables: paper.tables.iter().map(table_part).collect(),
            lines: paper.curves.iter().map(lines_part).collect(),
        }
    }
}

fn bar_row(bar: &Bar) -> BarRow {
    BarRow {
        about: printable(&bar.about),
        wanted: printable(&bar.wanted),
        figure: bar.percent.map_or_else(|| number::MISSING.to_owned(), percent),
        verdict: verdict(bar.met),
        class: if bar.met == Some(true) { "best" } else { "" },
        detail: printable(&bar.detail),
    }
}

fn figure_part(figure: &Figure) -> FigurePart {
    let panel = |(number, panel): (usize, &Panel)| {
        let row = |(group, name): (usize, &String)| {
            let cells: Vec<Option<f64>> = (0..figure.series.len()).map(|series| figure.value(number, group, series)).collect();
            let best = match figure.unit.best(&cells) {
                Best::None | Best::All(_) => Vec::new(),
                Best::One(only) => vec![only],
                Best::Some(tied) => tied,
            };
            let cell = |(index, value): (usize, Option<f64>)| Value { text: shown(value), best: best.contains(&index) };
            (printable(name), cells.into_iter().enumerate().map(cell).collect())
        };
        PanelPart { name: printable(&panel.name), rows: figure.groups.iter().enumerate().map(row).collect() }
    };
    FigurePart {
        id: printable(&figure.id),
        title: printable(&figure.title),
        method: printable(&figure.method),
        plots: (0..figure.groups.len()).filter_map(|group| plot::series(figure, group)).collect(),
        marks: !figure.marks.is_empty(),
        series: figure.series.iter().map(|series| printable(series)).collect(),
        panels: figure.panels.iter().enumerate().map(panel).collect(),
    }
}

fn table_part(table: &Table) -> TablePart {
    TablePart {
        id: printable(&table.id),
        title: printable(&table.title),
        method: printable(&table.method),
        corner: printable(&table.corner),
        written: table.written(),
    }
}

fn lines_part(curves: &Curves) -> LinesPart {
    LinesPart { id: printable(&curves.id), curves: curves_part(curves) }
}

fn statement_row(statement: &Statement) -> StatementRow {
    let shown = |result: &Option<String>| result.as_deref().map_or_else(|| number::MISSING.to_owned(), printable);
    let reasons = [statement.reason.as_str(), statement.behind.as_str()].map(printable);
    StatementRow {
        part: printable(&statement.part),
        about: printable(&statement.about),
        section: printable(&statement.section),
        paper: printable(&statement.paper),
        printed: shown(&statement.printed),
        ours: shown(&statement.ours),
        verdict: statement.verdict.name(),
        reason: reasons.into_iter().filter(|reason| !reason.is_empty()).collect::<Vec<_>>().join("; "),
        quote: printable(&statement.quote),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn replication() -> Replication {
        let statement = Statement {
            part: "fig-6".to_owned(),
            section: "5.2.3".to_owned(),
            about: "accuracy of <SVM>".to_owned(),
            paper: "89%".to_owned(),
            quote: "achieving an accuracy of 89 percent".to_owned(),
            printed: Some("93%".to_owned()),
            ours: Some("95%".to_owned()),
            verdict: Verdict::Explained,
            reason: "one <disk>".to_owned(),
            shown_by: None,
            beats: Some(true),
            behind: String::new(),
        };
        let figure = Figure {
            id: "fig-6".to_owned(),
            title: "Fig. 6".to_owned(),
            method: "counted".to_owned(),
            unit: Unit::AccuracyPercent,
            series: vec!["C4.5".to_owned(), "SVM".to_owned()],
            groups: vec!["Table 4".to_owned(), "10-fold".to_owned()],
            panels: vec![Panel { name: "sata7200".to_owned(), values: vec![vec![Some(70.0), Some(93.0)], vec![None, Some(91.0)]] }],
            of_paper: 2,
            marks: vec![(0, 1, 89.0)],
        };
        let bar = |id: &str, percent, met| Bar {
            id: id.to_owned(),
            about: id.to_owned(),
            wanted: "at least 89%".to_owned(),
            percent,
            met,
            detail: String::new(),
        };
        Replication {
            schema: SCHEMA,
            seekwise_version: "0".to_owned(),
            name: "self-learning".to_owned(),
            authors: "A & B".to_owned(),
            title: "T".to_owned(),
            published: "P".to_owned(),
            command: "seekwise-lab paper run self-learning".to_owned(),
            setup: vec![("disk".to_owned(), "sata7200".to_owned())],
            notes: vec!["note".to_owned()],
            statements: vec![statement],
            not_repeated: vec![NotRepeated { id: "fig-1".to_owned(), title: "Fig. 1".to_owned(), reason: "a drawing".to_owned() }],
            bars: vec![bar("accuracy", Some(93.0), Some(true)), bar("gain", Some(1.0), Some(false)), bar("none", None, None)],
            figures: vec![figure],
            tables: Vec::new(),
            curves: Vec::new(),
        }
    }

    #[test]
    fn the_page_is_well_formed_shows_every_value_and_marks_what_the_paper_states() {
        let html = replication().html();
        let body = html.strip_prefix("<!doctype html>\n").unwrap();
        let page = roxmltree::Document::parse(body).unwrap();
        let text: String = page.descendants().filter_map(|node| node.text()).collect();
        for shown in [
            "A & B",
            "accuracy of <SVM>",
            "one <disk>",
            "explained",
            "a drawing",
            "93.0",
            "70.0",
            "91.0",
            "achieving",
            "met",
            "not measured",
        ] {
            assert!(text.contains(shown), "{shown} is not in {text}");
        }
        let bars =
            |class: &str| page.descendants().filter(|node| node.attribute("class").is_some_and(|it| it.contains(class))).count();
        assert_eq!((bars("bar c"), bars("stated")), (3, 2), "a mark, and its explanation");
    }

    #[test]
    fn tables_and_lines_are_on_the_page_with_what_the_paper_states() {
        let mut page = replication();
        let line = |name: &str, y| Line { name: name.to_owned(), points: vec![(0.0, y), (1.0, y)] };
        page.curves = vec![Curves {
            id: "fig-8".to_owned(),
            title: "Fig. 8".to_owned(),
            method: "over time".to_owned(),
            x: Quantity::Seconds,
            y: Quantity::RequestsPerSecond,
            plots: vec![Plot { name: "youchoose".to_owned(), lines: vec![line("workload 1", 5.0), line("workload 2", 7.0)] }],
        }];
        page.tables = vec![Table {
            id: "table-3".to_owned(),
            title: "Table III".to_owned(),
            method: "counted".to_owned(),
            corner: "factor".to_owned(),
            columns: vec![Table::column("volumes", true)],
            rows: vec![Row { name: "30%".to_owned(), cells: vec![Cell { paper: Some(17.0), ours: Some(20.0), met: Some(false) }] }],
        }];
        let html = page.html();
        let document = roxmltree::Document::parse(html.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
        let text: String = document.descendants().filter_map(|node| node.text()).collect();
        for shown in ["volumes: paper", "17.0", "20.0 missed", "1.18", "workload 2", "requests/s", "achieving an accuracy"] {
            assert!(text.contains(shown), "{shown} is not in {text}");
        }
        let text = page.text();
        assert!(
            text.contains("30%") && text.contains("fig-8: Fig. 8") && text.contains("as printed 93%, ours 95%; one <disk>"),
            "{text}"
        );
    }

    #[test]
    fn the_best_of_a_group_is_the_largest_accuracy_and_the_shortest_time() {
        let mut figure = replication().figures.remove(0);
        assert_eq!((figure.best(0, 2), figure.best(1, 2), figure.best(0, 1)), (Best::One(1), Best::One(1), Best::One(0)));
        figure.unit = Unit::Milliseconds;
        assert_eq!(figure.best(0, 2), Best::One(0));
    }

    #[test]
    fn what_is_within_a_hundredth_of_the_best_ties_with_it_and_no_row_of_ties_is_marked() {
        let best = |unit: Unit, values: &[f64]| unit.best(&values.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(best(Unit::AccuracyPercent, &[100.0, 100.0, 99.5]), Best::All(3));
        assert_eq!(best(Unit::AccuracyPercent, &[100.0, 99.5, 80.0]), Best::Some(vec![0, 1]));
        assert_eq!(best(Unit::Milliseconds, &[8.05, 8.0, 8.2]), Best::Some(vec![0, 1]));
        assert_eq!(best(Unit::BelowBestPercent, &[0.0, 0.4, 7.0]), Best::Some(vec![0, 1]));
        assert_eq!(best(Unit::Milliseconds, &[]), Best::None);
        let names = |index: usize| format!("number {index}");
        assert_eq!(Best::All(5).tie(names).unwrap(), "a tie: all 5 within 1%");
        assert_eq!(Best::Some(vec![0, 2]).tie(names).unwrap(), "a tie within 1%: number 0, number 2");
        let mut page = replication();
        assert!(page.html().contains("93.0<b>"));
        page.figures[0].panels[0].values[0] = vec![Some(93.0), Some(92.8)];
        page.figures[0].panels[0].values[1] = vec![Some(91.0), Some(91.0)];
        assert!(!page.html().contains("<b>") && page.html().contains("all within 1%"), "{}", page.html());
    }

    #[test]
    fn the_text_names_bars_met_missed_and_not_measured() {
        let text = replication().text();
        assert!(text.contains("met             93.0%  accuracy (at least 89%)"), "{text}");
        assert!(text.contains("missed           1.0%  gain") && text.contains("not measured        –  none"), "{text}");
        assert!(text.contains("explained     fig-6: accuracy of <SVM>: paper 89%, as printed 93%, ours 95%; one <disk>"), "{text}");
    }
}
