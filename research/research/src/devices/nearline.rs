//! Large drives for servers with SATA or SAS, since about 2010.
//!
//! Ranges: Seagate's manual of the Constellation ES.3 (4 TB on ten heads with 320,800 tracks each, 83 to 175 MB/s, 7,200 rpm), Western
//! Digital's specification of the Ultrastar DC HC310 (average 7.4 ms to read and 8.2 to write, single track 0.23 ms) and the makers'
//! data sheets of drives with 1 to 8 TB (up to 250 MB/s, 64 to 256 MB of cache).

use sim::device::hdd::spec::{Mapping, QueuePolicy, ReadAhead, WriteCache};

use super::Family;
use super::drive::{CacheClass, Class, GeometryClass, draw};

/// See the file's head.
pub static FAMILY: Family =
    Family { name: "nearline", about: "large server drives: 1 to 8 TB, 7,200 rpm, NCQ", draw: |random| draw(random, &CLASS) };

const CLASS: Class = Class {
    name: "nearline",
    what: "a large server drive",
    rpm: &[7200.0],
    capacity_gb: (1000.0, 8000.0),
    geometry: GeometryClass {
        surfaces: &[3, 4, 6, 8, 10, 12, 14],
        surface_gb: (200.0, 660.0),
        tracks_to_sectors: (105.0, 150.0),
        zones: 16..=30,
    },
    single_ms: (0.2, 0.7),
    average_ms: ((7.2, 8.6), (7.2, 8.6)),
    settle_ms: (0.1, 0.6),
    head_switch_ms: (0.7, 1.3),
    mappings: &[Mapping::SerpentinePerZone],
    // For SATA or SAS with 300, 600 and 1,200 MB/s.
    links_mb_s: &[260.0, 540.0, 1100.0],
    overhead_ms: (0.05, 0.15),
    cache: CacheClass {
        cache_kib: &[32_768, 65_536, 131_072, 262_144],
        segments: &[16, 32, 64],
        write_caches: &[WriteCache::On, WriteCache::On, WriteCache::On, WriteCache::Off],
        read_ahead: &[ReadAhead::Segment],
    },
    queues: &[(16, QueuePolicy::Sptf), (32, QueuePolicy::Sptf), (32, QueuePolicy::Sptf)],
    is_modern: 1.0,
};
