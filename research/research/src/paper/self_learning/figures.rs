//! The paper's figures from our runs.

use crate::report::paper::{Figure, Panel, Unit};

use super::super::Part;
use super::judge::{Count, Counting, Data, JUDGED_BY, Repetition, accuracy, aggregated_s, score};
use super::plan::{Load, Plan, TABLE_3, TABLE_4, TABLE_5};
use super::runs::{Store, Summary, Under};
use super::schemes::{FIVE, LEARNERS, LOGISTIC, PER_REQUEST, REGULAR, RESPONSE_TIME, RESPONSE_TIME_LOGISTIC, SETTINGS, Scheme};

/// A figure of the paper that can be requested.
pub struct Drawing {
    /// The name on the command line.
    pub id: &'static str,
    /// The heading for display.
    pub title: &'static str,
    draw: fn(&Drawing, &World) -> Figure,
    /// The first this many series are the paper's own; it names the best among these.
    among: usize,
    /// Whether it shows processor time, which differs from run to run.
    pub is_cpu: bool,
}

/// Everything that a figure is drawn from.
pub struct World<'a> {
    /// The runs.
    pub plan: &'a Plan,
    /// Results of completed runs.
    pub store: &'a Store,
}

/// All figures of section 5.
pub const ALL: &[Drawing] = &[
    Drawing { id: "fig-2", title: "Fig. 2: accuracies of CRRN, TCLO and TCLOO", draw: training, among: 3, is_cpu: false },
    Drawing { id: "fig-3", title: "Fig. 3: overhead of FIFO, CRRN, TCLO and TCLOO", draw: training_cost, among: 4, is_cpu: true },
    Drawing {
        id: "fig-4",
        title: "Fig. 4: response time of request-level, workload-level and hybrid learning",
        draw: level,
        among: 6,
        is_cpu: false,
    },
    Drawing {
        id: "fig-5",
        title: "Fig. 5: overhead of request-level, workload-level and hybrid learning",
        draw: level_cost,
        among: 6,
        is_cpu: true,
    },
    Drawing { id: "fig-6", title: "Fig. 6: accuracies of different learning algorithms", draw: learner, among: 5, is_cpu: false },
    Drawing { id: "fig-7", title: "Fig. 7: overhead of different learning algorithms", draw: learner_cost, among: 5, is_cpu: true },
    Drawing { id: "fig-8", title: "Fig. 8: response time with different window sizes", draw: window, among: 5, is_cpu: false },
    Drawing { id: "fig-9", title: "Fig. 9: overhead of different window sizes", draw: window_cost, among: 5, is_cpu: true },
    Drawing { id: "fig-10", title: "Fig. 10: aggregated response time, Table 4", draw: real_time, among: 5, is_cpu: false },
    Drawing { id: "fig-11", title: "Fig. 11: average throughput, Table 4", draw: real_throughput, among: 5, is_cpu: false },
    Drawing { id: "fig-12", title: "Fig. 12: processor time, Table 4", draw: real_cost, among: 5, is_cpu: true },
    Drawing { id: "fig-13", title: "Fig. 13: average response time, Table 5", draw: synthetic_time, among: 5, is_cpu: false },
    Drawing { id: "fig-14", title: "Fig. 14: average throughput, Table 5", draw: synthetic_throughput, among: 5, is_cpu: false },
    Drawing { id: "data", title: "Performance data: what decisions on Table 4 are judged by", draw: data, among: 5, is_cpu: false },
    Drawing { id: "by-workload", title: "Accuracy on Table 4, workload by workload", draw: by_workload, among: 3, is_cpu: false },
    Drawing {
        id: "protocol",
        title: "Accuracy on Table 4 with what the paper leaves open",
        draw: protocol,
        among: 1,
        is_cpu: false,
    },
    Drawing {
        id: "seen",
        title: "What decisions on Table 4 cost, and the kinds of load in the training",
        draw: seen,
        among: 1,
        is_cpu: false,
    },
    Drawing {
        id: "single",
        title: "Which tunable makes a scheduler the best on a workload",
        draw: single,
        among: 5,
        is_cpu: false,
    },
    Drawing {
        id: "algorithm-1",
        title: "Algorithm 1 without and with tuning by doubling, Table 4",
        draw: tuning,
        among: 2,
        is_cpu: false,
    },
    Drawing {
        id: "preferences",
        title: "Two-layer learning under three preferences, Table 4",
        draw: preferences,
        among: 3,
        is_cpu: false,
    },
];

/// The paper's window sizes, in seconds.
pub const WINDOWS_S: [u32; 5] = [10, 30, 60, 120, 300];

impl Drawing {
    /// The entry for the list of parts.
    pub fn part(&self) -> Part {
        Part { id: self.id, title: self.title, is_cpu: self.is_cpu }
    }

    /// Draws it.
    pub fn draw(&self, world: &World) -> Figure {
        Figure { of_paper: self.among, ..(self.draw)(self, world) }
    }

    fn figure(&self, unit: Unit, series: &[&str], groups: &[&str], method: &str) -> Figure {
        Figure {
            title: self.title.to_owned(),
            method: method.to_owned(),
            unit,
            series: series.iter().map(|&name| name.to_owned()).collect(),
            groups: groups.iter().map(|&name| name.to_owned()).collect(),
            ..Figure::new(self.id)
        }
    }
}

/// Replaces a scheme by its variant for a batch: trained on the other batches.
type OnBatch = fn(Under, u32) -> Under;

fn on_batch(under: Under, number: u32) -> Under {
    match under {
        Under::Scheme(scheme) => Under::Scheme(scheme.for_batch(number)),
        fixed => fixed,
    }
}

impl World<'_> {
    /// The repetitions of a workload on a disk; one on disks that the paper does not have.
    fn trials(&self, disk: usize, name: &'static str) -> Vec<Repetition> {
        let repeats = if disk == 0 { self.plan.repeats } else { 1 };
        (0..repeats).map(|repeat| Repetition { disk, load: Load::Of(name), repeat }).collect()
    }

    /// Correct decisions on each of [`SETS`].
    fn accuracies(&self, under: &Under, counting: Counting) -> [Option<Count>; 4] {
        let all = |trials: Vec<(Repetition, Under)>| {
            let counts: Vec<Option<Count>> =
                trials.iter().map(|(trial, under)| accuracy(self.store, trial, under, counting)).collect();
            counts.into_iter().try_fold(Count::default(), |sum, count| Some(sum.and(count?)))
        };
        let once = |name: &&'static str| (Repetition { disk: 0, load: Load::Of(name), repeat: 0 }, under.clone());
        let often = |names: &[&'static str]| {
            all(names.iter().flat_map(|name| self.trials(0, name)).map(|trial| (trial, under.clone())).collect())
        };
        let as_on_batch: OnBatch = on_batch;
        let batch = |number| (Repetition { disk: 0, load: Load::Batch(number), repeat: 0 }, as_on_batch(under.clone(), number));
        [all(TABLE_3.iter().map(once).collect()), often(TABLE_4), often(TABLE_5), all((0..self.plan.batches).map(batch).collect())]
    }

    /// Accuracy on Table 4.
    pub fn accuracy_on_table_4(&self, scheme: Scheme, counting: Counting) -> Option<Count> {
        self.on_table_4(&Under::Scheme(scheme), counting)
    }

    fn on_table_4(&self, under: &Under, counting: Counting) -> Option<Count> {
        let trials: Vec<Repetition> = TABLE_4.iter().flat_map(|name| self.trials(0, name)).collect();
        let counts: Vec<Option<Count>> = trials.iter().map(|trial| accuracy(self.store, trial, under, counting)).collect();
        counts.into_iter().try_fold(Count::default(), |sum, count| Some(sum.and(count?)))
    }

    /// The most accurate of the fixed schedulers on Table 4, and its accuracy in percent.
    pub fn best_constant_on_table_4(&self, counting: Counting) -> Option<(&'static str, f64)> {
        let of = |name: &'static str| Some((name, self.on_table_4(&Under::Fixed(name), counting)?.percent()?));
        // Look up all before returning, so that the store notes every missing run at once.
        let all: Vec<Option<(&'static str, f64)>> = SETTINGS.iter().map(|name| of(name)).collect();
        // `max_by` returns the last of equals.
        all.into_iter().collect::<Option<Vec<_>>>()?.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn accuracy_panels(&self, unders: &[Under]) -> Vec<Panel> {
        let panel = |(name, counting): (&str, Counting)| {
            let columns: Vec<[Option<Count>; 4]> = unders.iter().map(|under| self.accuracies(under, counting)).collect();
            let values = (0..SETS.len()).map(|group| columns.iter().map(|column| column[group]?.percent()).collect()).collect();
            Panel { name: name.to_owned(), values }
        };
        COUNTINGS.into_iter().map(panel).collect()
    }

    /// Mean of a measure over the repetitions; `of` gets the run and deadline's run of the same repetition.
    pub fn mean(&self, disk: usize, name: &'static str, under: &Under, of: fn(&Summary, &Summary) -> Option<f64>) -> Option<f64> {
        self.mean_of(&self.trials(disk, name), under, of)
    }

    fn mean_of(&self, trials: &[Repetition], under: &Under, of: fn(&Summary, &Summary) -> Option<f64>) -> Option<f64> {
        let one = |trial: &Repetition| {
            let (run, deadline) = (trial.run(self.store, under.clone()), trial.run(self.store, Under::Fixed("deadline")));
            of(run?, deadline?)
        };
        let values: Vec<Option<f64>> = trials.iter().map(one).collect();
        let values = values.into_iter().collect::<Option<Vec<f64>>>()?;
        statistics::mean(values)
    }

    /// A panel with workloads as groups and schedulers or schemes as series.
    fn panel(&self, disk: usize, names: &[&'static str], unders: &[Under], of: fn(&Summary, &Summary) -> Option<f64>) -> Panel {
        let row = |name: &&'static str| unders.iter().map(|under| self.mean(disk, name, under, of)).collect();
        Panel { name: self.plan.disks[disk].name.clone(), values: names.iter().map(row).collect() }
    }

    /// One panel for each disk of the plan.
    fn panels(&self, names: &[&'static str], unders: &[Under], of: fn(&Summary, &Summary) -> Option<f64>) -> Vec<Panel> {
        (0..self.plan.disks.len()).map(|disk| self.panel(disk, names, unders, of)).collect()
    }

    /// Reduction in percent of a measure that is better when lower, relative to the best of the five.
    pub fn gain_over_best(&self, name: &'static str, under: &Under, of: fn(&Summary, &Summary) -> Option<f64>) -> Option<f64> {
        let five: Vec<Option<f64>> = FIVE.iter().map(|five| self.mean(0, name, &Under::Fixed(five), of)).collect();
        let ours = self.mean(0, name, under, of);
        let best = five.into_iter().collect::<Option<Vec<f64>>>()?.into_iter().min_by(f64::total_cmp)?;
        Some(100.0 * (1.0 - ours? / best))
    }
}

/// Mean response time of the applications, in milliseconds.
pub fn response_ms(run: &Summary, _: &Summary) -> Option<f64> {
    Some(run.response_s * 1e3)
}

fn throughput_mb_s(run: &Summary, _: &Summary) -> Option<f64> {
    (run.duration_s > 0.0).then(|| run.bytes as f64 / 1e6 / run.duration_s)
}

/// Inverse throughput, in seconds per megabyte.
pub fn seconds_a_megabyte(run: &Summary, deadline: &Summary) -> Option<f64> {
    throughput_mb_s(run, deadline).filter(|rate| *rate > 0.0).map(f64::recip)
}

fn cpu_us_a_second(run: &Summary, _: &Summary) -> Option<f64> {
    run.cpu_ns.filter(|_| run.duration_s > 0.0).map(|ns| ns as f64 / 1e3 / run.duration_s)
}

const TRAINING: [(&str, Scheme); 5] = [
    ("CRRN", Scheme::CRRN),
    ("TCLO", Scheme::TCLO),
    ("TCLOO", Scheme::TCLOO),
    ("two-layer, ours", Scheme::GUARDED),
    ("seekwise", Scheme::SEEKWISE),
];
/// Sets of workloads on which accuracy is measured; "10-fold" has as many batches as the plan.
pub const SETS: [&str; 4] = ["Table 3", "Table 4", "Table 5", "10-fold"];
/// Panels of the figures of accuracy; the paper's way of counting comes first.
const COUNTINGS: [(&str, Counting); 5] = [
    ("by throughput, at least the best of the five, equal within 2%", Counting::PRINTED),
    ("by throughput, at least the best of the five, equal within 0%", Counting { tolerance: 0.0, ..Counting::PRINTED }),
    (
        "by throughput, at least anticipatory, Linux 2.6.13’s default, equal within 2%",
        Counting { against: &[REGULAR], ..Counting::PRINTED },
    ),
    ("by merit, at least the best of the five, equal within 2%", Counting::MERIT),
    ("by throughput, where one of the five is the best by more than 2%", Counting { only_determined: true, ..Counting::PRINTED }),
];

/// Each scheduler kept for the whole run: the baseline that a scheme's accuracy must exceed.
fn constants() -> impl Iterator<Item = (String, Under)> {
    SETTINGS.iter().map(|name| (format!("always {name}"), Under::Fixed(name)))
}

const CONSTANTS: &str = " Next to them are the schedulers by themselves, from beginning to end: a scheme is worth something where it is \
                         more accurate than the best of these.";

/// A figure of accuracies, with the fixed schedulers next to the schemes.
fn with_constants(figure: Figure) -> Figure {
    let mut figure = figure;
    figure.series.extend(constants().map(|(name, _)| name));
    figure.method.push_str(CONSTANTS);
    figure
}

fn schemes(schemes: &[(&'static str, Scheme)]) -> (Vec<&'static str>, Vec<Under>) {
    schemes.iter().map(|(name, scheme)| (*name, Under::Scheme(*scheme))).unzip()
}

fn training(drawing: &Drawing, world: &World) -> Figure {
    let (names, mut unders) = schemes(&TRAINING);
    unders.extend(constants().map(|(_, under)| under));
    let method = "Share of all windows’ decisions that were correct. CRRN learns nothing beforehand, TCLO from Table 3, TCLOO also from \
                  what stands for the paper’s day of online training, and on while it runs; under cross-validation both learn from the \
                  other batches. SVM, windows of 100 s, scaled. Ours: two-layer learning with a guard against uncertain choices and a \
                  judgement of each change, which ranks by merit; and seekwise.";
    let figure = with_constants(drawing.figure(Unit::AccuracyPercent, &names, &SETS, method));
    Figure { panels: world.accuracy_panels(&unders), ..figure }
}

fn training_cost(drawing: &Drawing, world: &World) -> Figure {
    let (mut names, mut unders) = schemes(&TRAINING);
    names.insert(0, "FIFO (noop)");
    unders.insert(0, Under::Fixed("noop"));
    let figure = drawing.figure(Unit::ProcessorMicrosecondsPerSecond, &names, TABLE_4, COST);
    Figure { panels: vec![world.panel(0, TABLE_4, &unders, cpu_us_a_second)], ..figure }
}

const COST: &str = "Processor time of scheduler and controller on this machine for each second of simulated I/O, training within the run \
                    included. The paper gives the whole system’s, applications included, on a Pentium 4 of 3.2 GHz: only the order of the \
                    bars can be compared.";

fn levels() -> (Vec<&'static str>, Vec<Under>) {
    let fixed = |name| Under::Fixed(name);
    let levels = [
        ("request, SVM", fixed(RESPONSE_TIME)),
        ("request, logistic", fixed(RESPONSE_TIME_LOGISTIC)),
        ("workload, SVM", Under::Scheme(Scheme::WORKLOAD_LEVEL)),
        ("workload, logistic", Under::Scheme(Scheme::WORKLOAD_LEVEL.with_learner(LOGISTIC))),
        ("hybrid, SVM", Under::Scheme(Scheme::TCLOO)),
        ("hybrid, logistic", Under::Scheme(Scheme::TCLOO.with_learner(LOGISTIC))),
        ("per-request, ours", fixed(PER_REQUEST)),
        ("seekwise", Under::Scheme(Scheme::SEEKWISE)),
    ];
    levels.into_iter().unzip()
}

fn level(drawing: &Drawing, world: &World) -> Figure {
    let (names, unders) = levels();
    let method = "Mean response time of the applications' requests over the repetitions. Request-level learning is Algorithm 3 from beginning to end. \
         In both hybrids the request-level scheduler is that of the SVM.";
    let figure = drawing.figure(Unit::Milliseconds, &names, TABLE_4, method);
    Figure { panels: vec![world.panel(0, TABLE_4, &unders, response_ms)], ..figure }
}

fn level_cost(drawing: &Drawing, world: &World) -> Figure {
    let (names, unders) = levels();
    let figure = drawing.figure(Unit::ProcessorMicrosecondsPerSecond, &names, TABLE_4, COST);
    Figure { panels: vec![world.panel(0, TABLE_4, &unders, cpu_us_a_second)], ..figure }
}

fn learners() -> (Vec<&'static str>, Vec<Under>) {
    LEARNERS.iter().map(|&(learner, name)| (name, Under::Scheme(Scheme::TCLOO.with_learner(learner)))).unzip()
}

fn learner(drawing: &Drawing, world: &World) -> Figure {
    let (mut names, mut unders) = learners();
    names.push("seekwise");
    unders.push(Under::Scheme(Scheme::SEEKWISE));
    unders.extend(constants().map(|(_, under)| under));
    let method = "Share of all windows’ decisions that were correct, of two-layer learning with each learner (TCLOO, windows of 100 s, \
                  scaled). seekwise is no scheme of the paper’s.";
    let figure = with_constants(drawing.figure(Unit::AccuracyPercent, &names, &SETS, method));
    Figure { panels: world.accuracy_panels(&unders), ..figure }
}

fn learner_cost(drawing: &Drawing, world: &World) -> Figure {
    let (names, unders) = learners();
    let figure = drawing.figure(Unit::ProcessorMicrosecondsPerSecond, &names, TABLE_4, COST);
    Figure { panels: vec![world.panel(0, TABLE_4, &unders, cpu_us_a_second)], ..figure }
}

fn windows(world: &World, of: fn(&Summary, &Summary) -> Option<f64>) -> Panel {
    let loads = TABLE_4.iter().map(|name| Load::Long(name)).chain([Load::Changing]);
    let row = |load: Load| {
        let trial = [Repetition { disk: 0, load, repeat: 0 }];
        let one = |&seconds: &u32| world.mean_of(&trial, &Under::Scheme(Scheme::TCLOO.with_window(seconds)), of);
        WINDOWS_S.iter().map(one).collect()
    };
    Panel { name: world.plan.disks[0].name.clone(), values: loads.map(row).collect() }
}

/// The workloads of Figures 8 and 9: those of the paper, and one that changes during the run.
fn window_groups() -> Vec<&'static str> {
    TABLE_4.iter().copied().chain(["changing"]).collect()
}

/// Labels of [`WINDOWS_S`].
pub const WINDOW_NAMES: [&str; 5] = ["10 s", "30 s", "60 s", "120 s", "300 s"];

fn window(drawing: &Drawing, world: &World) -> Figure {
    let method = "Mean response time under TCLOO with SVM. On the paper’s workloads windows matter little: file reading and writing end with \
                  their work, mostly before a long window does, and the others stay as they are for most of the run. So there is one more, \
                  “changing”: concurrent reading of files and random queries in turn, in phases of 20 s to 150 s of the paper. The best window \
                  is that of the least geometric mean over the workloads.";
    let figure = drawing.figure(Unit::Milliseconds, &WINDOW_NAMES, &window_groups(), method);
    Figure { panels: vec![windows(world, response_ms)], ..figure }
}

fn window_cost(drawing: &Drawing, world: &World) -> Figure {
    let figure = drawing.figure(Unit::ProcessorMicrosecondsPerSecond, &WINDOW_NAMES, &window_groups(), COST);
    Figure { panels: vec![windows(world, cpu_us_a_second)], ..figure }
}

/// The five schedulers, the paper's scheme and ours.
fn compared() -> (Vec<&'static str>, Vec<Under>) {
    let five = FIVE.iter().map(|&name| (name, Under::Fixed(name)));
    let two = [("two-layer SVM", Scheme::TWO_LAYER), ("seekwise", Scheme::SEEKWISE)].map(|(name, it)| (name, Under::Scheme(it)));
    let by_request =
        [("Algorithm 3", RESPONSE_TIME), ("per-request, ours", PER_REQUEST)].map(|(name, it)| (name, Under::Fixed(it)));
    five.chain(two).chain(by_request).unzip()
}

fn real_time(drawing: &Drawing, world: &World) -> Figure {
    let (names, unders) = compared();
    let method = "The paper’s applications run until they are done; ours are cut at a time. So it is the time that the work done under \
                  deadline takes at the rate achieved here, summed over the phases of the workload: where a phase ends with its work, that \
                  is how long it took.";
    let figure = drawing.figure(Unit::Seconds, &names, TABLE_4, method);
    Figure { panels: world.panels(TABLE_4, &unders, aggregated_s), ..figure }
}

fn real_throughput(drawing: &Drawing, world: &World) -> Figure {
    let (names, unders) = compared();
    let method = "Bytes transferred by the applications, divided by the time from the first request to the last completion.";
    let figure = drawing.figure(Unit::MegabytesPerSecond, &names, TABLE_4, method);
    Figure { panels: world.panels(TABLE_4, &unders, throughput_mb_s), ..figure }
}

fn real_cost(drawing: &Drawing, world: &World) -> Figure {
    let (names, unders) = compared();
    let figure = drawing.figure(Unit::ProcessorMicrosecondsPerSecond, &names, TABLE_4, COST);
    Figure { panels: world.panels(TABLE_4, &unders, cpu_us_a_second), ..figure }
}

fn synthetic_time(drawing: &Drawing, world: &World) -> Figure {
    let (names, unders) = compared();
    let method = "Mean response time of the applications' requests.";
    let figure = drawing.figure(Unit::Milliseconds, &names, TABLE_5, method);
    Figure { panels: world.panels(TABLE_5, &unders, response_ms), ..figure }
}

fn synthetic_throughput(drawing: &Drawing, world: &World) -> Figure {
    let (names, unders) = compared();
    let method = "Bytes transferred by the applications, divided by the time from the first request to the last completion.";
    let figure = drawing.figure(Unit::MegabytesPerSecond, &names, TABLE_5, method);
    Figure { panels: world.panels(TABLE_5, &unders, throughput_mb_s), ..figure }
}

/// Performance loss of each setting relative to the best of the five, per phase. Phases that are too short to contain a whole window are
/// omitted.
fn data(drawing: &Drawing, world: &World) -> Figure {
    const LEAST_S: f64 = 0.5;
    let mut groups: Vec<String> = Vec::new();
    let kinds = [("by throughput", Data::Throughput), ("by merit", JUDGED_BY), ("by merit, at the block layer", Data::BlockLayer)];
    let mut panels = kinds.map(|(name, _)| Panel { name: name.to_owned(), values: Vec::new() });
    for name in TABLE_4 {
        let trial = Repetition { disk: 0, load: Load::Of(name), repeat: 0 };
        let runs: Vec<Option<&Summary>> = SETTINGS.iter().map(|setting| trial.run(world.store, Under::Fixed(setting))).collect();
        let Some(runs) = runs.into_iter().collect::<Option<Vec<_>>>() else { continue };
        for number in 0..runs[0].phases.len() {
            let phases: Vec<_> = runs.iter().map(|run| run.phases.get(number).and_then(Option::as_ref)).collect();
            if phases.iter().flatten().all(|phase| phase.seconds() < LEAST_S) {
                continue;
            }
            groups.push(format!("{name}, phase {}", number + 1));
            for (panel, (_, kind)) in panels.iter_mut().zip(kinds) {
                let scores: Vec<Option<f64>> = phases.iter().map(|phase| score((*phase)?, kind)).collect();
                let best = scores[..FIVE.len()].iter().flatten().copied().max_by(f64::total_cmp);
                let below = |score: &Option<f64>| Some(100.0 * (1.0 - ((*score)? - best?).exp()));
                panel.values.push(scores.iter().map(below).collect());
            }
        }
    }
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let method = "How much a setting, run by itself, lies below the best of the paper’s five schedulers, by throughput and mean response \
                  time, phase by phase of the workload; below 0 it is better than all of them. A decision for it is correct up to 2%.";
    let figure = drawing.figure(Unit::BelowBestPercent, SETTINGS, &groups, method);
    Figure { panels: panels.to_vec(), ..figure }
}

fn by_workload(drawing: &Drawing, world: &World) -> Figure {
    let (mut names, mut unders) = schemes(&TRAINING);
    names.push("workload-level");
    unders.push(Under::Scheme(Scheme::WORKLOAD_LEVEL));
    unders.extend(constants().map(|(_, under)| under));
    let panel = |(name, counting): (&str, Counting)| {
        let row = |name: &&'static str| {
            let one = |under: &Under| {
                let of = |trial: &Repetition| accuracy(world.store, trial, under, counting);
                let counts: Vec<_> = world.trials(0, name).iter().map(of).collect();
                counts.into_iter().try_fold(Count::default(), |sum, count| Some(sum.and(count?)))?.percent()
            };
            unders.iter().map(one).collect()
        };
        Panel { name: name.to_owned(), values: TABLE_4.iter().map(row).collect() }
    };
    let panels: Vec<Panel> = COUNTINGS.into_iter().map(panel).collect();
    let method = "The share of correct decisions of figure 2 on each single workload of Table 4.";
    let figure = with_constants(drawing.figure(Unit::AccuracyPercent, &names, TABLE_4, method));
    Figure { panels, ..figure }
}

fn protocol(drawing: &Drawing, world: &World) -> Figure {
    let by_response = Scheme { preference: (2, 3, 2), ..Scheme::TCLOO };
    let short = Scheme { window_s: 10, ..Scheme::TCLOO };
    let equal = Scheme { tolerance_percent: 2, ..Scheme::TCLOO };
    let variants = [
        ("as printed", Scheme::TCLOO),
        ("windows of 10 s, SVM", short),
        ("windows of 10 s, C4.5", short.with_learner("c4.5")),
        ("learned again after 10,000 requests", Scheme { update_requests: 10_000, ..Scheme::TCLOO }),
        ("what processes get is logged", Scheme { by_calls: true, ..Scheme::TCLOO }),
        ("UP(2,3,2), response time, SVM", by_response),
        ("UP(2,3,2), logistic", by_response.with_learner(LOGISTIC)),
        ("equal within 2% is one class, SVM", equal),
        ("without Algorithm 3", Scheme::WORKLOAD_LEVEL),
        ("trained with Table 4’s kinds, SVM", Scheme::TCLOO.with_all_seen()),
        ("trained with Table 4’s kinds, logistic", Scheme::TCLOO.with_all_seen().with_learner(LOGISTIC)),
        ("guarded and judged, ours", Scheme::GUARDED),
    ];
    let (names, mut unders) = schemes(&variants);
    unders.extend(constants().map(|(_, under)| under));
    let panel = |(name, counting): (&str, Counting)| {
        let row = unders.iter().map(|under| world.on_table_4(under, counting)?.percent()).collect();
        Panel { name: name.to_owned(), values: vec![row] }
    };
    let method = "TCLOO as printed, with windows of 100 s, UP(3,2,2), a model learned again after 1,000,000 requests, and what the block layer \
                  did in the log, each window classed by the best scheduler by however little; and with what is named changed. Table 4’s kinds: the same workloads with other draws, \
                  beside the training as printed. All scaled with the runs. The paper does not say which preference its \
                  experiments have.";
    let figure = with_constants(drawing.figure(Unit::AccuracyPercent, &names, &["Table 4"], method));
    Figure { panels: COUNTINGS.into_iter().map(panel).collect(), ..figure }
}

/// Excess time of a scheme over the best of the five, per workload, with and without the kinds of Table 4 in its training.
fn seen(drawing: &Drawing, world: &World) -> Figure {
    let variants =
        [("two-layer SVM", Scheme::TWO_LAYER), ("two-layer SVM, trained with Table 4’s kinds", Scheme::TWO_LAYER.with_all_seen())];
    let (mut names, mut unders) = schemes(&variants);
    names.extend(FIVE);
    unders.extend(FIVE.iter().map(|name| Under::Fixed(name)));
    let row = |name: &&'static str| {
        let times: Vec<Option<f64>> = unders.iter().map(|under| world.mean(0, name, under, aggregated_s)).collect();
        let best = times[variants.len()..].iter().flatten().copied().min_by(f64::total_cmp);
        times.iter().map(|time| Some(100.0 * (1.0 - best? / (*time)?))).collect()
    };
    let method = "By how much the best of the five is faster in the time of figure 10. The kinds of Table 4: the same workloads with other draws, \
                  beside the training as printed.";
    let figure = drawing.figure(Unit::BelowBestPercent, &names, TABLE_4, method);
    Figure { panels: vec![Panel { name: world.plan.disks[0].name.clone(), values: TABLE_4.iter().map(row).collect() }], ..figure }
}

/// Schedulers with and without the tunable that decides whether they are the best on a workload.
const SINGLE: [&str; 8] = [
    "noop",
    "sstf",
    "deadline",
    "anticipatory",
    "cfq",
    "anticipatory:antic_expire=0",
    "cfq:slice_idle=0",
    "deadline:read_expire=60000,write_expire=60000",
];

fn single(drawing: &Drawing, world: &World) -> Figure {
    let groups = ["file-reading", "mixed-1", "multi-threaded-access"];
    let unders = SINGLE.map(Under::Fixed);
    let method = "The time of figure 10: anticipatory that waits for no further request, cfq that does not idle, and deadline whose deadlines are so \
                  long that they do not matter.";
    let figure = drawing.figure(Unit::Seconds, &SINGLE, &groups, method);
    Figure { panels: vec![world.panel(0, &groups, &unders, aggregated_s)], ..figure }
}

fn tuning(drawing: &Drawing, world: &World) -> Figure {
    let (names, unders) = schemes(&[("CRRN", Scheme::CRRN), ("CRRN, tuned", Scheme::CRRN_TUNED), ("seekwise", Scheme::SEEKWISE)]);
    let method = "Aggregated response time as in figure 10. Tuning doubles each tunable of the selected scheduler as long as that is better, \
                  and halves it where it is not, with a quantum for each value (section 3.3.1).";
    let figure = drawing.figure(Unit::Seconds, &names, TABLE_4, method);
    Figure { panels: vec![world.panel(0, TABLE_4, &unders, aggregated_s)], ..figure }
}

/// A measure of a run, which may be relative to deadline's run.
type Measured = fn(&Summary, &Summary) -> Option<f64>;

/// The paper's three preferences.
pub const PREFERENCES: [(&str, (u8, u8, u8)); 3] = [("UP(3,2,2)", (3, 2, 2)), ("UP(2,3,2)", (2, 3, 2)), ("UP(2,2,3)", (2, 2, 3))];

fn preferences(drawing: &Drawing, world: &World) -> Figure {
    let of: [(&str, Measured); 3] = [
        ("throughput", |run, deadline| Some(throughput_mb_s(run, deadline)? / throughput_mb_s(deadline, deadline)?)),
        ("inverse of response time", |run, deadline| Some(deadline.response_s / run.response_s)),
        ("fairness", |run, deadline| Some(run.fairness()? / deadline.fairness()?)),
    ];
    let names: Vec<&str> = PREFERENCES.iter().map(|(name, _)| *name).collect();
    let mean = |preference, of| {
        let under = Under::Scheme(Scheme { preference, ..Scheme::TWO_LAYER });
        let logs: Vec<f64> = TABLE_4.iter().filter_map(|name| world.mean(0, name, &under, of).map(f64::ln)).collect();
        statistics::mean(logs).map(|mean| 100.0 * mean.exp())
    };
    let row = |of| PREFERENCES.iter().map(|&(_, preference)| mean(preference, of)).collect();
    let method = "Geometric mean over Table 4 of what two-layer learning gets, relative to deadline. With UP(3,2,2) schedulers are ranked by \
                  throughput, with UP(2,3,2) by response time, with UP(2,2,3) by fairness (Jain’s index over the processes in a window; a workload whose phases are \
                  shorter than a window has none).";
    let groups: Vec<&str> = of.iter().map(|(name, _)| *name).collect();
    let figure = drawing.figure(Unit::OfReferencePercent, &names, &groups, method);
    let values = of.into_iter().map(|(_, of)| row(of)).collect();
    Figure { panels: vec![Panel { name: world.plan.disks[0].name.clone(), values }], ..figure }
}
