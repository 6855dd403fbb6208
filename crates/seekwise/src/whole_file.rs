//! Files that are written atomically: complete or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use report::record::unfinished;
use tempfile::NamedTempFile;

/// A temporary file next to the one that it replaces. It is removed if dropped before [`WholeFile::finish`].
pub struct WholeFile {
    file: NamedTempFile,
    target: PathBuf,
}

impl WholeFile {
    /// Creates a file that will replace `path`. Fails early if `path` cannot be replaced.
    pub fn create(path: &Path) -> anyhow::Result<WholeFile> {
        let target = target(path)?;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Permissions as of open(2): 0666 minus the umask.
        let file = unfinished::create(folder, 0o666).with_context(|| format!("cannot write into {}", folder.display()))?;
        Ok(WholeFile { file, target })
    }

    /// A handle for writing the content.
    pub fn writer(&self) -> anyhow::Result<File> {
        self.file.reopen().with_context(|| format!("cannot write {}", self.target.display()))
    }

    /// Writes these bytes and renames the file to its target.
    pub fn write_all(self, bytes: &[u8]) -> anyhow::Result<()> {
        self.writer()?.write_all(bytes).with_context(|| format!("cannot write {}", self.target.display()))?;
        self.finish()
    }

    /// Renames the file to its target.
    pub fn finish(self) -> anyhow::Result<()> {
        let WholeFile { file, target } = self;
        file.as_file().sync_all().with_context(|| format!("cannot write {}", target.display()))?;
        file.persist(&target).map_err(|error| error.error).with_context(|| format!("cannot write {}", target.display()))?;
        Ok(())
    }
}

/// The file to replace. Fails if `path` is not a regular file, such as a device.
fn target(path: &Path) -> anyhow::Result<PathBuf> {
    match fs::metadata(path) {
        Ok(about) if about.is_file() => fs::canonicalize(path).with_context(|| format!("cannot write {}", path.display())),
        Ok(about) if about.is_dir() => bail!("{} is a folder: name a file", path.display()),
        Ok(_) => bail!("{} is neither a file nor new: for a pipe write to -", path.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            report::record::destination(path).with_context(|| format!("cannot write {}", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}
