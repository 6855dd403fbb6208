//! Figures 1 to 4, section 6, and the searches next to each other.

use crate::report::paper::{Bar, Cell, Curves, Line, Plot, Quantity, Row, Table};

use super::evolution::{Evolution, Test, Variant};
use super::machine::Got;
use super::searches::{OURS, Searched};
use super::{TEST_S, title};
use crate::paper::aims::at_least;
use crate::paper::stated::{Measures, Stated};

/// Results of the populations.
#[derive(Default)]
pub struct Evolved {
    /// Results by variant; as printed comes first, if it was run.
    pub variants: Vec<(Variant, Evolution)>,
    /// The first tests as printed, repeated at the paper's duration.
    pub long: Vec<Test>,
}

impl Evolved {
    /// The populations as printed.
    fn printed(&self) -> Option<&Evolution> {
        self.variants.first().map(|(_, evolution)| evolution)
    }
}

/// Results from which figures and tables are drawn.
pub struct Results<'a> {
    /// The populations.
    pub evolved: &'a Evolved,
    /// The searches on the paper's kernel.
    pub then: Option<&'a Searched>,
    /// The searches on today's kernel.
    pub today: Option<&'a Searched>,
    /// The paper's statements.
    pub stated: &'a Stated,
}

/// Share of workloads that improve, and their mean improvement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Better {
    /// Share of workloads that improve, in percent.
    share: Option<f64>,
    /// Mean improvement of those that improve, in percent.
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
    statistics::mean(values.iter().copied())
}

/// The smallest gain; `None` if there are none.
pub fn worst(gains: &[f64]) -> Option<f64> {
    gains.iter().copied().min_by(f64::total_cmp)
}

fn negated(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| -value).collect()
}

/// Gains in productivity and reductions in latency of some tests, in percent.
fn changes<'a>(tests: impl Iterator<Item = &'a Test>) -> (Vec<f64>, Vec<f64>) {
    tests.map(|test| (test.ours.gain_percent(&test.default), -test.ours.slower_percent(&test.default))).unzip()
}

/// The kernel's default of read_ahead_kb.
const READ_AHEAD_KB: i64 = 128;
/// Number of tests in a figure: "the graphs used only show the first 160 tests out of the 1000".
const DRAWN: usize = 160;

impl Results<'_> {
    /// Figures 1 to 4.
    pub fn curves(&self) -> Vec<Curves> {
        let Some(evolution) = self.evolved.printed() else { return Vec::new() };
        let drawn = || evolution.tests.iter().take(DRAWN).enumerate();
        let line = |name: &str, value: &dyn Fn(&Test) -> f64| Line {
            name: name.to_owned(),
            points: drawn().map(|(number, test)| (number as f64 + 1.0, value(test))).collect(),
        };
        let by_generation = |value: &dyn Fn(&Test) -> f64| {
            let of = |test: &Test| {
                let same: Vec<f64> =
                    evolution.tests.iter().filter(|other| other.generation == test.generation).map(value).collect();
                mean(&same).unwrap_or(f64::NAN)
            };
            line("mean of its generation", &of)
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
            figure("fig-3", Quantity::ChangePercent, vec![line("a test", &gain), by_generation(&gain)], evolving),
            figure("fig-4", Quantity::ChangePercent, vec![line("a test", &slower), by_generation(&slower)], evolving),
        ]
    }

    /// Results for the paper's statements, over all tests.
    pub fn measures(&self) -> Measures {
        let mut measures = Measures::default();
        if let Some(evolution) = self.evolved.printed() {
            of_tests(evolution, &mut measures);
        }
        if let Some(then) = self.then {
            let (gains, slower) = then.against_default(0);
            let (throughput, latency) = (Better::of(&gains), Better::of(&negated(&slower)));
            let both: Vec<f64> =
                gains.iter().zip(&slower).filter(|(gain, slower)| **gain > 0.0 && **slower < 0.0).map(|(gain, _)| *gain).collect();
            let neither = gains.iter().zip(&slower).filter(|(gain, slower)| **gain < 0.0 && **slower > 0.0).count();
            let known = [
                ("improved", throughput.share),
                ("improvement", throughput.mean),
                ("faster", latency.share),
                ("reduction", latency.mean),
                ("both", Some(percent(both.len(), gains.len()))),
                ("improvement-of-both", mean(&both)),
                ("neither", Some(percent(neither, gains.len()))),
                ("mean-gain", mean(&gains)),
            ];
            known.into_iter().for_each(|(name, value)| measures.ours(name, value));
        }
        measures
    }

    /// Tables for section 6, the variants, and the searches.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<Table> = self.evolved.printed().map(|evolution| self.section_6(evolution)).into_iter().collect();
        if self.evolved.variants.len() > 1 {
            tables.push(self.variants());
        }
        if !self.evolved.long.is_empty() {
            tables.push(self.lengths());
        }
        tables.extend(self.then.map(|searched| compared("searches", searched)));
        tables.extend(self.today.map(|searched| compared("today", searched)));
        tables
    }

    fn section_6(&self, evolution: &Evolution) -> Table {
        let generations = evolution.tests.last().map_or(0, |test| test.generation + 1);
        let paper = |column: &str| self.stated.number("section-6", "all", column);
        let mut all = row("all generations".to_owned(), evolution.tests.iter());
        for (cell, column) in all.cells.iter_mut().zip(["improved", "improvement", "faster", "reduction"]) {
            *cell = cell.with_paper(paper(column));
        }
        let mut rows = vec![all];
        rows.extend(constant_row(evolution.tests.iter()));
        // A row for each fifth of the generations; at least one generation per row.
        let step = generations.div_ceil(5).max(1);
        for first in (0..generations).step_by(step) {
            let last = (first + step).min(generations);
            let name =
                if last == first + 1 { format!("generation {last}") } else { format!("generations {} to {last}", first + 1) };
            rows.push(row(name, evolution.tests.iter().filter(|test| (first..last).contains(&test.generation))));
        }
        Table {
            id: "section-6".to_owned(),
            title: title("section-6").to_owned(),
            method: "As the paper counts: any difference is an improvement, and the mean is over those improved.".to_owned(),
            corner: "tests of".to_owned(),
            columns: columns(),
            rows,
        }
    }

    fn variants(&self) -> Table {
        let (_, shortest) = &self.evolved.variants[1];
        let count = shortest.tests.len();
        let rows = self
            .evolved
            .variants
            .iter()
            .map(|(variant, evolution)| row(variant.name().to_owned(), evolution.tests.iter().take(count)));
        let printed = || self.evolved.printed().into_iter().flat_map(|evolution| evolution.tests.iter().take(count));
        let of_cfq = |got: &dyn Fn(&Test) -> Option<Got>, name: &str| {
            let of = |test: &Test| {
                let (got, cfq) = (got(test)?, test.cfq?);
                Some((got.gain_percent(&cfq), -got.slower_percent(&cfq)))
            };
            let (gains, faster): (Vec<f64>, Vec<f64>) = printed().filter_map(of).unzip();
            of_changes(name.to_owned(), &gains, &faster)
        };
        let of_cfq = [
            of_cfq(&|test| Some(test.ours), "as printed, against CFQ as the default"),
            of_cfq(&|test| Some(test.default), "anticipatory, against CFQ as the default"),
        ];
        Table {
            id: "variants".to_owned(),
            title: title("variants").to_owned(),
            method: format!(
                "The first {count} tests. A population whose choice is no better than settings drawn at random has learned nothing of settings: it \
                 has two individuals for each of 25 ranges of patterns, and equation 2 ranks these by their patterns. The paper calls anticipatory the \
                 kernel’s default; that of Linux 2.6.29 is CFQ."
            ),
            corner: "variant".to_owned(),
            columns: columns(),
            rows: rows.chain(constant_row(printed())).chain(of_cfq).collect(),
        }
    }

    fn lengths(&self) -> Table {
        let count = self.evolved.long.len();
        let short = self.evolved.printed().map_or(&[][..], |evolution| &evolution.tests[..count]);
        Table {
            id: "lengths".to_owned(),
            title: title("lengths").to_owned(),
            method: format!(
                "The first {count} tests under the same settings, as short as all of them are and as long as the paper’s."
            ),
            corner: "tests".to_owned(),
            columns: columns(),
            rows: vec![row("short".to_owned(), short.iter()), row(format!("{TEST_S} s"), self.evolved.long.iter())],
        }
    }

    /// Benefit of a search over the best constant setting of the lessons: mean gains over the default in percent, of that constant setting and of
    /// the search, and the number of workloads.
    fn adds(&self) -> Vec<Added> {
        let printed = self.evolved.printed().and_then(|evolution| {
            // Only tests that were also run under the constant setting.
            let tests = || evolution.tests.iter().filter(|test| test.constant.is_some());
            let constant: Vec<f64> = tests().filter_map(|test| Some(test.constant?.gain_percent(&test.default))).collect();
            let (id, by, workloads) = ("adds", "IOPerf as printed".to_owned(), constant.len());
            Some(Added { id, by, constant: mean(&constant)?, search: mean(&changes(tests()).0)?, workloads })
        });
        let searched = [("search-adds", self.then), ("search-adds-today", self.today)].into_iter().filter_map(|(id, searched)| {
            let searched = searched?;
            let of = |place: usize| mean(&searched.against_default(place).0);
            let constant = searched.best_constant.map_or(Some(0.0), of)?;
            let by = format!("{}: our search after learning", searched.kernel);
            Some(Added { id, by, constant, search: of(0)?, workloads: searched.cases.len() })
        });
        printed.into_iter().chain(searched).collect()
    }

    /// Our targets, on the paper's kernel and on today's.
    pub fn bars(&self) -> Vec<Bar> {
        let [then, today] = [("", self.then), ("-today", self.today)].map(|(suffix, searched)| bars(suffix, searched));
        self.adds().iter().map(Added::bar).chain(then).chain(today).collect()
    }

    /// Upper bounds of the gain, in words.
    pub fn ceilings(&self) -> Vec<String> {
        [self.then, self.today].into_iter().flatten().filter_map(ceiling).collect()
    }
}

/// Benefit of a search over a constant setting.
struct Added {
    id: &'static str,
    by: String,
    constant: f64,
    search: f64,
    workloads: usize,
}

impl Added {
    fn bar(&self) -> Bar {
        let about = format!("{}, mean gain less that of the best constant setting of the lessons", self.by);
        let detail = format!(": {:.1}% less {:.1}%, {} workloads", self.search, self.constant, self.workloads);
        at_least(self.id, &about, 0.0, vec![("mean of all".to_owned(), Some(self.search - self.constant))], &detail)
    }
}

fn percent(count: usize, of: usize) -> f64 {
    100.0 * count as f64 / of.max(1) as f64
}

/// Results for the numbers in section 6.
fn of_tests(evolution: &Evolution, measures: &mut Measures) {
    let tests = &evolution.tests;
    let (gains, faster) = changes(tests.iter());
    let every = || tests.iter().zip(gains.iter().zip(&faster));
    let both: Vec<(f64, f64)> =
        every().map(|(_, (gain, faster))| (*gain, *faster)).filter(|(gain, faster)| *gain > 0.0 && *faster > 0.0).collect();
    let neither: Vec<&Test> = every().filter(|(_, (gain, faster))| **gain < 0.0 && **faster < 0.0).map(|(test, _)| test).collect();
    let at_cost: Vec<&Test> = every().filter(|(_, (gain, faster))| **gain > 0.0 && **faster < 0.0).map(|(test, _)| test).collect();
    let read_ahead = |test: &&Test| test.setting.host.iter().any(|(name, value)| name == "read_ahead_kb" && *value > READ_AHEAD_KB);
    // Among tests with such calls, the share whose latency is below that under the default.
    let less = |of: &dyn Fn(&Got) -> Option<f64>| {
        let pairs: Vec<(f64, f64)> = tests.iter().filter_map(|test| Some((of(&test.ours)?, of(&test.default)?))).collect();
        (!pairs.is_empty()).then(|| percent(pairs.iter().filter(|(ours, default)| ours < default).count(), pairs.len()))
    };
    let of = |tests: &[&Test], value: &dyn Fn(&Test) -> f64| mean(&tests.iter().map(|test| value(test)).collect::<Vec<_>>());
    let all: Vec<&Test> = tests.iter().collect();
    let processes = |test: &Test| f64::from(test.pattern.processes);
    let at_random = |test: &Test| f64::from(test.pattern.random_percent);
    let ratio = |value: &dyn Fn(&Test) -> f64| Some(of(&at_cost, value)? / of(&all, value)?);
    let other = neither.iter().filter(|test| test.setting.spec.name != "anticipatory").count();
    let known = [
        ("improved", Better::of(&gains).share),
        ("improvement", Better::of(&gains).mean),
        ("faster", Better::of(&faster).share),
        ("reduction", Better::of(&faster).mean),
        ("both", Some(percent(both.len(), gains.len()))),
        ("improvement-of-both", mean(&both.iter().map(|(gain, _)| *gain).collect::<Vec<_>>())),
        ("reduction-of-both", mean(&both.iter().map(|(_, faster)| *faster).collect::<Vec<_>>())),
        ("neither", Some(percent(neither.len(), gains.len()))),
        ("neither-other-scheduler", (!neither.is_empty()).then(|| percent(other, neither.len()))),
        ("at-cost", Some(percent(at_cost.len(), gains.len()))),
        ("mean-gain", mean(&gains)),
        ("mean-latency", mean(&negated(&faster))),
        ("reads-faster", less(&|got| got.read_s)),
        ("writes-faster", less(&|got| got.write_s)),
        ("read-ahead", Some(percent(all.iter().filter(|test| read_ahead(test)).count(), all.len()))),
        ("ranges", Some(evolution.ranges as f64)),
        ("prolonged", prolonged(tests)),
    ];
    known.into_iter().for_each(|(name, value)| measures.printed(name, value));
    let common = match ratio(&processes).zip(ratio(&at_random)) {
        Some((processes, random)) => (
            format!("{processes:.2} times the processes and {random:.2} times the access at random of all tests"),
            processes > 1.0 && random > 1.0,
        ),
        None => ("no such test".to_owned(), false),
    };
    measures.printed_words("at-cost-pattern", common.0, common.1);
}

/// Difference in mean gain between the last and the first third of the generations, in percentage points; `None` with fewer than three generations.
fn prolonged(tests: &[Test]) -> Option<f64> {
    let third = (tests.last()?.generation + 1) / 3;
    let last = tests.last()?.generation;
    let of = |is_in: &dyn Fn(usize) -> bool| mean(&changes(tests.iter().filter(|test| is_in(test.generation))).0);
    let (first, later) = (of(&|generation| generation < third)?, of(&|generation| generation > last - third)?);
    Some(later - first)
}

/// A row of tests relative to the default.
fn row<'a>(name: String, tests: impl Iterator<Item = &'a Test>) -> Row {
    let (gains, faster) = changes(tests);
    of_changes(name, &gains, &faster)
}

fn of_changes(name: String, gains: &[f64], faster: &[f64]) -> Row {
    let (throughput, latency) = (Better::of(gains), Better::of(faster));
    let cells = [throughput.share, throughput.mean, latency.share, latency.mean, mean(gains), worst(gains)];
    Row { name, cells: cells.map(Cell::ours).to_vec() }
}

/// A row for the best constant setting of the lessons on the same tests; `None` if it was not run.
fn constant_row<'a>(tests: impl Iterator<Item = &'a Test>) -> Option<Row> {
    let of = |test: &Test| {
        let constant = test.constant?;
        Some((constant.gain_percent(&test.default), -constant.slower_percent(&test.default)))
    };
    let (gains, faster): (Vec<f64>, Vec<f64>) = tests.filter_map(of).unzip();
    let name = format!("the best constant setting of the lessons, {} tests", gains.len());
    (!gains.is_empty()).then(|| of_changes(name, &gains, &faster))
}

/// Targets for the searches on one kernel.
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

/// The upper bound of the gain: that of a disk without seek time and rotational delay. And the gain of the best setting that was run for each
/// workload.
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

/// The final setting of each search relative to the default.
pub fn compared(id: &str, searched: &Searched) -> Table {
    let row = |(place, name): (usize, &String)| {
        let (gains, slower) = searched.against_default(place);
        of_changes(name.clone(), &gains, &negated(&slower))
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
