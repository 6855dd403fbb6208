//! The length of a cycle (section III).

use crate::Nanos;

/// Cycle lengths are multiples of this.
pub(super) const STEP: Nanos = Nanos::from_millis(100);

/// Whether a class's arrival rate, pattern, sizes and operations are constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stable {
    /// Type 1: one of them changes.
    No,
    /// Type 2: all are constant.
    Yes,
}

impl Stable {
    /// Number of requests of the class that a cycle should have room for (NumRequests, from the paper's two examples).
    pub const fn requests(self) -> u32 {
        match self {
            Stable::No => 17,
            Stable::Yes => 85,
        }
    }
}

/// A class of requests, as input of [`cycle_length`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleClass {
    /// At least 1.
    pub weight: u32,
    /// Mean disk time of a request (ServiceRequest).
    pub request: Nanos,
    /// Number of its requests that a cycle should have room for (NumRequests): [`Stable::requests`], or a value in between.
    pub requests: u32,
}

/// The minimum cycle in which each class's share has room for its requests (equation 3), rounded up to 100 ms.
///
/// In wall-clock time with all `disks` busy. 100 ms without classes.
pub fn cycle_length(classes: &[CycleClass], disks: u32) -> Nanos {
    let weights: u128 = classes.iter().map(|class| u128::from(class.weight.max(1))).sum();
    let service = classes.iter().map(|class| {
        let share = u128::from(class.request.0) * u128::from(class.requests);
        (share * weights).div_ceil(u128::from(class.weight.max(1)))
    });
    let length = service.max().unwrap_or(0).div_ceil(u128::from(disks.max(1)));
    round_up(u64::try_from(length).unwrap_or(u64::MAX))
}

/// Rounds up to a multiple of [`STEP`], at least one.
pub(super) fn round_up(length: u64) -> Nanos {
    Nanos(length.div_ceil(STEP.0).max(1).saturating_mul(STEP.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four classes with weights 1 to 4 on eight disks, as in section IV.
    fn four(request_us: u64, requests: u32) -> Nanos {
        let request = Nanos::from_micros(request_us);
        cycle_length(&[1, 2, 3, 4].map(|weight| CycleClass { weight, request, requests }), 8)
    }

    #[test]
    fn the_least_weight_decides_and_the_length_is_rounded_up() {
        assert_eq!(four(8_000, 17), Nanos::from_millis(200), "10 * 17 * 8 / 8 = 170 ms");
        assert_eq!(four(8_000, 10), Nanos::from_millis(100), "a whole number stays");
        assert_eq!(cycle_length(&[], 8), Nanos::from_millis(100));
    }

    #[test]
    fn cycles_are_as_long_as_those_of_the_papers_table() {
        // Table V does not say the weights. All its rows fit if the least weight is a sixth of them all.
        let rows = [
            ("BTIO", 73_420, 39, 2_200),
            ("MADbench2", 73_570, 56, 3_100),
            ("varmail", 69_470, 19, 1_000),
            ("IOR1", 70_250, 39, 2_100),
            ("IOR2", 74_010, 64, 3_600),
            ("IOR3", 69_440, 32, 1_700),
        ];
        for (name, request_us, requests, expected_ms) in rows {
            let request = Nanos::from_micros(request_us);
            let classes = [1, 1, 2, 2].map(|weight| CycleClass { weight, request, requests });
            assert_eq!(cycle_length(&classes, 8), Nanos::from_millis(expected_ms), "{name}");
        }
    }
}
