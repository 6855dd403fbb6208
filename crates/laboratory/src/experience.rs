//! What controllers learn from: experience that comes with the program, or a file of it.
//!
//! What comes with the program was gathered on the world that is learned from ([`worlds`](crate::worlds)) and nothing else, by
//! `crates/laboratory/experience.sh`. A test gathers a sample of it again and compares.

use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use learn::Setting;
use learn::experience::Experience;

/// No file of experience is longer, unpacked.
const MAX_BYTES: u64 = 1 << 30;
/// What comes with the program.
static SHIPPED: &[u8] = include_bytes!("experience.json.zst");

/// The experience in this file, or what comes with the program.
///
/// # Errors
/// The file cannot be read or is no experience.
pub fn load(path: Option<&Path>) -> anyhow::Result<Arc<Experience>> {
    let Some(path) = path else { return shipped() };
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("--experience {name}"))?;
    Ok(Arc::new(read(&bytes, &name)?))
}

fn shipped() -> anyhow::Result<Arc<Experience>> {
    static READ: OnceLock<Arc<Experience>> = OnceLock::new();
    if let Some(experience) = READ.get() {
        return Ok(experience.clone());
    }
    let experience = Arc::new(read(SHIPPED, "the experience that comes with the program")?);
    Ok(READ.get_or_init(|| experience).clone())
}

fn read(bytes: &[u8], name: &str) -> anyhow::Result<Experience> {
    let is_packed = bytes.starts_with(&zstd::zstd_safe::MAGICNUMBER.to_le_bytes());
    let text = if is_packed {
        let mut text = String::new();
        let unpacked = zstd::Decoder::new(bytes).and_then(|decoder| decoder.take(MAX_BYTES).read_to_string(&mut text));
        unpacked.with_context(|| name.to_owned())?;
        text
    } else {
        String::from_utf8(bytes.to_vec()).with_context(|| format!("{name}: is not text"))?
    };
    Ok(Experience::from_json(&text, name)?)
}

/// The bytes of a file of this name: compressed if the name ends in `.zst`.
///
/// # Errors
/// It cannot be written as JSON, or not be compressed.
pub fn encode(path: &Path, experience: &Experience) -> anyhow::Result<Vec<u8>> {
    let text = experience.to_json()?;
    Ok(match path.extension() {
        Some(extension) if extension == "zst" => zstd::encode_all(text.as_bytes(), 19)?,
        _ => text.into_bytes(),
    })
}

/// What experience is gathered under if nothing else is said: whatever controllers may be asked to choose from. The textbooks' `scan`, and
/// tunings, are left out: every setting is another run of every load.
pub fn settings() -> Vec<Setting> {
    learn::sched::classic().chain(block::KERNEL.iter().copied()).map(Setting::of).collect()
}

/// How the experience that comes with the program is gathered: loads of each family on each device, seconds, seed.
#[cfg(test)]
const RECIPE: (u32, u32, u64) = (3, 15, 7);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use crate::gather::{gather, lessons_of_world};
    use crate::monitor::Quiet;
    use crate::pool::Crew;

    /// Of so many loads one is gathered again.
    const SAMPLED: usize = 61;

    #[test]
    fn what_comes_with_the_program_is_what_is_gathered_today() {
        let shipped = load(None).unwrap();
        assert_eq!(shipped.features, learn::description::names(), "gather it again with crates/laboratory/experience.sh");
        let settings = settings();
        assert_eq!(shipped.settings, settings.iter().map(Setting::to_string).collect::<Vec<_>>());
        let (count, seconds, seed) = RECIPE;
        let script = include_str!("../experience.sh");
        assert!(script.contains(&format!("--world {count} --seed {seed} --seconds {seconds}")), "the recipe is another one");
        let lessons: Vec<_> = lessons_of_world(count, seconds, seed).unwrap().into_iter().step_by(SAMPLED).collect();
        let again = gather(&lessons, &settings, Crew::new(&Quiet::default(), None)).unwrap();
        assert!(!again.cases.is_empty());
        for case in &again.cases {
            let is_there = shipped.cases.contains(case);
            assert!(is_there, "{} on {}: gather it again with crates/laboratory/experience.sh", case.workload, case.device);
        }
    }
}
