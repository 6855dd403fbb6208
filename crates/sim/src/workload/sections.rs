//! Parses a job file's lines: sections of options with values (fio's HOWTO, "Job file format").

use std::collections::BTreeMap;

use super::error::WorkloadError;
use super::lines::{Complaint, Line, Lines, Place};
use super::options::Options;
use super::table;
use super::value::KiloBase;

/// A job section, including the options of the global sections before it.
pub(super) struct Section {
    pub(super) name: String,
    /// Line of its header, starting at 1.
    pub(super) line: u32,
    pub(super) options: Options,
    /// The meaning of `k` in it.
    base: KiloBase,
    /// Position at which each option, by its first name, was last set, for messages about conflicting values.
    places: BTreeMap<&'static str, Place>,
}

impl Section {
    /// The last position at which one of `keys` (first names) was set, or that of the section's header.
    pub(super) fn place_of(&self, keys: &[&str]) -> Place {
        keys.iter().filter_map(|key| self.places.get(key)).max().copied().unwrap_or(Place::at(self.line))
    }
}

/// fio's default maximum of jobs (`--max-jobs`).
pub(super) const MAX_JOBS: usize = 4096;

struct Setting<'a> {
    key: &'a str,
    value: Result<Option<&'a str>, String>,
    place: Place,
}

/// A section being read: its name, the line of its header, its settings.
type Open<'a> = (&'a str, u32, Vec<Setting<'a>>);

/// Parses the lines of a job file.
pub(super) fn read(lines: &Lines) -> Result<Vec<Section>, WorkloadError> {
    let fault = |(place, message): Complaint| lines.fault(Some(place), message);
    let mut globals =
        Section { name: String::new(), line: 0, options: Options::default(), base: KiloBase::Old, places: BTreeMap::new() };
    let mut sections = Vec::new();
    let mut current: Option<Open> = None;
    for line in &lines.lines {
        let Line { place, text, .. } = line;
        if let Some(header) = text.strip_prefix('[') {
            finish(current.take(), &mut globals, &mut sections).map_err(fault)?;
            let name = header.strip_suffix(']').filter(|name| !name.trim().is_empty());
            let name = name.ok_or_else(|| fault((*place, format!("`{text}` is not a section; it must be [NAME]"))))?;
            current = Some((name, place.line, Vec::new()));
            continue;
        }
        let Some((_, _, settings)) = current.as_mut() else {
            return Err(fault((*place, format!("`{text}` is before the first section; put [global] or [NAME] above it"))));
        };
        settings.push(setting(line));
    }
    finish(current, &mut globals, &mut sections).map_err(fault)?;
    if sections.is_empty() {
        return Err(lines.fault(None, "it holds no job; a job is a section with a name other than global: [NAME]".to_owned()));
    }
    Ok(sections)
}

fn setting(line: &Line) -> Setting<'_> {
    let place = line.place;
    let Some((key, value)) = line.text.split_once('=') else { return Setting { key: &line.text, value: Ok(None), place } };
    let (key, trimmed) = (key.trim(), value.trim());
    let value = if let Some(variable) = &line.missing {
        Err(format!("{key}: the environment variable {variable} is not set"))
    } else if trimmed.is_empty() {
        Err(format!("`{key}` has no value after the ="))
    } else if trimmed.starts_with(|c: char| c.is_ascii_digit()) && value.starts_with([' ', '\t']) {
        // fio 3.33 takes `bs= 8k` for 8 bytes: the unit is lost.
        Err(format!("{key}: fio loses the unit of a number after a blank; write {key}={trimmed}"))
    } else {
        Ok(Some(trimmed))
    };
    Setting { key, value, place }
}

/// Finishes a section; a global one changes the defaults of later ones.
fn finish(read: Option<Open>, globals: &mut Section, sections: &mut Vec<Section>) -> Result<(), Complaint> {
    let Some((name, line, settings)) = read else { return Ok(()) };
    if name == "global" {
        return apply(globals, &settings);
    }
    let mut section = Section {
        name: name.to_owned(),
        line,
        options: globals.options.clone(),
        base: globals.base,
        places: globals.places.clone(),
    };
    apply(&mut section, &settings)?;
    if sections.len() == MAX_JOBS {
        return Err((Place::at(line), format!("more than {MAX_JOBS} jobs are not supported")));
    }
    sections.push(section);
    Ok(())
}

fn apply(section: &mut Section, settings: &[Setting]) -> Result<(), Complaint> {
    // Checked first: an engine that is not simulated may have options that are not known.
    for setting in settings.iter().filter(|setting| setting.key == "ioengine") {
        set(section, setting)?;
    }
    // The meaning of `k` applies to the whole section, wherever it is set.
    for setting in settings.iter().filter(|setting| setting.key == "kb_base") {
        section.base = match setting.value {
            Ok(Some("1000")) => KiloBase::Standard,
            Ok(Some("1024")) => KiloBase::Old,
            ref other => {
                let found = other.as_ref().ok().copied().flatten().unwrap_or("");
                return Err((setting.place, format!("kb_base: `{found}` is not supported; it must be 1000 or 1024")));
            }
        };
    }
    settings.iter().try_for_each(|setting| set(section, setting))
}

fn set(section: &mut Section, setting: &Setting) -> Result<(), Complaint> {
    let fault = |message| (setting.place, message);
    let value = setting.value.clone().map_err(fault)?;
    let key = table::set(&mut section.options, setting.key, value, section.base).map_err(fault)?;
    section.places.insert(key, setting.place);
    Ok(())
}
