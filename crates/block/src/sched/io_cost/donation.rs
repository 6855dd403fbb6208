//! Donation of unused weight for a period (`transfer_surpluses`).

use super::Group;

/// Parts per unit of weight.
const PARTS: u64 = 1 << 16;

/// A donor keeps its use times this factor.
const KEPT: f64 = 1.25;

/// A whole weight in parts.
pub(super) fn whole(weight: u64) -> u64 {
    weight.saturating_mul(PARTS)
}

/// Whole weights in a number of parts.
pub(super) fn weights(in_use: u64) -> u64 {
    in_use / PARTS
}

/// Sets the weight in use of each active group for the next period and returns the sum; `budget` is the device time of the last period. A
/// group that used less than its share and does not wait for more keeps 1.25 times its use; the others share the rest by weight.
pub(super) fn donate(groups: &mut [Group], active: &[usize], budget: u64) -> u64 {
    let weights: f64 = active.iter().map(|&number| groups[number].weight as f64).sum();
    let kept = |group: &Group| {
        let kept = group.used as f64 / budget.max(1) as f64 * KEPT;
        ((group.key.is_none() || group.limited) && kept < group.weight as f64 / weights).then_some(kept)
    };
    let (mut donors, mut others) = (0.0, 0.0);
    for &number in active {
        match kept(&groups[number]) {
            Some(kept) => donors += kept,
            None => others += groups[number].weight as f64,
        }
    }
    let mut in_use = 0_u64;
    for &number in active {
        let kept = kept(&groups[number]).filter(|_| others > 0.0);
        let group = &mut groups[number];
        // The others' weights stay the same: they are the part of all weight in use that the donors leave.
        let kept = kept.map(|kept| (kept * others / (1.0 - donors) * PARTS as f64) as u64);
        group.in_use = kept.map_or(whole(group.weight), |kept| kept.clamp(1, whole(group.weight)));
        in_use = in_use.saturating_add(group.in_use);
    }
    in_use
}
