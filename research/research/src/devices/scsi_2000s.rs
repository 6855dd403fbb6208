//! Server drives with SCSI, Fibre Channel or SAS of 10,000 and 15,000 rpm, of about 1999 to 2006.
//!
//! Ranges: makers' manuals, such as Seagate's for Cheetah (10K and 15K families: track to track 0.2 to 0.8 ms, average 3.5 to 5.5 ms) and
//! Hitachi's specification of the Ultrastar 15K450 (average 3.1 and 3.3 ms to read, 0.5 ms more to write), and the built-in Quantum Atlas
//! 10K (10,042 cylinders of 6 surfaces for 9.2 GB, ten segments in 2 MB).

use sim::device::hdd::spec::{Mapping, QueuePolicy, ReadAhead, WriteCache};

use super::Family;
use super::drive::{CacheClass, Class, GeometryClass, draw};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "scsi-2000s",
    about: "server drives: 9 to 73 GB, 10,000 or 15,000 rpm, tagged queueing",
    draw: |random| draw(random, &CLASS),
};

const CLASS: Class = Class {
    name: "scsi-2000s",
    what: "a SCSI drive of the early 2000s",
    rpm: &[10_000.0, 15_000.0],
    capacity_gb: (9.0, 73.5),
    geometry: GeometryClass {
        surfaces: &[2, 3, 4, 5, 6, 8, 10, 12],
        surface_gb: (1.5, 12.0),
        tracks_to_sectors: (32.0, 52.0),
        zones: 8..=24,
    },
    single_ms: (0.25, 0.9),
    average_ms: ((3.3, 4.2), (4.5, 5.8)),
    settle_ms: (0.15, 0.5),
    head_switch_ms: (0.3, 0.8),
    mappings: &[Mapping::Conventional, Mapping::SerpentinePerZone],
    // For Ultra2 with 80, Ultra160 and Ultra320.
    links_mb_s: &[70.0, 140.0, 270.0],
    overhead_ms: (0.1, 0.35),
    cache: CacheClass {
        cache_kib: &[1024, 2048, 4096, 8192, 16_384],
        segments: &[4, 8, 10, 16, 32],
        write_caches: &[WriteCache::Off, WriteCache::On],
        read_ahead: &[ReadAhead::Segment, ReadAhead::NextTrack],
    },
    queues: &[
        (1, QueuePolicy::Fifo),
        (4, QueuePolicy::Sstf),
        (8, QueuePolicy::Sptf),
        (16, QueuePolicy::Sptf),
        (32, QueuePolicy::Sstf),
        (32, QueuePolicy::Sptf),
    ],
    is_modern: 0.6,
};
