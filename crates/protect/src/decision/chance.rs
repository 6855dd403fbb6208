//! Tests for counts of rare events: the Poisson distribution.

pub(super) use statistics::count::{at_least as tail, bearable_mean};
