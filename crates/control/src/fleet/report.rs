//! Gains by device type, load class and change of setting, with confidence intervals.

use std::collections::BTreeMap;

use statistics::student;

use super::{FleetOutcome, MAX_GAIN};
use crate::ab_test::Estimate;

/// The gain of a change of setting for a device type and load class.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetEffect {
    /// The kind of device.
    pub kind: String,
    /// The model; empty where there is none.
    pub model: String,
    /// The class of the load, in words.
    pub load: String,
    /// The setting before.
    pub from: String,
    /// The setting after.
    pub to: String,
    /// The mean gain over machines, as a logarithm.
    pub gain: f64,
    /// Half-width of the 95% confidence interval; `None` with a single machine.
    pub margin: Option<f64>,
    /// Number of machines.
    pub machines: usize,
    /// Number of measurements.
    pub outcomes: usize,
}

/// Device kind and model, load class, setting before and after.
type Change = (String, String, String, String, String);

/// Accumulates outcomes one by one, so that memory does not grow with their number.
#[derive(Debug, Default)]
pub struct Effects {
    /// Sum and number of gains by change and machine.
    changes: BTreeMap<Change, BTreeMap<[u8; 16], (f64, usize)>>,
    /// Number of invalid rows.
    broken: usize,
}

impl Effects {
    /// Adds an outcome. Invalid ones are counted and skipped.
    pub fn add(&mut self, outcome: &FleetOutcome) {
        if outcome.problem().is_some() {
            self.broken += 1;
            return;
        }
        let FleetOutcome { device, from, to, .. } = outcome;
        let change = (device.kind.clone(), device.model.clone(), class(&outcome.load), from.clone(), to.clone());
        let (sum, count) = self.changes.entry(change).or_default().entry(outcome.machine).or_default();
        *sum += outcome.gain.mean.clamp(-MAX_GAIN, MAX_GAIN);
        *count += 1;
    }

    /// The effects of all changes, by device type and load class, the largest gain first, and the number of invalid rows. Each machine counts once.
    pub fn finish(self) -> (Vec<FleetEffect>, usize) {
        let effect = |((kind, model, load, from, to), machines): (Change, BTreeMap<[u8; 16], (f64, usize)>)| {
            let means: Vec<f64> = machines.values().map(|(sum, count)| sum / *count as f64).collect();
            let estimate = Estimate::of_values(&means);
            FleetEffect {
                kind,
                model,
                load,
                from,
                to,
                gain: statistics::mean(means.iter().copied()).unwrap_or(f64::NAN),
                margin: estimate.map(|estimate| estimate.error * student::two_sided_95(means.len() - 1)),
                machines: means.len(),
                outcomes: machines.values().map(|(_, count)| count).sum(),
            }
        };
        let mut effects: Vec<FleetEffect> = self.changes.into_iter().map(effect).collect();
        effects.sort_by(|a, b| (&a.kind, &a.model, &a.load).cmp(&(&b.kind, &b.model, &b.load)).then(b.gain.total_cmp(&a.gain)));
        (effects, self.broken)
    }
}

/// The class of a described load, in words: what dominates, how it is placed, how large requests are, and how many streams there are.
pub fn class(load: &BTreeMap<String, f32>) -> String {
    let value = |name: &str| load.get(name).copied().unwrap_or(f32::NAN);
    let among = |value: f32, bounds: [f32; 2], words: [&'static str; 3]| match value {
        value if value.is_nan() => "",
        value if value < bounds[0] => words[0],
        value if value < bounds[1] => words[1],
        _ => words[2],
    };
    let words = [
        among(value("sequential_share"), [0.3, 0.7], ["random", "partly sequential", "sequential"]),
        among(value("read_share"), [0.2, 0.8], ["writes", "reads and writes", "reads"]),
        among(value("size_mean_bytes"), [16_384.0, 131_072.0], ["below 16 KiB", "16 to 128 KiB", "above 128 KiB"]),
        among(value("streams"), [1.5, 8.0], ["1 stream", "2 to 8 streams", "more than 8 streams"]),
    ];
    let first = words[..2].iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(" ");
    let rest = words[2..].iter().filter(|word| !word.is_empty()).copied();
    let all: Vec<&str> = std::iter::once(first.as_str()).filter(|word| !word.is_empty()).chain(rest).collect();
    if all.is_empty() { "unknown".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::DeviceType;

    fn outcome(machine: u8, to: &str, gain: f64) -> FleetOutcome {
        FleetOutcome {
            id: [machine; 16],
            machine: [machine; 16],
            writer: String::new(),
            day: 1,
            device: DeviceType { kind: "nvme".into(), model: "X".into(), firmware: String::new() },
            load: [("read_share", 1.0), ("sequential_share", 0.0), ("size_mean_bytes", 4096.0), ("streams", 4.0)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            preference: "2,3,1".into(),
            from: "none".into(),
            to: to.into(),
            gain: Estimate { mean: gain, error: 0.01 },
            program: "test".into(),
        }
    }

    #[test]
    fn each_machine_counts_once_and_the_interval_is_students() {
        let outcomes: Vec<FleetOutcome> =
            [(1, 0.1), (1, 0.3), (2, 0.3), (3, 0.1), (4, 0.2)].map(|(machine, gain)| outcome(machine, "kyber", gain)).into();
        let mut all = Effects::default();
        let more = [outcome(9, "bfq", -0.4), outcome(9, "bfq", f64::NAN)];
        outcomes.iter().chain(&more).for_each(|outcome| all.add(outcome));
        let (effects, broken) = all.finish();
        assert_eq!((effects.len(), broken), (2, 1));
        let kyber = &effects[0];
        assert_eq!((kyber.to.as_str(), kyber.machines, kyber.outcomes), ("kyber", 4, 5));
        assert_eq!(kyber.load, "random reads, below 16 KiB, 2 to 8 streams");
        // Means 0.2, 0.3, 0.1, 0.2: standard deviation 0.0816, three degrees of freedom.
        assert!((kyber.gain - 0.2).abs() < 1e-9);
        assert!(kyber.margin.is_some_and(|margin| (margin - 3.182 * 0.081_65 / 2.0).abs() < 1e-4), "{kyber:?}");
        assert_eq!(effects[1].margin, None);
    }
}
