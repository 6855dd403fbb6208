//! The kit that judges schedulers, those of other crates too: what every one must do, whatever its policy.
//!
//! * Nothing is lost and nothing served twice. Parts are followed through merges, and together they cover the request they
//!   became exactly.
//! * Merges join equals (operation, synchronous flag, priority) and respect the limit.
//! * `Empty` is said if and only if nothing waits; `WaitUntil` names a time to come, and only if the scheduler is not declared
//!   work-conserving. With the device idle, waiting leads to a request in the end.
//! * The promise against starvation is kept, where one is given.
//! * New values in the middle of a run, and a successor taking over, lose nothing.
//! * The same input gives the same order.
//! * Tunables are documented and their defaults lie within their ranges, in which every value works.
//!
//! A test of a new scheduler is one line: `block::conformance::assert_conforms(&SPEC, 64)`.

mod host;
mod script;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::{Scale, SchedulerSpec};
use host::Host;
pub use script::{Arrival, Script, scripts};

/// Runs everything the kit knows on `spec`, with `cases` random scripts.
///
/// # Panics
/// If the scheduler breaks a rule, with the rule and the smallest script found that shows it.
pub fn assert_conforms(spec: &'static SchedulerSpec, cases: u32) {
    if let Err(violation) = check_declaration(spec) {
        panic!("{}: {violation}", spec.name);
    }
    assert_holds(cases, |script| check(spec, script));
}

/// Lets `to` take over from `from` in the middle of `cases` random scripts.
///
/// # Panics
/// If either breaks a rule, with the rule and the smallest script found that shows it.
pub fn assert_switches(from: &'static SchedulerSpec, to: &'static SchedulerSpec, cases: u32) {
    assert_holds(cases, |script| check_switch(from, to, script));
}

fn assert_holds(cases: u32, rule: impl Fn(&Script) -> Result<(), String>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    // A fixed seed: a test that fails must fail again.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(&scripts(), |script| rule(&script).map_err(TestCaseError::fail));
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// Whether a scheduler is declared as it should be.
///
/// # Errors
/// What is wrong with the declaration.
pub fn check_declaration(spec: &SchedulerSpec) -> Result<(), String> {
    let is_word =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c));
    if !is_word(spec.name) {
        return Err(format!("the name {:?} should be lower-case letters, digits, - and _", spec.name));
    }
    if spec.summary.is_empty() || spec.source.is_empty() {
        return Err(String::from("summary and source should say something"));
    }
    for (index, tunable) in spec.tunables.iter().enumerate() {
        let name = tunable.name;
        if !is_word(name) || spec.tunables[..index].iter().any(|other| other.name == name) {
            return Err(format!("the tunable {name:?} should have a lower-case name of its own"));
        }
        if !tunable.doc.ends_with('.') {
            return Err(format!("{name} should be documented in sentences"));
        }
        if !(tunable.min..=tunable.max).contains(&tunable.default) {
            return Err(format!("{name}: the default {} should lie from {} to {}", tunable.default, tunable.min, tunable.max));
        }
        if tunable.scale == Scale::Logarithmic && tunable.min < 1 {
            return Err(format!("{name}: ratios matter equally only from 1 up, but its range begins at {}", tunable.min));
        }
    }
    Ok(())
}

/// Plays a script, twice, and once more with each tunable at either end of its range.
///
/// # Errors
/// The rule that was broken.
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

/// Plays a script in whose middle `to` takes over from `from`.
///
/// # Errors
/// The rule that was broken.
pub fn check_switch(from: &'static SchedulerSpec, to: &'static SchedulerSpec, script: &Script) -> Result<(), String> {
    Host::play(from, script, &script.values(from), Some(to)).map(|_| ())
}
