//! Learning controllers, and those with which they are compared.

mod classified;
mod feedback;
mod per_request;
mod round;
mod round_robin;
mod two_layer;
mod workload;

use block::{Tunable, Unit};
use control::controller::{Controller, ControllerChoice, ControllerChoiceError, ControllerInput, ControllerSpec, Decision};

pub use classified::Classified;
pub use per_request::PerRequest;
pub use round_robin::RoundRobin;

/// The controllers of this crate.
pub static ALL: &[&ControllerSpec] = &[&round_robin::SPEC, &feedback::SPEC, &per_request::SPEC, &two_layer::SPEC];

/// Tunable of the schemes that detect changes.
const LEAST_CORRELATION: Tunable = Tunable::new(Unit::Percent, 0..=100, 70).named(
    "least_correlation_percent",
    "Minimum correlation of the distribution of requests with the previous one; below it, the workload is considered different. 0: off.",
);

/// Every controller: the product's, and those of this crate.
pub fn all() -> impl Iterator<Item = &'static ControllerSpec> + Clone {
    twin::controller::all().chain(ALL.iter().copied())
}

/// Parses a controller with its tunables.
///
/// # Errors
/// The controller is unknown, or a tunable is invalid.
pub fn parse(text: &str) -> Result<ControllerChoice, ControllerChoiceError> {
    ControllerChoice::parse_among(all(), text)
}
