//! Arrays in DiskSim's files: a block `disksim_logorg` over several disks (DiskSim's `logorg.modspec`).

use super::Fields;
use super::grammar::{Block, Value, ValueKind};
use crate::device::raid::layout::{ArrayLayout, MAX_MEMBERS, level};
use crate::device::raid::spec::ArraySpecification;

/// The array that a file describes; `None` if its disks are used separately.
///
/// # Errors
/// The file describes two arrays, or an organisation that is not supported; the message names file, line and value.
pub(super) fn array(blocks: &[Block], capacity: u64, notes: &mut Vec<String>) -> Result<Option<ArraySpecification>, String> {
    let mut found: Option<(&Block, ArraySpecification)> = None;
    for block in blocks.iter().filter(|block| block.kind == "disksim_logorg") {
        let Some(array) = organisation(block, capacity, notes)? else { continue };
        if let Some((other, _)) = found {
            let (at, name) = (&block.at, &block.name);
            return Err(format!("{at}: `{name}` is a second array after `{}` ({}); one is possible", other.name, other.at));
        }
        found = Some((block, array));
    }
    Ok(found.map(|(_, array)| array))
}

fn organisation(block: &Block, capacity: u64, notes: &mut Vec<String>) -> Result<Option<ArraySpecification>, String> {
    let mut fields = Fields::new(block);
    let mut word = |key: &str| -> Result<String, String> {
        let word = fields.word(key)?;
        Ok(word.ok_or_else(|| format!("{}: `{key}` is missing in the block `{}`", block.at, block.kind))?.1)
    };
    let (addressing, distribution) = (word("Addressing mode")?, word("Distribution scheme")?);
    let redundancy = word("Redundancy scheme")?;
    let members = members(fields.list("devices")?)?;
    let what = format!("{}: `{}`, an organisation of {members} disks", block.at, block.name);
    if distribution == "Asis" && redundancy == "Noredun" {
        if members > 1 {
            notes.push(format!("{what} that are used each by itself: one of them is imported"));
        }
        return Ok(None);
    }
    if members > MAX_MEMBERS {
        return Err(format!("{what}: {MAX_MEMBERS} is the most"));
    }
    if addressing != "Array" {
        return Err(format!("{what}: Addressing mode: `{addressing}` is not supported; `Array` is"));
    }
    let mut copies = || fields.integer("Number of copies", 1, MAX_MEMBERS as u64);
    let number = match (distribution.as_str(), redundancy.as_str()) {
        ("Striped", "Noredun") => 0,
        ("Striped", "Parity_rotated") => 5,
        ("Asis" | "Striped", "Shadowed") if copies()? == members as u64 => 1,
        ("Striped", "Shadowed") if copies()? == 2 && members % 2 == 0 => 10,
        _ => {
            return Err(format!(
                "{what}: Distribution scheme `{distribution}` with Redundancy scheme `{redundancy}` is not supported; `Striped` \
                 with `Noredun` (RAID 0), `Parity_rotated` (RAID 5) or `Shadowed` with 2 copies on an even number of disks (RAID \
                 10), and `Shadowed` with as many copies as disks (RAID 1) are"
            ));
        }
    };
    if number == 5 {
        left_symmetric(&mut fields, &what)?;
    }
    let unit = if number == 1 { None } else { Some(fields.integer("Stripe unit", 1, 1 << 40)?) };
    if let Some(level) = level(number) {
        ArrayLayout::new(level, members, unit.unwrap_or(1), capacity).map_err(|error| format!("{what}: {error}"))?;
    }
    for key in ["Synch writes for safety", "Copy choice on read", "RMW vs. reconstruct"] {
        fields.ignore(key, "arrays here decide as Linux's md does", notes);
    }
    Ok(Some(ArraySpecification {
        kind: "raid".to_owned(),
        level: number,
        disks: Some(members as u64),
        stripe_unit_kib: unit.map(|sectors| sectors as f64 / 2.0),
        ..ArraySpecification::default()
    }))
}

/// Checks that the parity rotates as in md's default layout, the only one supported for RAID 5.
fn left_symmetric(fields: &mut Fields, what: &str) -> Result<(), String> {
    let rotation = fields.integer("Parity rotation type", 1, 4)?;
    if rotation != 1 {
        return Err(format!("{what}: Parity rotation type: {rotation} is not supported; 1, left symmetric, is"));
    }
    let (unit, parity) = (fields.integer("Stripe unit", 1, 1 << 40)?, fields.integer("Parity stripe unit", 1, 1 << 40)?);
    if parity != unit {
        return Err(format!("{what}: Parity stripe unit: {parity} should be {unit}, the Stripe unit"));
    }
    Ok(())
}

/// Number of devices in a list, where `disk0 .. disk8` are nine.
fn members(devices: &[Value]) -> Result<usize, String> {
    let count = |device: &Value| -> Result<usize, String> {
        let ValueKind::Word(word) = &device.kind else { return Err(format!("{}: devices should be names", device.at)) };
        let Some((first, last)) = word.split_once(" .. ") else { return Ok(1) };
        let number = |name: &str| name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().ok();
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok((last - first).saturating_add(1)),
            _ => Err(format!("{}: devices: `{word}` should be a range such as disk0 .. disk8", device.at)),
        }
    };
    devices.iter().try_fold(0usize, |sum, device| Ok(sum.saturating_add(count(device)?)))
}
