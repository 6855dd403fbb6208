//! Imports disks from DiskSim 4 parameter files (`.diskspecs`, or a whole `.parv` with its buses) as profiles.
//!
//! Parameters and their meaning: DiskSim's `disk.modspec`, `layout_g1.modspec`, `layout_g1_zone.modspec`, `mech_g1.modspec`.
//! Several disks under a `disksim_logorg` are an array (`array.rs`). A parameter without a counterpart here is noted; an
//! unsupported value is an error. Both name file and line.

mod array;
pub mod grammar;

use std::path::Path;

use self::grammar::{At, Block, Sources, Value, ValueKind};
use crate::device::hdd::mechanics::reacquire_estimate;
use crate::device::hdd::spec::{
    Bus, CacheSpecification, ExtraWriteDisconnect, Geometry, HddQueue, HddSpecification, Mapping, MechanicsSpecification,
    Overheads, Preseek, QueuePolicy, ReadAhead, ReadAheadTrigger, Seek, Sparing, WriteCache, ZoneSpecification,
};
use crate::device::raid::spec::ArraySpecification;
use crate::profile::{Profile, ProfileError};

/// An imported disk, the array of such disks if there is one, and notes.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The disk.
    pub profile: Profile,
    /// The array of such disks that the file describes; its disk must still be set. `None` if it describes none.
    pub array: Option<ArraySpecification>,
    /// Notes on parameters that are not used or were adjusted, with file and line.
    pub notes: Vec<String>,
}

/// Parameters that DiskSim takes from other files than the disk's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImportOptions {
    /// Minimum bus time per sector to the host, in ms; `None`: as in the file.
    pub bus_read_sector_ms: Option<f64>,
    /// Minimum bus time per sector from the host, in ms; `None`: as in the file.
    pub bus_write_sector_ms: Option<f64>,
}

/// Imports the disk of a file.
///
/// # Errors
/// The file cannot be read, is invalid or unsupported, or does not describe exactly one disk.
pub fn import(path: &Path, options: ImportOptions) -> Result<Imported, ProfileError> {
    let fail = |error: String| ProfileError::new(error);
    let blocks = Sources::default().file(path, 0).map_err(fail)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    import_blocks(&blocks, &stem, &path.display().to_string(), path.parent().unwrap_or(Path::new("")), options)
}

/// Imports the disk of a text as if it were the file `path`.
///
/// # Errors
/// As [`import`].
pub fn import_text(text: &str, path: &Path, options: ImportOptions) -> Result<Imported, ProfileError> {
    let blocks = Sources::default().text(text, path, 0).map_err(ProfileError::new)?;
    import_blocks(&blocks, "disk", &path.display().to_string(), path.parent().unwrap_or(Path::new("")), options)
}

fn import_blocks(
    blocks: &[Block],
    name: &str,
    file: &str,
    folder: &Path,
    options: ImportOptions,
) -> Result<Imported, ProfileError> {
    let disks: Vec<&Block> = blocks.iter().filter(|block| block.kind == "disksim_disk").collect();
    let [disk] = disks[..] else { return Err(ProfileError::new(not_one_disk(&disks, blocks, file))) };
    let mut notes = Vec::new();
    let spec = convert(disk, blocks, name, folder, options, &mut notes).map_err(ProfileError::new)?;
    let profile = Profile::from_hdd(&spec, file)?;
    let array = array::array(blocks, profile.capacity_sectors(), &mut notes).map_err(ProfileError::new)?;
    Ok(Imported { profile, array, notes })
}

/// The error message for a file without exactly one disk.
fn not_one_disk(disks: &[&Block], blocks: &[Block], file: &str) -> String {
    let device = |block: &&Block| ["disksim_simpledisk", "memsmodel_mems", "ssdmodel_ssd"].contains(&block.kind.as_str());
    if !disks.is_empty() {
        let names = disks.iter().map(|disk| format!("{} ({})", disk.name, disk.at)).collect::<Vec<_>>().join(", ");
        return format!("{file}: holds {} disks, {names}; import the file of the one you mean", disks.len());
    }
    match blocks.iter().find(device) {
        Some(other) => {
            format!("{}: `{}` is no disk with platters and an arm; a block `disksim_disk` is needed", other.at, other.kind)
        }
        None => format!("{file}: holds no block of type disksim_disk; one is needed"),
    }
}

fn convert(
    disk: &Block,
    blocks: &[Block],
    name: &str,
    folder: &Path,
    options: ImportOptions,
    notes: &mut Vec<String>,
) -> Result<HddSpecification, String> {
    let mut fields = Fields::new(disk);
    let model = fields.block("Model", "dm_disk")?;
    let mut model = Fields::new(model);
    let layout = model.block("Layout Model", "dm_layout_g1")?;
    let mechanics = model.block("Mechanical Model", "dm_mech_g1")?;
    let (geometry, zones) = geometry(&mut model, layout, notes)?;
    let (mut mechanics, seek, write_seek) = mechanics_and_seek(mechanics, folder, &geometry, notes)?;
    model.finish(notes);
    mechanics.minimum_write_seek_ms = fields.number_or("Minimum seek delay", 0.0)?;
    mechanics.reacquire_ms = reacquire_estimate(&mechanics, &seek, &geometry, &zones);
    let bulk = fields.number_or("Bulk sector transfer time", 0.0)?;
    let bus = bus(disk, bulk, blocks, options)?;
    let cache = cache(&mut fields, notes)?;
    let overheads = overheads(&mut fields)?;
    let queue = queue(&mut fields, notes)?;
    for harmless in ["Print stats", "Avg sectors per cylinder", "Calc sector by sector", "Disconnect write if seek"] {
        fields.ignore(harmless, "changes nothing here", notes);
    }
    fields.ignore("Hold bus entire read xfer", "a transfer once begun goes on as data come", notes);
    fields.ignore("Hold bus entire write xfer", "a transfer once begun goes on", notes);
    fields.ignore("Immed transfer partial hit", "what is there is sent at once", notes);
    fields.ignore("Read directly to buffer", "changes nothing here", notes);
    fields.finish(notes);
    let description = format!("{}, imported from DiskSim parameters", disk.name);
    let name = name.to_owned();
    Ok(HddSpecification {
        name,
        description,
        geometry,
        mechanics,
        seek,
        write_seek,
        bus,
        cache,
        overheads,
        queue,
        limits: None,
        zones,
    })
}

/// The bus times per sector: the maximum over disk, bus, controller and options, as DiskSim takes it.
fn bus(disk: &Block, bulk: f64, blocks: &[Block], options: ImportOptions) -> Result<Bus, String> {
    let (mut read, mut write, mut described) = (bulk, bulk, bulk > 0.0);
    for block in blocks {
        let mut fields = Fields::new(block);
        if block.kind == "disksim_bus" {
            described = true;
            read = read.max(fields.number_or("Read block transfer time", 0.0)?);
            write = write.max(fields.number_or("Write block transfer time", 0.0)?);
        } else if block.kind == "disksim_ctlr" {
            let bulk = fields.number_or("Bulk sector transfer time", 0.0)?;
            (read, write) = (read.max(bulk), write.max(bulk));
        }
    }
    // No bus takes zero time, and with an assumed one the drive would not be the one described.
    if !described && (options.bus_read_sector_ms.is_none() || options.bus_write_sector_ms.is_none()) {
        return Err(format!(
            "{}: Bulk sector transfer time: 0 or absent, which leaves it to a bus that this file does not describe; import the .parv \
             that holds the disk and its bus, or give both --bus-read-sector-ms and --bus-write-sector-ms",
            disk.at
        ));
    }
    Ok(Bus {
        read_sector_ms: read.max(options.bus_read_sector_ms.unwrap_or(0.0)),
        write_sector_ms: write.max(options.bus_write_sector_ms.unwrap_or(0.0)),
    })
}

fn geometry(model: &mut Fields, layout: &Block, notes: &mut Vec<String>) -> Result<(Geometry, Vec<ZoneSpecification>), String> {
    let mut fields = Fields::new(layout);
    let mapping = match fields.integer("LBN-to-PBN mapping scheme", 0, 2)? {
        0 => Mapping::Conventional,
        1 => Mapping::SerpentinePerZone,
        _ => Mapping::Serpentine,
    };
    let sparing = match fields.integer("Sparing scheme used", 0, 10)? {
        0 => Sparing::None,
        1 => Sparing::Track,
        2 => Sparing::SectorsPerCylinder,
        3 => Sparing::SectorsPerTrack,
        4 => Sparing::SectorsPerCylinderSlipToEnd,
        5 => Sparing::SectorsPerCylinderFront,
        6 => Sparing::SectorsPerCylinderFrontSlipToEnd,
        7 => Sparing::EndOfDisk,
        8 => Sparing::SectorsPerRange,
        9 => Sparing::Zone,
        _ => Sparing::ZoneSlipToEnd,
    };
    let range = fields.integer_or("Rangesize for sparing", 1, u32::MAX.into(), 1)?;
    let skew_in_revolutions = skew_unit(&mut fields)?.unwrap_or(false);
    let mut geometry = Geometry {
        surfaces: model.integer("Number of data surfaces", 1, u16::MAX.into())? as u16,
        cylinders: model.integer("Number of cylinders", 1, u32::MAX.into())? as u32,
        capacity_sectors: None,
        mapping,
        sparing,
        sparing_range_cylinders: if sparing == Sparing::SectorsPerRange { range as u32 } else { 1 },
        skew_in_revolutions,
    };
    let mut zones = fields.list("Zones")?.iter().map(|value| zone(value, &geometry, notes)).collect::<Result<Vec<_>, String>>()?;
    fields.finish(notes);
    let last = zones.iter().map(|zone| zone.last_cylinder).max().unwrap_or(0);
    if last >= geometry.cylinders {
        notes.push(format!(
            "{}: Number of cylinders: {} becomes {}, for a zone needs it",
            layout.at,
            geometry.cylinders,
            last.saturating_add(1)
        ));
        geometry.cylinders = last.saturating_add(1);
    }
    for zone in &mut zones {
        let dropped = drop_surplus_slips(&geometry, zone);
        if dropped > 0 {
            let first = zone.first_cylinder;
            notes.push(format!("{}: slips: {dropped} of the zone at cylinder {first} have no spare and are left out", layout.at));
        }
    }
    // DiskSim uses the capacity of the zones. The block count, if lower, is the capacity of the real drive.
    let count = model.integer_or("Block count", 0, u64::MAX >> 11, 0)?;
    let all = crate::device::hdd::layout::HddLayout::new(&geometry, &zones).map_err(|error| format!("{}: {error}", layout.at))?;
    match count {
        0 => {}
        count if count <= all.capacity_sectors => geometry.capacity_sectors = Some(count),
        count => notes.push(format!(
            "{}: Block count {count} is more than the {} of the zones, which count",
            layout.at, all.capacity_sectors
        )),
    }
    Ok((geometry, zones))
}

/// Removes slips outside the zone and those for which their region has no spares; DiskSim does not check them. Returns the number
/// removed.
fn drop_surplus_slips(geometry: &Geometry, zone: &mut ZoneSpecification) -> usize {
    let per_track = u64::from(zone.sectors_per_track);
    let per_cylinder = per_track * u64::from(geometry.surfaces);
    let cylinders = u64::from(zone.last_cylinder.saturating_sub(zone.first_cylinder)) + 1;
    let sectors = cylinders.saturating_mul(per_cylinder);
    let tracks = cylinders * u64::from(geometry.surfaces);
    let (all, region) = match geometry.sparing {
        Sparing::Track => (tracks, tracks),
        Sparing::SectorsPerTrack => (sectors, per_track),
        Sparing::SectorsPerCylinder | Sparing::SectorsPerCylinderFront => (sectors, per_cylinder),
        Sparing::SectorsPerRange => (sectors, per_cylinder.saturating_mul(geometry.sparing_range_cylinders.into())),
        Sparing::Zone => (sectors, sectors),
        // Slips of the other schemes use no spares.
        _ => (sectors, 0),
    };
    let before = zone.slips.len();
    let (mut current, mut taken) = (u64::MAX, 0);
    let spares = zone.spares;
    zone.slips.retain(|&slip| {
        let slip = u64::from(slip);
        if slip >= all {
            return false;
        }
        if region == 0 || (slip / region + 1).saturating_mul(region) > all {
            return true;
        }
        if slip / region != current {
            (current, taken) = (slip / region, 0);
        }
        taken += 1;
        taken <= spares
    });
    before - zone.slips.len()
}

fn skew_unit(fields: &mut Fields) -> Result<Option<bool>, String> {
    match fields.word("Skew units")? {
        None => Ok(None),
        Some((_, word)) if word == "sectors" => Ok(Some(false)),
        Some((_, word)) if word == "revolutions" => Ok(Some(true)),
        Some((at, word)) => Err(format!("{at}: Skew units: `{word}` is neither `sectors` nor `revolutions`")),
    }
}

fn zone(value: &Value, geometry: &Geometry, notes: &mut Vec<String>) -> Result<ZoneSpecification, String> {
    let ValueKind::Block(block) = &value.kind else {
        return Err(format!("{}: a zone should be a block dm_layout_g1_zone", value.at));
    };
    let mut fields = Fields::new(block);
    let large = u64::from(u32::MAX);
    let sectors_per_track = fields.integer("Blocks per track", 1, large)? as u32;
    let in_revolutions = skew_unit(&mut fields)?.unwrap_or(geometry.skew_in_revolutions);
    // A zone may have its own skew unit; convert it to that of the disk.
    let unit = match (in_revolutions, geometry.skew_in_revolutions) {
        (true, false) => f64::from(sectors_per_track),
        (false, true) => 1.0 / f64::from(sectors_per_track),
        _ => 1.0,
    };
    let defects = fields.integers("defects")?;
    if defects.len() % 2 != 0 {
        return Err(format!("{}: defects: {} numbers; pairs of a bad and a good place are needed", block.at, defects.len()));
    }
    let mut zone = ZoneSpecification {
        first_cylinder: fields.integer("First cylinder number", 0, large)? as u32,
        last_cylinder: fields.integer("Last cylinder number", 0, large)? as u32,
        sectors_per_track,
        first_sector_offset: fields.number_or("Offset of first block", 0.0)? * unit,
        reserved_sectors: fields.integer_or("Empty space at zone front", 0, large, 0)? as u32,
        track_skew: fields.number_or("Skew for track switch", 0.0)? * unit,
        cylinder_skew: fields.number_or("Skew for cylinder switch", 0.0)? * unit,
        spares: fields.integer_or("Number of spares", 0, large, 0)? as u32,
        slips: fields.integers("slips")?,
        remaps: defects.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
    };
    zone.slips.sort_unstable();
    zone.slips.dedup();
    if geometry.sparing == Sparing::None {
        zone.slips.clear();
    }
    fields.finish(notes);
    Ok(zone)
}

fn mechanics_and_seek(
    block: &Block,
    folder: &Path,
    geometry: &Geometry,
    notes: &mut Vec<String>,
) -> Result<(MechanicsSpecification, Seek, Option<Seek>), String> {
    let mut fields = Fields::new(block);
    if let Some((at, word)) = fields.word("Access time type")?
        && word != "trackSwitchPlusRotation"
    {
        return Err(format!("{at}: Access time type: `{word}` is not supported; `trackSwitchPlusRotation` is"));
    }
    let (at, kind) = fields.word("Seek type")?.ok_or_else(|| format!("{}: `Seek type` is missing", block.at))?;
    let single = fields.number("Single cylinder seek time");
    let average = fields.number("Average seek time");
    let full = fields.number("Full strobe seek time");
    let mut write_seek = None;
    let seek = match kind.as_str() {
        "constant" => Seek::Constant { time_ms: fields.number("Constant seek time")? },
        "linear" => Seek::Linear { single_ms: single?, average_ms: average?, full_ms: full? },
        "curve" => Seek::Curve { single_ms: single?, average_ms: average?, full_ms: full? },
        "hpl" => hpl(&mut fields, false)?,
        "hplplus10" => hpl(&mut fields, true)?,
        "extracted" => {
            let (at, name) =
                fields.word("Full seek curve")?.ok_or_else(|| format!("{}: `Full seek curve` is missing", block.at))?;
            let (seek, of_writes) = seek_file(&folder_of(&at, folder).join(name), &at)?;
            write_seek = of_writes;
            seek
        }
        other => {
            let known = "constant, linear, curve, hpl, hplplus10 or extracted";
            return Err(format!("{at}: Seek type: `{other}` is none of {known}"));
        }
    };
    let error = fields.number_or("Percent error in rpms", 0.0)?;
    if error != 0.0 {
        notes.push(format!("{}: Percent error in rpms: every disk turns at the nominal speed", block.at));
    }
    for unused in ["First ten seek times", "HPL seek equation values", "Full seek curve", "Constant seek time"] {
        fields.ignore(unused, "another seek type is chosen", notes);
    }
    let mechanics = MechanicsSpecification {
        rotation_rpm: fields.number("Rotation speed (in rpms)")?,
        head_switch_ms: fields.number("Head switch time")?,
        write_settle_ms: fields.signed("Add. write settling delay")?,
        reacquire_ms: 0.0,
        minimum_write_seek_ms: 0.0,
    };
    fields.finish(notes);
    // A seek table needs at least one cylinder.
    if geometry.cylinders == 0 {
        return Err(format!("{}: Number of cylinders: 0; at least 1", block.at));
    }
    Ok((mechanics, seek, write_seek))
}

fn hpl(fields: &mut Fields, with_first_ten: bool) -> Result<Seek, String> {
    let v = fields.numbers("HPL seek equation values")?;
    let [division, short_base_ms, short_root_ms, long_base_ms, long_slope_ms, single] = v[..] else {
        return Err(format!("{}: HPL seek equation values: {} numbers; six are needed", fields.block.at, v.len()));
    };
    let first_ms = if with_first_ten {
        let first = fields.numbers("First ten seek times")?;
        if first.len() < 10 {
            return Err(format!("{}: First ten seek times: {} numbers; ten are needed", fields.block.at, first.len()));
        }
        first[..10].to_vec()
    } else if single >= 0.0 {
        vec![single]
    } else {
        Vec::new()
    };
    if !(0.0..=f64::from(u32::MAX)).contains(&division) {
        return Err(format!("{}: HPL seek equation values: division point {division} is no distance", fields.block.at));
    }
    Ok(Seek::Hpl { division_cylinders: division as u32, short_base_ms, short_root_ms, long_base_ms, long_slope_ms, first_ms })
}

/// The folder of the file; names in a file are relative to it.
fn folder_of(at: &At, fallback: &Path) -> std::path::PathBuf {
    at.file.parent().unwrap_or(fallback).to_owned()
}

/// Reads a measured seek curve: a line `Seek distances measured: n`, then lines `cylinders, ms`. A third column is the deviation, a
/// fourth the seek time of a write including settling (the dual seek profiles of Western Digital's DiskSim:
/// valid/dualseek_example). Returns the curve of reads, and that of writes if there is one.
fn seek_file(path: &Path, at: &At) -> Result<(Seek, Option<Seek>), String> {
    let text = crate::profile::read_text(path).map_err(|error| format!("{at}: Full seek curve: {}: {error}", path.display()))?;
    let mut points: Vec<(u32, f64)> = Vec::new();
    let mut of_writes: Vec<(u32, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: &str| Err(format!("{}:{}: {what}", path.display(), index + 1));
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |column: usize| columns.get(column).and_then(|text| text.parse::<f64>().ok()).filter(|time| time.is_finite());
        match (columns[0].parse::<u32>(), number(1)) {
            (Ok(0), _) => continue,
            (Ok(distance), Some(time)) => points.push((distance, time)),
            _ if index == 0 => continue,
            _ => return wrong(&format!("`{line}` is not `cylinders, milliseconds`")),
        }
        let distance = points[points.len() - 1].0;
        match columns.get(3).filter(|text| !text.is_empty()) {
            None if of_writes.is_empty() => {}
            None => return wrong("the fourth column, the seek time of a write, is missing here; the lines before have it"),
            Some(_) if of_writes.len() + 1 < points.len() => {
                return wrong("a fourth column, the seek time of a write, begins here; all lines or none must have it");
            }
            Some(text) => match number(3) {
                Some(time) => of_writes.push((distance, time)),
                None => {
                    return wrong(&format!("fourth column, the seek time of a write: `{text}` is not a number of milliseconds"));
                }
            },
        }
    }
    if points.is_empty() {
        return Err(format!("{}: holds no line `cylinders, milliseconds`", path.display()));
    }
    let table = |mut points: Vec<(u32, f64)>| {
        points.sort_by_key(|point| point.0);
        points.dedup_by_key(|point| point.0);
        Seek::Table { points }
    };
    let of_writes = (!of_writes.is_empty()).then(|| table(of_writes));
    Ok((table(points), of_writes))
}

fn cache(fields: &mut Fields, notes: &mut Vec<String>) -> Result<CacheSpecification, String> {
    let segments = fields.integer("Number of buffer segments", 1, 4096)?;
    let full_hits = fields.flag("Allow sneaky full read hits")?;
    let prebuffers = fields.flag("Allow write prebuffering")?;
    let intermediate = fields.flag("Allow sneaky intermediate read hits")?;
    for (key, set) in [
        ("Allow sneaky partial read hits", fields.flag("Allow sneaky partial read hits")?),
        ("Never disconnect", fields.flag("Never disconnect")?),
    ] {
        if set {
            notes.push(format!("{}: {key}: not modelled", fields.block.at));
        }
    }
    for key in ["Low (write) water mark", "Write hit stop prefetch"] {
        fields.ignore(key, "not modelled", notes);
    }
    let mark_by_request = fields.flag("Set watermark by reqsize")?;
    let mark = fields.number_or("High (read) water mark", 0.0)?;
    if mark > 0.0 && !mark_by_request {
        notes.push(format!("{}: High (read) water mark: taken as a part of the request", fields.block.at));
    }
    Ok(CacheSpecification {
        segments: segments as u32,
        segment_sectors: fields.integer("Segment size (in blks)", 1, 1 << 30)? as u32,
        write_segments: fields.integer_or("Maximum number of write segments", 1, segments, 1)? as u32,
        dedicated_write_segment: fields.flag("Use separate write segment")? && segments > 1,
        keeps_data: fields.integer_or("Enable caching in buffer", 0, 2, 1)? != 0,
        read_hits_on_written_data: fields.flag("Allow read hits on write data")?,
        read_ahead: match fields.integer_or("Buffer continuous read", 0, 4, 0)? {
            0 => ReadAhead::None,
            1 => ReadAhead::Track,
            2 => ReadAhead::Cylinder,
            3 => ReadAhead::Segment,
            _ => ReadAhead::NextTrack,
        },
        read_ahead_trigger: ReadAheadTrigger::EveryRead,
        read_ahead_min_sectors: fields.integer_or("Minimum read-ahead (blks)", 0, 1 << 30, 0)? as u32,
        read_ahead_max_sectors: fields.integer_or("Maximum read-ahead (blks)", 0, 1 << 30, 0)? as u32,
        read_ahead_over_requested: fields.has("Read-ahead over requested") && fields.signed("Read-ahead over requested")? != 0.0,
        read_ahead_after_hit: fields.flag("Read-ahead on idle hit")?,
        joins_read_ahead: fields.flag("Allow almost read hits")?,
        reads_sectors_on_the_way: fields.flag("Read any free blocks")?,
        zero_latency_reads: fields.integer_or("Immediate buffer read", 0, 2, 0)? != 0,
        zero_latency_writes: fields.integer_or("Immediate buffer write", 0, 2, 0)? != 0,
        write_cache: match fields.integer_or("Fast write level", 0, 2, 0)? {
            0 => WriteCache::Off,
            1 => WriteCache::Sequential,
            _ => WriteCache::On,
        },
        combines_writes: fields.flag("Combine seq writes")?,
        works_during_media_access: prebuffers || full_hits || intermediate,
        stops_in_sector: fields.flag("Stop prefetch in sector")?,
        read_watermark: mark,
    })
}

fn overheads(fields: &mut Fields) -> Result<Overheads, String> {
    let scale = fields.number_or("Time scale for overheads", 1.0)?;
    let mut scaled = |key: &str| fields.number_or(key, 0.0).map(|millis| millis * scale);
    let mut overheads = Overheads {
        request_ms: scaled("Per-request overhead time")?,
        read_hit_after_read_ms: scaled("Read hit over. after read")?,
        read_hit_after_write_ms: scaled("Read hit over. after write")?,
        read_miss_after_read_ms: scaled("Read miss over. after read")?,
        read_miss_after_write_ms: scaled("Read miss over. after write")?,
        write_hit_after_read_ms: scaled("Write hit over. after read")?,
        write_hit_after_write_ms: scaled("Write hit over. after write")?,
        write_miss_after_read_ms: scaled("Write miss over. after read")?,
        write_miss_after_write_ms: scaled("Write miss over. after write")?,
        read_completion_ms: scaled("Read completion overhead")?,
        write_completion_ms: scaled("Write completion overhead")?,
        data_preparation_ms: scaled("Data preparation overhead")?,
        first_reselect_ms: scaled("First reselect overhead")?,
        other_reselect_ms: scaled("Other reselect overhead")?,
        read_disconnect_after_read_ms: scaled("Read disconnect afterread")?,
        read_disconnect_after_write_ms: scaled("Read disconnect afterwrite")?,
        write_disconnect_ms: scaled("Write disconnect overhead")?,
        extra_write_disconnect: None,
    };
    let extra = ExtraWriteDisconnect {
        command_ms: scaled("Extradisc command overhead")?,
        disconnect_ms: scaled("Extradisc disconnect overhead")?,
        gap_ms: scaled("Extradisc inter-disconnect delay")?,
        second_disconnect_ms: scaled("Extradisc 2nd disconnect overhead")?,
        seek_delay_ms: scaled("Extradisc seek delta")?,
    };
    if fields.flag("Extra write disconnect")? {
        overheads.extra_write_disconnect = Some(extra);
    }
    Ok(overheads)
}

fn queue(fields: &mut Fields, notes: &mut Vec<String>) -> Result<HddQueue, String> {
    let depth = fields.integer_or("Max queue length", 0, u32::MAX.into(), 1)?;
    if !(1..=1024).contains(&depth) {
        notes.push(format!("{}: Max queue length: {depth} becomes {}", fields.block.at, depth.clamp(1, 1024)));
    }
    let preseek = match fields.integer_or("Preseeking level", 0, 2, 0)? {
        0 => Preseek::AfterCompletion,
        1 => Preseek::DuringCompletion,
        _ => Preseek::BeforeCompletion,
    };
    let mut policy = QueuePolicy::Fifo;
    if fields.has("Scheduler") {
        let block = fields.block("Scheduler", "disksim_ioqueue")?;
        let mut scheduler = Fields::new(block);
        let number = scheduler.integer_or("Scheduling policy", 0, 1000, 1)?;
        policy = match number {
            // DiskSim's numbers (`disksim_ioqueue.h`). 8 to 10: shortest positioning with or without the cache, shortest access.
            1 => QueuePolicy::Fifo,
            4 | 7 => QueuePolicy::Sstf,
            8..=10 => QueuePolicy::Sptf,
            _ if depth <= 1 => QueuePolicy::Fifo,
            other => {
                return Err(format!(
                    "{}: Scheduling policy: {other} is not supported with a queue of {depth}; 1 (FCFS), 7 (SSTF) or 8 (SPTF) are",
                    block.at
                ));
            }
        };
    }
    Ok(HddQueue { preseek, ..HddQueue::new(depth.clamp(1, 1024) as u32, policy) })
}

/// A block's entries, and those that have been read.
struct Fields<'a> {
    block: &'a Block,
    seen: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    fn new(block: &'a Block) -> Fields<'a> {
        Fields { block, seen: Vec::new() }
    }

    fn find(&mut self, key: &str) -> Option<&'a Value> {
        let (known, value) = self.block.entries.iter().find(|(known, _)| known == key)?;
        self.seen.push(known);
        Some(value)
    }

    fn has(&self, key: &str) -> bool {
        self.block.entries.iter().any(|(known, _)| known == key)
    }

    fn need(&mut self, key: &str) -> Result<&'a Value, String> {
        let missing = format!("{}: `{key}` is missing in the block `{}`", self.block.at, self.block.kind);
        self.find(key).ok_or(missing)
    }

    fn number(&mut self, key: &str) -> Result<f64, String> {
        let value = self.need(key)?;
        number_in(value, key)
    }

    fn number_or(&mut self, key: &str, default: f64) -> Result<f64, String> {
        if self.has(key) { self.number(key) } else { Ok(default) }
    }

    fn signed(&mut self, key: &str) -> Result<f64, String> {
        match self.need(key)? {
            Value { kind: ValueKind::Number(number), .. } if number.abs() <= 1e12 => Ok(*number),
            Value { kind: ValueKind::Number(number), at } => Err(format!("{at}: {key}: {number} is not within -1e12 to 1e12")),
            Value { at, .. } => Err(format!("{at}: {key} should be a number")),
        }
    }

    fn integer(&mut self, key: &str, min: u64, max: u64) -> Result<u64, String> {
        let value = self.need(key)?;
        integer_in(value, key, min, max)
    }

    fn integer_or(&mut self, key: &str, min: u64, max: u64, default: u64) -> Result<u64, String> {
        if self.has(key) { self.integer(key, min, max) } else { Ok(default) }
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        Ok(self.integer_or(key, 0, 1, 0)? == 1)
    }

    fn word(&mut self, key: &str) -> Result<Option<(At, String)>, String> {
        match self.find(key) {
            None => Ok(None),
            Some(Value { at, kind: ValueKind::Word(word) }) => Ok(Some((at.clone(), word.clone()))),
            Some(Value { at, .. }) => Err(format!("{at}: {key} should be a word")),
        }
    }

    fn list(&mut self, key: &str) -> Result<&'a [Value], String> {
        match self.need(key)? {
            Value { kind: ValueKind::List(values), .. } => Ok(values),
            Value { at, .. } => Err(format!("{at}: {key} should be a list in brackets")),
        }
    }

    fn numbers(&mut self, key: &str) -> Result<Vec<f64>, String> {
        let number = |value: &Value| match value.kind {
            ValueKind::Number(number) if number.is_finite() => Ok(number),
            _ => Err(format!("{}: {key} should hold numbers", value.at)),
        };
        self.list(key)?.iter().map(number).collect()
    }

    fn integers(&mut self, key: &str) -> Result<Vec<u32>, String> {
        if !self.has(key) {
            return Ok(Vec::new());
        }
        self.list(key)?.iter().map(|value| integer_in(value, key, 0, u32::MAX.into()).map(|number| number as u32)).collect()
    }

    fn block(&mut self, key: &str, kind: &str) -> Result<&'a Block, String> {
        match self.need(key)? {
            Value { kind: ValueKind::Block(block), .. } if block.kind == kind => Ok(block),
            Value { kind: ValueKind::Block(block), .. } => {
                Err(format!("{}: {key}: blocks of type `{}` are not supported; `{kind}` is", block.at, block.kind))
            }
            Value { at, .. } => Err(format!("{at}: {key} should be a block `{kind} {{ … }}`")),
        }
    }

    fn ignore(&mut self, key: &str, why: &str, notes: &mut Vec<String>) {
        if let Some((known, value)) = self.block.entries.iter().find(|(known, _)| known == key)
            && !self.seen.contains(&known.as_str())
        {
            self.seen.push(known);
            notes.push(format!("{}: {key}: {why}", value.at));
        }
    }

    /// Adds a note for each parameter that was not read.
    fn finish(self, notes: &mut Vec<String>) {
        for (key, value) in &self.block.entries {
            if !self.seen.contains(&key.as_str()) {
                notes.push(format!("{}: {key}: not used", value.at));
            }
        }
    }
}

fn number_in(value: &Value, key: &str) -> Result<f64, String> {
    match value.kind {
        ValueKind::Number(number) if (0.0..=1e12).contains(&number) => Ok(number),
        ValueKind::Number(number) => Err(format!("{}: {key}: {number} is not within 0 to 1e12", value.at)),
        _ => Err(format!("{}: {key} should be a number", value.at)),
    }
}

fn integer_in(value: &Value, key: &str, min: u64, max: u64) -> Result<u64, String> {
    match value.kind {
        ValueKind::Number(number) if number.fract() == 0.0 && (min as f64..=max as f64).contains(&number) => Ok(number as u64),
        ValueKind::Number(number) => Err(format!("{}: {key}: {number} is not a whole number within {min} to {max}", value.at)),
        _ => Err(format!("{}: {key} should be a number", value.at)),
    }
}
