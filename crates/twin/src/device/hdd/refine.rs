//! Makes the estimate truer by replays.

use super::Estimate;
use crate::device::access::Access;

/// Leaves it as it is.
pub fn refine(estimate: Estimate, _accesses: &[Access]) -> Estimate {
    estimate
}
