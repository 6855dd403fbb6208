//! Fits a hard disk's profile to response times measured on the drive.
//!
//! The first half of the recording is what is fitted to, the second is what the result is judged on and nothing else. Within the
//! first half, a parameter is taken only if held-out requests become truer by it.

mod parameters;
mod recording;
mod search;

pub use recording::BLOCKS;
pub use search::{Fitted, Outcome};

use sim::device::hdd::spec::HddSpecification;
use sim::validate::{MeasuredRequest, Validation, compare};

use self::recording::{Recording, respond};
use self::search::{Search, model};
use crate::pool::Workers;

/// Fewer requests tell too little: of each class there are a handful in a block of half of them.
pub const MIN_REQUESTS: usize = 1000;

/// The result.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The profile with the fitted parameters.
    pub specification: HddSpecification,
    /// What became of each parameter.
    pub fitted: Vec<Fitted>,
    /// Requests of the half that was fitted to.
    pub fitted_to: usize,
    /// The profile as it was, on the other half.
    pub before: Validation,
    /// The fitted profile, on the other half.
    pub after: Validation,
}

/// Fits a profile to a recording. The same on every machine and for any number of threads.
///
/// # Errors
/// The recording is too short, the profile makes no disk, or the work was interrupted.
pub fn calibrate(spec: &HddSpecification, requests: &[MeasuredRequest], workers: Workers) -> anyhow::Result<Calibration> {
    anyhow::ensure!(
        requests.len() >= MIN_REQUESTS,
        "{} requests; at least {MIN_REQUESTS} are needed: one half is fitted to, the other is judged on",
        requests.len()
    );
    let half = requests.len() / 2;
    let recording = Recording::new(&requests[..half], spec, &model(spec)?);
    let (specification, fitted) = Search::new(spec, &recording, workers).run()?;
    // The whole is replayed, so that the disk is in the midst of its work when the judged half begins.
    let judge = |spec: &HddSpecification| -> anyhow::Result<Validation> {
        Ok(compare(&requests[half..], &respond(&model(spec)?, requests)[half..]))
    };
    let (before, after) = (judge(spec)?, judge(&specification)?);
    Ok(Calibration { specification, fitted, fitted_to: half, before, after })
}
