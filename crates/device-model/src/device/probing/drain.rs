//! Measures the rate at which a device with a write buffer writes to its media, by writing until the buffer is certainly full.

use block::Op;

use super::Probe;

/// Sectors of a write.
const SECTORS: u32 = 256;
/// 512 MiB, more than the write buffers of drives. The first half fills the buffer, the second is timed.
const WRITES: u64 = 4096;

/// Nanoseconds per sector written; `None` if the probe ended.
pub fn find(probe: &mut dyn Probe) -> Option<f64> {
    let places = (probe.capacity_sectors() / u64::from(SECTORS)).max(1);
    let sectors = u64::from(SECTORS).min(probe.capacity_sectors()) as u32;
    let (mut begun, mut ended) = (0.0, 0.0);
    for number in 0..WRITES {
        let (_, done) = probe.ask(Op::Write, number % places * u64::from(sectors), sectors)?;
        if number == WRITES / 2 {
            begun = done;
        }
        ended = done;
    }
    Some((ended - begun) / ((WRITES / 2 - 1) as f64 * f64::from(sectors)))
}
