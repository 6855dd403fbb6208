//! Contracts as files, for `seekwise simulate FOLDER/job.fio --disk FOLDER/disk.toml`.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use guarantee::tenants::Reference;

use super::draw::Drawn;
use crate::devices::DrawnDevice;

/// Writes a contract into a folder, which is made if it is not there: `job.fio`, `disk.toml`, and the profiles of its members and of
/// reference disks. The job file names reference disks by `folder` as it is given: run it from the same working directory.
///
/// # Errors
/// A file cannot be written.
pub fn write(drawn: &Drawn, seed: u64, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    device(folder, "disk.toml", &drawn.host.device)?;
    let name = |tenant: usize| format!("reference-{tenant}.toml");
    for (tenant, reference) in drawn.reference_files.iter().enumerate() {
        if let Some(reference) = reference {
            device(folder, &name(tenant), reference)?;
        }
    }
    let notation = |tenant: usize, reference: &Reference| match drawn.reference_files[tenant] {
        Some(_) => folder.join(name(tenant)).display().to_string(),
        None => reference.to_string(),
    };
    let seed = if seed == 1 { String::new() } else { format!(" --seed {seed}") };
    let run = format!(
        "; seekwise simulate {0}/job.fio --disk {0}/disk.toml --set memory_mib={1}{seed} --scheduler youchoose\n",
        folder.display(),
        drawn.host.world.host.memory_mib
    );
    let about = format!(
        "; host: {} ({}), {} tenants, {} of them guaranteed, demand {:.2}, kept by {:?}\n",
        drawn.host.world.profile.name(),
        drawn.host.kind,
        drawn.sections.len(),
        drawn.guaranteed.iter().flatten().count(),
        drawn.demand(),
        drawn.policy
    );
    text(&folder.join("job.fio"), &format!("{run}{about}{}", drawn.job_file(notation)))
}

fn device(folder: &Path, name: &str, device: &DrawnDevice) -> anyhow::Result<()> {
    for (member, profile) in &device.members {
        text(&folder.join(member), profile)?;
    }
    text(&folder.join(name), &device.text)
}

fn text(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
