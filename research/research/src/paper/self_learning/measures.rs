//! Numbers and words by which the paper's statements are judged, where they are not bars of a figure.

use crate::report::paper::{Best, Cell, Figure, Row, Table};
use ::report::number::three_digits;

use super::super::Part;
use super::super::stated::Measures;
use super::figures::{PREFERENCES, SETS, WINDOW_NAMES, WINDOWS_S, World, response_ms, seconds_a_megabyte};
use super::judge::{Repetition, aggregated_s};
use super::plan::{Load, TABLE_4, TABLE_5};
use super::runs::{Summary, Under};
use super::schemes::{LEARNERS, PER_REQUEST, RESPONSE_TIME, Scheme};

/// Relative difference that counts as "similar", "slightly" or "near" where the paper prints no number: the spread of its numbers here.
const SIMILAR: f64 = 0.1;

/// The paper's scheduler from section 5.3 on, and ours next to it: the scheduler that models the disk, kept for the whole run.
const PRINTED: Under = Under::Scheme(Scheme::TWO_LAYER);
const OURS: Under = Under::Fixed(PER_REQUEST);

/// The list entry for the table of decision costs.
pub const WORK: Part =
    Part { id: "work", title: "What decisions cost: uses of a model and changes of the scheduler, Table 4", is_cpu: false };

/// Numbers in the text that belong to a figure but are not among its bars.
pub fn all(world: &World, figures: &[Figure]) -> Measures {
    let mut measures = Measures::default();
    for figure in figures {
        match figure.id.as_str() {
            "fig-2" => training(figure, &mut measures),
            "fig-3" | "fig-5" | "fig-7" | "fig-9" | "fig-12" => {}
            "fig-4" => levels(world, figure, &mut measures),
            "fig-6" => learners(figure, &mut measures),
            "fig-8" => windows(figure, &mut measures),
            "fig-10" => real_time(world, figure, &mut measures),
            "fig-11" => throughput(figure, "throughput-table-4", &mut measures),
            "fig-13" => synthetic_time(world, figure, &mut measures),
            "fig-14" => {
                let gain = |under: &Under| world.gain_over_best("maximum-throughput", under, seconds_a_megabyte);
                let more = |less: Option<f64>| less.map(|less| 100.0 * (100.0 / (100.0 - less) - 1.0));
                measures.printed("maximum-throughput-gain", more(gain(&PRINTED)));
                measures.ours("maximum-throughput-gain", more(gain(&OURS)));
                throughput(figure, "throughput-table-5", &mut measures);
            }
            "preferences" => preferences(figure, &mut measures),
            _ => {}
        }
    }
    measures
}

/// The values of a series, group by group, in the first panel.
fn values(figure: &Figure, series: &str) -> Option<Vec<f64>> {
    let number = figure.series.iter().position(|name| name == series)?;
    (0..figure.groups.len()).map(|group| figure.value(0, group, number)).collect()
}

fn value(figure: &Figure, series: &str, group: &str) -> Option<f64> {
    let place = |names: &[String], name: &str| names.iter().position(|other| other == name);
    figure.value(0, place(&figure.groups, group)?, place(&figure.series, series)?)
}

/// Records two numbers, and whether the first relates to the second as the paper says.
fn compared(
    measures: &mut Measures,
    measure: &'static str,
    names: [&str; 2],
    numbers: [Option<f64>; 2],
    agrees: impl Fn(f64, f64) -> bool,
) {
    let [Some(a), Some(b)] = numbers else { return };
    measures.printed_words(measure, format!("{} {}, {} {}", names[0], three_digits(a), names[1], three_digits(b)), agrees(a, b));
}

fn training(figure: &Figure, measures: &mut Measures) {
    let of = |series| value(figure, series, "Table 4");
    compared(measures, "crrn-accuracy", ["CRRN", "TCLO"], [of("CRRN"), of("TCLO")], |crrn, tclo| crrn >= (1.0 - SIMILAR) * tclo);
}

fn levels(world: &World, figure: &Figure, measures: &mut Measures) {
    measures.printed("per-request-share", world.share_by_request(Scheme::TCLOO));
    measures.ours("per-request-share", world.share_by_request(Scheme::GUARDED));
    let (request, workload) = (values(figure, "request, SVM"), values(figure, "workload, SVM"));
    if let Some((request, workload)) = request.zip(workload) {
        let wins = request.iter().zip(&workload).filter(|(request, workload)| request < workload).count();
        let text = format!("request-level is faster on {wins} of {} workloads", TABLE_4.len());
        measures.printed_words("no-clear-winner", text, wins > 0 && wins < TABLE_4.len());
    }
    let both = |group| [value(figure, "workload, SVM", group), value(figure, "request, SVM", group)];
    let names = ["workload-level ms", "request-level ms"];
    for (measure, group) in [
        ("workload-level-file-reading", "file-reading"),
        ("workload-level-file-writing", "file-writing"),
        ("workload-level-mixed-1", "mixed-1"),
        ("workload-level-mixed-2", "mixed-2"),
    ] {
        compared(measures, measure, names, both(group), |workload, request| workload < request);
    }
    compared(measures, "request-level-sql", names, both("sql-queries"), |workload, request| request < workload);
    let work = |under: Under| world.work(&under).map(|work| work.uses_per_s);
    let [request, workload, hybrid] =
        [Under::Fixed(RESPONSE_TIME), Under::Scheme(Scheme::WORKLOAD_LEVEL), Under::Scheme(Scheme::TCLOO)].map(work);
    let more = |more: f64, less: f64| more > (1.0 + SIMILAR) * less;
    compared(
        measures,
        "request-level-work",
        ["uses of a model per second: request-level", "workload-level"],
        [request, workload],
        more,
    );
    if let (Some(request), Some(workload), Some(hybrid)) = (request, workload, hybrid) {
        let [workload_text, hybrid_text, request_text] = [workload, hybrid, request].map(three_digits);
        let text = format!(
            "uses of a model per second: workload-level {workload_text}, hybrid {hybrid_text}, request-level {request_text}"
        );
        // A margin of 1%, as runs of slightly different length alone differ by less.
        measures.printed_words("hybrid-work", text, hybrid > 1.01 * workload && hybrid < request);
    }
    let changes = |scheme| world.work(&Under::Scheme(scheme)).map(|work| work.changes as f64);
    compared(
        measures,
        "crrn-changes",
        ["changes of the scheduler: CRRN", "TCLOO"],
        [changes(Scheme::CRRN), changes(Scheme::TCLOO)],
        more,
    );
}

fn learners(figure: &Figure, measures: &mut Measures) {
    let of = |group: &str| LEARNERS.iter().map(|(_, name)| value(figure, name, group)).collect::<Option<Vec<f64>>>();
    let [Some(table_3), Some(table_4), _, Some(folds)] = SETS.map(of) else { return };
    let least = table_3.iter().copied().fold(f64::INFINITY, f64::min);
    measures.printed_words("all-high-on-table-3", format!("the least accurate has {least:.1}%"), least >= 80.0);
    let count = |is: &dyn Fn(f64, f64) -> bool, a: &[f64], b: &[f64]| a.iter().zip(b).filter(|(a, b)| is(**a, **b)).count();
    let worse = count(&|here, there| here < there, &table_4, &table_3);
    let text = format!("{worse} of {} are less accurate on Table 4 than on Table 3", LEARNERS.len());
    measures.printed_words("worse-on-table-4", text, worse == LEARNERS.len());
    let slightly = count(&|folds, table_4| folds <= table_4 && folds >= (1.0 - SIMILAR) * table_4, &folds, &table_4);
    let text = format!("{slightly} of {} drop by up to a tenth", LEARNERS.len());
    measures.printed_words("slightly-lower-in-folds", text, slightly == LEARNERS.len());
}

/// The window with the lowest geometric mean of response times over the workloads, and whether the minimum is in the middle.
fn windows(figure: &Figure, measures: &mut Measures) {
    let mean = |name: &&str| {
        let values = values(figure, name)?;
        statistics::sample::geometric_mean(values.iter().copied())
    };
    let Some(means) = WINDOW_NAMES.iter().map(mean).collect::<Option<Vec<f64>>>() else { return };
    let known: Vec<Option<f64>> = means.iter().copied().map(Some).collect();
    match figure.unit.best(&known) {
        Best::None => {}
        Best::One(best) => measures.printed("best-window", Some(f64::from(WINDOWS_S[best]))),
        tie => {
            let text = tie.tie(|index| WINDOW_NAMES[index].to_owned());
            text.into_iter().for_each(|text| measures.printed_words("best-window", text, false));
        }
    }
    let text = means.iter().zip(WINDOW_NAMES).map(|(mean, name)| format!("{name} {mean:.2} ms")).collect::<Vec<_>>().join(", ");
    let falls = means[..3].is_sorted_by(|a, b| a > b);
    measures.printed_words("window-valley", text, falls && means[2..].is_sorted_by(|a, b| a < b));
    // One decision per window, so the work is inversely proportional to the window length.
    let text = WINDOWS_S.map(|window| format!("{window} s {:.1}", 600.0 / f64::from(window))).join(", ");
    measures.printed_words("window-work", format!("decisions in 600 s: {text}"), true);
}

fn real_time(world: &World, figure: &Figure, measures: &mut Measures) {
    let gain = |under: &Under| world.gain_over_best("mixed-2", under, aggregated_s);
    measures.printed("mixed-2-gain", gain(&PRINTED));
    measures.ours("mixed-2-gain", gain(&OURS));
    let best_gain = |under: &Under| {
        let gains: Vec<Option<f64>> = TABLE_4
            .iter()
            .map(|name| world.gain_over_best(name, under, aggregated_s))
            .chain(TABLE_5.iter().map(|name| world.gain_over_best(name, under, response_ms)))
            .collect();
        gains.into_iter().collect::<Option<Vec<f64>>>()?.into_iter().max_by(f64::total_cmp)
    };
    measures.printed("best-gain", best_gain(&PRINTED));
    measures.ours("best-gain", best_gain(&OURS));
    let near = |group: usize, series: &str| {
        let number = figure.series.iter().position(|name| name == series)?;
        let best = (0..figure.of_paper).filter_map(|series| figure.value(0, group, series)).min_by(f64::total_cmp)?;
        Some(figure.value(0, group, number)? <= (1.0 + SIMILAR) * best)
    };
    let nears = (0..figure.groups.len()).map(|group| near(group, "two-layer SVM")).collect::<Option<Vec<bool>>>();
    if let Some(nears) = nears {
        let count = nears.iter().filter(|near| **near).count();
        let text = format!("within a tenth of the best fixed scheduler on {count} of {}", nears.len());
        measures.printed_words("near-best", text, count == nears.len());
    }
    for (measure, group) in [("as-anticipatory-reading", "file-reading"), ("as-anticipatory-writing", "file-writing")] {
        let numbers = ["two-layer SVM", "anticipatory"].map(|series| value(figure, series, group));
        compared(measures, measure, ["two-layer s", "anticipatory s"], numbers, |ours, theirs| ours <= (1.0 + SIMILAR) * theirs);
    }
}

/// The number of workloads on which the two-layer scheme has the best bar of the paper's six.
fn best_on(figure: &Figure, measure: &'static str, measures: &mut Measures) {
    let best = |group: usize| match figure.best(group, figure.of_paper + 1) {
        Best::None => None,
        Best::One(best) => Some(best == figure.of_paper),
        Best::Some(tied) => Some(tied.contains(&figure.of_paper)),
        Best::All(_) => Some(true),
    };
    let Some(best) = (0..figure.groups.len()).map(best).collect::<Option<Vec<bool>>>() else { return };
    let count = best.iter().filter(|best| **best).count();
    measures.printed_words(measure, format!("best or as good on {count} of {}", best.len()), count == best.len());
}

fn throughput(figure: &Figure, measure: &'static str, measures: &mut Measures) {
    best_on(figure, measure, measures);
}

fn synthetic_time(world: &World, figure: &Figure, measures: &mut Measures) {
    let gain = |under: &Under| world.gain_over_best("multi-threaded-access", under, response_ms);
    measures.printed("multi-threaded-gain", gain(&PRINTED));
    measures.ours("multi-threaded-gain", gain(&OURS));
    best_on(figure, "outperforms-on-table-5", measures);
}

fn preferences(figure: &Figure, measures: &mut Measures) {
    // The n-th preference puts the n-th group first.
    let best = |group: usize| {
        let all = (0..PREFERENCES.len()).map(|series| figure.value(0, group, series)).collect::<Option<Vec<f64>>>()?;
        Some(all.iter().all(|other| all[group] >= *other))
    };
    let Some(best) = (0..PREFERENCES.len()).map(best).collect::<Option<Vec<bool>>>() else { return };
    let count = best.iter().filter(|best| **best).count();
    let text = format!("the preferred one is best under its preference in {count} of {}", best.len());
    measures.printed_words("preferences", text, count == best.len());
}

/// Cost of decisions on Table 4.
pub struct DecisionCost {
    /// Uses of a model per second: one for each window, and one for each request under a scheduler that decides by request.
    pub uses_per_s: f64,
    /// Changes of the scheduler.
    pub changes: u64,
}

impl World<'_> {
    fn runs_of_table_4(&self, under: &Under) -> Option<Vec<&Summary>> {
        let trials = TABLE_4.iter().flat_map(|name| (0..self.plan.repeats).map(|repeat| (*name, repeat)));
        let trials = trials.map(|(name, repeat)| Repetition { disk: 0, load: Load::Of(name), repeat });
        let runs: Vec<Option<&Summary>> = trials.map(|trial| trial.run(self.store, under.clone())).collect();
        runs.into_iter().collect()
    }

    /// Share of a scheme's windows on Table 4 under the per-request scheduler, in percent.
    fn share_by_request(&self, scheme: Scheme) -> Option<f64> {
        let runs = self.runs_of_table_4(&Under::Scheme(scheme))?;
        let (all, by_request) = runs.iter().fold((0, 0), |sum, run| (sum.0 + run.windows.0, sum.1 + run.windows.1));
        (all > 0).then(|| 100.0 * by_request as f64 / all as f64)
    }

    /// Decision costs of a scheduler or scheme; `None` until its runs are done.
    pub fn work(&self, under: &Under) -> Option<DecisionCost> {
        let runs = self.runs_of_table_4(under)?;
        let seconds: f64 = runs.iter().map(|run| run.duration_s).sum();
        let windows = |run: &&Summary| if matches!(under, Under::Scheme(_)) { run.windows.0 } else { 0 };
        let uses: u64 = runs.iter().map(|run| windows(run) + run.requests.1).sum();
        let changes = runs.iter().map(|run| run.changes()).sum();
        Some(DecisionCost { uses_per_s: uses as f64 / seconds, changes })
    }

    /// The table of decision costs.
    pub fn work_table(&self) -> Table {
        let unders = [
            ("request-level", Under::Fixed(RESPONSE_TIME)),
            ("workload-level", Under::Scheme(Scheme::WORKLOAD_LEVEL)),
            ("hybrid (TCLOO)", Under::Scheme(Scheme::TCLOO)),
            ("CRRN", Under::Scheme(Scheme::CRRN)),
        ];
        let row = |(name, under): &(&str, Under)| {
            let work = self.work(under);
            let cells = [work.as_ref().map(|work| work.uses_per_s), work.as_ref().map(|work| work.changes as f64)];
            Row { name: (*name).to_owned(), cells: cells.map(Cell::ours).to_vec() }
        };
        Table {
            id: WORK.id.to_owned(),
            title: WORK.title.to_owned(),
            method: "One use of a model for each window, and one for each request under a scheduler that decides by request; CRRN has no model. \
                     Unlike processor time these are the same in every run."
                .to_owned(),
            corner: "scheme".to_owned(),
            columns: vec![Table::column("uses of a model per second", false), Table::column("changes of the scheduler", false)],
            rows: unders.iter().map(row).collect(),
        }
    }
}
