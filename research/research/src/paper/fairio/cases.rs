//! The workloads: the report's illustrations and benchmarks, and random ones, with the weights of their classes.

/// Weights of the illustrations' classes (section II).
pub const TWO: [u32; 2] = [1, 2];
/// Weights of the benchmarks' classes. The report does not print them. By equation 3, its cycles, disk times and numbers of requests require
/// weights whose sum is six times the smallest; and it mentions "the two classes with higher weights" (section IV).
pub const FOUR: [u32; 4] = [1, 1, 2, 2];
/// Other weights whose sum is six times the smallest.
pub const OTHER_WEIGHTS: [[u32; 4]; 2] = [[1, 1, 1, 3], [2, 3, 3, 4]];

/// The benchmarks' names in Table V, and their job files.
pub const BENCHMARKS: [(&str, &str); 6] = [
    ("BTIO", "fairio/btio"),
    ("MADbench2", "fairio/madbench2"),
    ("varmail", "fairio/varmail"),
    ("IOR1", "fairio/ior1"),
    ("IOR2", "fairio/ior2"),
    ("IOR3", "fairio/ior3"),
];

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FairioCase {
    /// Illustration 1 or 2.
    Illustration(u8),
    /// A benchmark by its index in [`BENCHMARKS`]: processes that wait for their requests.
    Benchmark(usize),
    /// A benchmark's trace, replayed by the clock.
    Trace(usize),
    /// A random workload by its number.
    Drawn(u32),
}

/// The benchmark whose classes had too few requests in the report.
pub const MADBENCH2: FairioCase = FairioCase::Trace(1);

/// The report's workloads, with benchmarks as processes.
pub fn every_trial() -> impl Iterator<Item = FairioCase> {
    [1, 2].map(FairioCase::Illustration).into_iter().chain((0..BENCHMARKS.len()).map(FairioCase::Benchmark))
}
