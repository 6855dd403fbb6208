//! The default backend: a FUSE file system with one file, the disk.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, Session, WriteFlags,
};

use crate::backend::{Backend, Serving};
use crate::disk::{Disk, Reply};

/// Name of the file below the mount point.
pub const FILE: &str = "disk";

/// Maximum request in bytes, which is that of a block device.
const MAX_WRITE: u32 = 1 << 20;

/// Limit of requests in flight. The kernel's default (12) would hold requests back behind the I/O scheduler, where it cannot sort them.
const MAX_BACKGROUND: u16 = 4096;

/// Lifetime of cached attributes: those of the file never change.
const FOREVER: Duration = Duration::from_secs(1 << 20);

const FOLDER: INodeNo = INodeNo::ROOT;
const DISK: INodeNo = INodeNo(2);

/// Mounts the disk.
#[derive(Clone, Debug)]
pub struct Fuse {
    /// An empty folder.
    pub mountpoint: PathBuf,
    /// The source name in the list of mounts.
    pub source: String,
}

/// The reply to a FUSE request.
#[derive(Debug)]
pub enum FuseReply {
    /// A read.
    Read(ReplyData),
    /// A write of this many bytes.
    Write(ReplyWrite, u32),
    /// Everything else.
    Empty(ReplyEmpty),
}

impl Reply for FuseReply {
    fn data(self, data: &[u8]) {
        match self {
            FuseReply::Read(reply) => reply.data(data),
            other => other.done(),
        }
    }

    fn done(self) {
        match self {
            FuseReply::Read(reply) => reply.data(&[]),
            FuseReply::Write(reply, bytes) => reply.written(bytes),
            FuseReply::Empty(reply) => reply.ok(),
        }
    }

    fn failed(self, error: &io::Error) {
        let errno = match error.kind() {
            io::ErrorKind::StorageFull => Errno::ENOSPC,
            _ => Errno::EIO,
        };
        match self {
            FuseReply::Read(reply) => reply.error(errno),
            FuseReply::Write(reply, _) => reply.error(errno),
            FuseReply::Empty(reply) => reply.error(errno),
        }
    }
}

struct Mounted {
    session: BackgroundSession,
    path: PathBuf,
}

impl Serving for Mounted {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn ended(&self) -> bool {
        self.session.guard.is_finished()
    }
}

impl Backend for Fuse {
    type Reply = FuseReply;

    fn start(&self, disk: Arc<Disk<FuseReply>>) -> io::Result<Box<dyn Serving>> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName(self.source.clone()), MountOption::Subtype("seekwise".into())];
        // More threads than processors would only cause switches.
        config.n_threads = Some(std::thread::available_parallelism().map_or(1, usize::from).min(4));
        config.clone_fd = true;
        let session =
            Session::new(FileSystem { disk }, &self.mountpoint, &config).map_err(|error| explained(&self.mountpoint, error))?;
        Ok(Box::new(Mounted { session: session.spawn()?, path: self.mountpoint.join(FILE) }))
    }
}

/// Adds the missing prerequisite to an error of mounting.
fn explained(mountpoint: &Path, error: io::Error) -> io::Error {
    let reason = if !Path::new("/dev/fuse").exists() {
        "/dev/fuse is missing: load the kernel module fuse, or give the container the device".to_owned()
    } else if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        format!("/dev/fuse cannot be opened ({error}): run as root, or allow this user to read and write it")
    } else if error.kind() == io::ErrorKind::NotFound {
        "mounting needs CAP_SYS_ADMIN (root), or the program fusermount3 (package fuse3)".to_owned()
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        format!("{error}: mounting needs CAP_SYS_ADMIN (root), or the program fusermount3 (package fuse3)")
    } else {
        error.to_string()
    };
    io::Error::new(error.kind(), format!("{}: cannot mount: {reason}", mountpoint.display()))
}

struct FileSystem {
    disk: Arc<Disk<FuseReply>>,
}

impl FileSystem {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size, nlink) = match inode {
            FOLDER => (FileType::Directory, 0o700, 0, 2),
            DISK => (FileType::RegularFile, 0o600, self.disk.size(), 1),
            _ => return None,
        };
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let (atime, mtime, ctime, crtime): (SystemTime, SystemTime, SystemTime, SystemTime) =
            (UNIX_EPOCH, UNIX_EPOCH, UNIX_EPOCH, UNIX_EPOCH);
        let (rdev, blksize, flags, blocks) = (0, 4096, 0, size / 512);
        Some(FileAttr { ino: inode, size, blocks, atime, mtime, ctime, crtime, kind, perm, nlink, uid, gid, rdev, blksize, flags })
    }

    fn reply_attributes(&self, inode: INodeNo, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Rejected values are replaced by the nearest possible ones.
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_readahead(MAX_WRITE);
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.set_congestion_threshold(MAX_BACKGROUND);
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(|_| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's FUSE cannot do direct I/O asynchronously; Linux 3.13 or later can",
            )
        })
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(DISK) {
            Some(attributes) if parent == FOLDER && name == FILE => reply.entry(&FOREVER, &attributes, Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attributes(inode, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<fuser::TimeOrNow>,
        _: Option<fuser::TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // A disk keeps its size; other attributes have no meaning here.
        match size {
            Some(size) if size != self.disk.size() => reply.error(Errno::EPERM),
            _ => self.reply_attributes(inode, reply),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Without page cache: the block device above has one, and cached requests would take no time. Closing a file flushes nothing.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.disk.read(offset, size, FuseReply::Read(reply));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.disk.write(offset, data, FuseReply::Write(reply, data.len() as u32));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a disk does not flush its cache.
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.disk.flush(FuseReply::Empty(reply));
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, length: u64, mode: i32, reply: ReplyEmpty) {
        // The modes that a loop device uses for discards and zeros. Reserving space is not supported.
        const KEEP_SIZE: i32 = 1;
        const PUNCH_HOLE: i32 = 2;
        const ZERO_RANGE: i32 = 16;
        match mode & !KEEP_SIZE {
            PUNCH_HOLE | ZERO_RANGE => self.disk.discard(offset, length, FuseReply::Empty(reply)),
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if inode != FOLDER {
            return reply.error(Errno::ENOTDIR);
        }
        let entries =
            [(FOLDER, FileType::Directory, "."), (FOLDER, FileType::Directory, ".."), (DISK, FileType::RegularFile, FILE)];
        for (next, (inode, kind, name)) in (1..).zip(entries).skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
