//! The conformance kit: requirements on every scheduler of any policy, including schedulers of other crates.
//!
//! * No request is lost or dispatched twice. Parts are tracked through merges, and together cover the merged request exactly.
//! * Merges join requests with equal operation, synchronous flag and priority, and respect the size limit.
//! * `Empty` is answered if and only if nothing is queued; `WaitUntil` returns a future time, and only if the scheduler is not declared
//!   work-conserving. If the device is idle, waiting leads to a request eventually.
//! * The starvation bound holds, if one is declared.
//! * New values in the middle of a run, and a switch to another scheduler, lose nothing.
//! * The same input gives the same order.
//! * Tunables are documented, their defaults are within their ranges, and every value in range works.
//!
//! ```
//! # let spec = block::find("noop").unwrap();
//! block::conformance::assert_conforms(spec, 4); // 64 or more random scripts in a real test
//! ```

mod host;
mod script;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::{SchedulerSpec, check_declaration};
use host::Host;
pub use script::{Arrival, Script, scripts};

/// Runs every check on `spec`, with `cases` random scripts.
///
/// # Panics
/// The scheduler breaks a rule; the message has the rule and the smallest failing script found.
pub fn assert_conforms(spec: &'static SchedulerSpec, cases: u32) {
    if let Err(violation) = conforms(spec, cases) {
        panic!("{}: {violation}", spec.name);
    }
}

/// Runs every check on `spec`, with `cases` random scripts.
///
/// # Errors
/// The broken rule, and the smallest failing script found.
pub fn conforms(spec: &'static SchedulerSpec, cases: u32) -> Result<(), String> {
    check_declaration(spec)?;
    holds(cases, |script| check(spec, script))
}

/// Switches from `from` to `to` in the middle of `cases` random scripts.
///
/// # Panics
/// One of them breaks a rule; the message has the rule and the smallest failing script found.
pub fn assert_switches(from: &'static SchedulerSpec, to: &'static SchedulerSpec, cases: u32) {
    if let Err(violation) = holds(cases, |script| check_switch(from, to, script)) {
        panic!("{violation}");
    }
}

fn holds(cases: u32, rule: impl Fn(&Script) -> Result<(), String>) -> Result<(), String> {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    // A fixed seed, so that a failure is reproducible.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    runner.run(&scripts(), |script| rule(&script).map_err(TestCaseError::fail)).map_err(|failure| format!("{failure}"))
}

/// Plays a script twice, and once more with each tunable at either end of its range.
///
/// # Errors
/// The broken rule.
pub fn check(spec: &'static SchedulerSpec, script: &Script) -> Result<(), String> {
    let first = Host::play(spec, script, &script.values(spec), None)?;
    if Host::play(spec, script, &script.values(spec), None)? != first {
        return Err(String::from("the same input should give the same order"));
    }
    for (index, tunable) in spec.tunables.iter().enumerate() {
        for extreme in [tunable.min, tunable.max] {
            let mut values = spec.defaults();
            values[index] = extreme;
            Host::play(spec, script, &values, None).map_err(|violation| format!("with {}={extreme}: {violation}", tunable.name))?;
        }
    }
    Ok(())
}

/// Plays a script with a switch from `from` to `to` in the middle.
///
/// # Errors
/// The broken rule.
pub fn check_switch(from: &'static SchedulerSpec, to: &'static SchedulerSpec, script: &Script) -> Result<(), String> {
    Host::play(from, script, &script.values(from), Some(to)).map(|_| ())
}
