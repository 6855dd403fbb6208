//! Accuracy of the simulator: the same jobs run by fio on the real kernel and in the simulator.

mod plot;
mod row;

use askama::Template;
use serde::Serialize;

use ::report::number::{MISSING, three_digits};
use ::report::text::{paragraph, printable};

pub use row::{FSYNC, Row, Spread};

/// The version of the JSON's layout.
pub const SCHEMA: u32 = 2;

/// Two schedulers count as different if the real figure of one is larger by this factor.
const DIFFERS: f64 = 1.2;

/// Response times below this, in ms, are dominated by the processor (copies, system calls, process scheduling), which is not simulated. They are
/// shown but not judged.
const LEAST_MS: f64 = 0.1;

/// Results of the same jobs on the real kernel and in the simulator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// The kernel's release.
    pub kernel: String,
    /// fio's version.
    pub fio: String,
    /// Measured seconds of each run, by the clock of the disk model.
    pub seconds: f64,
    /// Number of real runs of each.
    pub runs: u32,
    /// Results by disk.
    pub disks: Vec<Disk>,
    /// Over all disks, by figure.
    pub agreement: Vec<Agreement>,
}

/// Results on one disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disk {
    /// The block device that fio ran on.
    pub device: String,
    /// The profile that was simulated.
    pub disk: String,
    /// Queue depth of the disk, and the order in which it serves requests.
    pub queue: String,
    /// Speed of the device relative to its model; figures are in the model's time.
    pub scale: f64,
    /// Results by workload and setting.
    pub rows: Vec<Row>,
    /// Agreement by figure.
    pub agreement: Vec<Agreement>,
    /// Choices of the twin from the kernel's block events; empty if these were not recorded.
    pub choices: Vec<Choice>,
}

/// The twin's choice for a workload observed under Linux's default scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The workload.
    pub workload: String,
    /// The setting it chose.
    pub chosen: String,
    /// The best setting in real runs, by the merit of requests.
    pub best: String,
    /// Distance of the choice's merit below the best, in percent; `None` if the choice starves a stream.
    pub behind_percent: Option<f64>,
    /// The twin's explanation.
    pub why: String,
}

impl Choice {
    /// Tolerance within which a choice counts as right.
    const NEAR_PERCENT: f64 = 5.0;

    /// Whether it is the best, or within 5% of it.
    pub fn is_right(&self) -> bool {
        self.behind_percent.is_some_and(|behind| behind <= Choice::NEAR_PERCENT)
    }

    fn behind(&self) -> String {
        self.behind_percent.map_or_else(|| "starves".to_owned(), |behind| format!("{behind:.1}%"))
    }

    fn sentence<'a>(choices: impl Iterator<Item = &'a Choice> + Clone) -> Option<String> {
        let (all, right) = (choices.clone().count(), choices.filter(|choice| choice.is_right()).count());
        (all > 0).then(|| {
            format!(
                "From the kernel's block events under the default scheduler, the twin chose the best scheduler or one \
                 within {:.0}% of it for {right} of {all} workloads.",
                Choice::NEAR_PERCENT
            )
        })
    }
}

/// Compared figures: key, name, index in a row, and whether for fsyncs instead of reads and writes.
const COMPARED: [(&str, &str, usize, bool); 5] = [
    ("throughput_mb_s", "throughput", 0, false),
    ("mean_ms", "mean response time", 1, false),
    ("p99_ms", "p99 response time", 2, false),
    ("fsync_mean_ms", "mean time of fsync", 1, true),
    ("fsync_p99_ms", "p99 of fsync", 2, true),
];

/// Largest median error of drawn loads, in percent, by key of the figure.
const BAR_PERCENT: [(&str, f64); 3] = [("throughput_mb_s", 15.0), ("mean_ms", 25.0), ("fsync_mean_ms", 25.0)];

/// Least share of the pairs of drawn loads that have to be in the same order, over the figures of [`BAR_PERCENT`].
const BAR_ALIKE: f64 = 0.9;

/// Column headings of the figures in a row.
const TITLES: [&str; 3] = ["MB/s", "mean ms", "p99 ms"];

/// Pairs of rows on the same disk and in the same direction whose order is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairs {
    /// Settings under the same workload.
    Settings,
    /// Workloads, each under a setting of its own.
    Workloads,
}

impl Pairs {
    fn compares(self, one: &Row, other: &Row) -> bool {
        one.direction == other.direction && (self == Pairs::Workloads || one.workload == other.workload)
    }

    fn name(self) -> &'static str {
        match self {
            Pairs::Settings => "settings",
            Pairs::Workloads => "workloads",
        }
    }
}

/// Agreement of one figure between kernel and simulator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// `throughput_mb_s`, `mean_ms`, `p99_ms`, or for fsyncs `fsync_mean_ms`, `fsync_p99_ms`.
    pub figure: String,
    /// Absolute relative difference of the simulator's figure from the real one: median over all rows, in percent.
    pub off_median_percent: f64,
    /// The largest difference of a row, in percent.
    pub off_worst_percent: f64,
    /// The items that are paired.
    pub pairs_of: Pairs,
    /// Pairs that differ by more than 20% on the real kernel.
    pub pairs: u32,
    /// Those among them that the simulator ranks in the same order.
    pub alike: u32,
    /// Pairs that real runs distinguish: their confidence intervals do not overlap.
    pub told_apart: u32,
    /// Kendall's tau over these pairs.
    pub tau: Option<f64>,
}

impl Validation {
    /// As JSON.
    ///
    /// # Errors
    /// None for these types.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// As tables for a terminal of this width, or a pipe.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut out = String::new();
        paragraph(&mut out, &self.head(), width);
        for disk in &self.disks {
            out.push('\n');
            paragraph(&mut out, &disk.head(), width);
            disk.table(&mut out);
            out.push('\n');
            disk.agreement.iter().for_each(|agreement| paragraph(&mut out, &agreement.sentence(), width));
            disk.choice_table(&mut out);
            Choice::sentence(disk.choices.iter()).iter().for_each(|sentence| paragraph(&mut out, sentence, width));
        }
        if self.disks.len() > 1 {
            out.push_str("\nAll disks:\n");
            self.agreement.iter().for_each(|agreement| paragraph(&mut out, &agreement.sentence(), width));
            let choices = self.disks.iter().flat_map(|disk| &disk.choices);
            Choice::sentence(choices).iter().for_each(|sentence| paragraph(&mut out, sentence, width));
        }
        self.bar().iter().for_each(|sentence| paragraph(&mut out, sentence, width));
        out
    }

    /// Whether the errors of drawn loads are within the bar; `None` if workloads were not drawn.
    fn bar(&self) -> Option<String> {
        let judged = self.agreement.iter().filter(|agreement| agreement.pairs_of == Pairs::Workloads);
        let judged = judged.filter_map(|agreement| {
            let (_, most) = BAR_PERCENT.iter().find(|(key, _)| *key == agreement.figure)?;
            Some((agreement, *most))
        });
        let judged: Vec<(&Agreement, f64)> = judged.collect();
        let (pairs, alike) = judged.iter().fold((0, 0), |(pairs, alike), (one, _)| (pairs + one.pairs, alike + one.alike));
        let is_near = judged.iter().all(|(agreement, most)| agreement.off_median_percent <= *most);
        let is_met = is_near && f64::from(alike) >= BAR_ALIKE * f64::from(pairs);
        let limits: Vec<String> = judged.iter().map(|(agreement, most)| format!("{} {most:.0}%", agreement.name())).collect();
        (!judged.is_empty()).then(|| {
            format!(
                "The bar for drawn workloads (median error of {}; {:.0}% of pairs in the same order) is {}: {alike} of {pairs} pairs are.",
                limits.join(", "),
                100.0 * BAR_ALIKE,
                if is_met { "met" } else { "missed" }
            )
        })
    }

    /// As a self-contained page.
    pub fn html(&self) -> String {
        let disks = self.disks.iter().map(|disk| Section {
            head: disk.head(),
            plots: plot::side_by_side(&disk.rows),
            agreement: disk.agreement.iter().map(Agreement::sentence).chain(Choice::sentence(disk.choices.iter())).collect(),
            choices: disk
                .choices
                .iter()
                .map(|choice| {
                    [&choice.workload, &choice.chosen, &choice.best, &choice.behind(), &choice.why].map(|text| printable(text))
                })
                .collect(),
            rows: disk.rows.iter().map(Row::cells).collect(),
        });
        let page = Page {
            validation: self,
            head: self.head(),
            verdict: self
                .agreement
                .iter()
                .map(|agreement| (agreement.name().to_owned(), agreement.short(), agreement.sentence()))
                .collect(),
            disks: disks.collect(),
        };
        #[expect(clippy::expect_used, reason = "the template formats strings only, and writing to a String does not fail")]
        page.render().expect("the page's template formats strings only")
    }

    fn head(&self) -> String {
        format!(
            "{} on Linux {} and the simulator; {} s of each, medians of {}, ± their 95% confidence interval. Response times below \
             {LEAST_MS} ms are dominated by CPU time, which is not simulated, and are not compared.",
            self.fio,
            self.kernel,
            three_digits(self.seconds),
            if self.runs == 1 { "one real run".to_owned() } else { format!("{} real runs", self.runs) }
        )
    }
}

impl Disk {
    fn head(&self) -> String {
        let faster = if self.scale == 1.0 { String::new() } else { format!(", {} times as fast", three_digits(self.scale)) };
        format!("{} as {}{faster} ({})", printable(&self.disk), self.device, self.queue)
    }

    fn table(&self, out: &mut String) {
        let names = self.rows.iter().map(|row| row.scheduler.chars().count()).max().unwrap_or(0).max("scheduler".len());
        let mut workload = "";
        for row in &self.rows {
            if row.workload != workload {
                workload = &row.workload;
                out.push_str(&format!("\n{}\n{:names$}        ", printable(workload), "scheduler"));
                for title in TITLES {
                    out.push_str(&format!("{title:>9} {:>5} {:>10} {:>6}", "±", "simulated", "ratio"));
                }
                out.push('\n');
            }
            out.push_str(&format!("{:names$}  {:5} ", printable(&row.scheduler), row.direction));
            for [real, interval, simulated, ratio] in row.figures() {
                out.push_str(&format!("{real:>9} {interval:>5} {simulated:>10} {ratio:>6}"));
            }
            out.push('\n');
        }
    }
}

impl Disk {
    fn choice_table(&self, out: &mut String) {
        let width = |of: fn(&Choice) -> &str, head: &str| {
            self.choices.iter().map(|choice| of(choice).chars().count()).max().unwrap_or(0).max(head.len())
        };
        let names = width(|choice| &choice.workload, "workload");
        let chosen = width(|choice| &choice.chosen, "chosen by the twin");
        if self.choices.is_empty() {
            return;
        }
        out.push_str(&format!("\n{:names$}  {:chosen$}  {:12}{:>7}\n", "workload", "chosen by the twin", "best", "loss"));
        for choice in &self.choices {
            let (workload, twin) = (printable(&choice.workload), printable(&choice.chosen));
            out.push_str(&format!("{workload:names$}  {twin:chosen$}  {:12}{:>7}\n", choice.best, choice.behind()));
        }
    }
}

impl Agreement {
    /// Agreement of all figures over some rows.
    pub fn all(rows: &[Row], pairs: Pairs) -> Vec<Agreement> {
        Agreement::over(&[rows], pairs)
    }

    /// Agreement of all figures over the rows of several disks; only pairs on the same disk are compared.
    pub fn over(disks: &[&[Row]], pairs: Pairs) -> Vec<Agreement> {
        let has_fsyncs = disks.iter().copied().flatten().any(|row| row.direction == FSYNC);
        let compared = COMPARED.into_iter().filter(|(.., of_fsync)| has_fsyncs || !of_fsync);
        compared.map(|(key, _, figure, of_fsync)| Agreement::of(disks, key, figure, of_fsync, pairs)).collect()
    }

    fn of(disks: &[&[Row]], key: &str, figure: usize, of_fsync: bool, pairs_of: Pairs) -> Agreement {
        let (mut off, mut pairs, mut alike, mut told_apart, mut balance) = (Vec::new(), 0, 0, 0_u32, 0_i64);
        for rows in disks {
            let least = if figure == 0 { 0.0 } else { LEAST_MS };
            let is_there = |row: &&Row| {
                (row.direction == FSYNC) == of_fsync && row.real[figure].median > least && row.simulated[figure].median > 0.0
            };
            let rows: Vec<&Row> = rows.iter().filter(is_there).collect();
            off.extend(rows.iter().map(|row| 100.0 * (row.simulated[figure].median / row.real[figure].median - 1.0).abs()));
            for (i, one) in rows.iter().enumerate() {
                for other in rows[i + 1..].iter().filter(|other| pairs_of.compares(one, other)) {
                    let real = other.real[figure].median / one.real[figure].median;
                    let is_alike = (real > 1.0) == (other.simulated[figure].median > one.simulated[figure].median);
                    if !one.real[figure].overlaps(&other.real[figure]) {
                        told_apart += 1;
                        balance += if is_alike { 1 } else { -1 };
                    }
                    if real.max(1.0 / real) > DIFFERS {
                        pairs += 1;
                        alike += u32::from(is_alike);
                    }
                }
            }
        }
        let Spread { median, high, .. } = Spread::of(off);
        let tau = (told_apart > 0).then(|| balance as f64 / f64::from(told_apart));
        let figure = key.to_owned();
        Agreement { figure, off_median_percent: median, off_worst_percent: high, pairs_of, pairs, alike, told_apart, tau }
    }

    fn name(&self) -> &'static str {
        COMPARED.iter().find(|(key, ..)| *key == self.figure).map_or("", |(_, name, ..)| name)
    }

    fn short(&self) -> String {
        format!("{} of {} alike", self.alike, self.pairs)
    }

    fn sentence(&self) -> String {
        let tau = self.tau.map_or_else(|| MISSING.to_owned(), |tau| format!("{tau:.2}"));
        format!(
            "{}: median error {:.1}%, maximum {:.1}%; of {} pairs of {} that differ by more than 20%, {} are in the same order; \
             Kendall's tau over the {} pairs that differ significantly in the real runs: {tau}.",
            self.name(),
            self.off_median_percent,
            self.off_worst_percent,
            self.pairs,
            self.pairs_of.name(),
            self.alike,
            self.told_apart
        )
    }
}

/// A disk on the page.
struct Section {
    head: String,
    plots: Vec<String>,
    agreement: Vec<String>,
    /// Workload, choice, best setting, distance below it, and reason.
    choices: Vec<[String; 5]>,
    rows: Vec<(String, Vec<String>)>,
}

#[derive(Template)]
#[template(path = "validation.html")]
struct Page<'a> {
    validation: &'a Validation,
    head: String,
    verdict: Vec<(String, String, String)>,
    disks: Vec<Section>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn row(workload: &str, scheduler: &str, real: f64, simulated: f64) -> Row {
        let (real, simulated) = ([Spread::of(vec![real]); 3], [Spread::of(vec![simulated]); 3]);
        let (workload, scheduler, direction) = (workload.to_owned(), scheduler.to_owned(), "read".to_owned());
        Row { workload, scheduler, direction, real, simulated }
    }

    #[test]
    fn pairs_that_differ_are_ranked_within_their_workload() {
        let rows = [
            row("a", "none", 100.0, 110.0),
            row("a", "bfq", 200.0, 105.0),
            row("a", "kyber", 110.0, 130.0),
            row("b", "none", 1.0, 1.0),
            row("b", "bfq", 3.0, 2.0),
        ];
        let agreement = &Agreement::all(&rows, Pairs::Settings)[0];
        // In a: none and bfq differ and are ranked in opposite order, so are bfq and kyber; none and kyber are within 20% in both. b agrees.
        assert_eq!((agreement.pairs, agreement.alike), (3, 1));
        assert_eq!(agreement.tau, Some(0.0));
        assert!((agreement.off_median_percent - 18.18).abs() < 0.01 && (agreement.off_worst_percent - 47.5).abs() < 1e-9);
    }

    #[test]
    fn the_middle_of_an_even_number_is_between_the_two_and_the_interval_is_students() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!((spread.median, spread.low, spread.high), (2.5, 1.0, 4.0));
        // The standard error is the root of 5/3 over 4, and t for three degrees 3.182.
        assert!((spread.interval.unwrap() - 2.054).abs() < 1e-3, "{spread:?}");
        assert_eq!(Spread::of(Vec::new()), Spread { median: 0.0, low: 0.0, high: 0.0, interval: None });
        assert_eq!(Spread::of(vec![7.0]).interval, None);
    }

    #[test]
    fn settings_that_the_real_runs_do_not_tell_apart_have_no_rank() {
        let several = |scheduler: &str, real: [f64; 2], simulated: f64| Row {
            real: [Spread::of(real.to_vec()); 3],
            ..row("a", scheduler, 0.0, simulated)
        };
        let rows = [several("none", [9.9, 10.1], 10.0), several("kyber", [9.8, 10.4], 9.0), several("bfq", [29.0, 31.0], 20.0)];
        let agreement = &Agreement::all(&rows, Pairs::Settings)[0];
        // Relative to bfq, with an interval of 12.7, both others are outside; kyber is within that of none.
        assert_eq!((agreement.told_apart, agreement.tau, agreement.pairs, agreement.alike), (2, Some(1.0), 2, 2));
    }

    #[test]
    fn settings_on_different_disks_are_not_compared_and_all_rows_count() {
        let (one, other) = ([row("a", "none", 1.0, 1.1)], [row("a", "bfq", 3.0, 3.6)]);
        let agreement = &Agreement::over(&[&one, &other], Pairs::Settings)[0];
        assert_eq!((agreement.pairs, agreement.tau), (0, None));
        assert!((agreement.off_median_percent - 15.0).abs() < 1e-9);
    }

    #[test]
    fn the_page_is_well_formed_and_has_every_figure_for_any_names() {
        let rows = vec![row("<a&b>", "none", 100.0, 110.0), row("<a&b>", "bfq", 0.0, 105.0)];
        let agreement = Agreement::all(&rows, Pairs::Settings);
        let choice = Choice {
            workload: "<a&b>".to_owned(),
            chosen: "none".to_owned(),
            best: "bfq".to_owned(),
            behind_percent: Some(7.0),
            why: "a < b".to_owned(),
        };
        assert!(!choice.is_right() && Choice { behind_percent: Some(5.0), ..choice.clone() }.is_right());
        assert!(!Choice { behind_percent: None, ..choice.clone() }.is_right());
        let disk = Disk {
            device: "/dev/loop0".to_owned(),
            disk: "sata7200".to_owned(),
            queue: "default queue".to_owned(),
            scale: 10.0,
            rows,
            agreement: agreement.clone(),
            choices: vec![choice.clone()],
        };
        let (seekwise_version, kernel, fio) = ("1".to_owned(), "6.18".to_owned(), "fio-3".to_owned());
        let validation =
            Validation { schema: SCHEMA, seekwise_version, kernel, fio, seconds: 5.0, runs: 1, disks: vec![disk], agreement };
        let html = validation.html();
        let body = html.trim_start_matches("<!doctype html>");
        let document = roxmltree::Document::parse(body).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("svg")).count(), 3);
        assert!(html.contains("10.0 times as fast") && html.contains("1.10"));
        let text = validation.text(None);
        assert!(text.contains("<a&b>") && text.contains("7.0%") && text.contains("for 0 of 1 workloads"), "{text}");
    }

    #[test]
    fn workloads_with_a_setting_of_their_own_are_ranked_among_each_other() {
        let rows = [row("a", "none", 1.0, 1.0), row("b", "bfq", 2.0, 0.5), row("c", "bfq", 3.0, 2.0)];
        let pairs = |pairs| Agreement::all(&rows, pairs).first().map(|one| (one.pairs, one.alike));
        assert_eq!((pairs(Pairs::Settings), pairs(Pairs::Workloads)), (Some((0, 0)), Some((3, 2))));
        let sentence = Agreement::all(&rows, Pairs::Workloads)[0].sentence();
        assert!(sentence.contains("of 3 pairs of workloads"), "{sentence}");
    }

    #[test]
    fn fsyncs_are_ranked_by_themselves() {
        let fsync = |scheduler: &str, real: f64, simulated: f64| Row {
            direction: FSYNC.to_owned(),
            ..row("a", scheduler, real, simulated)
        };
        let rows = [row("a", "none", 1.0, 1.0), row("a", "bfq", 2.0, 2.0), fsync("none", 300.0, 20.0), fsync("bfq", 16.0, 30.0)];
        let pairs: Vec<_> =
            Agreement::all(&rows, Pairs::Settings).into_iter().map(|one| (one.figure, one.pairs, one.alike)).collect();
        let expected =
            [("throughput_mb_s", 1, 1), ("mean_ms", 1, 1), ("p99_ms", 1, 1), ("fsync_mean_ms", 1, 0), ("fsync_p99_ms", 1, 0)];
        assert_eq!(pairs, expected.map(|(figure, pairs, alike)| (figure.to_owned(), pairs, alike)));
    }

    #[test]
    fn what_did_not_happen_is_not_compared() {
        let agreement = &Agreement::all(&[row("a", "none", 0.0, 1.0), row("a", "bfq", 1.0, 1.0)], Pairs::Settings)[0];
        assert_eq!((agreement.pairs, agreement.tau), (0, None));
    }
}
