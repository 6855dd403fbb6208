//! Random request scripts for the conformance kit.

use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::{Limits, Merges, Nanos, Op, Priority, PriorityClass, Request, Scale, SchedulerSpec, StreamId, Tunable};

/// A request of the script.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Time since the previous arrival, in microseconds.
    pub gap_us: u64,
    /// The issuing stream.
    pub stream: StreamId,
    /// Read or write.
    pub op: Op,
    /// Whether a process waits for it.
    pub sync: bool,
    /// I/O priority.
    pub priority: Priority,
    /// The first 512-byte sector.
    pub lba: u64,
    /// Length in 512-byte sectors.
    pub sectors: u32,
}

/// Requests, a device, and tunable values.
#[derive(Clone, Debug)]
pub struct Script {
    /// The requests in order of arrival.
    pub arrivals: Vec<Arrival>,
    /// Service times of the device in microseconds, used in turn and repeated from the start.
    pub service_us: Vec<u64>,
    /// Queue depth of the device.
    pub depth: usize,
    /// Limits of merging.
    pub limits: Limits,
    /// Position of each tunable in its range, from 0 to 65,535; repeated for further tunables.
    pub settings: Vec<u16>,
    /// Number of arrivals after which the values change, or the scheduler is switched; `None`: never.
    pub change_after: Option<usize>,
}

impl Script {
    /// The script's values for the tunables of a scheduler.
    pub fn values(&self, spec: &SchedulerSpec) -> Vec<i64> {
        spec.tunables.iter().zip(self.settings.iter().cycle()).map(|(tunable, &setting)| value(tunable, setting)).collect()
    }

    /// The host's estimate of the time to reach a request: always `None` in half of the scripts, otherwise an arbitrary function of the
    /// LBA.
    pub(super) fn cost(&self) -> impl FnMut(&Request) -> Option<Nanos> + use<> {
        let tells = self.arrivals.len().is_multiple_of(2);
        move |request| tells.then_some(Nanos(request.lba.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40))
    }

    /// Other values, for the middle of the run.
    pub fn later_values(&self, spec: &SchedulerSpec) -> Vec<i64> {
        spec.tunables.iter().zip(self.settings.iter().rev().cycle()).map(|(tunable, &setting)| value(tunable, setting)).collect()
    }
}

fn value(tunable: &Tunable, setting: u16) -> i64 {
    let (min, max) = (tunable.min as f64, tunable.max as f64);
    let fraction = f64::from(setting) / f64::from(u16::MAX);
    let value = match tunable.scale {
        Scale::Linear => min + (max - min) * fraction,
        Scale::Logarithmic => min * (max / min).powf(fraction),
    };
    (value as i64).clamp(tunable.min, tunable.max)
}

/// Random scripts: dense areas in which requests touch and overlap, distant ones, the end of the address space; bursts and pauses.
pub fn scripts() -> impl Strategy<Value = Script> {
    let service = prop_oneof![3 => 50..2_000u64, 2 => 2_000..15_000u64, 1 => 50_000..700_000u64];
    let max_sectors = prop_oneof![1 => Just(0), 2 => 8..64u32, 2 => Just(2560u32)];
    let merges = prop_oneof![8 => Just(Merges::All), 1 => Just(Merges::WithLast), 1 => Just(Merges::Never)];
    let change = proptest::option::of(any::<Index>());
    let settings = proptest::collection::vec(prop_oneof![any::<u16>(), Just(0), Just(u16::MAX)], 1..8);
    (
        proptest::collection::vec(arrivals(), 1..80),
        proptest::collection::vec(service, 1..8),
        1..=9usize,
        (max_sectors, merges),
        settings,
        change,
    )
        .prop_map(|(arrivals, service_us, depth, (max_sectors, merges), settings, change)| Script {
            change_after: change.map(|index| index.index(arrivals.len())),
            arrivals,
            service_us,
            depth,
            limits: Limits { max_sectors, merges },
            settings,
        })
}

fn arrivals() -> impl Strategy<Value = Arrival> {
    let gap = prop_oneof![4 => Just(0u64), 4 => 1..3_000u64, 2 => 3_000..30_000u64, 1 => 100_000..2_000_000u64];
    let lba = prop_oneof![6 => (0..24u64).prop_map(|n| n * 8), 2 => 0..200u64, 3 => 0..1u64 << 32, 1 => u64::MAX - 40..=u64::MAX];
    let sectors = prop_oneof![6 => Just(8u32), 2 => 1..40u32, 1 => 2_000..3_000u32, 1 => Just(u32::MAX)];
    let op = prop_oneof![4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Discard)];
    let class = prop_oneof![
        5 => Just(PriorityClass::BestEffort),
        1 => Just(PriorityClass::RealTime),
        1 => Just(PriorityClass::Idle),
    ];
    let level = prop_oneof![4 => Just(4u8), 1 => 0..8u8, 1 => Just(u8::MAX)];
    let stream = prop_oneof![4 => 1..4u32, 1 => any::<u32>()];
    (gap, stream, op, any::<bool>(), class, level, lba, sectors).prop_map(
        |(gap_us, stream, op, sync, class, level, lba, sectors)| Arrival {
            gap_us,
            stream,
            op,
            sync,
            priority: Priority { class, level },
            lba,
            sectors,
        },
    )
}
