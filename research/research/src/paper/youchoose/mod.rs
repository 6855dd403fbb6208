//! Zhang, Xu and Jiang, `YouChoose`: volumes that perform like the reference disk their owner chose.

mod bars;
mod guarantees;
mod hybrid;
mod model;
mod placing;
mod printed;
mod runs;
mod scenes;
mod sharing;

use std::path::Path;
use std::sync::Arc;

use crate::report::paper::{Curves, Figure, Table};

use block::Merges;
use control::Setting;
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile};
use sim::reference::ReferenceDisk;
use testbed::pool::Workers;
use testbed::synthetic::Drawn;
use testbed::synthetic::Pattern;

use super::stated::{Measures, Stated};
use super::{Paper, PaperRequest, Part, Repeated};
use anyhow::ensure;
use experiment::learned_device;
use guarantees::Models;
use printed::cart::{self, Cart, Examples, Features};
use printed::trained;
use runs::Runs;
use scenes::{HOSTS, Lengths, Plan, REFERENCE, Scene};
use sharing::Results;
use testbed::chance;

/// "At a lower level each disk also has its disk scheduler such as C-SCAN" (figure 4).
const SCHEDULER: &str = "clook";

/// The paper.
pub static PAPER: Paper = Paper {
    name: "youchoose",
    text: include_str!("../../../../papers/youchoose/paper.toml"),
    parts: || PARTS.iter().map(|&(id, title)| Part { id, title, is_cpu: false }).collect(),
    takes_trace: true,
    repeat,
    live: None,
};

/// Parts that can be requested.
const PARTS: [(&str, &str); 18] = [
    ("fig-5", "Fig. 5: errors of the model by request and by window"),
    ("fig-6", "Fig. 6: throughput of five volumes by their locality"),
    ("fig-7", "Fig. 7: errors of the model with and without a sample of the load"),
    ("fig-8", "Fig. 8: throughput of two volumes, one of which changes its locality"),
    ("fig-9", "Fig. 9: throughput of two volumes with loads like real ones"),
    ("table-1", "Table I: an example of the resource-consumption matrix"),
    ("table-2", "Table II: the resource-consumption matrix of seven volumes on three arrays"),
    ("table-3", "Table III: number of volumes that fit"),
    ("placing", "Section IV.D: what the paper leaves open in Tables II and III"),
    ("manager", "Section III.C: the migration manager in the simulator"),
    ("model", "Section III.A: errors of models with other features"),
    ("variations", "Section III.B: what the paper leaves open in its scheduler"),
    ("table-2-ours", "Table II, ours"),
    ("table-3-ours", "Table III, ours"),
    ("table-2-one", "Table II, ours, with one disk of flash"),
    ("table-3-one", "Table III, ours, with one disk of flash"),
    ("promises", "Guarantee of each volume, youchoose"),
    ("peers", "The same guarantees under other schedulers"),
];

/// Parts that need the arrays of section IV.D: as printed, and ours.
const PARTS_OF_PLACING: [&str; 5] = ["table-1", "table-2", "table-3", "placing", "manager"];
const OURS_OF_PLACING: [&str; 4] = ["table-2-ours", "table-3-ours", "table-2-one", "table-3-one"];

fn title(id: &str) -> &'static str {
    PARTS.iter().find(|(part, _)| *part == id).map_or("", |(_, title)| title)
}

fn repeat(wanted: &PaperRequest, stated: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let wants = |id: &str| wanted.only.is_empty() || wanted.only.iter().any(|only| only == id);
    let search = search(wanted, workers)?;
    let plan = Plan { lengths: Lengths::new(wanted.is_quick), seed: wanted.seed, search };
    let scenes = scenes(|id| wants(id) || wanted.wants_bars());
    let models = if scenes.is_empty() { None } else { Some(models(&plan, workers)?) };
    let runs = match &models {
        Some(models) => Runs::run(&scenes, &plan, models, workers)?,
        None => Runs::default(),
    };
    let is_modelled = wanted.wants_bars() || wants("fig-5") || wants("fig-7") || wants("model");
    let accuracy =
        is_modelled.then(|| model::accuracy(wanted.is_quick, wanted.seed, wanted.trace.as_deref(), &plan.search, workers));
    let accuracy = accuracy.transpose()?;
    let results = Results { runs: &runs, lengths: plan.lengths };
    let figures = sharing::figure_6(&results).into_iter().filter(|figure| wants(&figure.id)).collect();
    let over_time = [Scene::Change, Scene::Real].into_iter().filter_map(|scene| sharing::over_time(&results, scene));
    let curves = accuracy.iter().flat_map(model::figures).chain(over_time);
    let curves = curves.filter(|curves| wants(&curves.id)).collect();
    let is_placed = wanted.wants_bars() || OURS_OF_PLACING.iter().any(|id| wants(id));
    let placed = if is_placed { placing::place(wanted.is_quick, &plan.search, wanted.seed, workers)? } else { Vec::new() };
    let is_printed = wanted.wants_bars() || PARTS_OF_PLACING.iter().any(|id| wants(id));
    let placed_as_printed =
        is_printed.then(|| placing::place_as_printed(wanted.is_quick, &plan.search, wanted.seed, workers)).transpose()?;
    let tables = placed_as_printed.iter().flat_map(|printed| placing::printed_tables(printed, stated));
    let tables = tables.chain(placing::tables(&placed, stated)).chain(accuracy.as_ref().map(model::variations));
    let of_sharing = [sharing::variations(&results), sharing::promises(&results), sharing::peers(&results)];
    let tables = tables.chain(of_sharing.into_iter().flatten());
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
    placed_as_printed.iter().for_each(|printed| placing::printed_measures(printed, stated, &mut measures));
    let (setup, notes) = (setup(wanted), notes(wanted));
    let (mut figures, mut tables, mut curves): (Vec<Figure>, Vec<Table>, Vec<Curves>) = (figures, tables, curves);
    let titles = figures.iter_mut().map(|figure| (&figure.id, &mut figure.title));
    let titles = titles.chain(tables.iter_mut().map(|table| (&table.id, &mut table.title)));
    let titles = titles.chain(curves.iter_mut().map(|curves| (&curves.id, &mut curves.title)));
    titles.for_each(|(id, title)| title.push_str(&stand_ins(id, wanted.trace.as_deref())));
    Ok(Repeated { setup, notes, bars, figures, tables, curves, measures })
}

/// Models of the reference disk for schedulers: trained ones, and a shadow simulation of the disk itself.
fn models(plan: &Plan, workers: Workers) -> anyhow::Result<Models> {
    let seed = plan.seed;
    let (profile, scheduler) = (Scene::reference()?, Setting::parse(SCHEDULER)?);
    let settings = QueueSettings { merges: Merges::Never, ..QueueSettings::default() };
    let shadow = ReferenceDisk::new(&profile, DeviceOptions::default(), settings, (scheduler.spec, &scheduler.values));
    let options = learned_device::Options { seed, merges: settings.merges, ..Default::default() };
    let trained = learned_device::train(REFERENCE, &options, workers)?.model;
    let examples = printed_examples(&profile, plan, workers)?;
    let [printed, printed_with_operation] =
        [Features::Printed, Features::WithOperation].map(|features| Arc::new(Cart::grow(&examples, features)));
    Ok(Models { trained: Arc::new(trained), shadow: Arc::new(shadow), printed, printed_with_operation })
}

/// Training data for the paper's model of the reference disk: the synthetic traces, and a sample of each workload that stands for a real one.
fn printed_examples(profile: &Profile, plan: &Plan, workers: Workers) -> anyhow::Result<Examples> {
    let mut examples = trained::synthetic(profile, plan.seed, workers)?;
    for (number, pattern) in (0..).zip([plan.search.clone(), scenes::open_mail(), scenes::financial()]) {
        let sample = cart::drawn(&pattern, chance::source("youchoose sample", plan.seed, number), scenes::VOLUME, cart::SAMPLE);
        examples.add(&trained::serve(profile, &sample, workers)?, |_| true);
    }
    Ok(examples)
}

/// The suffix of a title that names the paper's traces behind a figure for which stand-ins are used.
fn stand_ins(id: &str, trace: Option<&Path>) -> String {
    let others: &[&str] = match id {
        "fig-5" | "fig-7" | "model" => &[],
        "fig-9" | "variations" | "promises" => &["OpenMail", "Financial"],
        id if id.starts_with("table-2") || id.starts_with("table-3") || ["placing", "manager"].contains(&id) => &["VideoStreaming"],
        _ => return String::new(),
    };
    match trace {
        None => format!(" (drawn stand-ins for {})", [&["WebSearch"], others].concat().join(", ")),
        Some(trace) if others.is_empty() => format!(" (WebSearch: {})", trace.display()),
        Some(trace) => format!(" (WebSearch: {}; drawn stand-ins for {})", trace.display(), others.join(", ")),
    }
}

/// The requests of WebSearch: from the given trace, or else generated.
fn search(wanted: &PaperRequest, workers: Workers) -> anyhow::Result<Pattern> {
    let Some(path) = &wanted.trace else { return Ok(scenes::web_search()) };
    // Requests beyond the end of the device or volume are wrapped into it later.
    let requests = learned_device::requests_of(path, u64::MAX >> 1, workers)?;
    let drawn: Vec<Drawn> = requests.iter().map(|each| Drawn { lba: each.lba, sectors: each.sectors, op: each.op }).collect();
    ensure!(!drawn.is_empty(), "{}: has no requests", path.display());
    Ok(Pattern::Recorded(drawn.into()))
}

/// The scenes needed for the requested parts.
fn scenes(wants: impl Fn(&str) -> bool) -> Vec<Scene> {
    let all = wants("bars") || wants("promises");
    let is_varied = wants("bars") || wants("variations");
    let hosts = (0..HOSTS.len()).filter(|&host| all || wants("fig-6") || host == 0 && (wants("peers") || is_varied));
    let mut scenes: Vec<Scene> = hosts.map(Scene::Localities).collect();
    if all || wants("fig-8") || wants("peers") || is_varied {
        scenes.push(Scene::Change);
    }
    if all || wants("fig-9") || is_varied {
        scenes.push(Scene::Real);
    }
    if is_varied {
        scenes.extend((0..scenes::DEPTHS.len()).flat_map(|depths| [Scene::LocalitiesIn(depths), Scene::ChangeIn(depths)]));
        scenes.extend((0..scenes::REAL_VARIED.len()).map(Scene::RealIn));
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
        (
            "As printed",
            "The scheduler of section III.B (reference clocks, slots of 80 ms), with the CART model of section III.A over size, location and \
             gap, grown from five traces of 10,000 requests and samples; the migration manager of section III.C with a threshold of 10%. \
             Its baseline virtual-clock has slots of as many requests each."
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
        "The “average seek times” of 1.245 and 1.943 ms that the paper gives for its disks are their seeks over a single cylinder; the means are \
         5.55 and 9.20 ms (DiskSim’s validated parameters)."
            .to_owned(),
        "Tables II and III of the paper contradict each other if volumes are counted with what Table II samples: each search takes at least as \
         much of every array as a film (31.0 to 7.6, 29.0 to 8.4 and 14.5 to 14.2%), and yet 22 searches are held and 13 films."
            .to_owned(),
    ];
    if wanted.is_quick {
        notes.push("A quick run: a fifth of the time.".to_owned());
    }
    notes
}
