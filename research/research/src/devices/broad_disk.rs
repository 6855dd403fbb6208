//! Training data: hard disks of every age, with a wider range of caches, queues and speeds than is sold together, so that unseen drives lie
//! between those of the training set.
//!
//! Ranges cover data sheets from 1992 to 2020 (the other families name their sources), by size: the capacity of a surface determines the
//! length of its tracks and with it the media rate.

use sim::device::hdd::spec::{Mapping, QueuePolicy, ReadAhead, WriteCache};
use testbed::chance::one_of;

use super::Family;
use super::drive::{CacheClass, Class, GeometryClass, draw};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "broad-disk",
    about: "hard disks of every age, with every kind of cache and queue, to train on",
    draw: |random| {
        let class = one_of(random, CLASSES);
        draw(random, class)
    },
};

const CLASSES: &[&Class] = &[&OLD, &SERVER, &LARGE];

/// Queue depths and orders of service; FIFO where the order is unknown, as most manuals do not specify it.
const QUEUES: &[(u32, QueuePolicy)] = &[
    (1, QueuePolicy::Fifo),
    (1, QueuePolicy::Fifo),
    (4, QueuePolicy::Sstf),
    (8, QueuePolicy::Fifo),
    (16, QueuePolicy::Sptf),
    (32, QueuePolicy::Sptf),
    (32, QueuePolicy::Sstf),
    (64, QueuePolicy::Sptf),
    (128, QueuePolicy::Sptf),
];

const OLD: Class = Class {
    name: "broad-old",
    what: "a small drive, to train on",
    rpm: &[3600.0, 4500.0, 5400.0, 7200.0],
    capacity_gb: (0.5, 20.0),
    geometry: GeometryClass {
        surfaces: &[1, 2, 3, 4, 6, 8, 10, 14],
        surface_gb: (0.06, 3.0),
        tracks_to_sectors: (24.0, 45.0),
        zones: 8..=18,
    },
    single_ms: (0.8, 3.5),
    average_ms: ((7.5, 12.0), (10.0, 15.0)),
    settle_ms: (0.3, 1.5),
    head_switch_ms: (0.6, 1.8),
    mappings: &[Mapping::Conventional],
    // For SCSI with 5 to 80 and ATA with 33 and 66 MB/s.
    links_mb_s: &[3.5, 7.0, 15.0, 30.0, 60.0],
    overhead_ms: (0.1, 1.1),
    cache: CacheClass {
        cache_kib: &[128, 256, 512, 1024, 2048],
        segments: &[1, 2, 4, 8, 16],
        write_caches: &[WriteCache::Off, WriteCache::Sequential, WriteCache::On],
        read_ahead: &[ReadAhead::Segment, ReadAhead::Segment, ReadAhead::Track],
    },
    queues: QUEUES,
    is_modern: 0.4,
};

const SERVER: Class = Class {
    name: "broad-server",
    what: "a fast drive, to train on",
    rpm: &[7200.0, 10_000.0, 10_000.0, 15_000.0],
    capacity_gb: (9.0, 900.0),
    geometry: GeometryClass {
        surfaces: &[2, 3, 4, 6, 8],
        surface_gb: (1.5, 150.0),
        tracks_to_sectors: (30.0, 80.0),
        zones: 8..=24,
    },
    single_ms: (0.3, 1.0),
    average_ms: ((3.3, 5.5), (6.0, 9.0)),
    settle_ms: (0.2, 0.8),
    head_switch_ms: (0.3, 1.0),
    mappings: &[Mapping::Conventional, Mapping::SerpentinePerZone],
    // For SCSI with 80 to 320, and SAS with 300 and 600 MB/s.
    links_mb_s: &[60.0, 120.0, 260.0, 540.0],
    overhead_ms: (0.05, 0.4),
    cache: CacheClass {
        cache_kib: &[1024, 4096, 16_384, 65_536],
        segments: &[4, 8, 16, 32],
        write_caches: &[WriteCache::Off, WriteCache::On],
        read_ahead: &[ReadAhead::Segment],
    },
    queues: QUEUES,
    is_modern: 0.8,
};

const LARGE: Class = Class {
    name: "broad-large",
    what: "a large drive, to train on",
    rpm: &[4200.0, 5400.0, 5900.0, 7200.0, 7200.0],
    capacity_gb: (30.0, 8000.0),
    geometry: GeometryClass {
        surfaces: &[1, 2, 3, 4, 6, 8, 10],
        surface_gb: (20.0, 900.0),
        tracks_to_sectors: (60.0, 140.0),
        zones: 12..=30,
    },
    single_ms: (0.4, 2.0),
    average_ms: ((7.5, 10.0), (10.0, 15.0)),
    settle_ms: (0.2, 1.5),
    head_switch_ms: (0.6, 1.8),
    mappings: &[Mapping::Conventional, Mapping::SerpentinePerZone],
    // For ATA with 100, and SATA with 150, 300 and 600 MB/s.
    links_mb_s: &[85.0, 130.0, 260.0, 540.0],
    overhead_ms: (0.05, 0.3),
    cache: CacheClass {
        cache_kib: &[2048, 8192, 32_768, 131_072],
        segments: &[4, 8, 16, 32],
        write_caches: &[WriteCache::On, WriteCache::On, WriteCache::Off],
        read_ahead: &[ReadAhead::Segment],
    },
    queues: QUEUES,
    is_modern: 1.0,
};
