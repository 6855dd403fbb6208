//! Figures 1 to 4, section 6, and the searches next to each other.

use crate::report::paper::{Bar, Cell, Curves, Line, Plot, Quantity, Row, Table};

use super::evolution::{Evolution, Test};
use super::searches::{OURS, Searched};
use super::title;
use crate::paper::aims::at_least;
use crate::paper::stated::{Measures, Stated};

/// What is drawn from.
pub struct Results<'a> {
    /// The populations.
    pub evolution: Option<&'a Evolution>,
    /// The searches on the paper's kernel.
    pub then: Option<&'a Searched>,
    /// The same on today's.
    pub today: Option<&'a Searched>,
    /// The paper.
    pub stated: &'a Stated,
}

/// Of many workloads how many are better, and by how much these are in the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Better {
    /// Share of all, in percent.
    share: Option<f64>,
    /// Mean of those that are, in percent.
    mean: Option<f64>,
}

impl Better {
    fn of(gains: &[f64]) -> Better {
        let better: Vec<f64> = gains.iter().copied().filter(|gain| *gain > 0.0).collect();
        let share = (!gains.is_empty()).then(|| 100.0 * better.len() as f64 / gains.len() as f64);
        Better { share, mean: mean(&better) }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The least.
pub fn worst(gains: &[f64]) -> Option<f64> {
    gains.iter().copied().min_by(f64::total_cmp)
}

fn negated(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| -value).collect()
}

impl Results<'_> {
    /// Figures 1 to 4.
    pub fn curves(&self) -> Vec<Curves> {
        let Some(evolution) = self.evolution else { return Vec::new() };
        let line = |name: &str, value: &dyn Fn(&Test) -> f64| Line {
            name: name.to_owned(),
            points: evolution.tests.iter().enumerate().map(|(number, test)| (number as f64 + 1.0, value(test))).collect(),
        };
        let figure = |id: &str, y: Quantity, lines: Vec<Line>, method: &str| Curves {
            id: id.to_owned(),
            title: title(id).to_owned(),
            method: method.to_owned(),
            x: Quantity::TestNumber,
            y,
            plots: vec![Plot { name: "tests, in their order".to_owned(), lines }],
        };
        let explanation = "Each test is a random workload under what the population of its generation has for the most similar pattern (IOPerf), and \
                      under the kernel’s default (IOBad).";
        let evolving = "Each test next to the default, and the mean of each generation’s tests.";
        let gain = |test: &Test| test.ours.gain_percent(&test.default);
        let slower = |test: &Test| test.ours.slower_percent(&test.default);
        vec![
            figure(
                "fig-1",
                Quantity::MegabytesPerSecond,
                vec![
                    line("IOPerf", &|test| test.productivity(&test.ours)),
                    line("IOBad", &|test| test.productivity(&test.default)),
                ],
                explanation,
            ),
            figure(
                "fig-2",
                Quantity::Milliseconds,
                vec![line("IOPerf", &|test| 1e3 * test.ours.latency_s), line("IOBad", &|test| 1e3 * test.default.latency_s)],
                explanation,
            ),
            figure("fig-3", Quantity::ChangePercent, vec![line("a test", &gain), self.by_generation(&gain)], evolving),
            figure("fig-4", Quantity::ChangePercent, vec![line("a test", &slower), self.by_generation(&slower)], evolving),
        ]
    }

    fn by_generation(&self, value: &dyn Fn(&Test) -> f64) -> Line {
        let tests = self.evolution.map_or(&[][..], |evolution| &evolution.tests);
        let of = |test: &Test| {
            let same: Vec<f64> = tests.iter().filter(|other| other.generation == test.generation).map(value).collect();
            mean(&same).unwrap_or(f64::NAN)
        };
        let points = tests.iter().enumerate().map(|(number, test)| (number as f64 + 1.0, of(test))).collect();
        Line { name: "mean of its generation".to_owned(), points }
    }

    /// What the paper states numbers of, as of all tests.
    pub fn measures(&self) -> Measures {
        let mut measures = Measures::default();
        let Some(evolution) = self.evolution else { return measures };
        let gains: Vec<f64> = evolution.tests.iter().map(|test| test.ours.gain_percent(&test.default)).collect();
        let faster: Vec<f64> = evolution.tests.iter().map(|test| -test.ours.slower_percent(&test.default)).collect();
        let both: Vec<(f64, f64)> =
            gains.iter().copied().zip(faster.iter().copied()).filter(|(a, b)| *a > 0.0 && *b > 0.0).collect();
        let neither = gains.iter().zip(&faster).filter(|(gain, faster)| **gain <= 0.0 && **faster <= 0.0).count();
        let of_all = |count: usize| 100.0 * count as f64 / gains.len().max(1) as f64;
        let gains_of_both: Vec<f64> = both.iter().map(|(gain, _)| *gain).collect();
        let known = [
            ("improved", Better::of(&gains).share),
            ("improvement", Better::of(&gains).mean),
            ("faster", Better::of(&faster).share),
            ("reduction", Better::of(&faster).mean),
            ("both", Some(of_all(both.len()))),
            ("improvement-of-both", mean(&gains_of_both)),
            ("neither", Some(of_all(neither))),
        ];
        known.into_iter().for_each(|(name, value)| measures.printed(name, value));
        measures
    }

    /// Section 6, and the searches.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<Table> = self.evolution.map(|evolution| self.section_6(evolution)).into_iter().collect();
        tables.extend(self.then.map(|searched| compared("searches", searched)));
        tables.extend(self.today.map(|searched| compared("today", searched)));
        tables
    }

    fn section_6(&self, evolution: &Evolution) -> Table {
        let generations = evolution.tests.last().map_or(0, |test| test.generation + 1);
        let row = |name: String, of: &dyn Fn(&Test) -> bool, paper: bool| {
            let tests = || evolution.tests.iter().filter(|test| of(test));
            let gains: Vec<f64> = tests().map(|test| test.ours.gain_percent(&test.default)).collect();
            let slower: Vec<f64> = tests().map(|test| test.ours.slower_percent(&test.default)).collect();
            let paper = |column: &str| self.stated.number("section-6", "all", column).filter(|_| paper);
            let (thr, lat) = (Better::of(&gains), Better::of(&negated(&slower)));
            let cells = vec![
                Cell::ours(thr.share).with_paper(paper("improved")),
                Cell::ours(thr.mean).with_paper(paper("improvement")),
                Cell::ours(lat.share).with_paper(paper("faster")),
                Cell::ours(lat.mean).with_paper(paper("reduction")),
                Cell::ours(mean(&gains)),
                Cell::ours(worst(&gains)),
            ];
            Row { name, cells }
        };
        let mut rows = vec![row("all generations".to_owned(), &|_| true, true)];
        rows.extend(
            (0..generations).map(|number| row(format!("generation {}", number + 1), &|test| test.generation == number, false)),
        );
        Table {
            id: "section-6".to_owned(),
            title: title("section-6").to_owned(),
            method: "As the paper counts: any difference is an improvement, and the mean is over those improved.".to_owned(),
            corner: "tests of".to_owned(),
            columns: columns(),
            rows,
        }
    }

    /// What is aimed at, on the paper's kernel and on today's.
    pub fn bars(&self) -> Vec<Bar> {
        let [then, today] = [("", self.then), ("-today", self.today)].map(|(suffix, searched)| bars(suffix, searched));
        then.into_iter().chain(today).collect()
    }

    /// How much there is to gain at all.
    pub fn ceilings(&self) -> Vec<String> {
        [self.then, self.today].into_iter().flatten().filter_map(ceiling).collect()
    }
}

/// Of the searches on one kernel.
pub fn bars(suffix: &str, searched: Option<&Searched>) -> Vec<Bar> {
    let (gains, slower) = searched.map(|searched| searched.against_default(0)).unwrap_or_default();
    let (throughput, latency) = (Better::of(&gains), Better::of(&negated(&slower)));
    let kernel = searched.map_or("", |searched| searched.kernel.as_str());
    let by = searched.and_then(|searched| searched.names.first().cloned()).unwrap_or_else(|| OURS.name());
    let of = |value: Option<f64>| vec![(format!("{by} on {kernel}"), value)];
    let count = format!(", {} workloads", gains.len());
    let bar = |id: &str, about: &str, bound: f64, value: Option<f64>| {
        at_least(&format!("{id}{suffix}"), &format!("{kernel}: {about}"), bound, of(value), &count)
    };
    vec![
        bar("improved", "workloads with more throughput than under the default (the paper: 88.2%)", 95.0, throughput.share),
        bar("improvement", "improvement of throughput, mean over those improved (the paper: 29.63%)", 29.63, throughput.mean),
        bar("latency", "workloads with less latency than under the default (the paper: 77.5%)", 90.0, latency.share),
        bar("never-worse", "throughput against the default, worst workload", -2.0, worst(&gains)),
    ]
}

/// How much there is to gain at all: a disk that never moved its arm nor waited for the platter could do no more. And what the best of all
/// that was run made of it.
fn ceiling(searched: &Searched) -> Option<String> {
    let most = searched.cases.iter().filter_map(|case| {
        let positioning = case.default.positioning?;
        Some(100.0 * positioning / (1.0 - positioning).max(1e-9))
    });
    let most: Vec<f64> = most.collect();
    let above = most.iter().filter(|most| **most >= 29.63).count();
    let best =
        searched.cases.iter().filter_map(|case| case.got.iter().map(|got| got.gain_percent(&case.default)).max_by(f64::total_cmp));
    let best: Vec<f64> = best.map(|gain| gain.max(0.0)).collect();
    let better = best.iter().filter(|gain| **gain > 0.0).count();
    Some(format!(
        "On {} with its default the disk spends so much of its time on seeks and rotation that, if none were needed, throughput would be {:.0}% \
         higher in the mean, and at least 29.63% higher for {above} of {} workloads. The best of all that was run here for each workload, \
         known only afterwards, is {:.1}% above the default in the mean, and above it at all for {better}.",
        searched.kernel,
        mean(&most)?,
        most.len(),
        mean(&best)?
    ))
}

fn columns() -> Vec<crate::report::paper::Column> {
    let names = [
        "throughput better, % of all",
        "by, mean of those, %",
        "latency better, % of all",
        "by, mean of those, %",
        "throughput, mean of all, %",
        "worst, %",
    ];
    names.map(|name| Table::column(name, false)).to_vec()
}

/// What each of the searches ends with, compared with the default.
pub fn compared(id: &str, searched: &Searched) -> Table {
    let row = |(place, name): (usize, &String)| {
        let (gains, slower) = searched.against_default(place);
        let (thr, lat) = (Better::of(&gains), Better::of(&negated(&slower)));
        let cells = [thr.share, thr.mean, lat.share, lat.mean, mean(&gains), worst(&gains)].map(Cell::ours).to_vec();
        Row { name: name.clone(), cells }
    };
    Table {
        id: id.to_owned(),
        title: title(id).to_owned(),
        method: format!(
            "What each ends with after its search, run by itself next to the default of {}, workload by workload. All searches have 64 trials. \
             Constant settings are the kernel’s other schedulers with their defaults.",
            searched.kernel
        ),
        corner: "ended by".to_owned(),
        columns: columns(),
        rows: searched.names.iter().enumerate().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_no_better_count_in_the_share_and_not_in_the_mean() {
        assert_eq!(Better::of(&[10.0, 0.0, -5.0, 30.0]), Better { share: Some(50.0), mean: Some(20.0) });
        assert_eq!(Better::of(&[]), Better::default());
        assert_eq!((worst(&[3.0, -1.0]), mean(&[])), (Some(-1.0), None));
    }
}
