//! A validated profile of a flash device, in units of the simulation.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::ftl::Ftl;
use super::parameters::{Collection, Link, MapShape, Parameters, Shape, Times};
use super::spec::SsdSpecification;
use crate::device::reciprocal::Reciprocal32;

/// Size of a map entry in bytes: four, as in DFTL (Gupta, Kim, Urgaonkar: ASPLOS 2009, section 3).
const ENTRY_BYTES: u32 = 4;

/// Maximum number of physical pages: more would take more than 1 GiB of maps.
const MAX_PAGES: u64 = 1 << 27;

/// Blocks of a plane beyond data, map and free blocks: one open for data, one for the map, and room for garbage.
const MIN_GARBAGE_BLOCKS: u32 = 4;

/// Shared by the devices of a profile: parameters and initial state.
#[derive(Debug)]
pub struct SsdModel {
    parameters: Arc<Parameters>,
    /// Computed when the first device is built.
    initial: OnceLock<Ftl>,
}

impl Deref for SsdModel {
    type Target = Parameters;

    fn deref(&self) -> &Parameters {
        &self.parameters
    }
}

impl SsdModel {
    /// Checks a profile whose values are within the ranges of their keys. Errors name the key, its value and a correct value.
    pub fn new(spec: &SsdSpecification) -> Result<SsdModel, String> {
        let flash = &spec.flash;
        check_counts(spec)?;
        let dies = flash.channels * flash.dies_per_channel;
        let planes = dies * flash.planes_per_die;
        let (unit_bytes, packed) = check_unit(spec, planes)?;
        let pages = flash.pages_per_block * packed;
        let plane_pages = u64::from(flash.blocks_per_plane) * u64::from(pages);
        if plane_pages * u64::from(planes) > MAX_PAGES {
            let total = plane_pages * u64::from(planes);
            return Err(format!("flash: {total} pages in all; more than {MAX_PAGES} cannot be simulated"));
        }
        let page_sectors = unit_bytes / 512;
        let entries_per_page = flash.page_bytes / ENTRY_BYTES;
        let entries_per_fetch = spec.mapping.entries_per_fetch;
        if entries_per_fetch > entries_per_page {
            return Err(format!(
                "mapping.entries_per_fetch: {entries_per_fetch} is not within 1 to {entries_per_page}, the entries of a page"
            ));
        }
        let cached_groups = spec.mapping.cached_entries.map(|entries| entries / entries_per_fetch);
        let (logical, translation) = check_capacity(spec, planes, page_sectors, packed, entries_per_page)?;
        let units = if flash.planes_in_parallel { planes } else { dies };
        let parameters = Parameters {
            capacity_sectors: spec.capacity_sectors,
            initial_state: spec.initial_state,
            shape: Shape {
                channels: flash.channels,
                units,
                planes,
                blocks: flash.blocks_per_plane,
                pages,
                page_sectors,
                packed_bits: packed.ilog2(),
                by_planes: Reciprocal32::new(planes),
                by_units: Reciprocal32::new(units),
                by_pages: Reciprocal32::new(pages),
            },
            map: MapShape {
                logical,
                translation,
                entries_bits: entries_per_page.ilog2(),
                fetch_bits: entries_per_fetch.ilog2(),
                cached_groups,
            },
            times: Times {
                read: micros(flash.read_us),
                program: micros(flash.program_us),
                erase: micros(flash.erase_us),
                channel_sector_ps: sector_ps(flash.channel_mb_s),
            },
            link: Link {
                sector_ps: sector_ps(spec.interface.transfer_mb_s),
                way_out: usize::from(spec.interface.full_duplex),
                overhead: micros(spec.interface.overhead_us),
            },
            collection: Collection {
                low_free: spec.garbage_collection.low_free_blocks,
                high_free: spec.garbage_collection.high_free_blocks,
                wear_spread: spec.garbage_collection.wear_spread,
            },
            buffer_pages: spec.write_buffer.pages * packed,
            depth: spec.queue.depth,
        };
        Ok(SsdModel { parameters: Arc::new(parameters), initial: OnceLock::new() })
    }

    /// The translation layer of a device in the initial state of its profile, which is computed once per profile.
    pub(super) fn ftl(&self) -> Ftl {
        self.initial.get_or_init(|| Ftl::initial(&self.parameters)).share()
    }
}

fn check(key: &str, value: u32, min: u32, max: u32) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("{key}: {value} is not within {min} to {max}")) }
}

/// Checks that involve more than one key.
fn check_counts(spec: &SsdSpecification) -> Result<(), String> {
    let (flash, map, collection) = (&spec.flash, &spec.mapping, &spec.garbage_collection);
    if let Some(entries) = map.cached_entries {
        // With less capacity than one request to each plane may need, no entry would ever be found again.
        check("mapping.cached_entries", entries, map.entries_per_fetch, 1 << 30)?;
    }
    check("garbage_collection.low_free_blocks", collection.low_free_blocks, 4, flash.blocks_per_plane)?;
    check("garbage_collection.high_free_blocks", collection.high_free_blocks, collection.low_free_blocks, flash.blocks_per_plane)
}

/// Size of a map unit in bytes, and the number of units per flash page.
fn check_unit(spec: &SsdSpecification, planes: u32) -> Result<(u32, u32), String> {
    let page_bytes = spec.flash.page_bytes;
    let unit_bytes = spec.mapping.unit_bytes.unwrap_or(page_bytes);
    if unit_bytes > page_bytes {
        return Err(format!("mapping.unit_bytes: {unit_bytes} should be 512 to {page_bytes}, which is flash.page_bytes"));
    }
    let packed = page_bytes / unit_bytes;
    if packed == 1 {
        return Ok((unit_bytes, packed));
    }
    if spec.mapping.cached_entries.is_some() {
        return Err(format!(
            "mapping.cached_entries: a map of units of {unit_bytes} bytes should be in memory as a whole, without it"
        ));
    }
    // Each plane fills a flash page of its own, whose units stay in the buffer until it is full.
    check("write_buffer.pages", spec.write_buffer.pages, planes, 65_536)
        .map_err(|error| format!("{error}: a page for each plane, since mapping.unit_bytes is less than flash.page_bytes"))?;
    check("flash.pages_per_block", spec.flash.pages_per_block, 2, u32::from(u16::MAX) / packed)?;
    Ok((unit_bytes, packed))
}

/// Logical and translation pages of a plane, provided that all of them and the spare blocks fit.
fn check_capacity(
    spec: &SsdSpecification,
    planes: u32,
    page_sectors: u32,
    packed: u32,
    entries_per_page: u32,
) -> Result<(u32, u32), String> {
    let flash = &spec.flash;
    let spare = spec.garbage_collection.high_free_blocks.saturating_add(MIN_GARBAGE_BLOCKS);
    let usable = flash.blocks_per_plane.saturating_sub(spare);
    let pages = u64::from(usable) * u64::from(flash.pages_per_block) * u64::from(packed);
    // Of `pages` pages, one in `entries_per_page + 1` holds the map of the others; a part of one counts as one.
    let largest = match spec.mapping.cached_entries {
        None => pages,
        Some(_) => pages.saturating_sub(pages.div_ceil(u64::from(entries_per_page) + 1)),
    };
    let row = u64::from(planes) * u64::from(page_sectors);
    let most = largest * row;
    if most == 0 {
        return Err(format!(
            "capacity_sectors: there is no room for {}: collection needs {spare} spare blocks in each plane of {}",
            spec.capacity_sectors, flash.blocks_per_plane
        ));
    }
    if spec.capacity_sectors == 0 || spec.capacity_sectors > most {
        return Err(format!(
            "capacity_sectors: {} is not within 1 to {most}, which leaves {spare} spare blocks to each plane of {}",
            spec.capacity_sectors, flash.blocks_per_plane
        ));
    }
    let logical = spec.capacity_sectors.div_ceil(row * u64::from(packed)) as u32 * packed;
    let translation = if spec.mapping.cached_entries.is_some() { logical.div_ceil(entries_per_page) } else { 0 };
    Ok((logical, translation))
}

fn micros(micros: f64) -> u64 {
    (micros * 1e3).round() as u64
}

fn sector_ps(mb_s: f64) -> u64 {
    (512.0 * 1e6 / mb_s).round() as u64
}
