//! What a paper states, in its own words and in its tables (`papers/NAME/paper.toml`), and ours next to it.

use std::collections::BTreeMap;

use crate::report::paper::{Best, Figure, Statement};
use anyhow::{Context, ensure};
use serde::Deserialize;

use super::Paper;

/// A paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stated {
    /// What a person types.
    pub name: String,
    /// Who wrote it.
    pub authors: String,
    /// What it is called.
    pub title: String,
    /// Where and when.
    pub published: String,
    /// What it states.
    #[serde(rename = "statement")]
    pub statements: Vec<Said>,
    /// What it prints in tables.
    #[serde(rename = "table", default)]
    tables: Vec<Printed>,
}

/// A table that it prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    /// Its name here.
    id: String,
    /// What its columns are called here.
    columns: Vec<String>,
    /// What each row is called, and its numbers.
    rows: Vec<(String, Vec<f64>)>,
}

/// One thing that it states.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    figure: String,
    section: String,
    about: String,
    series: Option<String>,
    group: Option<String>,
    measure: Option<String>,
    is: Is,
    value: Option<f64>,
    to: Option<f64>,
    unit: Option<String>,
    name: Option<String>,
    #[serde(default)]
    comparable: bool,
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

/// What is no bar of a figure, by name.
pub type Measures = BTreeMap<&'static str, Measured>;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// A number.
    Number(f64),
    /// Several are as good as each other: so, in words.
    Tie(String),
}

impl Stated {
    /// A paper's.
    ///
    /// # Errors
    /// Never, for papers that come with the program.
    pub fn read(paper: &Paper) -> anyhow::Result<Stated> {
        let file = || format!("papers/{}/paper.toml", paper.name);
        let stated: Stated = toml::from_str(paper.text).with_context(file)?;
        ensure!(stated.name == paper.name, "{}: name: {} should be {}", file(), stated.name, paper.name);
        Ok(stated)
    }

    /// What a table prints.
    pub fn number(&self, table: &str, row: &str, column: &str) -> Option<f64> {
        let table = self.tables.iter().find(|printed| printed.id == table)?;
        let column = table.columns.iter().position(|name| name == column)?;
        table.rows.iter().find(|(name, _)| name == row)?.1.get(column).copied()
    }

    /// What is stated about a table, or a figure that is no bars.
    pub fn about(&self, id: &str, measures: &Measures) -> Vec<Statement> {
        let mut figure = Figure::new(id);
        self.compare(&mut figure, 0, measures);
        figure.statements
    }

    /// Puts next to a figure what is stated about it. A best bar is looked for among the first `among`: the paper's own.
    pub fn compare(&self, figure: &mut Figure, among: usize, measures: &Measures) {
        let statements = self.statements.iter().filter(|said| said.figure == figure.id);
        figure.statements = statements.map(|said| said.compare(figure, among, measures)).collect();
    }
}

impl Said {
    fn compare(&self, figure: &Figure, among: usize, measures: &Measures) -> Statement {
        let place = |names: &[String], name: &Option<String>| names.iter().position(|other| Some(other) == name.as_ref());
        let (group, series) = (place(&figure.groups, &self.group), place(&figure.series, &self.series));
        let bar = group.zip(series);
        let number = match &self.measure {
            Some(measure) => measures.get(measure.as_str()).cloned(),
            None => bar.and_then(|(group, series)| figure.value(0, group, series)).map(Measured::Number),
        }
        // What is not the same quantity is not put next to it.
        .filter(|_| self.comparable);
        let (ours, agrees) = match (self.is, number) {
            (Is::Best, _) => group.map_or((None, None), |group| self.best_compared(figure, &figure.best(group, among))),
            (is, Some(Measured::Number(number))) => (Some(self.with_unit(number)), self.holds(is, number)),
            (_, Some(Measured::Tie(tie))) => (Some(tie), None),
            (_, None) => (None, None),
        };
        let mark = bar.zip(self.value.filter(|_| self.comparable)).map(|((group, series), value)| (group, series, value));
        Statement {
            section: self.section.clone(),
            about: self.about.clone(),
            paper: self.paper(),
            quote: self.quote.clone(),
            ours,
            agrees,
            mark,
        }
    }

    /// Ours where the paper names the best. A tie neither agrees nor contradicts, unless the paper's is not in it.
    fn best_compared(&self, figure: &Figure, best: &Best) -> (Option<String>, Option<bool>) {
        let name = |index: usize| figure.series[index].clone();
        match best {
            Best::None => (None, None),
            Best::One(only) => (Some(name(*only)), Some(Some(name(*only)) == self.name)),
            Best::All(_) => (best.tie(name), None),
            Best::Some(tied) => {
                let is_in = tied.iter().any(|index| Some(name(*index)) == self.name);
                (best.tie(name), (!is_in).then_some(false))
            }
        }
    }

    fn holds(&self, is: Is, ours: f64) -> Option<bool> {
        let value = self.value?;
        match is {
            Is::Above => Some(ours > value),
            Is::Below => Some(ours < value),
            Is::Between => self.to.map(|to| (value..=to).contains(&ours)),
            // The paper gives no tolerance.
            Is::Equal | Is::Best | Is::Words => None,
        }
    }

    fn with_unit(&self, number: f64) -> String {
        let number = (number * 10.0).round() / 10.0;
        match self.unit.as_deref() {
            None | Some("") => number.to_string(),
            Some("%") => format!("{number}%"),
            Some(unit) => format!("{number} {unit}"),
        }
    }

    /// What the paper says, short.
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

    use crate::report::paper::{Panel, Unit};

    use super::*;

    fn figure() -> Figure {
        Figure {
            id: "fig-6".to_owned(),
            title: String::new(),
            method: String::new(),
            unit: Unit::AccuracyPercent,
            series: ["C4.5", "SVM", "seekwise"].map(str::to_owned).to_vec(),
            groups: ["Table 3", "Table 4"].map(str::to_owned).to_vec(),
            panels: vec![Panel {
                name: String::new(),
                values: vec![vec![Some(90.0), Some(91.0), Some(99.0)], vec![Some(81.0), Some(88.96), None]],
            }],
            statements: Vec::new(),
        }
    }

    fn self_learning() -> Stated {
        Stated::read(&super::super::self_learning::PAPER).unwrap()
    }

    #[test]
    fn what_papers_state_is_complete_and_in_their_own_words() {
        assert!(self_learning().statements.len() > 20);
        let all: Vec<Stated> = super::super::ALL.iter().map(|paper| Stated::read(paper).unwrap()).collect();
        for said in all.iter().flat_map(|stated| &stated.statements) {
            assert!(said.quote.len() > 20 && !said.section.is_empty(), "{}", said.about);
            let complete = match said.is {
                Is::Best => said.name.is_some() && said.group.is_some(),
                Is::Between => said.value.is_some() && said.to.is_some(),
                Is::Words => said.name.is_some() && said.measure.is_some(),
                _ => said.value.is_some(),
            };
            assert!(complete, "{}", said.about);
        }
        for table in all.iter().flat_map(|stated| &stated.tables) {
            let is_whole = |(_, numbers): &(String, Vec<f64>)| numbers.len() == table.columns.len();
            assert!(!table.rows.is_empty() && table.rows.iter().all(is_whole), "{}", table.id);
        }
    }

    #[test]
    fn another_quantity_is_not_compared_with_the_papers() {
        let stated = self_learning();
        let mut cost = Figure { id: "fig-7".to_owned(), ..figure() };
        stated.compare(&mut cost, 3, &Measures::from([("best-window", Measured::Number(1.0))]));
        assert!(cost.statements.len() == 3 && cost.statements.iter().all(|it| it.ours.is_none() && it.mark.is_none()), "{cost:?}");
        let mut said = stated.statements.into_iter().find(|said| said.about.contains("SVM on Table 4")).unwrap();
        said.comparable = false;
        assert_eq!((said.compare(&figure(), 2, &Measures::new()).ours, said.paper()), (None, "89%".to_owned()));
    }

    #[test]
    fn a_tie_is_said_as_a_tie_and_neither_agrees_nor_contradicts() {
        let (stated, mut figure) = (self_learning(), figure());
        let about = "SVM is the most accurate on the training workloads";
        let mut compared = |values: [f64; 2]| {
            figure.panels[0].values[0] = values.map(Some).to_vec();
            stated.compare(&mut figure, 2, &Measures::new());
            let statement = figure.statements.iter().find(|statement| statement.about.contains(about)).unwrap();
            (statement.ours.clone().unwrap(), statement.agrees)
        };
        assert_eq!(compared([100.0, 100.0]), ("a tie: all 2 within 1%".to_owned(), None));
        assert_eq!(compared([90.0, 100.0]), ("SVM".to_owned(), Some(true)));
        assert_eq!(compared([100.0, 90.0]), ("C4.5".to_owned(), Some(false)));
        let mut windows = Figure { id: "fig-8".to_owned(), ..figure };
        stated.compare(&mut windows, 5, &Measures::from([("best-window", Measured::Tie("a tie".to_owned()))]));
        assert_eq!((windows.statements[0].ours.as_deref(), windows.statements[0].agrees), (Some("a tie"), None));
    }

    #[test]
    fn our_figure_is_next_to_the_papers_and_bounds_are_checked() {
        let (stated, mut figure) = (self_learning(), figure());
        stated.compare(&mut figure, 2, &Measures::new());
        let of = |about: &str| figure.statements.iter().find(|statement| statement.about.contains(about)).unwrap();
        let svm = of("SVM on Table 4");
        assert_eq!((svm.paper.as_str(), svm.ours.as_deref(), svm.agrees, svm.mark), ("89%", Some("89%"), None, Some((1, 1, 89.0))));
        let tree = of("C4.5 on Table 4");
        assert_eq!((tree.paper.as_str(), tree.ours.as_deref(), tree.agrees), ("less than 80%", Some("81%"), Some(false)));
        let best = of("SVM is the most accurate on the training workloads");
        assert_eq!((best.ours.as_deref(), best.agrees), (Some("SVM"), Some(true)), "seekwise is none of the paper's");
        assert_eq!((of("naive Bayes").ours.as_deref(), of("naive Bayes").agrees), (None, None));
    }
}
