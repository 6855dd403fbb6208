//! Experience for controllers: shipped with the program, or from a file.
//!
//! The shipped experience was gathered only on the training world (`research/research/worlds.toml`), by
//! `research/research/experience.sh`. A test gathers a sample of it again and compares.

use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use control::experience::Experience;

/// Maximum size of experience, uncompressed.
const MAX_BYTES: u64 = 1 << 30;
/// The shipped experience, compressed.
static SHIPPED: &[u8] = include_bytes!("experience.json.zst");

/// Loads the experience in this file; without a path, the shipped experience.
///
/// # Errors
/// The file cannot be read or does not hold experience.
pub fn load(path: Option<&Path>) -> anyhow::Result<Arc<Experience>> {
    let Some(path) = path else { return shipped() };
    Ok(Arc::new(of_file(path).with_context(|| format!("--experience {}", path.display()))?))
}

/// Loads the experience in this file, compressed or not.
///
/// # Errors
/// The file cannot be read or does not hold experience.
pub fn of_file(path: &Path) -> anyhow::Result<Experience> {
    read(&std::fs::read(path)?, &path.display().to_string())
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
    Ok(Experience::from_json(&unpacked(bytes, name)?, name)?)
}

/// The text in these bytes, compressed or not; `name` is used in errors.
fn unpacked(bytes: &[u8], name: &str) -> anyhow::Result<String> {
    if !bytes.starts_with(&zstd::zstd_safe::MAGICNUMBER.to_le_bytes()) {
        return String::from_utf8(bytes.to_vec()).with_context(|| format!("{name}: is not text"));
    }
    let mut text = String::new();
    let unpacked = zstd::Decoder::new(bytes).and_then(|decoder| decoder.take(MAX_BYTES).read_to_string(&mut text));
    unpacked.with_context(|| name.to_owned())?;
    Ok(text)
}

/// Serializes experience for a file of this name: compressed if the name ends in `.zst`.
///
/// # Errors
/// It cannot be serialized or compressed.
pub fn encode(path: &Path, experience: &Experience) -> anyhow::Result<Vec<u8>> {
    compressed(path, experience.to_json()?)
}

/// The bytes of a text for a file of this name: compressed if the name ends in `.zst`.
fn compressed(path: &Path, text: String) -> anyhow::Result<Vec<u8>> {
    Ok(match path.extension() {
        Some(extension) if extension == "zst" => zstd::encode_all(text.as_bytes(), 19)?,
        _ => text.into_bytes(),
    })
}
