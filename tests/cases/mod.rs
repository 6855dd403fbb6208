//! How often a property is tried.

use proptest::prelude::ProptestConfig;

/// As many cases as `PROPTEST_CASES` says: a number set in the code would hide it.
pub fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
