//! The value of each group of settings: the gain of its best setting in hindsight over the default, for which loads, and at which cost.
//!
//! ```text
//! drawn load on a drawn device ─┬─▶ under the default ────────────────┐
//!                               └─▶ under each setting of each group ─┴─▶ the best of each group, with the starvation bound
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control::Setting;
use control::controller::ControllerInput;
use observe::Preference;
use observe::starvation;
use serde::Serialize;
use testbed::pool::Workers;

use super::Policy;
use super::case::{self, EvaluationCase, Extent};
use super::run::Run;
use crate::worlds::Which;
use experiment::comparison::regime;
use statistics::percent;

/// The version of the JSON's layout.
const SCHEMA: u32 = 1;
/// Gain above which a change is worthwhile for most users; the share of such cases is reported.
const WORTH: f64 = 0.05;
/// A case is limited to a factor of e in either direction, so that a single case cannot dominate the mean.
const MOST: f64 = 1.0;
/// A stream's p99 counts as risen if it grew by this factor and is at least this many seconds.
const RISEN: (f64, f64) = (1.5, 0.01);
/// Number of load families listed with the largest gains of a group.
const NAMED: usize = 3;

/// A group of settings: its name, and the settings to try.
struct Group {
    name: &'static str,
    settings: &'static [&'static str],
}

/// The groups; each setting has the default for tunables that it does not name. The values are recommended or warned of in Red Hat's and SUSE's tuning
/// guides, the kernel's `Documentation/block`, and the PostgreSQL and MySQL manuals.
const GROUPS: &[Group] = &[
    Group { name: "scheduler", settings: &["none", "kyber", "bfq"] },
    Group {
        name: "the scheduler's tunables",
        settings: &[
            "mq-deadline:read_expire=100",
            "mq-deadline:write_expire=1000",
            "mq-deadline:fifo_batch=1",
            "mq-deadline:fifo_batch=64",
            "mq-deadline:writes_starved=8",
            "mq-deadline:front_merges=0",
        ],
    },
    Group {
        name: "read_ahead_kb",
        settings: &[
            "mq-deadline read_ahead_kb=16",
            "mq-deadline read_ahead_kb=512",
            "mq-deadline read_ahead_kb=1024",
            "mq-deadline read_ahead_kb=4096",
        ],
    },
    Group {
        name: "nr_requests",
        settings: &["mq-deadline nr_requests=32", "mq-deadline nr_requests=64", "mq-deadline nr_requests=1024"],
    },
    Group {
        name: "wbt_lat_usec",
        settings: &["mq-deadline wbt_lat_usec=0", "mq-deadline wbt_lat_usec=2000", "mq-deadline wbt_lat_usec=20000"],
    },
    Group {
        name: "dirty limits",
        settings: &[
            "mq-deadline dirty_ratio=2 dirty_background_ratio=1",
            "mq-deadline dirty_ratio=5 dirty_background_ratio=2",
            "mq-deadline dirty_ratio=60 dirty_background_ratio=30",
        ],
    },
    Group { name: "max_sectors_kb", settings: &["mq-deadline max_sectors_kb=128", "mq-deadline max_sectors_kb=512"] },
];

/// Parameters of the evaluation.
#[derive(Clone, Debug)]
pub struct Worth {
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Number of seeds. Each generates loads from all three worlds.
    pub seeds: u32,
    /// Run time of each load, in seconds.
    pub seconds: u32,
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this layout.
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// The command that reproduces it.
    pub command: String,
    /// Number of pairs of load and device.
    pub pairs: usize,
    /// Results by group.
    pub groups: Vec<GroupWorth>,
    /// Mean gain of the best setting of any group in each pair, in percent.
    pub best_of_all_percent: f64,
    /// Share of pairs in which no change is worthwhile, in percent.
    pub nothing_percent: f64,
    /// Results by pair.
    pub cases: Vec<CaseWorth>,
}

/// Value of a group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupWorth {
    /// Its name.
    pub group: String,
    /// The settings tried.
    pub settings: Vec<String>,
    /// Mean gain of the best setting of each pair, in percent; never below 0, as the default stays if nothing is better.
    pub gain_percent: f64,
    /// Share of pairs with a gain above 5%, in percent.
    pub worth_percent: f64,
    /// Median gain among those, in percent.
    pub median_gain_percent: Option<f64>,
    /// The setting that is most often the best among those.
    pub usual: Option<String>,
    /// Mean gain of the group's best setting when it is used for all pairs, in percent, and its name.
    pub everywhere_percent: f64,
    /// See `everywhere_percent`.
    pub everywhere: String,
    /// Share of pairs with a gain above 5% in which the p99 of some stream rises by at least half, in percent.
    pub p99_rises_percent: Option<f64>,
    /// The families of loads with the largest gains, with their mean gain in percent.
    pub families: Vec<(String, f64)>,
}

/// Value of each group for a load on a device.
#[derive(Clone, Debug, Serialize)]
pub struct CaseWorth {
    /// The load, on its device.
    pub case: String,
    /// The load's family.
    pub family: String,
    /// By group: the best setting, its gain in the logarithm of merit, and whether some stream's p99 rises.
    pub best: Vec<(String, f64, bool)>,
    /// By setting, in the order of the groups: the gain in the logarithm of merit.
    pub gains: Vec<f64>,
}

impl Worth {
    /// Runs the evaluation.
    ///
    /// # Errors
    /// A run fails, or the work was interrupted.
    pub fn measure(&self, workers: Workers) -> anyhow::Result<Report> {
        let extent = Extent { seconds: self.seconds, ..Extent::new(false, Vec::new()) };
        let mut cases = Vec::new();
        for world in [Which::Learn, Which::Build, Which::Report] {
            cases.extend(case::draw_all(world.purpose()?, &extent, self.seed, self.seeds, workers)?);
        }
        let default = Setting::parse(regime::FOUND)?;
        let groups: Vec<Vec<Setting>> = GROUPS
            .iter()
            .map(|group| group.settings.iter().map(|text| Setting::parse(text)).collect::<Result<Vec<_>, _>>())
            .collect::<Result<_, _>>()?;
        let cases = workers
            .map("what settings are worth, pairs:", &cases, |(_, question)| case_worth(question, &default, &groups, workers))?;
        Ok(self.report(cases.into_iter().flatten().collect()))
    }

    fn report(&self, cases: Vec<CaseWorth>) -> Report {
        let mut first = 0;
        let groups = GROUPS.iter().enumerate().map(|(number, group)| {
            let here = first;
            first += group.settings.len();
            group_worth(group, number, here, &cases)
        });
        let groups = groups.collect();
        let best_of = |case: &CaseWorth| case.best.iter().map(|(_, gain, _)| *gain).fold(0.0, f64::max);
        let nothing = cases.iter().filter(|case| best_of(case) <= WORTH).count();
        Report {
            schema: SCHEMA,
            seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: format!("seekwise-lab worth --seed {} --seeds {} --seconds {}", self.seed, self.seeds, self.seconds),
            pairs: cases.len(),
            groups,
            best_of_all_percent: percent(mean(cases.iter().map(best_of))),
            nothing_percent: 100.0 * nothing as f64 / cases.len().max(1) as f64,
            cases,
        }
    }
}

/// Value of each group for a load on a device; `None` if nothing completed under the default.
fn case_worth(
    question: &EvaluationCase,
    default: &Setting,
    groups: &[Vec<Setting>],
    workers: Workers,
) -> anyhow::Result<Option<CaseWorth>> {
    let run =
        |setting: &Setting| super::run(question, &Policy::Always(setting.clone()), &ControllerInput::default(), false, workers);
    let standard = run(default)?;
    let preference = Preference::default();
    let score = |run: &Run| run.served(0.0, run.ended_s).map(|served| served.score(&preference)).filter(|score| score.is_finite());
    let Some(of_default) = score(&standard) else { return Ok(None) };
    let (mut best, mut gains) = (Vec::new(), Vec::new());
    for (group, settings) in GROUPS.iter().zip(groups) {
        let mut of_group = (regime::FOUND.to_owned(), 0.0, false);
        for (text, setting) in group.settings.iter().zip(settings) {
            let run = run(setting)?;
            let starves = starvation::starves(&run.tails, &standard.tails);
            let gain =
                score(&run).map_or(-MOST, |score| (score - of_default).clamp(-MOST, MOST)) - if starves { MOST / 2.0 } else { 0.0 };
            gains.push(gain);
            if gain > of_group.1 && !starves {
                of_group = ((*text).to_owned(), gain, p99_rises(&run, &standard));
            }
        }
        best.push(of_group);
    }
    Ok(Some(CaseWorth { case: question.name.clone(), family: question.family.clone(), best, gains }))
}

/// Whether the p99 of some stream rises by at least half.
fn p99_rises(run: &Run, standard: &Run) -> bool {
    standard
        .tails
        .iter()
        .filter(|(_, tail)| tail.requests >= starvation::LEAST_REQUESTS)
        .any(|(stream, before)| run.tails.get(stream).is_none_or(|now| now.p99_s > RISEN.0 * before.p99_s && now.p99_s > RISEN.1))
}

fn group_worth(group: &Group, number: usize, first: usize, cases: &[CaseWorth]) -> GroupWorth {
    let best = |case: &CaseWorth| case.best[number].clone();
    let mut worth: Vec<(String, f64, bool)> = cases.iter().map(best).filter(|(_, gain, _)| *gain > WORTH).collect();
    worth.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut by_setting: BTreeMap<&str, usize> = BTreeMap::new();
    worth.iter().for_each(|(setting, ..)| *by_setting.entry(setting).or_default() += 1);
    let usual = by_setting.iter().max_by_key(|(_, count)| **count).map(|(setting, _)| (*setting).to_owned());
    let of_setting = |place: usize| mean(cases.iter().map(|case| case.gains[first + place]));
    let everywhere = (0..group.settings.len()).max_by(|a, b| of_setting(*a).total_cmp(&of_setting(*b))).unwrap_or(0);
    let mut by_family: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    cases.iter().for_each(|case| by_family.entry(&case.family).or_default().push(case.best[number].1));
    let mut families: Vec<(String, f64)> =
        by_family.into_iter().map(|(family, gains)| (family.to_owned(), percent(mean(gains.into_iter())))).collect();
    families.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    families.truncate(NAMED);
    let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    GroupWorth {
        group: group.name.to_owned(),
        settings: group.settings.iter().map(|text| (*text).to_owned()).collect(),
        gain_percent: percent(mean(cases.iter().map(|case| case.best[number].1))),
        worth_percent: share(worth.len(), cases.len()),
        median_gain_percent: worth.get(worth.len() / 2).map(|(_, gain, _)| percent(*gain)),
        usual,
        everywhere_percent: percent(of_setting(everywhere)),
        everywhere: group.settings[everywhere].to_owned(),
        p99_rises_percent: (!worth.is_empty()).then(|| share(worth.iter().filter(|(.., rises)| *rises).count(), worth.len())),
        families,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    statistics::mean(values).unwrap_or(0.0)
}

impl Report {
    /// As JSON.
    ///
    /// # Errors
    /// None for these types.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// As a page in Markdown.
    pub fn text(&self) -> String {
        let mut text = format!(
            "# What is it worth?\n\nPrinted by `{}`, version {}: {} drawn loads, each on a drawn device of all three worlds.\n\n\
             Gain of the best setting of each group over the default (`{}`) in hindsight, in merit: throughput, response time and \
             fairness, \
             weighted {}. Means are geometric, a case counts at most e, and a setting that starves a stream is no candidate. *One for all* is the \
             setting of the group that is best if it stays everywhere; one that starves a stream costs 0.5 in the logarithm there. *A p99 rises*: \
             that of some stream, by half and more.\n\n",
            self.command,
            self.seekwise_version,
            self.pairs,
            regime::FOUND,
            Preference::default()
        );
        text += "| group | in the mean, % | worth over 5% in, % of pairs | median there, % | usual choice there | a p99 rises there, % | one for all, % | most for |\n";
        text += "|---|---|---|---|---|---|---|---|\n";
        for group in &self.groups {
            let GroupWorth { group: name, gain_percent, worth_percent, median_gain_percent, usual, .. } = group;
            let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.0}"));
            let setting = |text: &str| format!("`{}`", text.trim_start_matches("mq-deadline").trim_start_matches([':', ' ']));
            let usual = usual.as_deref().map_or("–".to_owned(), setting);
            let families: Vec<String> = group.families.iter().map(|(family, gain)| format!("{family} {gain:+.0}")).collect();
            let _ = writeln!(
                text,
                "| {name} | {gain_percent:+.1} | {worth_percent:.0} | {} | {usual} | {} | {:+.1} by {} | {} |",
                number(*median_gain_percent),
                number(group.p99_rises_percent),
                group.everywhere_percent,
                setting(&group.everywhere),
                families.join(", ")
            );
        }
        let _ = writeln!(
            text,
            "\nThe best of all groups gains {:+.1}% in the mean; in {:.0}% of pairs nothing is worth more than 5%.",
            self.best_of_all_percent, self.nothing_percent
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(family: &str, gains: &[f64]) -> CaseWorth {
        let mut rest = gains.iter().copied().chain(std::iter::repeat(0.0));
        let gains: Vec<f64> = GROUPS.iter().flat_map(|group| group.settings).map(|_| rest.next().unwrap_or(0.0)).collect();
        let mut first = 0;
        let best = GROUPS.iter().map(|group| {
            let of_group = &gains[first..first + group.settings.len()];
            first += group.settings.len();
            let best =
                (0..of_group.len()).filter(|place| of_group[*place] > 0.0).max_by(|a, b| of_group[*a].total_cmp(&of_group[*b]));
            best.map_or(("mq-deadline".to_owned(), 0.0, false), |place| (group.settings[place].to_owned(), of_group[place], true))
        });
        CaseWorth { case: family.to_owned(), family: family.to_owned(), best: best.collect(), gains: gains.clone() }
    }

    #[test]
    fn a_group_is_worth_its_best_setting_in_each_pair_and_nothing_where_all_lose() {
        let worth = Worth { seed: 1, seeds: 1, seconds: 20 };
        let report =
            worth.report(vec![case("scan", &[0.2, -0.1, 0.5]), case("mail", &[-0.3, -0.2, -0.5]), case("mail", &[0.1, 0.0, -0.5])]);
        let scheduler = &report.groups[0];
        assert!((scheduler.gain_percent - percent(0.6 / 3.0)).abs() < 1e-9, "{scheduler:?}");
        assert!((scheduler.worth_percent - 200.0 / 3.0).abs() < 1e-9 && scheduler.p99_rises_percent == Some(100.0));
        assert_eq!((scheduler.everywhere.as_str(), scheduler.families[0].0.as_str()), ("none", "scan"));
        assert!(scheduler.everywhere_percent.abs() < 1e-9, "{scheduler:?}");
        assert!((report.nothing_percent - 100.0 / 3.0).abs() < 1e-9);
        assert!(report.text().contains("| scheduler | +22.1 | 67 |"), "{}", report.text());
    }

    #[test]
    fn every_setting_of_a_group_can_be_set() {
        for text in GROUPS.iter().flat_map(|group| group.settings) {
            assert!(Setting::parse(text).is_ok(), "{text}");
        }
    }
}
