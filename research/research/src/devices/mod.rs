//! Generated devices: profiles from a seed, by families of devices, so that nothing can be tuned to them.

mod array;
mod broad_array;
mod broad_disk;
mod broad_flash;
mod burst_volume;
mod capped_volume;
mod desktop;
mod drive;
mod emmc;
mod failed_array;
mod flash;
mod full_nvme;
mod laptop;
mod nearline;
mod nvme_flash;
mod sata_flash;
mod scsi_1990s;
mod scsi_2000s;
mod sd_cards;
mod small_array;
mod used_sata;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::profile::Profile;
use testbed::chance;

/// A generated device.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnDevice {
    /// Name of the profile.
    pub name: String,
    /// Text of the profile.
    pub text: String,
    /// For an array, the name and text of each file that `text` references, without duplicates.
    pub members: Vec<(String, String)>,
}

/// A family of devices.
pub struct Family {
    /// The name on the command line.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Generates a device.
    pub draw: fn(&mut Xoshiro256PlusPlus) -> DrawnDevice,
}

/// Every family, one file each.
pub static ALL: &[&Family] = &[
    &scsi_1990s::FAMILY,
    &scsi_2000s::FAMILY,
    &desktop::FAMILY,
    &nearline::FAMILY,
    &laptop::FAMILY,
    &sata_flash::FAMILY,
    &nvme_flash::FAMILY,
    &array::FAMILY,
    &broad_disk::FAMILY,
    &broad_flash::FAMILY,
    &broad_array::FAMILY,
    &failed_array::FAMILY,
    &full_nvme::FAMILY,
    &capped_volume::FAMILY,
    &sd_cards::FAMILY,
    &small_array::FAMILY,
    &used_sata::FAMILY,
    &burst_volume::FAMILY,
    &emmc::FAMILY,
];

/// The family of this name.
pub fn find(name: &str) -> Option<&'static Family> {
    ALL.iter().copied().find(|family| family.name == name)
}

/// Generates device `number` of a family. Deterministic: equal arguments give equal profiles.
///
/// # Errors
/// The result is not a valid profile, which is a defect of the family; or an array's members cannot be written to the temporary
/// folder.
pub fn draw(family: &Family, seed: u64, number: u32) -> anyhow::Result<Profile> {
    profile(text(family, seed, number))
}

/// The text of [`draw`]'s profile, and of its members.
pub fn text(family: &Family, seed: u64, number: u32) -> DrawnDevice {
    (family.draw)(&mut chance::source(family.name, seed, number))
}

/// Generates an array of drives of a family. Deterministic like [`draw`].
///
/// # Errors
/// As [`draw`].
pub fn draw_array(family: &Family, seed: u64, number: u32) -> anyhow::Result<Profile> {
    let random = &mut chance::source(family.name, seed, number);
    // Arrays cannot be nested.
    profile(if family.name.ends_with("array") { (family.draw)(random) } else { array::of(random, &[family]) })
}

/// The profile with this text.
///
/// # Errors
/// As [`draw`].
pub fn profile(drawn: DrawnDevice) -> anyhow::Result<Profile> {
    if drawn.members.is_empty() {
        return Ok(Profile::parse(&drawn.text, &drawn.name)?);
    }
    // A profile references its members by file name.
    let folder = Folder::new().context("cannot create a folder for the members of a drawn array")?;
    let file = format!("{}.toml", drawn.name);
    for (name, text) in drawn.members.iter().chain([&(file.clone(), drawn.text)]) {
        let path = folder.0.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(sim::profile::load(&folder.0.join(file).to_string_lossy())?)
}

/// A private temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("seekwise-array-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover folder is small and harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;
