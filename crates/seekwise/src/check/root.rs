//! Reads files below a root folder like a program with that as its `/`: links are resolved within the root. Content is untrusted.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use applier::sysfs::Sysfs;

/// Maximum size of a configuration file, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum symbolic links in a path (`MAXSYMLINKS` in Linux's `include/linux/namei.h`).
const MAX_LINKS: usize = 40;
/// A link to this file masks the files of the same name.
const NOTHING: &str = "/dev/null";

/// A line in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Path of the file, relative to the root.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A file's text.
#[derive(Debug)]
pub struct Text {
    /// Path relative to the root.
    pub file: String,
    /// Text; invalid UTF-8 is replaced.
    pub text: String,
}

impl Text {
    /// Trimmed lines with their locations.
    pub fn lines(&self) -> impl Iterator<Item = (Origin, &str)> {
        self.text.lines().enumerate().map(|(number, line)| (self.origin(number), line.trim()))
    }

    /// Logical lines: a backslash at the end continues a line, whose location is its beginning. Comments and empty lines are omitted;
    /// a comment within a continued line does not end it.
    pub fn continued_lines(&self) -> Vec<(Origin, String)> {
        let mut lines: Vec<(Origin, String)> = Vec::new();
        let mut goes_on = false;
        for (origin, line) in self.lines() {
            if line.starts_with('#') || (line.is_empty() && !goes_on) {
                continue;
            }
            let (part, continues) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
            match lines.last_mut() {
                Some((_, whole)) if goes_on => whole.push_str(part),
                _ => lines.push((origin, part.to_owned())),
            }
            goes_on = continues;
        }
        lines
    }

    fn origin(&self, number: usize) -> Origin {
        Origin { file: self.file.clone(), line: number + 1 }
    }
}

/// A root folder.
pub struct Root {
    folder: PathBuf,
}

impl Root {
    /// The root at a folder.
    pub fn at(folder: &Path) -> Root {
        Root { folder: folder.to_owned() }
    }

    /// sysfs below the root.
    pub fn sysfs(&self) -> Sysfs {
        Sysfs::at(&self.folder)
    }

    /// Resolves links of a path within the root. Returns the path relative to the root, which need not exist; `None` for a loop of links.
    fn resolve(&self, path: &str) -> Option<PathBuf> {
        let mut rest: VecDeque<OsString> = components(Path::new(path)).collect();
        let (mut inside, mut links) = (PathBuf::new(), 0);
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                inside.pop();
                continue;
            }
            let Ok(target) = std::fs::read_link(self.folder.join(&inside).join(&name)) else {
                inside.push(name);
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return None;
            }
            if target.is_absolute() {
                inside = PathBuf::new();
            }
            components(&target).rev().for_each(|name| rest.push_front(name));
        }
        Some(inside)
    }

    /// Path on the machine of a path within the root, with links resolved; `None` for a loop of links.
    fn place(&self, path: &str) -> Option<PathBuf> {
        self.resolve(path).map(|inside| self.folder.join(inside))
    }

    /// File name of the resolved path; `None` if it does not exist.
    pub fn target_name(&self, path: &str) -> Option<String> {
        let place = self.place(path).filter(|place| place.exists())?;
        Some(place.file_name()?.to_string_lossy().into_owned())
    }

    /// Trimmed text of a kernel file; `None` if it cannot be read.
    pub fn attribute(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.place(path)?).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Names in a folder, sorted; empty if the folder does not exist.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = self.place(folder).and_then(|place| std::fs::read_dir(place).ok());
        let mut names: Vec<String> =
            entries.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Reads a configuration file; `None` if it does not exist or, with a warning, cannot be read.
    pub fn read(&self, path: &str, warnings: &mut Vec<String>) -> Option<Text> {
        let Some(place) = self.place(path) else {
            warnings.push(format!("{path}: is a loop of links; a file would be right"));
            return None;
        };
        let about = std::fs::metadata(&place).ok()?;
        if !about.is_file() {
            let is_masked = self.is_masked(path);
            let warning = format!("{path}: is not a file, so it is not read");
            (!is_masked).then(|| warnings.push(warning));
            return None;
        }
        if about.len() > MAX_BYTES {
            warnings.push(format!("{path}: has {} bytes, so it is not read; at most {MAX_BYTES} would be right", about.len()));
            return None;
        }
        let mut bytes = Vec::new();
        if let Err(error) = File::open(&place).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes)) {
            warnings.push(format!("{path}: cannot be read: {error}"));
            return None;
        }
        if let Err(error) = std::str::from_utf8(&bytes) {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
            warnings.push(format!("{path}:{line}: is not UTF-8; the rest is read"));
        }
        Some(Text { file: path.to_owned(), text: String::from_utf8_lossy(&bytes).into_owned() })
    }

    fn is_masked(&self, path: &str) -> bool {
        self.resolve(path).is_some_and(|inside| Path::new("/").join(inside) == Path::new(NOTHING))
    }

    /// Files with this extension in several folders, sorted by name. A file in an earlier folder overrides one of the same name in a
    /// later folder; a link to `/dev/null` masks it.
    pub fn drop_ins(&self, folders: &[&str], ending: &str, warnings: &mut Vec<String>) -> Vec<Text> {
        let mut paths = BTreeMap::new();
        for folder in folders {
            for name in self.names(folder).into_iter().filter(|name| name.ends_with(ending)) {
                let path = format!("{folder}/{name}");
                paths.entry(name).or_insert(path);
            }
        }
        let paths = paths.into_values().filter(|path| !self.is_masked(path)).collect::<Vec<_>>();
        paths.iter().filter_map(|path| self.read(path, warnings)).collect()
    }
}

/// Components of a path, including `..`.
fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn of_files_of_one_name_the_first_folder_counts_and_dev_null_masks() {
        let (folder, root) = tree(&[
            ("etc/x.d/50-a.conf", b"etc"),
            ("usr/lib/x.d/50-a.conf", b"usr"),
            ("usr/lib/x.d/10-b.conf", b"b"),
            ("usr/lib/x.d/70-masked.conf", b"masked"),
            ("usr/lib/x.d/readme", b"no"),
        ]);
        symlink("/dev/null", folder.path().join("etc/x.d/70-masked.conf")).unwrap();
        let mut warnings = Vec::new();
        let texts = root.drop_ins(&["/etc/x.d", "/usr/lib/x.d"], ".conf", &mut warnings);
        let found: Vec<_> = texts.iter().map(|text| (text.file.as_str(), text.text.as_str())).collect();
        assert_eq!(found, [("/usr/lib/x.d/10-b.conf", "b"), ("/etc/x.d/50-a.conf", "etc")]);
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn links_stay_below_the_root_and_loops_end() {
        let (folder, root) = tree(&[("opt/real.conf", b"inside"), ("etc/x", b"")]);
        symlink("/opt/real.conf", folder.path().join("etc/absolute.conf")).unwrap();
        symlink("../../../../opt/real.conf", folder.path().join("etc/above.conf")).unwrap();
        symlink("b.conf", folder.path().join("etc/a.conf")).unwrap();
        symlink("a.conf", folder.path().join("etc/b.conf")).unwrap();
        let mut warnings = Vec::new();
        for path in ["/etc/absolute.conf", "/etc/above.conf"] {
            assert_eq!(root.read(path, &mut warnings).unwrap().text, "inside", "{path}");
        }
        assert!(root.read("/etc/a.conf", &mut warnings).is_none());
        assert!(warnings.concat().contains("/etc/a.conf: is a loop of links"), "{warnings:?}");
    }

    #[test]
    fn a_huge_file_and_a_folder_are_left_out_and_other_bytes_are_replaced() {
        let huge = vec![b'#'; MAX_BYTES as usize + 1];
        let (_folder, root) = tree(&[("etc/huge", &huge), ("etc/folder/x", b""), ("etc/latin", b"a\n\xe9 = 1\nb")]);
        let mut warnings = Vec::new();
        assert!(root.read("/etc/huge", &mut warnings).is_none());
        assert!(root.read("/etc/folder", &mut warnings).is_none());
        assert!(root.read("/etc/none", &mut warnings).is_none());
        assert_eq!(root.read("/etc/latin", &mut warnings).unwrap().lines().count(), 3);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[2].starts_with("/etc/latin:2: is not UTF-8"), "{warnings:?}");
    }

    #[test]
    fn a_continued_line_has_the_place_where_it_begins() {
        let text = Text { file: "/f".to_owned(), text: "# no\n\na \\\n  b \\\n# between\nc\nd\n".to_owned() };
        let lines: Vec<_> = text.continued_lines().into_iter().map(|(origin, line)| (origin.to_string(), line)).collect();
        assert_eq!(lines, [("/f:3".to_owned(), "a b c".to_owned()), ("/f:7".to_owned(), "d".to_owned())]);
    }
}
