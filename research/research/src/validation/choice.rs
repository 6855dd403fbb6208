//! The twin's choice from the real kernel's block events, and its quality in real runs.

use std::path::{Path, PathBuf};

use crate::report::validation::Choice;
use control::Setting;
use observe::Preference;
use observe::merit::score;
use observe::performance::Performance;
use observe::starvation::{Tail, Tails, starves};
use sim::trace::OpenOptions;
use testbed::pool::Workers;

use experiment::advice::{AdviceRequest, advise, served_in};
use experiment::comparison::Experiment;
use experiment::comparison::regime;
use experiment::fio::Overall;
use progress::monitor::Quiet;
use statistics::Rank;

/// The candidates.
const CANDIDATES: &str = "kernel";

/// Recordings of real runs of some jobs under a scheduler.
pub struct Recorded {
    /// The scheduler, with its defaults.
    pub setting: Setting,
    /// One file per run, with the performance of its processes: time spent waiting for a tag is not visible at the block layer.
    pub runs: Vec<(PathBuf, Overall)>,
}

/// The twin's choice from the first run under Linux's default scheduler, judged by all runs. `None` without such a run, or if too few requests
/// completed in it.
///
/// # Errors
/// A recording cannot be read.
pub fn choice(workload: &str, recorded: &[Recorded]) -> anyhow::Result<Option<Choice>> {
    let in_force = regime::scheduler(regime::FOUND)?;
    let served_in_runs = |one: &Recorded| one.runs.iter().map(|(file, _)| served(file)).collect::<anyhow::Result<Vec<_>>>();
    let all = recorded.iter().map(served_in_runs).collect::<anyhow::Result<Vec<_>>>()?;
    let first =
        recorded.iter().zip(&all).find(|(one, _)| one.setting == in_force).map(|(one, runs)| (one.runs.first(), runs.first()));
    let Some((Some((first, _)), Some(Some((_, standard))))) = first else { return Ok(None) };
    let mut scored: Vec<(&Setting, f64)> = Vec::new();
    for (one, runs) in recorded.iter().zip(&all) {
        let score_of = |(run, (_, got)): (&Option<(Performance, Tails)>, &(PathBuf, Overall))| {
            let fairness = f64::from(run.as_ref()?.0.fairness);
            Some(score(&Preference::default(), got.bytes_per_s, got.response_s, fairness))
        };
        let mut scores: Vec<f64> = runs.iter().zip(&one.runs).filter_map(score_of).collect();
        let starving = runs.iter().flatten().filter(|(_, tails)| starves(tails, standard)).count();
        // A setting that starves a stream in most of its runs is never chosen.
        if let Some(median) = Rank::Above.of(&mut scores, 0.5)
            && 2 * starving <= runs.len()
        {
            scored.push((&one.setting, median));
        }
    }
    let quiet = Quiet::default();
    let mut experiment = Experiment::of_jobs(first, "");
    experiment.candidates = vec![CANDIDATES.to_owned()];
    let advice = advise(
        &AdviceRequest {
            experiment,
            names_disk: false,
            device: None,
            active: Some(in_force),
            aims: Vec::new(),
            varied: Vec::new(),
        },
        Workers::new(&quiet, Some(1)),
    )?;
    let Some((best, most)) = scored.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { return Ok(None) };
    let chosen = scored.iter().find(|(setting, _)| setting.to_string() == advice.verdict.setting);
    Ok(Some(Choice {
        workload: workload.to_owned(),
        chosen: advice.verdict.setting.clone(),
        best: best.to_string(),
        behind_percent: chosen.map(|(_, score)| statistics::percent(most - score)),
        why: advice.verdict.text,
    }))
}

/// Performance in a recording; `None` if too few requests completed.
fn served(file: &Path) -> anyhow::Result<Option<(Performance, Tails)>> {
    let found = served_in(file, &OpenOptions::default(), &Quiet::default())?;
    // Process ids differ between runs, but the order of their start is that of the jobs. Other processes are not part of the workload.
    let of_jobs = |tails: Vec<(String, Tail)>| tails.into_iter().filter(|(name, _)| name == "fio").map(|(_, tail)| tail);
    Ok(found.map(|found| (found.served, (0..).zip(of_jobs(found.tails)).collect())))
}
