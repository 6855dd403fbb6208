//! The list of all controllers.

use block::{Tunable, Unit};
use control::controller::{ALL, ControllerChoice, ControllerChoiceError, ControllerSpec};

use super::{BANKED_S, TwinController, tuners};

/// All controllers: those without a simulator, the searches, which may run in the twin, and [`TwinController`].
pub fn all() -> impl Iterator<Item = &'static ControllerSpec> + Clone {
    ALL.iter().copied().chain([&tuners::GENETIC, &tuners::IOPERF, &tuners::RANDOM, &tuners::BAYES, &SPEC])
}

/// Parses a controller with its tunables, for example `seekwise:budget_permille=20`.
///
/// # Errors
/// The controller is unknown, or a tunable is unknown or out of range.
pub fn parse(text: &str) -> Result<ControllerChoice, ControllerChoiceError> {
    ControllerChoice::parse_among(all(), text)
}

/// [`TwinController`].
pub static SPEC: ControllerSpec = ControllerSpec {
    name: "seekwise",
    summary: "forecasts every candidate in the simulator, tries settings on the device where a trial is worth its cost, and keeps one that proves better",
    source: "ours; its parts are named in the head of its file",
    tunables: TUNABLES,
    build: |brief, values| {
        let budget = Budget::of(values);
        let controller = TwinController::new(brief, budget.budget_permille);
        Box::new(controller.with_banked_seconds(budget.saved_s).with_memory(budget.memory_mib))
    },
};

static TUNABLES: &[Tunable] = Budget::TUNABLES;

block::tunables! {
    /// Processor time and memory.
    struct Budget {
        /// Processor time for observing and for trials, in thousandths of one core. A small budget makes trials short and predictions unsure.
        budget_permille: i64 = Tunable::new(Unit::Count, 1..=1000, 10),
        /// CPU budget that can be banked, in seconds; starts full. A small budget and many seconds allow thorough first decisions and cost
        /// little later.
        saved_s: i64 = Tunable::new(Unit::Count, 1..=86_400, BANKED_S).logarithmic(),
        /// Memory for observed requests. A small one keeps only the latest.
        memory_mib: u64 = Tunable::new(Unit::Mebibytes, 1..=4096, 64),
    }
}
