//! Which candidates can be simulated, in which order, and under which variant of the load.

use control::Setting;
use control::target::Bounds;

use super::activation::Activation;
use crate::load::Load;

/// The host tunable that a trial can change.
pub(crate) const NR_REQUESTS: &str = "nr_requests";

/// The host tunable that changes the load itself: how far files are read ahead.
const READ_AHEAD: &str = "read_ahead_kb";

/// The read-ahead of a setting in KiB: its own, or else `original`; `None` if neither is known.
pub(crate) fn read_ahead_kib(setting: &Setting, original: Option<u32>) -> Option<u32> {
    let named = setting.host.iter().find(|(name, _)| name == READ_AHEAD);
    named.map_or(original, |(_, kib)| u32::try_from(*kib).ok())
}

/// The setting without its read-ahead.
fn without_read_ahead(setting: &Setting) -> Setting {
    let host = setting.host.iter().filter(|(name, _)| name != READ_AHEAD).cloned().collect();
    Setting { host, ..setting.clone() }
}

/// Whether two settings differ only in their read-ahead.
pub(crate) fn differ_by_read_ahead(one: &Setting, other: &Setting) -> bool {
    one != other && without_read_ahead(one) == without_read_ahead(other)
}

/// Whether a setting is a scheduler with defaults, or a tuning of a scheduler that is not a candidate with defaults. These are simulated
/// first.
pub(crate) fn is_first_of_scheduler(candidates: &[Setting], setting: &Setting) -> bool {
    let read_ahead = setting.host.iter().filter(|(name, _)| name == READ_AHEAD).cloned().collect();
    let plain = Setting { host: read_ahead, ..Setting::of(setting.spec) };
    *setting == plain || !candidates.contains(&plain)
}

/// Whether a trial covers all effects of a change from `active` to `setting`. Trials only simulate the block layer, so host tunables other
/// than `nr_requests` must be equal. A setting without `nr_requests` cannot replace one that sets it, as the earlier value is unknown.
pub(crate) fn is_within_block_layer(setting: &Setting, active: &Setting) -> bool {
    let others = |setting: &Setting| setting.host.iter().filter(|(name, _)| name != NR_REQUESTS).cloned().collect::<Vec<_>>();
    let names_it = |setting: &Setting| setting.host.iter().any(|(name, _)| name == NR_REQUESTS);
    others(setting) == others(active) && (names_it(setting) || !names_it(active))
}

/// Whether a setting leaves unchanged the tunables that should not be [changed under a load](block::LiveSwitch::fixed_tunables).
fn keeps_fixed_tunables(setting: &Setting, active: &Setting) -> bool {
    let spec = setting.spec;
    let fixed = spec.live_switch().fixed_tunables;
    spec.tunables.iter().enumerate().filter(|(_, tunable)| fixed.contains(&tunable.name)).all(|(index, tunable)| {
        let is = if spec.name == active.spec.name { active.values[index] } else { tunable.default };
        setting.values[index] == is
    })
}

/// The load under the read-ahead of each candidate.
pub(super) struct LoadVariants<'a> {
    /// The load as observed.
    pub observed: &'a Load,
    others: Vec<(u32, Load)>,
}

impl<'a> LoadVariants<'a> {
    /// The variants for `settings` of a load that was observed under a read-ahead of `kib`; only the observed load if that is `None`.
    pub fn new<'b>(
        observed: &'a Load,
        kib: Option<u32>,
        settings: impl Iterator<Item = &'b Setting>,
        bounds: &Bounds,
    ) -> LoadVariants<'a> {
        let mut loads = LoadVariants { observed, others: Vec::new() };
        let Some(now) = kib else { return loads };
        for other in settings.filter_map(|setting| read_ahead_kib(setting, bounds.read_ahead_kib)) {
            if !loads.others.iter().any(|(kib, _)| *kib == other)
                && let Some(load) = observed.reading_ahead(now.saturating_mul(2), other.saturating_mul(2))
            {
                loads.others.push((other, load));
            }
        }
        loads
    }

    /// The load under a read-ahead of `kib`: the observed one if there is no difference, or if `kib` is unknown.
    pub fn under(&self, kib: Option<u32>) -> &Load {
        self.others.iter().find(|(other, _)| Some(*other) == kib).map_or(self.observed, |(_, load)| load)
    }

    /// Whether a trial can predict a change from `active` to `setting`. A live switch changes a scheduler or a read-ahead, never both: the
    /// one takes effect at once, the other only for files opened later, so their effects could not be separated.
    pub fn is_simulable(&self, setting: &Setting, active: &Setting, (bounds, activation): (&Bounds, Activation)) -> bool {
        if activation == Activation::AtStart {
            return is_within_block_layer(&without_read_ahead(setting), &without_read_ahead(active));
        }
        if !keeps_fixed_tunables(setting, active) {
            return false;
        }
        if differ_by_read_ahead(setting, active) {
            return self.others.iter().any(|(other, _)| Some(*other) == read_ahead_kib(setting, bounds.read_ahead_kib));
        }
        is_within_block_layer(setting, active)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn tunables_that_spoil_a_running_scheduler_are_not_changed_live() {
        let parse = |text: &str| Setting::parse(text).unwrap();
        let keeps = |setting: &str, active: &str| keeps_fixed_tunables(&parse(setting), &parse(active));
        assert!(!keeps("bfq:low_latency=0", "mq-deadline"), "it starts with its defaults");
        assert!(!keeps("bfq:low_latency=0", "bfq"));
        assert!(keeps("bfq:low_latency=0,slice_idle=0", "bfq:low_latency=0"), "it was set before");
        assert!(keeps("bfq:slice_idle=0", "mq-deadline") && keeps("mq-deadline:fifo_batch=1", "bfq:low_latency=0"));
    }

    #[test]
    fn a_change_is_of_a_scheduler_or_of_a_read_ahead_and_not_of_both() {
        let parse = |text: &str| Setting::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let (deadline, wider) = (parse("deadline"), parse("deadline read_ahead_kb=1024"));
        assert!(differ_by_read_ahead(&wider, &deadline) && !differ_by_read_ahead(&wider, &wider));
        assert!(!differ_by_read_ahead(&wider, &parse("cfq")) && !differ_by_read_ahead(&parse("cfq"), &deadline));
        let all = [parse("cfq"), parse("cfq read_ahead_kb=1024"), wider.clone(), parse("deadline:fifo_batch=1 read_ahead_kb=1024")];
        let first = |setting: &str| is_first_of_scheduler(&all, &parse(setting));
        assert!(first("cfq read_ahead_kb=1024") && first("deadline read_ahead_kb=1024"));
        assert!(!first("deadline:fifo_batch=1 read_ahead_kb=1024"));
        assert!(is_within_block_layer(&all[1], &wider) && !is_within_block_layer(&all[0], &wider));
    }

    #[test]
    fn a_trial_can_change_nr_requests_and_no_other_host_tunable() {
        let can = |setting: &str, active: &str| {
            let parse = |text: &str| Setting::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            is_within_block_layer(&parse(setting), &parse(active))
        };
        assert!(can("cfq", "deadline") && can("deadline nr_requests=8", "deadline"));
        assert!(can("cfq nr_requests=8 read_ahead_kb=64", "noop nr_requests=64 read_ahead_kb=64"));
        assert!(!can("deadline read_ahead_kb=64", "deadline") && !can("deadline", "deadline read_ahead_kb=64"));
        assert!(!can("deadline", "deadline nr_requests=8"), "the value before is not known");
    }
}
