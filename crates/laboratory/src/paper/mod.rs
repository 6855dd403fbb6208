//! Repeats the experiments of a paper, and puts what it states beside what comes out here.

mod bars;
mod figures;
mod judge;
mod plan;
mod runs;
mod schemes;
mod stated;

use anyhow::ensure;
use block::did_you_mean;
use learn::{Preference, merit};
use report::paper::{Replication, SCHEMA};

use crate::pool::Crew;
use figures::{Drawing, World};
use plan::{ONLINE, Plan};
use runs::Store;
use schemes::{FOUND, SETTINGS};
use stated::Stated;

/// What of a paper is repeated.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The paper.
    pub name: String,
    /// One disk and each workload once.
    pub is_quick: bool,
    /// Of everything that is drawn.
    pub seed: u64,
    /// Only these figures; all if there are none.
    pub only: Vec<String>,
    /// Whether figures of processor time are drawn, the only ones that differ from run to run.
    pub measures_cpu: bool,
}

/// The papers and their figures, for a person.
///
/// # Errors
/// Never, for papers that come with the program.
pub fn list() -> anyhow::Result<String> {
    let stated = Stated::read()?;
    let mut text = format!("{}  {}, {}; {}\n", stated.name, stated.authors, stated.title, stated.published);
    text.push_str(&format!("  {:7} what is aimed at: met or missed\n", bars::ID));
    figures::ALL.iter().for_each(|drawing| text.push_str(&format!("  {:7} {}\n", drawing.id, drawing.title)));
    Ok(text)
}

impl Wanted {
    /// Refuses what is not there to be repeated.
    ///
    /// # Errors
    /// There is no such paper or figure, or nothing is left to be drawn.
    pub fn check(&self) -> anyhow::Result<()> {
        let (stated, name) = (Stated::read()?, &self.name);
        ensure!(*name == stated.name, "{name}: there is no such paper; known is {} (see `seekwise paper list`)", stated.name);
        self.drawings().map(drop)
    }

    /// Runs what is needed and draws it.
    ///
    /// # Errors
    /// As [`Wanted::check`]; or a run failed or was interrupted.
    pub fn repeat(&self, crew: Crew) -> anyhow::Result<Replication> {
        self.check()?;
        let stated = Stated::read()?;
        let drawings = self.drawings()?;
        let mut plan = Plan::new(self.is_quick, self.seed)?;
        plan.measures_cpu = self.measures_cpu;
        let mut store = Store::default();
        let (figures, bars) = loop {
            let world = World { plan: &plan, store: &store };
            let figures: Vec<_> = drawings.iter().map(|drawing| drawing.draw(&world, &stated)).collect();
            let bars = if self.wants_bars() { bars::all(&world) } else { Vec::new() };
            if !store.fill(&plan, crew)? {
                break (figures, bars);
            }
        };
        Ok(Replication {
            schema: SCHEMA,
            seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command(),
            setup: setup(&plan),
            notes: notes(&plan),
            bars,
            figures,
            name: stated.name,
            authors: stated.authors,
            title: stated.title,
            published: stated.published,
        })
    }

    fn drawings(&self) -> anyhow::Result<Vec<&'static Drawing>> {
        for only in &self.only {
            let known = figures::ALL.iter().any(|drawing| drawing.id == only) || only == bars::ID;
            let ids: Vec<&str> = figures::ALL.iter().map(|drawing| drawing.id).collect();
            let meant = did_you_mean(only, ids.iter().copied().chain([bars::ID]));
            ensure!(known, "--only {only}: there is no such figure; known are {}, {}{meant}", bars::ID, ids.join(", "));
        }
        let is_wanted = |drawing: &&Drawing| {
            let named = self.only.is_empty() || self.only.iter().any(|only| only == drawing.id);
            named && (self.measures_cpu || !drawing.is_cpu)
        };
        let drawings: Vec<&Drawing> = figures::ALL.iter().filter(is_wanted).collect();
        let is_something = !drawings.is_empty() || self.wants_bars();
        ensure!(is_something, "--only {}: shows processor time, which needs --cpu-time", self.only.join(" --only "));
        Ok(drawings)
    }

    fn wants_bars(&self) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == bars::ID)
    }

    /// What does the same again; where it was written and how many threads there were changes nothing.
    fn command(&self) -> String {
        let mut text = format!("seekwise paper run {}", self.name);
        if self.is_quick {
            text.push_str(" --quick");
        }
        text.push_str(&format!(" --seed {}", self.seed));
        self.only.iter().for_each(|only| text.push_str(&format!(" --only {only}")));
        if self.measures_cpu {
            text.push_str(" --cpu-time");
        }
        text + " --output page.html"
    }
}

fn setup(plan: &Plan) -> Vec<(String, String)> {
    let disks: Vec<&str> = plan.disks.iter().map(|disk| disk.name.as_str()).collect();
    let facts = [
        (
            "Disk",
            format!(
                "{}: a drive of 7,200 rpm that takes one request at a time, as the paper’s WD2500JD, which had no command queueing; it is \
                 newer and larger than that one{}",
                disks[0],
                disks.get(1).map_or_else(String::new, |second| format!(". {second} is the same drive with its queue of 32"))
            ),
        ),
        ("Length", plan.length_text()),
        ("Repetitions", format!("Tables 4 and 5 × {}, each time with other draws of what is at random", plan.repeats)),
        (
            "Correct",
            format!(
                "A decision is correct if its setting, run by itself on the same workload, ranks at least as high as the best of the five \
                 fixed schedulers in the phase in which the decision is made (phases are the jobs between stonewalls). The rank is merit: \
                 throughput, response time and fairness weighted {}, and a setting that starves a stream (p99 response time above {} times \
                 that under {}, and above {} s) ranks last. Throughput and response time are those of the jobs’ own calls; panels named “by \
                 the block layer” use requests to the disk instead, which is what the paper’s schemes log. Every window’s decision counts, \
                 including those that keep the setting. Results within {}% are equal: without chance, several schedulers often differ by \
                 less.",
                Preference::default(),
                merit::BOUND_FACTOR,
                FOUND,
                merit::LEAST_BOUND_S,
                100.0 * learn::merit::TOLERANCE
            ),
        ),
        (
            "Offline training (TCLO)",
            format!(
                "As in the paper, on the disk that is tested: the workloads of Table 3 under each setting ({}), one case from each run. \
                 No workload of Tables 4 and 5.",
                plan::TABLE_3.join(", ")
            ),
        ),
        (
            "Online training (TCLOO)",
            format!(
                "The same, and in place of the paper’s day of further workloads: {}. It goes on learning while it runs.",
                ONLINE.join(", ")
            ),
        ),
        ("Training of seekwise", "None: its twin is fitted to the disk and the load while they run.".to_owned()),
        (
            "Chosen on",
            "Mechanisms and constants of the per-request scheduler were developed on these disks, and earlier versions with these \
             workloads in view. For loads and devices that nothing was chosen on, see `seekwise lab exam`."
                .to_owned(),
        ),
        ("Cross-validation", format!("{} batches, each similar to a workload of Table 4: {}", plan.batches, plan.batches_text())),
        (
            "Schemes",
            format!(
                "The paper’s choose among its five schedulers, the hybrid also the one that learns request by request; seekwise among \
                 {}. All find {} in force.",
                SETTINGS.join(", "),
                FOUND
            ),
        ),
        ("Seed", plan.seed.to_string()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = vec![
        "The schemes of the paper are trained and tested on one disk here, as they were there. That says nothing about other disks: \
         `seekwise lab exam` trains on some devices and families of loads and examines on others."
            .to_owned(),
        "The paper ran Linux 2.6.13 on one real disk of 2004; this is a simulation. Its figures are printed without numbers: only what its \
         text states is put beside ours, and other bars are not given."
            .to_owned(),
    ];
    if plan.repeats == 1 {
        notes.push(
            "A quick run: one disk, each workload once, half of the batches, and windows compared in runs of a minute.".to_owned(),
        );
    }
    notes
}
