//! The study's pairs of workloads on a block device of the real kernel.

use std::collections::BTreeMap;

use control::Setting;
use control::controller::{Controller, ControllerInput, Fixed};
use control::experience::WINDOW;
use observe::Preference;
use testbed::pool::Workers;
use twin::controller;

use super::super::Repeated;
use super::convergence::Course;
use super::library::Library;
use super::pairs::{By, DEFAULT, FIGURES, IN_THE_TWIN, OF_PAPER, PRINTED, Pair, Ran, Runs, UNDERS, WORKLOADS};
use super::results::Results;
use crate::live;
use crate::live::{Jobs, LiveDevice, part};
use crate::paper::stated::Stated;
use crate::paper::{Clock, OnDevice, PaperRequest};

/// Controllers for each pair. A quick run omits the last, as the twin's observation phase exceeds its workloads' duration.
const LIVE: [usize; 3] = [DEFAULT, PRINTED, IN_THE_TWIN];
/// Number of bins per workload.
const BINS: f64 = 6.0;
/// Device space per writer: an emulated device keeps written data in memory.
const WRITTEN_BYTES: u64 = 128 << 20;
/// A thousand files of 64 KiB.
const SMALL_FILES_BYTES: u64 = 64_000 << 10;

/// Repeats the study on a device.
///
/// # Errors
/// fio fails, the device cannot be set or observed, or the work was interrupted.
pub fn repeat(
    wanted: &PaperRequest,
    on: &OnDevice,
    _: &Stated,
    live: &mut dyn LiveDevice,
    workers: Workers,
) -> anyhow::Result<Repeated> {
    let length_s = if wanted.is_quick { 6.0 } else { 60.0 };
    let mut clock = Clock::new(on.minutes, live.now(), workers.monitor);
    let found = live.plant().setting();
    let mut ran = BTreeMap::new();
    let drawn = || FIGURES.iter().map(|(_, pair)| *pair);
    let others = Pair::all().filter(|pair| drawn().all(|drawn| drawn != *pair));
    let (most, unders) = if wanted.is_quick { (1, &LIVE[..2]) } else { (usize::MAX, &LIVE[..]) };
    for pair in drawn().chain(others).take(most) {
        if !clock.has_time_for_another(live.now()) {
            break;
        }
        let mut every = Vec::new();
        let came = unders.iter().try_for_each(|&under| {
            every.push(((pair, under), run_one(pair, under, length_s, wanted.seed, live, workers)?));
            clock.show(live.now());
            Ok(())
        });
        if clock.one_more(live.now(), came)?.is_some() {
            ran.extend(every);
        }
    }
    workers.monitor.end();
    let runs = Runs::of(ran);
    let results = Results { runs: &runs, lengths: &[], genes: &[], direct: &[] };
    let (curves, tables, bars) = (results.curves(), results.tables(), results.bars());
    let measures = results.measures();
    Ok(Repeated {
        setup: setup(length_s, &found, on, live, clock.done(), wanted.seed),
        notes: std::iter::once(
            "What runs is real, and other work of the machine shows in it. What the default shows by itself is shown next to the searches: no search can \
             converge sooner than the workload does."
                .to_owned(),
        )
        .chain(clock.failed())
        .collect(),
        bars,
        tables,
        curves,
        measures,
        ..Repeated::default()
    })
}

fn run_one(pair: Pair, under: usize, length_s: f64, seed: u64, live: &mut dyn LiveDevice, workers: Workers) -> anyhow::Result<Ran> {
    let found = live.plant().setting();
    let controller: Box<dyn Controller> = match UNDERS[under].by {
        By::Constant => Box::new(Fixed::new(found.clone(), WINDOW)),
        // The library tunes the current scheduler.
        By::Library(variant) => Box::new(Library::new(&found, variant, seed)),
        By::Search(name, _) => {
            let input = ControllerInput { preference: Preference::new(3, 2, 1)?, seed, ..ControllerInput::default() };
            controller::parse(name)?.build(&input)
        }
    };
    // The last second in fio's log is incomplete: run one more.
    let jobs = [pair.0, pair.1].map(|workload| jobs(workload, live.size_bytes(), length_s + 1.0).on(&live.path()));
    let steered = live::steer(live, controller, &jobs, false, workers.monitor)?;
    let whole = |seconds: &Vec<(f64, f64)>| seconds.iter().copied().take(length_s as usize).collect::<Vec<_>>();
    let seconds: Vec<Vec<(f64, f64)>> = steered.throughput.iter().map(whole).collect();
    let course = |place: usize| Course::of_seconds(seconds.get(place).map_or(&[][..], Vec::as_slice), length_s, length_s / BINS);
    let throughput = seconds.iter().flatten().map(|(at, rate)| (*at, rate / 1e6)).collect();
    Ok(Ran { courses: [course(0), course(1)], throughput })
}

/// Job files, by index in [`WORKLOADS`], that stand for FFSB's profiles on a device without a file system.
fn jobs(workload: usize, size_bytes: u64, seconds: f64) -> Jobs {
    let of = |sections: String, part_bytes: u64| Jobs { sections, seconds, seed: 1, part_bytes, call_bytes: None, logs: true };
    match workload {
        // Files are laid out contiguously.
        0 => {
            let part = SMALL_FILES_BYTES.min(part(size_bytes, 4));
            let think = "bs=4k\nthinktime=30\n";
            let sections = format!(
                "[look-up]\nrw=randread\n{think}numjobs=3\n[change]\nrw=randrw\nrwmixread=70\n{think}fsync=1\noffset={}\n",
                3 * part
            );
            of(sections, part)
        }
        1 => of("[random-read]\nrw=randread\nbs=4k\nnumjobs=4\n".to_owned(), part(size_bytes, 4)),
        // A reader that finished early would restart with its data cached in memory.
        2 => of("[sequential-read]\nrw=read\nbs=4k\nnumjobs=4\n".to_owned(), size_bytes / 4 / (1 << 20) * (1 << 20)),
        // Bounds dirty data as on a machine of the study, regardless of the memory here.
        3 => {
            let sections = "[sequential-write]\nrw=write\nbs=4k\nnumjobs=4\nsync_file_range=wait_before,write:2048\n".to_owned();
            of(sections, WRITTEN_BYTES.min(part(size_bytes, 4)))
        }
        _ => {
            let sections = "[direct]\nrw=rw\nrwmixread=50\nbs=64k\nnumjobs=4\ndirect=1\n".to_owned();
            of(sections, WRITTEN_BYTES.min(part(size_bytes, 4)))
        }
    }
}

fn setup(length_s: f64, found: &Setting, on: &OnDevice, live: &dyn LiveDevice, pairs: usize, seed: u64) -> Vec<(String, String)> {
    let names: Vec<&str> = WORKLOADS[..OF_PAPER].iter().map(|(name, _)| *name).collect();
    let facts = [
        (
            "Workloads",
            format!(
                "{}: the job files that stand for FFSB’s profiles, by the real fio on the device itself, without a file system. Sequential writers \
                 wait for write-back every 8 MiB, so that it is not this machine’s memory that is measured.",
                names.join(", ")
            ),
        ),
        ("Pairs", format!("{pairs} of 20, as many as {} minutes allow; those that the paper draws first.", on.minutes)),
        ("Length", format!("{length_s} s for each of the two workloads of a pair; 1,000 s in the paper.")),
        ("Default", format!("{found}, which was active.")),
        (
            "As printed",
            "The genetic library on the tunables of the active scheduler, without end, children of 2 s; a scheduler without genes stays at its default."
                .to_owned(),
        ),
        ("In the twin", "Chooses among the kernel’s schedulers and their tunables; 64 trials in the twin, then the best is verified.".to_owned()),
        (
            "Converged",
            format!(
                "A workload has converged where from then on 19 of 20 bins of {:.0} s are within 5% of its stable throughput, the mean of its last \
                 quarter. Throughput is what fio logs second by second.",
                length_s / BINS
            ),
        ),
        ("Seed", format!("{seed}; runs are real and not reproducible.")),
    ];
    let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value));
    live.facts().into_iter().chain(facts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_workload_reaches_beyond_a_small_device_or_writes_more_than_memory_holds() {
        for (workload, (name, _)) in WORKLOADS[..OF_PAPER].iter().enumerate() {
            for size_bytes in [64 << 20, 4 << 30] {
                let jobs = jobs(workload, size_bytes, 1.0);
                assert!(jobs.part_bytes > 0 && 4 * jobs.part_bytes <= size_bytes, "{name}: {}", jobs.part_bytes);
                let writes = !jobs.sections.contains("rw=read\n") && !jobs.sections.contains("rw=randread\nbs=4k\nnumjobs");
                assert!(!writes || jobs.part_bytes <= WRITTEN_BYTES, "{}", jobs.sections);
            }
        }
    }
}
