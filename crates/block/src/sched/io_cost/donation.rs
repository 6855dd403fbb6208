//! Weight that is not used, and given to others for a period (`transfer_surpluses`).

use super::Group;

/// A weight in use is counted in these parts.
const PARTS: u64 = 1 << 16;

/// Who gives weight away keeps a quarter more than it used.
const KEPT: f64 = 1.25;

/// All of a weight.
pub(super) fn whole(weight: u64) -> u64 {
    weight.saturating_mul(PARTS)
}

/// How many whole weights that is.
pub(super) fn weights(in_use: u64) -> u64 {
    in_use / PARTS
}

/// Sets what each active group has in use in the next period, where the last one had room for `budget` of the device's time; says what it
/// comes to. Who used less than its part and does not wait for more keeps that and a quarter; the others have the rest, by their weights.
pub(super) fn give_away(groups: &mut [Group], active: &[usize], budget: u64) -> u64 {
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
        // The others' weights stay as they are: of all that is in use, they are what donors leave.
        let kept = kept.map(|kept| (kept * others / (1.0 - donors) * PARTS as f64) as u64);
        group.in_use = kept.map_or(whole(group.weight), |kept| kept.clamp(1, whole(group.weight)));
        in_use = in_use.saturating_add(group.in_use);
    }
    in_use
}
