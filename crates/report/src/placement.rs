//! Placement of volumes on arrays: the demand matrix, the migration plan with reasons, and the simulated result.

use serde::Serialize;

use crate::number::three_digits;
use crate::record::ReferenceFigures;
use crate::text::{paragraph, printable, shortened};

/// The version of the JSON's layout.
pub const SCHEMA: u32 = 1;
/// Longest name of a volume or an array in a table.
const NAME: usize = 20;
/// Sentences of one kind in a terminal.
const SENTENCES: usize = 20;

/// The result of `seekwise place`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placement {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// The file with arrays and volumes.
    pub source: String,
    /// Parameters of the planner.
    pub rules: RuleFigures,
    /// The arrays that cannot keep their guarantees before the moves, by capacity or in the simulator; empty if there are none.
    pub oversold: Vec<OversoldFigures>,
    /// The arrays, in the file's order.
    pub arrays: Vec<ArrayFigures>,
    /// The volumes, in the file's order.
    pub volumes: Vec<VolumeFigures>,
    /// Placement of new volumes, as sentences.
    pub placed: Vec<String>,
    /// New volumes that do not fit, as sentences.
    pub rejected: Vec<String>,
    /// The migration plan.
    pub steps: Vec<StepFigures>,
    /// Misplaced volumes that cannot be moved, as sentences.
    pub left: Vec<String>,
    /// Number of additional volumes that fit.
    pub more: Vec<MoreFigures>,
    /// Results of the simulation; `None` if not simulated.
    pub simulated: Option<SimulatedFigures>,
}

/// Parameters of the planner.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleFigures {
    /// Minimum reduction of a volume's share by a move, in percentage points.
    pub threshold_points: f64,
    /// Scheduling slot in reference time, in milliseconds.
    pub slot_ms: f64,
    /// Number of samples of each volume.
    pub samples: usize,
    /// Length of a sample in seconds.
    pub sample_s: f64,
    /// How demand is counted: `reference` or `sampled`.
    pub count_by: String,
    /// Placement of new volumes: `largest-spare` or `least-share`.
    pub place_by: String,
    /// Random seed.
    pub seed: u64,
}

/// An array.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrayFigures {
    /// Its name.
    pub name: String,
    /// Its profile.
    pub disk: String,
    /// Share of its time that guarantees may use, in percent.
    pub capacity_percent: f64,
    /// Share used by guarantees before the moves, in percent.
    pub before_percent: f64,
    /// Share used by guarantees after the moves, in percent.
    pub after_percent: f64,
}

/// An array that cannot keep its guarantees: they need more than may be guaranteed, or one breaks in the simulator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OversoldFigures {
    /// The array.
    pub array: String,
    /// Share of its time that the guarantees need before the moves, in percent.
    pub needs_percent: f64,
    /// Share of its time that guarantees may use, in percent.
    pub capacity_percent: f64,
    /// Share of its time that the guarantees need after the moves, in percent.
    pub after_percent: f64,
    /// Whether it is no longer oversold after the moves.
    pub is_relieved: bool,
    /// The volumes with a guarantee there.
    pub volumes: Vec<ShortFigures>,
}

/// A volume with a guarantee on an oversold array.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShortFigures {
    /// The volume.
    pub volume: String,
    /// Share of the array's time that it needs, in percent.
    pub needs_percent: f64,
    /// Its throughput before the moves in the simulator, in percent of that on its reference disk; `None` if not simulated.
    pub simulated_percent: Option<f64>,
    /// Whether its guarantee is broken before the moves in the simulator; `None` if not simulated.
    pub is_broken: Option<bool>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VolumeFigures {
    /// Its name.
    pub name: String,
    /// Size in MiB.
    pub mib: u64,
    /// Its reference disk; `None`: no guarantee.
    pub reference: Option<String>,
    /// Its array; `None`: it is new.
    pub on: Option<String>,
    /// Its array after the moves; `None`: it does not fit.
    pub after: Option<String>,
    /// Its share of the demand of all volumes on each array, in percent: a row of the matrix.
    pub shares_percent: Vec<f64>,
    /// The share of each array's time that it needs, in percent.
    pub needs_percent: Vec<f64>,
    /// `insignificant`, `well placed`, `wavering`, `misplaced`, `oversold` (on an array that cannot keep its guarantees) or `new`.
    pub standing: String,
    /// The standing as a sentence.
    pub text: String,
}

/// Moves that are made together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepFigures {
    /// The moves.
    pub moves: Vec<MoveFigures>,
    /// The reason.
    pub reason: String,
}

/// The migration of a volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MoveFigures {
    /// The volume.
    pub volume: String,
    /// Source array.
    pub from: String,
    /// Destination array.
    pub to: String,
    /// Copied MiB.
    pub mib: u64,
}

/// Number of additional volumes that fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MoreFigures {
    /// The kind of volume: like this one.
    pub like: String,
    /// Before the moves.
    pub before: u64,
    /// After the moves.
    pub after: u64,
}

/// The result in the simulator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedFigures {
    /// The scheduler.
    pub scheduler: String,
    /// Before the moves, during and after.
    pub phases: Vec<PhaseFigures>,
    /// Limit of the copy rate, 10^6 bytes per second; `None` without moves.
    pub copy_limit_mb_s: Option<f64>,
    /// Copied MiB, including parts that were copied again; `None` without moves.
    pub copied_mib: Option<f64>,
    /// Time of the last move's end, in seconds; `None` if it did not finish.
    pub copied_s: Option<f64>,
}

/// A phase of the simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseFigures {
    /// `before`, `during` or `after`.
    pub name: String,
    /// Its length in seconds.
    pub lasts_s: f64,
    /// The volumes that issue requests in it.
    pub volumes: Vec<GotFigures>,
}

/// The service of a volume in a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GotFigures {
    /// The volume.
    pub volume: String,
    /// Its array at the start of the phase.
    pub on: String,
    /// 10^6 bytes per second while it had requests outstanding.
    pub throughput_mb_s: f64,
    /// p99 response time in milliseconds.
    pub p99_ms: f64,
    /// The comparison with its reference disk; `None` without one.
    pub reference: Option<ReferenceFigures>,
    /// Broken guarantees, as sentences.
    pub broken: Vec<String>,
}

impl Placement {
    /// The result as JSON.
    ///
    /// # Errors
    /// Never, for numbers and names.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The result as text for a terminal of this width, or for a pipe.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        let say = |text: &mut String, sentence: &str| paragraph(text, &printable(sentence), width);
        for oversold in &self.oversold {
            say(&mut text, &oversold.text());
        }
        if !self.oversold.is_empty() {
            text.push('\n');
        }
        say(
            &mut text,
            &format!(
                "Demand of each volume on each array, in percent of the demand of all volumes there ({} samples of {} s); * marks its array",
                self.rules.samples,
                three_digits(self.rules.sample_s)
            ),
        );
        text += &self.matrix();
        text.push('\n');
        sentences(&mut text, self.volumes.iter().filter(|volume| volume.on.is_some()).map(|volume| volume.text.as_str()), width);
        self.placed.iter().chain(&self.rejected).for_each(|sentence| say(&mut text, sentence));
        text.push('\n');
        self.say_steps(&mut text, width);
        text.push('\n');
        text += &self.capacity();
        for more in &self.more {
            let fits = if more.before == more.after {
                more.after.to_string()
            } else {
                format!("{}, {} before the moves", more.after, more.before)
            };
            say(&mut text, &format!("More volumes like {} that fit by capacity: {fits}", more.like));
        }
        if let Some(simulated) = &self.simulated {
            text.push('\n');
            simulated.say(&mut text, width);
        }
        text
    }

    fn matrix(&self) -> String {
        let widths: Vec<usize> =
            self.arrays.iter().map(|array| shortened(&printable(&array.name), NAME).chars().count().max(7) + 2).collect();
        let name_width =
            self.volumes.iter().map(|volume| shortened(&printable(&volume.name), NAME).chars().count()).max().unwrap_or(0).max(6);
        let mut text = format!("{:name_width$}", "volume");
        for (array, width) in self.arrays.iter().zip(&widths) {
            text += &format!("{:>width$}", shortened(&printable(&array.name), NAME));
        }
        text += "  standing\n";
        for volume in &self.volumes {
            text += &format!("{:name_width$}", shortened(&printable(&volume.name), NAME));
            for ((share, array), width) in volume.shares_percent.iter().zip(&self.arrays).zip(&widths) {
                let mark = if volume.on.as_ref() == Some(&array.name) { "*" } else { " " };
                text += &format!("{:>width$}", format!("{share:.1}{mark}"));
            }
            text += &format!("  {}\n", volume.standing);
        }
        text
    }

    fn say_steps(&self, text: &mut String, width: Option<usize>) {
        if self.steps.is_empty() {
            let is_over_capacity = self.oversold.iter().any(|oversold| oversold.needs_percent > oversold.capacity_percent);
            let sentence = match (self.oversold.is_empty(), self.left.is_empty()) {
                (false, _) if is_over_capacity => "No move is planned: no other array has room for a volume of an oversold one.",
                (false, _) => "No move is planned: by capacity the guarantees fit where they are.",
                (true, true) => "No volume should move: no volume is misplaced.",
                (true, false) => "No volume should move: misplaced volumes fit nowhere else.",
            };
            paragraph(text, sentence, width);
        }
        for (number, step) in self.steps.iter().enumerate() {
            paragraph(text, &printable(&format!("{}. {}", number + 1, step.reason)), width);
        }
        sentences(text, self.left.iter().map(String::as_str), width);
    }

    fn capacity(&self) -> String {
        let name_width =
            self.arrays.iter().map(|array| shortened(&printable(&array.name), NAME).chars().count()).max().unwrap_or(0).max(5);
        let mut text = format!("{:name_width$}{:>12}{:>12}{:>12}  disk\n", "array", "capacity %", "used %", "then %");
        for array in &self.arrays {
            text += &format!(
                "{:name_width$}{:>12.1}{:>12.1}{:>12.1}  {}\n",
                shortened(&printable(&array.name), NAME),
                array.capacity_percent,
                array.before_percent,
                array.after_percent,
                printable(&array.disk)
            );
        }
        text
    }
}

impl OversoldFigures {
    /// The finding with the volumes and the effect of the moves, as sentences.
    fn text(&self) -> String {
        let OversoldFigures { array, needs_percent, capacity_percent, after_percent, .. } = self;
        let mut volumes: Vec<String> = self.volumes.iter().take(SENTENCES).map(ShortFigures::text).collect();
        if self.volumes.len() > SENTENCES {
            volumes.push(format!("and {} more", self.volumes.len() - SENTENCES));
        }
        let broken = self.volumes.iter().filter(|volume| volume.is_broken == Some(true)).count();
        let reason = if needs_percent > capacity_percent {
            format!("its guarantees need {needs_percent:.1}% of it, and {capacity_percent:.1}% may be guaranteed")
        } else {
            let all = self.volumes.len();
            format!(
                "{broken} of its {all} guarantees break in the simulator, though by capacity all need {needs_percent:.1}% of it"
            )
        };
        let after = if self.is_relieved {
            format!(" After the moves below they need {after_percent:.1}%.")
        } else if *after_percent < needs_percent - 1e-6 {
            format!(" After the moves below they need {after_percent:.1}%, which is still too much.")
        } else {
            String::new()
        };
        format!("{array} is oversold: {reason}. {}.{after}", volumes.join("; "))
    }
}

impl ShortFigures {
    fn text(&self) -> String {
        let simulated = match (self.simulated_percent, self.is_broken) {
            (Some(percent), Some(true)) => {
                format!(", and its guarantee breaks at {percent:.1}% of its reference disk's throughput")
            }
            (Some(percent), _) => format!(", and gets {percent:.1}% of its reference disk's throughput in the simulator"),
            (None, _) => String::new(),
        };
        format!("{} needs {:.1}%{simulated}", self.volume, self.needs_percent)
    }
}

/// One line for each sentence, up to [`SENTENCES`].
fn sentences<'a>(text: &mut String, all: impl Iterator<Item = &'a str>, width: Option<usize>) {
    let all: Vec<&str> = all.collect();
    all.iter().take(SENTENCES).for_each(|sentence| paragraph(text, &printable(sentence), width));
    if all.len() > SENTENCES {
        text.push_str(&format!("and {} more\n", all.len() - SENTENCES));
    }
}

impl SimulatedFigures {
    /// Whether every guarantee was kept in every phase.
    pub fn is_kept(&self) -> bool {
        self.phases.iter().all(|phase| phase.volumes.iter().all(|volume| volume.broken.is_empty()))
    }

    fn say(&self, text: &mut String, width: Option<usize>) {
        paragraph(text, &printable(&format!("In the simulator, under {}:", self.scheduler)), width);
        for phase in &self.phases {
            let promised = phase.volumes.iter().filter(|volume| volume.reference.is_some()).count();
            let broken: Vec<&GotFigures> = phase.volumes.iter().filter(|volume| !volume.broken.is_empty()).collect();
            let verdict = if broken.is_empty() {
                format!("all {promised} guarantees were kept")
            } else {
                format!("{} of {promised} guarantees were broken", broken.len())
            };
            paragraph(
                text,
                &format!("{} the moves ({} s): {verdict}{}", phase.name, three_digits(phase.lasts_s), phase.closest()),
                width,
            );
            let said: Vec<String> =
                broken.iter().map(|volume| format!("  {} on {}: {}", volume.volume, volume.on, volume.broken.join("; "))).collect();
            sentences(text, said.iter().map(String::as_str), width);
        }
        if let (Some(limit), Some(mib)) = (self.copy_limit_mb_s, self.copied_mib) {
            let done = match self.copied_s {
                Some(seconds) => format!("were copied in {} s", three_digits(seconds)),
                None => "were copied, but the moves did not finish within the time limit: the guarantees leave too little capacity"
                    .to_owned(),
            };
            paragraph(text, &format!("{} MiB {done}, at no more than {} MB/s.", three_digits(mib), three_digits(limit)), width);
        }
    }
}

impl PhaseFigures {
    /// The volume with the lowest throughput relative to its reference disk, as the end of a sentence.
    fn closest(&self) -> String {
        let ratios = self.volumes.iter().filter_map(|volume| Some((volume, volume.reference.as_ref()?)));
        let worst = ratios.min_by(|(_, one), (_, other)| one.throughput_ratio.total_cmp(&other.throughput_ratio));
        worst.map_or_else(String::new, |(volume, figures)| {
            printable(&format!(
                "; worst {}: {:.1}% of its reference disk's throughput, p99 response time {:.2} times its",
                volume.volume,
                100.0 * figures.throughput_ratio,
                figures.p99_ratio
            ))
        })
    }
}
