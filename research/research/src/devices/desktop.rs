//! Desktop drives with SATA of about 2003 to 2012, among them quiet ones that turn more slowly.
//!
//! Ranges: Seagate's manuals of the Barracuda 7200.7 and later (40 GB to 1 TB a platter since; 8.5 ms on average), its data sheet of the
//! Barracuda XT (2 TB on four platters and eight heads, 138 MB/s on the outermost tracks, 64 MB of cache), IBM's and Hitachi's
//! specifications of the Deskstar (60GXP: full stroke 14.7 ms to read, head switch 1.4, cylinder switch 1.8 ms; 7K1000.C: average 8.5 ms
//! to read and 9.5 to write, 14 ms in quiet seek mode).

use sim::device::hdd::spec::{Mapping, QueuePolicy, ReadAhead, WriteCache};

use super::Family;
use super::drive::{CacheClass, Class, GeometryClass, draw};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "desktop",
    about: "desktop drives with SATA: 80 GB to 2 TB, 5,400 to 7,200 rpm, with or without NCQ",
    draw: |random| draw(random, &CLASS),
};

const CLASS: Class = Class {
    name: "desktop",
    what: "a desktop drive with SATA",
    rpm: &[5400.0, 5900.0, 7200.0, 7200.0],
    capacity_gb: (80.0, 2000.0),
    geometry: GeometryClass {
        surfaces: &[1, 2, 3, 4, 6, 8],
        surface_gb: (40.0, 330.0),
        tracks_to_sectors: (60.0, 125.0),
        zones: 12..=30,
    },
    single_ms: (0.5, 1.2),
    average_ms: ((8.0, 9.5), (10.0, 15.0)),
    settle_ms: (0.2, 0.8),
    head_switch_ms: (0.7, 1.5),
    mappings: &[Mapping::Conventional, Mapping::SerpentinePerZone, Mapping::SerpentinePerZone],
    // For SATA with 150, 300 and 600 MB/s.
    links_mb_s: &[130.0, 260.0, 540.0],
    overhead_ms: (0.08, 0.25),
    cache: CacheClass {
        cache_kib: &[2048, 8192, 16_384, 32_768, 65_536],
        segments: &[8, 16, 16, 32],
        write_caches: &[WriteCache::On],
        read_ahead: &[ReadAhead::Segment],
    },
    queues: &[(1, QueuePolicy::Fifo), (32, QueuePolicy::Sptf)],
    is_modern: 1.0,
};
