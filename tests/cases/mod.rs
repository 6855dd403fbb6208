//! Number of cases of property tests.

use proptest::prelude::ProptestConfig;

/// `PROPTEST_CASES` cases, else `default`; a number set in the code would override the variable.
pub fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
