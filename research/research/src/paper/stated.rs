//! A paper's statements, quoted from its text and tables (`research/papers/NAME/paper.toml`), and our results next to them.

use std::collections::BTreeMap;

use crate::report::paper::{Best, Figure, Statement, Verdict};
use anyhow::{Context, ensure};
use serde::Deserialize;

use super::Paper;

/// Relative difference up to which the variant as printed reproduces a number for which the paper prints no spread. None of the five papers
/// prints the spread of repeated runs: this bound is ours.
const SPREAD: f64 = 0.1;

/// A paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stated {
    /// The name on the command line.
    pub name: String,
    /// Authors.
    pub authors: String,
    /// Title.
    pub title: String,
    /// Journal or conference, and year.
    pub published: String,
    /// Every figure and table, and every section with numbers that appear in neither.
    #[serde(rename = "part")]
    pub parts: Vec<StatedPart>,
    /// Statements to be judged.
    #[serde(rename = "statement")]
    statements: Vec<Said>,
    /// Tables that it prints.
    #[serde(rename = "table", default)]
    tables: Vec<Printed>,
}

/// A figure, a table or a section of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedPart {
    /// As in [`Figure::id`].
    pub id: String,
    /// Its title in the paper.
    pub title: String,
    /// Why there is nothing to repeat, such as a drawing of an architecture or a list of parameters that the set-up states.
    pub nothing: Option<String>,
}

/// A table that it prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    /// Name in this file.
    id: String,
    /// Names of the columns in this file.
    columns: Vec<String>,
    /// The name of each row, and its numbers.
    rows: Vec<(String, Vec<f64>)>,
}

/// A statement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    /// The part that it belongs to.
    figure: String,
    section: String,
    about: String,
    /// If the result is a bar of a figure: its series and group. Our result is the bar of `series_of_ours` in the same group.
    series: Option<String>,
    group: Option<String>,
    series_of_ours: Option<String>,
    /// If the result is not a bar: its name in [`Measures`].
    measure: Option<String>,
    is: Is,
    value: Option<f64>,
    to: Option<f64>,
    unit: Option<String>,
    name: Option<String>,
    /// Absolute difference from `value` up to which the number is reproduced; default: [`SPREAD`] times `value`.
    spread: Option<f64>,
    /// Why it cannot be measured here.
    cannot: Option<String>,
    /// Why the variant as printed has a different result, and the part of our page that shows it.
    cause: Option<String>,
    shown_by: Option<String>,
    /// The direction of improvement if it is a goal of the paper.
    better: Option<Better>,
    /// Why our result is worse, if it is.
    behind: Option<String>,
    quote: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Is {
    Equal,
    Above,
    Below,
    Between,
    Best,
    Words,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Better {
    Higher,
    Lower,
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// A number.
    Number(f64),
    /// A result that is not compared as a number, such as a tie or a name.
    Words {
        /// The text for display.
        text: String,
        /// Whether it agrees with the paper.
        agrees: bool,
    },
}

/// Results by the `measure` of statements, for the paper's variant and for ours.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    printed: BTreeMap<&'static str, Measured>,
    ours: BTreeMap<&'static str, Measured>,
}

impl Measures {
    /// Adds a number of the variant as printed; `None` adds nothing.
    pub fn printed(&mut self, measure: &'static str, value: Option<f64>) {
        self.printed.extend(value.map(|value| (measure, Measured::Number(value))));
    }

    /// Adds a number of ours; `None` adds nothing.
    pub fn ours(&mut self, measure: &'static str, value: Option<f64>) {
        self.ours.extend(value.map(|value| (measure, Measured::Number(value))));
    }

    /// Adds a result of the variant as printed that is not compared as a number.
    pub fn printed_words(&mut self, measure: &'static str, text: String, agrees: bool) {
        self.printed.insert(measure, Measured::Words { text, agrees });
    }
}

impl Stated {
    /// Parses a paper's statements.
    ///
    /// # Errors
    /// None for the papers built into the program.
    pub fn read(paper: &Paper) -> anyhow::Result<Stated> {
        let file = || format!("research/papers/{}/paper.toml", paper.name);
        let stated: Stated = toml::from_str(paper.text).with_context(file)?;
        ensure!(stated.name == paper.name, "{}: name: {} should be {}", file(), stated.name, paper.name);
        Ok(stated)
    }

    /// A number that the paper prints; `None` if there is no such table, row or column.
    pub fn number(&self, table: &str, row: &str, column: &str) -> Option<f64> {
        let table = self.tables.iter().find(|printed| printed.id == table)?;
        let column = table.columns.iter().position(|name| name == column)?;
        table.rows.iter().find(|(name, _)| name == row)?.1.get(column).copied()
    }

    /// Judges every statement by the results, in the paper's order.
    pub fn judge(&self, measures: &Measures, figures: &[Figure]) -> Vec<Statement> {
        let judge = |said: &Said| said.judge(measures, figures.iter().find(|figure| figure.id == said.figure));
        self.statements.iter().map(judge).collect()
    }

    /// Adds the paper's values to the bars of a figure.
    pub fn mark(&self, figure: &mut Figure) {
        let of = |said: &Said| Some((said.place(figure, said.series.as_ref())?, said.value?)).filter(|_| said.cannot.is_none());
        let statements = self.statements.iter().filter(|said| said.figure == figure.id && said.is == Is::Equal);
        let marks = statements.filter_map(of).map(|((group, series), value)| (group, series, value)).collect();
        figure.marks = marks;
    }
}

/// The best series in a group of a figure, in words; agrees if it is `name`.
fn best(figure: &Figure, group: usize, name: &str) -> Option<Measured> {
    let of = |index: usize| figure.series[index].clone();
    let words = |text: String, agrees| Some(Measured::Words { text, agrees });
    match figure.best(group, figure.of_paper) {
        Best::None => None,
        Best::One(only) => words(of(only), of(only) == name),
        tie => words(tie.tie(of)?, false),
    }
}

impl Said {
    /// The indices of a bar's group and series.
    fn place(&self, figure: &Figure, series: Option<&String>) -> Option<(usize, usize)> {
        let place = |names: &[String], name: Option<&String>| names.iter().position(|other| Some(other) == name);
        place(&figure.groups, self.group.as_ref()).zip(place(&figure.series, series))
    }

    fn judge(&self, measures: &Measures, figure: Option<&Figure>) -> Statement {
        let bar = |series: Option<&String>| {
            let figure = figure?;
            let (group, series) = self.place(figure, series)?;
            figure.value(0, group, series).map(Measured::Number)
        };
        let named = |all: &BTreeMap<&'static str, Measured>| all.get(self.measure.as_deref()?).cloned();
        let (printed, ours) = match (self.is, &self.measure, &self.name) {
            (_, Some(_), _) => (named(&measures.printed), named(&measures.ours)),
            (Is::Best, None, Some(name)) => {
                let group = figure.and_then(|figure| figure.groups.iter().position(|group| Some(group) == self.group.as_ref()));
                (figure.zip(group).and_then(|(figure, group)| best(figure, group, name)), None)
            }
            _ => (bar(self.series.as_ref()), bar(self.series_of_ours.as_ref())),
        };
        let (verdict, reason) = self.verdict(printed.as_ref());
        let beats = ours.as_ref().and_then(|ours| self.beats(ours));
        Statement {
            part: self.figure.clone(),
            section: self.section.clone(),
            about: self.about.clone(),
            paper: self.paper(),
            quote: self.quote.clone(),
            printed: printed.map(|printed| self.shown(&printed)),
            ours: ours.map(|ours| self.shown(&ours)),
            verdict,
            reason,
            shown_by: self.shown_by.clone().filter(|_| verdict == Verdict::Explained),
            beats,
            behind: if beats == Some(false) { self.behind.clone().unwrap_or_default() } else { String::new() },
        }
    }

    fn verdict(&self, printed: Option<&Measured>) -> (Verdict, String) {
        let why = |text: &Option<String>| text.clone().unwrap_or_default();
        match printed {
            _ if self.cannot.is_some() => (Verdict::CannotBeHad, why(&self.cannot)),
            None => (Verdict::NotRun, String::new()),
            Some(printed) if self.holds(printed) => (Verdict::Reproduced, String::new()),
            Some(_) if self.cause.is_some() => (Verdict::Explained, why(&self.cause)),
            Some(_) => (Verdict::Missed, String::new()),
        }
    }

    fn holds(&self, result: &Measured) -> bool {
        let (number, value) = match (result, self.value) {
            (Measured::Words { agrees, .. }, _) => return *agrees,
            (Measured::Number(number), Some(value)) => (*number, value),
            (Measured::Number(_), None) => return false,
        };
        match self.is {
            Is::Above => number > value,
            Is::Below => number < value,
            Is::Between => self.to.is_some_and(|to| (value..=to).contains(&number)),
            Is::Equal => (number - value).abs() <= self.spread.unwrap_or(SPREAD * value.abs()),
            Is::Best | Is::Words => false,
        }
    }

    /// Whether our result is as good as the paper's (for a range: its upper end). `None` if it is not a goal of the paper.
    fn beats(&self, ours: &Measured) -> Option<bool> {
        let better = self.better?;
        let Measured::Number(ours) = ours else {
            return Some(matches!(ours, Measured::Words { agrees: true, .. }));
        };
        let value = self.value?;
        Some(match better {
            Better::Higher => *ours >= value,
            Better::Lower => *ours <= self.to.unwrap_or(value),
        })
    }

    fn shown(&self, result: &Measured) -> String {
        match result {
            Measured::Number(number) => self.with_unit(*number),
            Measured::Words { text, .. } => text.clone(),
        }
    }

    fn with_unit(&self, number: f64) -> String {
        // Two digits below one, so that small differences are not all 0.
        let scale = if number.abs() < 1.0 { 100.0 } else { 10.0 };
        let number = (number * scale).round() / scale + 0.0;
        match self.unit.as_deref() {
            None | Some("") => number.to_string(),
            Some("%") => format!("{number}%"),
            Some(unit) => format!("{number} {unit}"),
        }
    }

    /// The paper's value as text.
    fn paper(&self) -> String {
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| self.with_unit(value));
        match self.is {
            Is::Equal => number(self.value),
            Is::Above => format!("more than {}", number(self.value)),
            Is::Below => format!("less than {}", number(self.value)),
            Is::Between => format!("{} to {}", number(self.value), number(self.to)),
            Is::Best | Is::Words => self.name.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::collections::BTreeSet;
    use std::path::Path;

    use crate::report::paper::{Panel, Unit};

    use super::*;

    fn said(more: &str) -> Said {
        toml::from_str(&format!("figure = 'fig-6'\nsection = '5'\nabout = 'x'\nquote = 'q'\n{more}")).unwrap()
    }

    fn figure() -> Figure {
        Figure {
            unit: Unit::AccuracyPercent,
            series: ["C4.5", "SVM", "seekwise"].map(str::to_owned).to_vec(),
            groups: ["Table 3", "Table 4"].map(str::to_owned).to_vec(),
            of_paper: 2,
            panels: vec![Panel {
                name: String::new(),
                values: vec![vec![Some(90.0), Some(91.5), Some(99.0)], vec![Some(81.0), Some(88.96), None]],
            }],
            ..Figure::new("fig-6")
        }
    }

    fn judged(more: &str, measures: &Measures) -> Statement {
        said(more).judge(measures, Some(&figure()))
    }

    /// Errors in the file.
    fn faults(stated: &Stated, shown: &BTreeSet<&str>) -> Vec<String> {
        let mut faults = Vec::new();
        let parts: BTreeMap<&str, &StatedPart> = stated.parts.iter().map(|part| (part.id.as_str(), part)).collect();
        for part in &stated.parts {
            if part.nothing.is_none() && !shown.contains(part.id.as_str()) {
                faults.push(format!("{}: part {} is not shown", stated.name, part.id));
            }
        }
        for said in &stated.statements {
            let mut fault = |text: String| faults.push(format!("{}: {}: {text}", stated.name, said.about));
            if !parts.contains_key(said.figure.as_str()) && !shown.contains(said.figure.as_str()) {
                fault(format!("figure = {}: is no part", said.figure));
            }
            if said.quote.len() <= 20 || said.section.is_empty() {
                fault("quote or section is missing".to_owned());
            }
            let is_complete = match said.is {
                Is::Best => said.name.is_some(),
                Is::Between => said.value.is_some() && said.to.is_some(),
                Is::Words => said.name.is_some(),
                _ => said.value.is_some(),
            };
            let has_result = said.measure.is_some() || said.group.is_some();
            if !is_complete || has_result == said.cannot.is_some() {
                fault("incomplete: either a result or why there cannot be one".to_owned());
            }
            if said.cause.is_some() != said.shown_by.is_some() {
                fault("a cause is shown by a part of ours".to_owned());
            }
            if said.shown_by.as_deref().is_some_and(|part| !shown.contains(part)) {
                fault(format!("shown_by = {:?}: is no part of ours", said.shown_by));
            }
        }
        faults
    }

    #[test]
    fn every_paper_lists_all_its_parts_and_every_statement_has_a_result_or_a_reason() {
        for paper in super::super::ALL {
            let stated = Stated::read(paper).unwrap();
            let parts = (paper.parts)();
            assert_eq!(faults(&stated, &parts.iter().map(|part| part.id).collect()), [""; 0]);
            for table in &stated.tables {
                let is_whole = |(_, numbers): &(String, Vec<f64>)| numbers.len() == table.columns.len();
                assert!(!table.rows.is_empty() && table.rows.iter().all(is_whole), "{}", table.id);
            }
        }
    }

    /// Every figure and table that the text numbers, as `Fig. 12` or `TABLE III`, is a part.
    #[test]
    fn every_figure_and_table_that_a_papers_text_names_is_a_part() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds");
        for paper in super::super::ALL {
            let Ok(mut texts) = std::fs::read_dir(&seeds) else {
                eprintln!("skipped: the texts of the papers are not in {}", seeds.display());
                return;
            };
            let text = texts.find_map(|file| {
                let path = file.unwrap().path();
                let is_it = path.file_stem().unwrap().to_string_lossy().starts_with(paper.name);
                is_it.then(|| std::fs::read_to_string(path).unwrap())
            });
            let stated = Stated::read(paper).unwrap();
            let named = named_in(&text.unwrap_or_else(|| panic!("no text of {}", paper.name)));
            assert!(named.len() >= 5, "{}: {named:?}", paper.name);
            for id in named {
                assert!(stated.parts.iter().any(|part| part.id == id), "{}: {id} is no part", paper.name);
            }
        }
    }

    /// `fig-12` and `table-3` for each `Fig. 12` and `TABLE III` of a text.
    fn named_in(text: &str) -> BTreeSet<String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let of = |pair: &[&str]| {
            let kind = match pair[0].trim_start_matches('(') {
                "Fig." | "Figure" | "FIGURE" => "fig",
                "Table" | "TABLE" => "table",
                _ => return None,
            };
            let number = pair[1].trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
            let number: u32 = match number {
                "I" => 1,
                "II" => 2,
                "III" => 3,
                "IV" => 4,
                "V" => 5,
                digits => digits.trim_end_matches(char::is_alphabetic).parse().ok()?,
            };
            Some(format!("{kind}-{number}"))
        };
        words.windows(2).filter_map(of).collect()
    }

    #[test]
    fn a_number_is_reproduced_within_the_papers_spread_and_else_explained_or_missed() {
        let equal = "group = 'Table 4'\nseries = 'SVM'\nis = 'equal'\nvalue = 89\nunit = '%'\n";
        let svm = judged(equal, &Measures::default());
        assert_eq!((svm.verdict, svm.paper.as_str(), svm.printed.as_deref()), (Verdict::Reproduced, "89%", Some("89%")));
        let far = |more: &str| judged(&format!("{equal}spread = 0.01\n{more}"), &Measures::default());
        assert_eq!((far("").verdict, far("").reason.as_str()), (Verdict::Missed, ""));
        let explained = far("cause = 'one disk'\nshown_by = 'disks'");
        assert_eq!((explained.verdict, explained.reason.as_str()), (Verdict::Explained, "one disk"));
        let cannot = judged("is = 'equal'\nvalue = 2\ncannot = 'no kernel'", &Measures::default());
        assert_eq!((cannot.verdict, cannot.reason.as_str(), cannot.printed), (Verdict::CannotBeHad, "no kernel", None));
        assert_eq!(said(equal).judge(&Measures::default(), None).verdict, Verdict::NotRun);
    }

    #[test]
    fn bounds_are_bounds() {
        let of = |is: &str, value: f64| {
            let mut measures = Measures::default();
            measures.printed("m", Some(value));
            judged(&format!("measure = 'm'\nvalue = 80\nto = 90\nis = '{is}'"), &measures).verdict == Verdict::Reproduced
        };
        assert!(of("above", 81.0) && !of("above", 80.0) && of("below", 79.0) && !of("below", 80.0));
        assert!(of("between", 80.0) && of("between", 90.0) && !of("between", 91.0));
    }

    #[test]
    fn the_best_is_looked_for_among_the_papers_own_and_a_tie_is_not_the_best() {
        let best = "is = 'best'\ngroup = 'Table 4'\nname = 'SVM'";
        let found = judged(best, &Measures::default());
        assert_eq!((found.verdict, found.printed.as_deref()), (Verdict::Reproduced, Some("SVM")));
        let mut tied = figure();
        tied.panels[0].values[1][0] = Some(88.9);
        let tie = said(best).judge(&Measures::default(), Some(&tied));
        assert_eq!((tie.verdict, tie.printed.as_deref()), (Verdict::Missed, Some("a tie: all 2 within 1%")));
    }

    #[test]
    fn ours_beats_an_aim_or_says_why_not() {
        let aim = "measure = 'm'\nis = 'equal'\nvalue = 24\nunit = '%'\nbetter = 'lower'\nbehind = 'no sample'";
        let of = |ours: f64| {
            let mut measures = Measures::default();
            measures.ours("m", Some(ours));
            let statement = judged(aim, &measures);
            (statement.beats, statement.behind)
        };
        assert_eq!(of(3.7), (Some(true), String::new()));
        assert_eq!(of(25.0), (Some(false), "no sample".to_owned()));
        assert_eq!(judged(aim, &Measures::default()).beats, None);
    }

    #[test]
    fn what_the_paper_states_of_a_bar_is_marked_in_the_figure() {
        let mut stated = Stated::read(super::super::ALL[0]).unwrap();
        stated.statements = vec![said("group = 'Table 4'\nseries = 'SVM'\nis = 'equal'\nvalue = 89")];
        let mut figure = figure();
        stated.mark(&mut figure);
        assert_eq!(figure.marks, [(1, 1, 89.0)]);
    }
}
