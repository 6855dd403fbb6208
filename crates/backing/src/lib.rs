//! Storage for the content of an emulated disk or of a store of volumes: in memory, or in a sparse file.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

/// The content of a disk, initially zeros. Ranges must lie within its size.
///
/// ```
/// use backing::{Backing, MemoryBacking};
///
/// let backing = MemoryBacking::default();
/// backing.write(4_096, b"data")?;
/// let mut read = [0; 5];
/// backing.read(4_096, &mut read)?;
/// assert_eq!(&read, b"data\0");
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Backing: Send + Sync {
    /// Fills the buffer from this byte offset on.
    ///
    /// # Errors
    /// The medium failed.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes the data at this byte offset; later reads return it.
    ///
    /// # Errors
    /// The medium failed.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// As [`read`](Backing::read), into several buffers in order.
    ///
    /// # Errors
    /// The medium failed.
    fn read_parts(&self, mut offset: u64, parts: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        for part in parts {
            self.read(offset, part)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// As [`write`](Backing::write), from several buffers in order.
    ///
    /// # Errors
    /// The medium failed.
    fn write_parts(&self, mut offset: u64, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        for part in parts {
            self.write(offset, part)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Zeroes the range, and keeps its space if the medium distinguishes that from freed space. By default the same as
    /// [`discard`](Backing::discard).
    ///
    /// # Errors
    /// The medium failed.
    fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        self.discard(offset, length)
    }

    /// Whether the time of `zero` does not depend on the length, because a file system only records it. True by default.
    fn zeroes_at_once(&self) -> bool {
        true
    }

    /// Zeroes the range, and frees its space if possible.
    ///
    /// # Errors
    /// The medium failed.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Makes earlier writes durable, as far as the medium allows.
    ///
    /// # Errors
    /// The medium failed.
    fn flush(&self) -> io::Result<()>;

    /// Whether `flush` may take long.
    fn flush_takes_time(&self) -> bool;

    /// Whether data may be in the page cache, so that [`read_now`](Backing::read_now) is worth trying. False by default.
    fn is_cached(&self) -> bool {
        false
    }

    /// Reads the whole range without waiting for a device. False if that is not possible: the buffers' content is then arbitrary.
    fn read_now(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> bool {
        let _ = (offset, parts);
        false
    }

    /// The file with the data at the same offsets, if `read`, `write` and `flush` do nothing but access it: io_uring may then bypass them.
    /// `None` by default.
    fn file(&self) -> Option<&File> {
        None
    }
}

/// Volatile storage in memory. Only written data takes space, in chunks of 64 KiB.
#[derive(Debug, Default)]
pub struct MemoryBacking {
    /// Maps with a lock each, to reduce contention. The lowest bits of a chunk's number select the map.
    shards: [Mutex<BTreeMap<u64, Box<[u8]>>>; MemoryBacking::SHARDS],
}

impl MemoryBacking {
    const CHUNK: usize = 64 << 10;
    const SHARDS: usize = 16;

    /// Calls `act` for each chunk of a range with its map, its number, and the part of it.
    fn for_each(
        &self,
        offset: u64,
        length: u64,
        mut act: impl FnMut(&mut BTreeMap<u64, Box<[u8]>>, u64, std::ops::Range<usize>, usize),
    ) {
        let chunk = MemoryBacking::CHUNK as u64;
        let mut done = 0;
        while done < length {
            let at = offset + done;
            let (number, begin) = (at / chunk, at % chunk);
            let part = (chunk - begin).min(length - done);
            let shard = &self.shards[number as usize % MemoryBacking::SHARDS];
            let mut map = shard.lock().unwrap_or_else(PoisonError::into_inner);
            act(&mut map, number, begin as usize..(begin + part) as usize, done as usize);
            done += part;
        }
    }
}

impl Backing for MemoryBacking {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.for_each(offset, buffer.len() as u64, |map, number, part, done| {
            let into = &mut buffer[done..done + part.len()];
            match map.get(&number) {
                Some(chunk) => into.copy_from_slice(&chunk[part]),
                None => into.fill(0),
            }
        });
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.for_each(offset, data.len() as u64, |map, number, part, done| {
            let chunk = map.entry(number).or_insert_with(|| vec![0; MemoryBacking::CHUNK].into_boxed_slice());
            let from = &data[done..done + part.len()];
            chunk[part].copy_from_slice(from);
        });
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.for_each(offset, length, |map, number, part, _| {
            if part.len() == MemoryBacking::CHUNK {
                map.remove(&number);
            } else if let Some(chunk) = map.get_mut(&number) {
                chunk[part].fill(0);
            }
        });
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush_takes_time(&self) -> bool {
        false
    }
}

/// A sparse file of the disk's size. A flush is an fdatasync.
#[derive(Debug)]
pub struct FileBacking {
    file: File,
    size: u64,
}

impl FileBacking {
    /// Opens the file, or creates one of `size` bytes (`default_size` if `None`), and locks it against other emulators.
    ///
    /// # Errors
    /// The file cannot be opened; its size differs from `size`; or another process has locked it.
    pub fn open(path: &Path, size: Option<u64>, default_size: u64) -> io::Result<FileBacking> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::new(io::ErrorKind::ResourceBusy, "another process emulates a disk from this file"))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file; name a file, or one to create"));
        }
        let size = match (metadata.len(), size) {
            (0, size) => size.unwrap_or(default_size),
            (there, None) => there,
            (there, Some(size)) if there == size => size,
            (there, Some(size)) => {
                let message = format!("has {there} bytes, and --size asks for {size}; leave out --size, or name another file");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        file.set_len(size)?;
        Ok(FileBacking { file, size })
    }

    /// Size of the disk in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Backing for FileBacking {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let punched = fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length);
        if punched.is_ok() {
            return Ok(());
        }
        // Not every file system supports holes; reads must return zeros.
        let zeros = vec![0; 1 << 20];
        let mut done = 0;
        while done < length {
            let part = (length - done).min(zeros.len() as u64);
            self.file.write_all_at(&zeros[..part as usize], offset + done)?;
            done += part;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn flush_takes_time(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_content(backing: &dyn Backing) {
        let mut read = vec![7; 200_000];
        backing.read(60_000, &mut read).unwrap();
        assert!(read.iter().all(|&byte| byte == 0), "never written");
        let data: Vec<u8> = (0..150_000_u32).map(|at| (at % 251) as u8 + 1).collect();
        backing.write(65_000, &data).unwrap();
        backing.read(60_000, &mut read).unwrap();
        assert_eq!((&read[..5_000], &read[5_000..155_000], &read[155_000..]), (&[0; 5_000][..], &data[..], &[0; 45_000][..]));
        backing.discard(65_100, 149_800).unwrap();
        backing.read(60_000, &mut read).unwrap();
        assert_eq!((&read[5_000..5_100], &read[154_900..155_000]), (&data[..100], &data[149_900..]));
        assert!(read[5_100..154_900].iter().all(|&byte| byte == 0), "discarded");
    }

    #[test]
    fn memory_keeps_the_content() {
        check_content(&MemoryBacking::default());
    }

    #[test]
    fn a_file_keeps_the_content_after_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let kept = FileBacking::open(&path, None, 1 << 20).unwrap();
        assert_eq!(kept.size(), 1 << 20);
        check_content(&kept);
        kept.write(4096, b"kept").unwrap();
        let other = FileBacking::open(&path, None, 1).unwrap_err();
        assert!(other.to_string().contains("another process"), "{other}");
        drop(kept);
        let again = FileBacking::open(&path, None, 1).unwrap();
        let mut read = [0; 4];
        again.read(4096, &mut read).unwrap();
        assert_eq!((&read, again.size()), (b"kept", 1 << 20));
        drop(again);
        let error = FileBacking::open(&path, Some(4096), 1).unwrap_err().to_string();
        assert!(error.contains("has 1048576 bytes, and --size asks for 4096"), "{error}");
    }
}
