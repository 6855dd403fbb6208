//! Fits a hard disk's profile to response times measured on the drive.
//!
//! The profile is fitted to the first half of the recording, and evaluated only on the second. Within the first half, a
//! parameter is accepted only if it reduces the error on held-out requests.

mod parameters;
mod recording;
mod search;

pub use recording::BLOCKS;
pub use search::{Fitted, Outcome};

use sim::device::hdd::spec::HddSpecification;
use sim::validate::{MeasuredRequest, Validation, compare};
use testbed::pool::Workers;

use self::recording::{Recording, respond};
use self::search::{Search, model};

/// Minimum recording: with fewer, a block of the first half has only a handful of requests of each class.
pub const MIN_REQUESTS: usize = 1000;

/// A fitted profile and its evaluation.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The profile with the fitted parameters.
    pub specification: HddSpecification,
    /// The outcome for each parameter.
    pub fitted: Vec<Fitted>,
    /// Number of requests in the half that was fitted to.
    pub fitted_to: usize,
    /// Evaluation of the original profile, on the other half.
    pub before: Validation,
    /// Evaluation of the fitted profile, on the other half.
    pub after: Validation,
}

/// Fits a profile to a recording. Deterministic: independent of the machine and the number of threads.
///
/// # Errors
/// The recording is too short, the profile does not describe a disk, or the work was interrupted.
pub fn calibrate(spec: &HddSpecification, requests: &[MeasuredRequest], workers: Workers) -> anyhow::Result<Calibration> {
    anyhow::ensure!(
        requests.len() >= MIN_REQUESTS,
        "{} requests; at least {MIN_REQUESTS} are needed: one half is fitted to, the other is judged on",
        requests.len()
    );
    let half = requests.len() / 2;
    let recording = Recording::new(&requests[..half], spec, &model(spec)?);
    let (specification, fitted) = Search::new(spec, &recording, workers).run()?;
    // The whole recording is replayed, so that the disk is busy when the evaluated half begins.
    let judge = |spec: &HddSpecification| -> anyhow::Result<Validation> {
        Ok(compare(&requests[half..], &respond(&model(spec)?, requests)[half..]))
    };
    let (before, after) = (judge(spec)?, judge(&specification)?);
    Ok(Calibration { specification, fitted, fitted_to: half, before, after })
}
