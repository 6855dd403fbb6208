//! Devices that are drawn: profiles from a seed, by families of devices, so that nothing can have been tuned on them.

mod array;
mod broad_array;
mod broad_disk;
mod broad_flash;
mod desktop;
mod drive;
mod flash;
mod laptop;
mod nearline;
mod nvme_flash;
mod sata_flash;
mod scsi_1990s;
mod scsi_2000s;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::profile::Profile;

use experiment::chance;

/// A device that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnDevice {
    /// Its profile's name.
    pub name: String,
    /// Its profile.
    pub text: String,
    /// Of an array, the files that `text` names, with the profiles in them; each once.
    pub members: Vec<(String, String)>,
}

/// Devices of one kind.
pub struct Family {
    /// What a person types.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Draws a device.
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
];

/// The family of this name.
pub fn find(name: &str) -> Option<&'static Family> {
    ALL.iter().copied().find(|family| family.name == name)
}

/// Draws number `number` of a family: same arguments, same profile.
///
/// # Errors
/// What was drawn is no profile, which is a mistake in the family; or an array's members cannot be written to the folder for temporary
/// files.
pub fn draw(family: &Family, seed: u64, number: u32) -> anyhow::Result<Profile> {
    profile((family.draw)(&mut chance::source(family.name, seed, number)))
}

/// Draws an array of drives of a family: same arguments, same profile.
///
/// # Errors
/// As [`draw`].
pub fn draw_array(family: &Family, seed: u64, number: u32) -> anyhow::Result<Profile> {
    let random = &mut chance::source(family.name, seed, number);
    // An array has no arrays in it.
    profile(if family.name.ends_with("array") { (family.draw)(random) } else { array::of(random, &[family]) })
}

fn profile(drawn: DrawnDevice) -> anyhow::Result<Profile> {
    if drawn.members.is_empty() {
        return Ok(Profile::parse(&drawn.text, &drawn.name)?);
    }
    // A profile names its members by their files.
    let folder = Folder::new().context("cannot create a folder for the members of a drawn array")?;
    let file = format!("{}.toml", drawn.name);
    for (name, text) in drawn.members.iter().chain([&(file.clone(), drawn.text)]) {
        let path = folder.0.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(sim::profile::load(&folder.0.join(file).to_string_lossy())?)
}

/// A folder that nothing else uses, until it is dropped.
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
        // What is left over is small and in the way of nothing.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;
