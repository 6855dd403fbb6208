//! The data of a store: a file or a block device, bypassing the page cache where possible.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, fcntl_lock, flock};
use rustix::io::{ReadWriteFlags, preadv2, pwritev2};

use backing::Backing;

/// How long to wait for transfers that a killed server left in flight: the kernel's timeout of a disk (`/sys/block/*/device/timeout`).
const LAST_TRANSFERS: Duration = Duration::from_secs(30);

/// A file or block device that holds volumes.
#[derive(Debug)]
pub struct Medium {
    file: File,
    bytes: u64,
    block_bytes: u32,
    is_rotational: bool,
    is_direct: bool,
    is_device: bool,
    /// Reads with `RWF_NOWAIT` are supported; assumed until one is refused.
    knows_waits: AtomicBool,
}

impl Medium {
    /// Opens a block device or an existing file, and locks it against other servers. Waits for transfers that a killed server left in
    /// flight, at most 30 s. With `is_direct` the page cache is bypassed if the file system allows it.
    ///
    /// # Errors
    /// The file cannot be opened; it is neither a file nor a block device; it is empty; or another process has locked it.
    pub fn open(path: &Path, is_direct: bool) -> io::Result<Medium> {
        let with = |flags: OFlags| OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path);
        let direct = if is_direct { with(OFlags::DIRECT).ok() } else { None };
        let is_direct = direct.is_some();
        let file = match direct {
            Some(file) => file,
            None => with(OFlags::empty())?,
        };
        lock(&file)?;
        let kind = file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device"));
        }
        let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
        if bytes == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "is empty; make it as large as the store, for example with truncate",
            ));
        }
        let (is_rotational, knows_waits) = (is_rotational(path), AtomicBool::new(true));
        let is_device = kind.is_block_device();
        let mut medium = Medium { file, bytes, block_bytes: 512, is_rotational, is_direct, is_device, knows_waits };
        medium.find_block_size()?;
        Ok(medium)
    }

    /// Finds the smallest transfer by trial: 512 bytes, or 4,096 on devices with such sectors.
    fn find_block_size(&mut self) -> io::Result<()> {
        let mut buffer = super::Buffer::new(4096);
        for bytes in [512_u32, 4096] {
            match self.file.read_at(&mut buffer[..bytes as usize], 0) {
                Ok(_) => {
                    self.block_bytes = bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && bytes == 512 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The smallest transfer and alignment, in bytes.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Whether it is, or lies on, a rotational disk according to the kernel.
    pub fn is_rotational(&self) -> bool {
        self.is_rotational
    }
}

/// Locks a file twice. The first lock ends with its process, and so shows whether a server is running. The second belongs to the open file,
/// which the kernel keeps until the last transfer of a killed process is complete: a write still in flight must not overwrite one of the
/// next server.
fn lock(file: &File) -> io::Result<()> {
    let busy = |text| io::Error::new(io::ErrorKind::ResourceBusy, text);
    fcntl_lock(file, FlockOperation::NonBlockingLockExclusive).map_err(|_| busy("another process serves this store"))?;
    let begun = Instant::now();
    while flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if begun.elapsed() > LAST_TRANSFERS {
            return Err(busy("a process that served this store still has requests under way; is its disk stuck?"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether sysfs reports the device of the file as rotational; false if unknown.
fn is_rotational(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    let folder = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    // A partition has the queue of its disk.
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).ok();
    read("queue/rotational").or_else(|| read("../queue/rotational")).is_some_and(|text| text.trim() == "1")
}

impl Backing for Medium {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_parts(offset, &mut [IoSliceMut::new(buffer)])
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_parts(offset, &mut [IoSlice::new(data)])
    }

    fn read_parts(&self, mut offset: u64, mut parts: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        while !parts.is_empty() {
            match preadv2(&self.file, parts, offset, ReadWriteFlags::empty()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(done) => {
                    offset += done as u64;
                    IoSliceMut::advance_slices(&mut parts, done);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write_parts(&self, mut offset: u64, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        while !parts.is_empty() {
            match pwritev2(&self.file, parts, offset, ReadWriteFlags::empty()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(done) => {
                    offset += done as u64;
                    IoSlice::advance_slices(&mut parts, done);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let punched = fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length);
        punched.or_else(|_| self.zero(offset, length).map_err(|_| rustix::io::Errno::IO)).map_err(io::Error::from)
    }

    fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        let zeroed = fallocate(&self.file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, offset, length);
        if zeroed.is_ok() {
            return Ok(());
        }
        let zeros = super::Buffer::new(length.min(1 << 20) as usize);
        let mut done = 0;
        while done < length {
            let part = (length - done).min(zeros.len() as u64);
            self.write(offset + done, &zeros[..part as usize])?;
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

    fn zeroes_at_once(&self) -> bool {
        !self.is_device
    }

    fn is_cached(&self) -> bool {
        !self.is_direct
    }

    fn read_now(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> bool {
        if self.is_direct || !self.knows_waits.load(Ordering::Relaxed) {
            return false;
        }
        let length: usize = parts.iter().map(|part| part.len()).sum();
        match preadv2(&self.file, parts, offset, ReadWriteFlags::NOWAIT) {
            Ok(done) => done == length,
            Err(rustix::io::Errno::OPNOTSUPP) => {
                self.knows_waits.store(false, Ordering::Relaxed);
                false
            }
            Err(_) => false,
        }
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }
}
