//! Parses a job file's text: sections of options with values (fio's HOWTO, "Job file format").

use std::collections::BTreeMap;

use super::error::WorkloadError;
use super::options::Options;
use super::table;
use super::value::KiloBase;

/// A job section, with the options of the global sections above it.
pub(super) struct Section {
    pub(super) name: String,
    /// Line of its header, from 1.
    pub(super) line: u32,
    pub(super) options: Options,
    /// The meaning of `k` in it.
    base: KiloBase,
    /// Where each option, by its first name, was set last: for messages about conflicting values.
    lines: BTreeMap<&'static str, u32>,
}

impl Section {
    /// The last line that set one of `keys` (first names), or the section's header.
    pub(super) fn line_of(&self, keys: &[&str]) -> u32 {
        keys.iter().filter_map(|key| self.lines.get(key)).max().copied().unwrap_or(self.line)
    }
}

/// fio's default maximum of jobs (`--max-jobs`).
pub(super) const MAX_JOBS: usize = 4096;

/// Longer texts are not job files.
const LONGEST: usize = 256 << 10;

struct Setting<'a> {
    key: &'a str,
    value: Option<&'a str>,
    line: u32,
}

/// Parses a job file's text.
pub(super) fn read(text: &str, source: &str) -> Result<Vec<Section>, WorkloadError> {
    let fault = |line, message: String| WorkloadError { source_name: source.to_owned(), line, message };
    if text.len() > LONGEST {
        return Err(fault(None, format!("{} bytes are too many for a job file; at most {LONGEST} are read", text.len())));
    }
    let mut globals =
        Section { name: String::new(), line: 0, options: Options::default(), base: KiloBase::Old, lines: BTreeMap::new() };
    let mut sections = Vec::new();
    let mut current: Option<(&str, u32, Vec<Setting>)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line);
        if line.is_empty() {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            finish(current.take(), &mut globals, &mut sections).map_err(|(line, message)| fault(Some(line), message))?;
            let name = header.strip_suffix(']').filter(|name| !name.trim().is_empty());
            let name = name.ok_or_else(|| fault(Some(number), format!("`{line}` is not a section; it must be [NAME]")))?;
            current = Some((name, number, Vec::new()));
            continue;
        }
        let Some((_, _, settings)) = current.as_mut() else {
            return Err(fault(Some(number), format!("`{line}` is before the first section; put [global] or [NAME] above it")));
        };
        settings.push(setting(line, number).map_err(|message| fault(Some(number), message))?);
    }
    finish(current, &mut globals, &mut sections).map_err(|(line, message)| fault(Some(line), message))?;
    if sections.is_empty() {
        return Err(fault(None, "it holds no job; a job is a section with a name other than global: [NAME]".to_owned()));
    }
    Ok(sections)
}

/// A `;` or `#` ends a line anywhere, as in fio.
fn without_comment(line: &str) -> &str {
    line.find([';', '#']).map_or(line, |at| &line[..at]).trim()
}

fn setting(line: &str, number: u32) -> Result<Setting<'_>, String> {
    let Some((key, value)) = line.split_once('=') else {
        if let Some(file) = line.strip_prefix("include ") {
            return Err(format!("`include` is not supported: copy the lines of {} into this file", file.trim()));
        }
        return Ok(Setting { key: line, value: None, line: number });
    };
    let (key, trimmed) = (key.trim(), value.trim());
    if trimmed.is_empty() {
        return Err(format!("`{key}` has no value after the ="));
    }
    if let Some(at) =
        trimmed.find("${").or_else(|| ["$ncpus", "$mb_memory", "$pagesize"].iter().find_map(|word| trimmed.find(word)))
    {
        let found = &trimmed[at..];
        return Err(format!(
            "{key}: `{found}` depends on the machine; write the value itself, so that the workload is the same everywhere"
        ));
    }
    // fio 3.33 takes `bs= 8k` for 8 bytes: the unit is lost.
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) && value.starts_with([' ', '\t']) {
        return Err(format!("{key}: fio loses the unit of a number after a blank; write {key}={trimmed}"));
    }
    Ok(Setting { key, value: Some(trimmed), line: number })
}

/// Finishes a section: a global one changes the defaults of later ones.
fn finish(
    read: Option<(&str, u32, Vec<Setting>)>,
    globals: &mut Section,
    sections: &mut Vec<Section>,
) -> Result<(), (u32, String)> {
    let Some((name, line, settings)) = read else { return Ok(()) };
    if name == "global" {
        return apply(globals, &settings);
    }
    let mut section =
        Section { name: name.to_owned(), line, options: globals.options.clone(), base: globals.base, lines: globals.lines.clone() };
    apply(&mut section, &settings)?;
    if sections.len() == MAX_JOBS {
        return Err((line, format!("more than {MAX_JOBS} jobs are not supported")));
    }
    sections.push(section);
    Ok(())
}

fn apply(section: &mut Section, settings: &[Setting]) -> Result<(), (u32, String)> {
    // The meaning of k applies to the whole section, wherever it is set.
    for setting in settings.iter().filter(|setting| setting.key == "kb_base") {
        section.base = match setting.value {
            Some("1000") => KiloBase::Standard,
            Some("1024") => KiloBase::Old,
            other => {
                return Err((
                    setting.line,
                    format!("kb_base: `{}` is not supported; it must be 1000 or 1024", other.unwrap_or("")),
                ));
            }
        };
    }
    for setting in settings {
        let key = table::set(&mut section.options, setting.key, setting.value, section.base);
        section.lines.insert(key.map_err(|message| (setting.line, message))?, setting.line);
    }
    Ok(())
}
