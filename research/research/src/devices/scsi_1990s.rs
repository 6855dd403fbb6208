//! Server and workstation drives with SCSI of about 1992 to 1997.
//!
//! Ranges: the product manuals of the time, such as Seagate's for the Hawk and Medalist families (5,400 and 4,500 rpm, seeks of 3.5 ms to
//! the next track and 12 ms on average in the ST3780A's) and Quantum's for the ProDrive LPS 270/540 (4,500 rpm, 12 ms, 4 ms to the next
//! track, 10 MB/s to the host, 128 KB of look-ahead buffer), and the HP C2247A as Worthington and others measured it (SIGMETRICS 1995:
//! 2,051 cylinders, 13 surfaces, command overheads of half a millisecond to one).

use sim::device::hdd::spec::{Mapping, QueuePolicy, ReadAhead, WriteCache};

use super::Family;
use super::drive::{CacheClass, Class, GeometryClass, draw};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "scsi-1990s",
    about: "small old drives: 0.5 to 4 GB, 3,600 to 5,400 rpm, two or three cache segments",
    draw: |random| draw(random, &CLASS),
};

const CLASS: Class = Class {
    name: "scsi-1990s",
    what: "a SCSI drive of the mid-1990s",
    rpm: &[3600.0, 4500.0, 5400.0, 5400.0],
    capacity_gb: (0.5, 4.0),
    geometry: GeometryClass {
        surfaces: &[4, 5, 7, 8, 9, 10, 13, 15, 17, 19],
        surface_gb: (0.06, 0.4),
        tracks_to_sectors: (24.0, 36.0),
        zones: 8..=16,
    },
    single_ms: (1.5, 3.5),
    average_ms: ((8.5, 11.5), (11.0, 14.0)),
    settle_ms: (0.4, 1.0),
    head_switch_ms: (0.6, 1.4),
    mappings: &[Mapping::Conventional],
    // For SCSI with 5, 10 and 20 MB/s.
    links_mb_s: &[3.5, 7.0, 15.0],
    overhead_ms: (0.4, 1.1),
    cache: CacheClass {
        cache_kib: &[128, 256, 512],
        segments: &[1, 2, 3, 4],
        write_caches: &[WriteCache::Off, WriteCache::Off, WriteCache::Sequential, WriteCache::On],
        read_ahead: &[ReadAhead::Segment, ReadAhead::Segment, ReadAhead::Track],
    },
    queues: &[(1, QueuePolicy::Fifo), (1, QueuePolicy::Fifo), (4, QueuePolicy::Fifo), (8, QueuePolicy::Sstf)],
    is_modern: 0.0,
};
