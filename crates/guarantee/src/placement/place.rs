//! The work of `seekwise place`: the matrix, the plan, and its simulated effect.

use std::collections::BTreeMap;

use crate::planner::{Assignment, Plan, Standing, Step, Survey};
use block::{Merges, Nanos, Op};
use control::Setting;
use report::placement::{
    ArrayFigures, GotFigures, MoreFigures, MoveFigures, OversoldFigures, PhaseFigures, Placement, RuleFigures, SCHEMA,
    ShortFigures, SimulatedFigures, StepFigures, VolumeFigures,
};
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile};
use sim::run::TenantMeasure;
use sim::store::CopyPace;
use testbed::chance;
use testbed::pool::Workers;
use testbed::synthetic::{Draw, Pattern, Places};

use super::alone::OnReference;
use super::cluster::{Cluster, Moving};
use super::spec::Specification;
use crate::capacity::{self, Extent, saturation, serve};
use crate::tenants::judge;

/// The scheduler that keeps guarantees.
pub const PROMISES: &str = "guarantee";

/// The part of the arrays' spare capacity that copying is planned to use. The copier reserves twice as much, because each chunk is read and
/// then written: half of the spare capacity.
const SPARE_FOR_COPIES: f64 = 0.25;
/// Sectors of a copied chunk.
const CHUNK_SECTORS: u32 = 512;
/// Minimum planned pace of copying in bytes per second: without spare capacity, the scheduler throttles it.
const SLOWEST_COPY: u64 = 262_144;
/// A run is aborted if copying takes this many times as long as planned.
const PATIENCE: f64 = 4.0;

/// Options for the simulation of a plan.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The scheduler.
    pub scheduler: Setting,
    /// Length of the simulation before and after the moves.
    pub lasts: Nanos,
}

impl Trial {
    /// A simulation of this many seconds under the scheduler that keeps guarantees.
    ///
    /// # Errors
    /// There is no such scheduler.
    pub fn new(seconds: f64) -> anyhow::Result<Trial> {
        Ok(Trial { scheduler: Setting::parse(PROMISES)?, lasts: Nanos::from_secs_f64(seconds) })
    }
}

/// The decided placement.
struct Decided {
    /// The assignment before the moves: placed volumes, and new ones for which there is room.
    begin: Assignment,
    plan: Plan,
    /// New volumes that were placed, and those that were rejected, as sentences.
    placed: Vec<String>,
    rejected: Vec<String>,
}

/// Makes a plan, and simulates it if `trial` is given.
///
/// # Errors
/// The work was interrupted, or the plan cannot be simulated.
pub fn place(specification: &Specification, trial: Option<&Trial>, workers: Workers) -> anyhow::Result<Placement> {
    let cluster = &specification.cluster;
    let survey = cluster.survey(specification.rules, specification.samples, workers)?;
    let before = cluster.assignment();
    let mut withheld = Vec::new();
    loop {
        let decided = decide(specification, &survey, &before, &withheld);
        let spare_bytes_per_s = spare_rate(cluster, &survey, &decided, workers)?;
        let pace = specification.pace(spare_bytes_per_s.max(SLOWEST_COPY));
        let moving = Moving { steps: &decided.plan.steps, pace, spare_bytes_per_s };
        let simulated = trial.map(|trial| try_out(cluster, &before, &decided, &moving, trial, workers)).transpose()?;
        // A new volume is accepted only if that breaks no guarantee. Each round rejects one, so the loop ends.
        match simulated.as_ref().and_then(|simulated| unwelcome(cluster, &before, &decided, simulated)) {
            Some(volume) => withheld.push(volume),
            None => return Ok(report(specification, &survey, &before, &decided, simulated)),
        }
    }
}

/// The new volume to reject, with the reason as a sentence: one that needs an array on which a guarantee breaks in the simulator that was
/// kept before. Of several the one placed last; `None` if no guarantee breaks.
fn unwelcome(cluster: &Cluster, before: &Assignment, decided: &Decided, simulated: &SimulatedFigures) -> Option<(usize, String)> {
    let phase = |name: &str| simulated.phases.iter().find(|phase| phase.name == name);
    let was_broken = |volume: &str| {
        let volumes = phase("before").into_iter().flat_map(|phase| &phase.volumes);
        volumes.into_iter().any(|got| got.volume == volume && !got.broken.is_empty())
    };
    let broken = phase("after")?.volumes.iter().filter(|got| !got.broken.is_empty() && !was_broken(&got.volume));
    let mut found = None;
    for got in broken {
        let on = cluster.arrays.iter().position(|array| array.name == got.on);
        let newest =
            (0..before.len()).rev().find(|volume| before[*volume].is_none() && on.is_some() && decided.plan.after[*volume] == on);
        if let Some(volume) = newest.filter(|volume| found.as_ref().is_none_or(|(known, _)| volume > known)) {
            let (name, reason) = (&cluster.volumes[volume].name, got.broken.join("; "));
            let text = format!(
                "{name} is not taken in on {}, where it fits by capacity: in the simulator {}: {reason}",
                got.on, got.volume
            );
            found = Some((volume, text));
        }
    }
    found
}

fn decide(specification: &Specification, survey: &Survey, before: &Assignment, withheld: &[(usize, String)]) -> Decided {
    let name = |volume: usize| specification.cluster.volumes[volume].name.as_str();
    let array = |number: usize| specification.cluster.arrays[number].name.as_str();
    let mut begin = before.clone();
    let (mut placed, mut rejected) = (Vec::new(), withheld.iter().map(|(_, why)| why.clone()).collect::<Vec<_>>());
    let is_withheld = |volume: &usize| withheld.iter().any(|(known, _)| known == volume);
    let new: Vec<usize> = (0..before.len()).filter(|volume| before[*volume].is_none() && !is_withheld(volume)).collect();
    let mut crowded = Vec::new();
    for volume in new {
        match survey.initial(&begin, volume, specification.initial) {
            Ok(home) => {
                begin[volume] = Some(home);
                placed.push(format!(
                    "{} goes to {}, which can spare {:.1}% of its time",
                    name(volume),
                    array(home),
                    100.0 * survey.spare(before, home)
                ));
            }
            Err(_) => crowded.push(volume),
        }
    }
    let mut plan = survey.plan(&begin);
    for volume in crowded {
        match survey.initial(&plan.after, volume, specification.initial).map(|home| (Vec::new(), home)) {
            Ok(found) => settle(&mut plan, volume, found),
            Err(_) => match survey.make_room(&plan.after, volume) {
                Ok(found) => settle(&mut plan, volume, found),
                Err(why) => {
                    rejected.push(why.text);
                    continue;
                }
            },
        }
        if let Some(home) = plan.after[volume] {
            placed.push(format!("{} goes to {} when the moves have made room", name(volume), array(home)));
        }
    }
    Decided { begin, plan, placed, rejected }
}

fn settle(plan: &mut Plan, volume: usize, (steps, home): (Vec<Step>, usize)) {
    for each in steps.iter().flat_map(|step| &step.moves) {
        plan.after[each.volume] = Some(each.to);
    }
    plan.steps.extend(steps);
    plan.after[volume] = Some(home);
}

/// Bytes per second at which volumes can be copied with a part of the spare capacity of the plan's arrays.
fn spare_rate(cluster: &Cluster, survey: &Survey, decided: &Decided, workers: Workers) -> anyhow::Result<u64> {
    let mut rate = f64::INFINITY;
    let mut known: BTreeMap<(usize, bool), f64> = BTreeMap::new();
    for each in decided.plan.steps.iter().flat_map(|step| &step.moves) {
        for (array, op) in [(each.from, Op::Read), (each.to, Op::Write)] {
            let spare = survey.spare(&decided.begin, array).min(survey.spare(&decided.plan.after, array));
            let part = match known.get(&(array, op == Op::Read)) {
                Some(part) => *part,
                None => part_of_bytes(&cluster.arrays[array].profile, op, cluster.seed, workers)?,
            };
            known.insert((array, op == Op::Read), part);
            rate = rate.min(SPARE_FOR_COPIES * spare.max(0.0) / part.max(1e-15));
        }
    }
    Ok(if rate.is_finite() { rate as u64 } else { CopyPace::default().bytes_per_s })
}

/// The part of an array needed to copy one byte per second, in chunks between other requests: each is at a random place.
fn part_of_bytes(profile: &Profile, op: Op, seed: u64, workers: Workers) -> anyhow::Result<f64> {
    // The sizes of requests.
    const SIZES: &[u32] = &[CHUNK_SECTORS];
    let pattern =
        Pattern::Local { locality: 0.0, reads: if op == Op::Read { 100 } else { 0 }, sizes: SIZES, places: Places::Uniform };
    let wanted = || (Draw::new(0..profile.capacity_sectors(), chance::source("copy", seed, 0)), pattern.clone());
    let queue = |merges| capacity::host(profile, DeviceOptions::default(), QueueSettings { merges, ..QueueSettings::default() });
    let (extent, stop) = (Extent::default(), workers.monitor.stop());
    let own = serve(queue(Merges::All), wanted(), 1, extent, stop)?;
    let saturation = saturation(queue, wanted, &own, extent, stop)?;
    Ok(saturation.need(1.0, own.work_each()) / (512.0 * f64::from(CHUNK_SECTORS)))
}

fn try_out(
    cluster: &Cluster,
    before: &Assignment,
    decided: &Decided,
    moving: &Moving,
    trial: &Trial,
    workers: Workers,
) -> anyhow::Result<SimulatedFigures> {
    let Moving { steps, pace, .. } = *moving;
    let sectors: u64 = steps.iter().flat_map(|step| &step.moves).map(|each| cluster.volumes[each.volume].sectors).sum();
    let planned_s = sectors as f64 * 512.0 / pace.bytes_per_s as f64;
    let longest = Nanos::from_secs_f64(planned_s * PATIENCE + 60.0);
    let mut phases = Vec::new();
    let mut run = |name: &str, from: &Assignment, moving: Option<&Moving>, until: Nanos| -> anyhow::Result<_> {
        let ran = cluster.live(from, moving, &trial.scheduler, until, workers)?;
        let numbers: Vec<usize> = (0..cluster.volumes.len()).filter(|volume| from[*volume].is_some()).collect();
        let alone = cluster.alone(&numbers, ran.until, workers)?;
        let pairs = numbers.iter().zip(&alone);
        let volumes = pairs.map(|(&volume, alone)| got(cluster, from, volume, &ran.volumes[volume], alone.as_ref()));
        phases.push(PhaseFigures { name: name.to_owned(), lasts_s: ran.until.as_secs_f64(), volumes: volumes.collect() });
        Ok(ran)
    };
    if before.iter().any(Option::is_some) {
        run("before", before, None, trial.lasts)?;
    }
    let copied = if steps.is_empty() { None } else { Some(run("during", &decided.begin, Some(moving), longest)?) };
    if !steps.is_empty() || decided.plan.after != *before {
        run("after", &decided.plan.after, None, trial.lasts)?;
    }
    Ok(SimulatedFigures {
        scheduler: trial.scheduler.to_string(),
        phases,
        copy_limit_mb_s: (!steps.is_empty()).then_some(pace.bytes_per_s as f64 / 1e6),
        copied_mib: copied.as_ref().map(|ran| ran.copied_bytes as f64 / f64::from(1 << 20)),
        copied_s: copied.as_ref().and_then(|ran| ran.copied_at).map(Nanos::as_secs_f64),
    })
}

/// A volume's service, compared with that on its reference disk, with the guarantees that are broken.
pub fn got(cluster: &Cluster, on: &Assignment, volume: usize, here: &TenantMeasure, there: Option<&OnReference>) -> GotFigures {
    let seconds = here.wanted.as_secs_f64();
    let figures = there.map(|there| judge::compared(here, &there.first, &there.again));
    let reference = cluster.volumes[volume].reference.as_ref();
    let broken = reference.zip(figures.as_ref()).map(|(disk, figures)| judge::worse_than_reference(&disk.to_string(), figures));
    GotFigures {
        volume: cluster.volumes[volume].name.clone(),
        on: on[volume].map(|array| cluster.arrays[array].name.clone()).unwrap_or_default(),
        throughput_mb_s: if seconds > 0.0 { here.served.bytes as f64 / 1e6 / seconds } else { 0.0 },
        p99_ms: here.responses.quantile(0.99).as_millis_f64(),
        reference: figures,
        broken: broken.unwrap_or_default(),
    }
}

fn report(
    specification: &Specification,
    survey: &Survey,
    before: &Assignment,
    decided: &Decided,
    simulated: Option<SimulatedFigures>,
) -> Placement {
    let cluster = &specification.cluster;
    let array_name = |array: usize| cluster.arrays[array].name.clone();
    let after = &decided.plan.after;
    let arrays = cluster.arrays.iter().enumerate().map(|(number, array)| ArrayFigures {
        name: array.name.clone(),
        disk: array.profile.description().to_owned(),
        capacity_percent: 100.0 * array.capacity,
        before_percent: 100.0 * survey.load(before, number),
        after_percent: 100.0 * survey.load(after, number),
    });
    let oversold = oversold(cluster, survey, (&decided.begin, after), simulated.as_ref());
    let numbers: Vec<usize> = oversold.iter().map(|(array, _)| *array).collect();
    let findings = survey.findings(&decided.begin, &numbers);
    let volumes = cluster.volumes.iter().zip(findings).enumerate().map(|(number, (volume, finding))| VolumeFigures {
        name: volume.name.clone(),
        mib: volume.sectors / 2048,
        reference: volume.reference.as_ref().map(ToString::to_string),
        on: before[number].map(array_name),
        after: after[number].map(array_name),
        shares_percent: (0..survey.arrays()).map(|array| 100.0 * survey.share(array, number)).collect(),
        needs_percent: (0..survey.arrays()).map(|array| 100.0 * survey.demand(array, number)).collect(),
        standing: standing(finding.standing).to_owned(),
        text: finding.text,
    });
    let steps = decided.plan.steps.iter().map(|step| StepFigures {
        moves: step
            .moves
            .iter()
            .map(|each| MoveFigures {
                volume: cluster.volumes[each.volume].name.clone(),
                from: array_name(each.from),
                to: array_name(each.to),
                mib: cluster.volumes[each.volume].sectors / 2048,
            })
            .collect(),
        reason: step.reason.clone(),
    });
    let more = (0..survey.volumes()).filter(|volume| cluster.volumes[*volume].reference.is_some()).map(|volume| MoreFigures {
        like: cluster.volumes[volume].name.clone(),
        before: survey.more_like(before, volume),
        after: survey.more_like(after, volume),
    });
    Placement {
        schema: SCHEMA,
        seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: specification.source.clone(),
        rules: RuleFigures {
            threshold_points: 100.0 * specification.rules.threshold,
            slot_ms: specification.rules.slot.as_millis_f64(),
            samples: specification.samples.0,
            sample_s: specification.samples.1.as_secs_f64(),
            count_by: word(&specification.rules.basis),
            place_by: word(&specification.initial),
            seed: cluster.seed,
        },
        oversold: oversold.into_iter().map(|(_, figures)| figures).collect(),
        arrays: arrays.collect(),
        volumes: volumes.collect(),
        placed: decided.placed.clone(),
        rejected: decided.rejected.clone(),
        steps: steps.collect(),
        left: decided.plan.left.iter().map(|(_, why)| why.clone()).collect(),
        more: more.collect(),
        simulated,
    }
}

/// The arrays with guarantees that do not fit by capacity or break in the simulator before the moves.
fn oversold(
    cluster: &Cluster,
    survey: &Survey,
    (begin, after): (&Assignment, &Assignment),
    simulated: Option<&SimulatedFigures>,
) -> Vec<(usize, OversoldFigures)> {
    let phase = |name: &str| simulated.and_then(|simulated| simulated.phases.iter().find(|phase| phase.name == name));
    let before = phase("before");
    let got = |volume: usize| before.and_then(|phase| phase.volumes.iter().find(|got| got.volume == cluster.volumes[volume].name));
    let breaks = |phase: Option<&PhaseFigures>, array: usize| {
        let on = &cluster.arrays[array].name;
        phase.is_some_and(|phase| phase.volumes.iter().any(|got| got.on == *on && !got.broken.is_empty()))
    };
    let is_oversold = |array: &usize| survey.is_oversold(begin, *array) || breaks(before, *array);
    let each = (0..survey.arrays()).filter(is_oversold).map(|array| {
        let here = (0..survey.volumes()).filter(|volume| begin[*volume] == Some(array) && survey.demand(array, *volume) > 0.0);
        let volumes = here.map(|volume| ShortFigures {
            volume: cluster.volumes[volume].name.clone(),
            needs_percent: 100.0 * survey.demand(array, volume),
            simulated_percent: got(volume).and_then(|got| got.reference.as_ref()).map(|figures| 100.0 * figures.throughput_ratio),
            is_broken: got(volume).map(|got| !got.broken.is_empty()),
        });
        let figures = OversoldFigures {
            array: cluster.arrays[array].name.clone(),
            needs_percent: 100.0 * survey.load(begin, array),
            capacity_percent: 100.0 * survey.capacity(array),
            after_percent: 100.0 * survey.load(after, array),
            // Without moves there is no phase after them.
            is_relieved: !survey.is_oversold(after, array) && !breaks(phase("after").or(before), array),
            volumes: volumes.collect(),
        };
        (array, figures)
    });
    each.collect()
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Insignificant => "insignificant",
        Standing::WellPlaced => "well placed",
        Standing::Wavering { .. } => "wavering",
        Standing::Misplaced { .. } => "misplaced",
        Standing::Oversold => "oversold",
        Standing::Unplaced => "new",
    }
}

/// The choice as it is written in the file.
fn word(choice: &impl serde::Serialize) -> String {
    serde_json::to_value(choice).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
