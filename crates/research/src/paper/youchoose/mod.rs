//! Zhang, Xu and Jiang, `YouChoose`: volumes that are served as well as by the disk that their owner chose.

mod bars;
mod model;
mod placing;
mod runs;
mod scenes;
mod sharing;

use std::sync::Arc;

use block::Merges;
use control::Setting;
use sim::host::QueueSettings;
use sim::profile::DeviceOptions;
use sim::reference::ReferenceDisk;

use super::stated::{Measures, Stated};
use super::{Paper, PaperRequest, Part, Repeated};
use experiment::learned_device;
use experiment::pool::Workers;
use runs::{Models, Plan, Runs};
use scenes::{HOSTS, Lengths, REFERENCE, Scene};
use sharing::Results;

/// "At a lower level each disk also has its disk scheduler such as C-SCAN" (figure 4).
const SCHEDULER: &str = "clook";

/// The paper.
pub static PAPER: Paper = Paper {
    name: "youchoose",
    text: include_str!("../../../../../papers/youchoose/paper.toml"),
    parts: || PARTS.iter().map(|&(id, title)| Part { id, title, is_cpu: false }).collect(),
    takes_trace: true,
    repeat,
    live: None,
};

/// What can be asked for.
const PARTS: [(&str, &str); 11] = [
    ("fig-5", "Fig. 5: errors of the model by request and by window"),
    ("fig-6", "Fig. 6: throughput of five volumes by their locality"),
    ("fig-7", "Fig. 7: errors of the model with and without a sample of the load"),
    ("fig-8", "Fig. 8: throughput of two volumes, one of which changes its locality"),
    ("fig-9", "Fig. 9: throughput of two volumes with loads like real ones"),
    ("table-2", "Table II: demand of seven volumes on three arrays"),
    ("table-3", "Table III: number of volumes that fit"),
    ("table-2-one", "Table II with one disk of flash"),
    ("table-3-one", "Table III with one disk of flash"),
    ("promises", "Guarantee of each volume, youchoose"),
    ("peers", "The same guarantees under other schedulers"),
];

fn title(id: &str) -> &'static str {
    PARTS.iter().find(|(part, _)| *part == id).map_or("", |(_, title)| title)
}

fn repeat(wanted: &PaperRequest, stated: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let wants = |id: &str| wanted.only.is_empty() || wanted.only.iter().any(|only| only == id);
    let plan = Plan { lengths: Lengths::new(wanted.is_quick), seed: wanted.seed };
    let scenes = scenes(|id| wants(id) || wanted.wants_bars());
    let models = if scenes.is_empty() { None } else { Some(models(wanted.seed, workers)?) };
    let runs = match &models {
        Some(models) => Runs::run(&scenes, &plan, models, workers)?,
        None => Runs::default(),
    };
    let is_modelled = wanted.wants_bars() || wants("fig-5") || wants("fig-7");
    let accuracy = is_modelled.then(|| model::accuracy(wanted.is_quick, wanted.seed, wanted.trace.as_deref(), workers));
    let accuracy = accuracy.transpose()?;
    let results = Results { runs: &runs, lengths: plan.lengths };
    let figures = sharing::figure_6(&results).into_iter().filter(|figure| wants(&figure.id)).collect();
    let over_time = [Scene::Change, Scene::Real].into_iter().filter_map(|scene| sharing::over_time(&results, scene));
    let curves = accuracy.iter().flat_map(model::figures).chain(over_time);
    let curves = curves.filter(|curves| wants(&curves.id)).collect();
    let is_placed = wanted.wants_bars() || PARTS.iter().any(|(id, _)| id.starts_with("table-") && wants(id));
    let placed = if is_placed { placing::place(wanted.is_quick, wanted.seed, workers)? } else { Vec::new() };
    let tables = placing::tables(&placed, stated).into_iter();
    let tables = tables.chain([sharing::promises(&results), sharing::peers(&results)].into_iter().flatten());
    let tables = tables.filter(|table| wants(&table.id)).collect();
    let mut bars = Vec::new();
    if wanted.wants_bars() {
        bars = accuracy.iter().flat_map(model::bars).collect();
        bars.extend(bars::sharing(&results));
        bars.extend(placing::bars(&placed));
    }
    let mut measures = Measures::default();
    accuracy.iter().for_each(|accuracy| model::measures(accuracy, &mut measures));
    sharing::measures(&results, &mut measures);
    placing::measures(&placed, &mut measures);
    let (setup, notes) = (setup(wanted), notes(wanted));
    Ok(Repeated { setup, notes, bars, figures, tables, curves, measures })
}

/// Models of the reference disk for schedulers: a trained regression tree, and a shadow of the disk itself.
fn models(seed: u64, workers: Workers) -> anyhow::Result<Models> {
    let (profile, scheduler) = (Scene::reference()?, Setting::parse(SCHEDULER)?);
    let settings = QueueSettings { merges: Merges::Never, ..QueueSettings::default() };
    let shadow = ReferenceDisk::new(&profile, DeviceOptions::default(), settings, (scheduler.spec, &scheduler.values));
    let options = learned_device::Options { seed, merges: settings.merges, ..Default::default() };
    Ok(Models { trained: Arc::new(learned_device::train(REFERENCE, &options, workers)?.model), shadow: Arc::new(shadow) })
}

/// What is run for what is wanted.
fn scenes(wants: impl Fn(&str) -> bool) -> Vec<Scene> {
    let all = wants("bars") || wants("promises");
    let hosts = (0..HOSTS.len()).filter(|&host| all || wants("fig-6") || host == 0 && wants("peers"));
    let mut scenes: Vec<Scene> = hosts.map(Scene::Localities).collect();
    if all || wants("fig-8") || wants("peers") {
        scenes.push(Scene::Change);
    }
    if all || wants("fig-9") {
        scenes.push(Scene::Real);
    }
    scenes
}

fn setup(wanted: &PaperRequest) -> Vec<(String, String)> {
    let facts = [
        (
            "Disks",
            "As in section IV: fast is atlas10k (QUANTUM_TORNADO), slow is barracuda (SEAGATE_ST32171W), flash is ssd-dftl; stripe units \
             of 4 KiB."
                .to_owned(),
        ),
        ("Reference disk", format!("{REFERENCE}, its queue in C-LOOK order")),
        (
            "Hosts",
            HOSTS.map(|(name, array)| format!("{name}: {array}")).join("; ")
                + ". RAID 0 of eight is the paper’s; the others are as large as required for the capacity.",
        ),
        (
            "Loads",
            "Figures 6 and 8 as described: 4 KiB, two reads to a write, 32 outstanding where the paper says that they saturate. The \
             requests of a volume are the same on its reference disk and on every host."
                .to_owned(),
        ),
        ("Seed", wanted.seed.to_string()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notes(wanted: &PaperRequest) -> Vec<String> {
    let mut notes = vec![
        "The traces OpenMail, WebSearch, Financial and VideoStreaming cannot be had. What stands for them is drawn, with the figures that \
         are published about them."
            .to_owned(),
        "The paper’s figures have no numbers: only statements of its text are compared.".to_owned(),
    ];
    if wanted.is_quick {
        notes.push("A quick run: a fifth of the time.".to_owned());
    }
    notes
}
