//! Drives of 2.5 inches for portable computers, of about 2003 to 2012.
//!
//! Ranges: Hitachi's specifications of the Travelstar 5K160 (5,400 rpm, average 11 ms to read and 13 to write, full stroke 20 ms, single
//! track 1.0 ms) and 5K320 (12, 13, 20 and 1.0 ms), and makers' data sheets of drives with 4,200 rpm (12 to 14 ms).

use sim::device::hdd::spec::{Mapping, QueuePolicy, ReadAhead, WriteCache};

use super::Family;
use super::drive::{CacheClass, Class, GeometryClass, draw};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "laptop",
    about: "drives for portable computers: 30 GB to 1 TB, 4,200 or 5,400 rpm, slow seeks",
    draw: |random| draw(random, &CLASS),
};

const CLASS: Class = Class {
    name: "laptop",
    what: "a drive of 2.5 inches",
    rpm: &[4200.0, 5400.0, 5400.0],
    capacity_gb: (30.0, 1000.0),
    geometry: GeometryClass {
        surfaces: &[1, 2, 3, 4],
        surface_gb: (20.0, 250.0),
        tracks_to_sectors: (65.0, 120.0),
        zones: 12..=24,
    },
    single_ms: (0.9, 2.0),
    average_ms: ((10.5, 12.5), (12.0, 14.5)),
    settle_ms: (0.4, 1.5),
    head_switch_ms: (0.9, 1.8),
    mappings: &[Mapping::Conventional, Mapping::SerpentinePerZone],
    // For ATA with 100, and SATA with 150 and 300 MB/s.
    links_mb_s: &[85.0, 130.0, 260.0],
    overhead_ms: (0.1, 0.3),
    cache: CacheClass {
        cache_kib: &[2048, 8192, 8192, 16_384],
        segments: &[4, 8, 16],
        write_caches: &[WriteCache::On],
        read_ahead: &[ReadAhead::Segment],
    },
    queues: &[(1, QueuePolicy::Fifo), (1, QueuePolicy::Fifo), (32, QueuePolicy::Sptf)],
    is_modern: 1.0,
};
