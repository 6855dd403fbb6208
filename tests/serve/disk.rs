//! An in-memory filesystem with fault injection: power cuts, and files that fail, stall or are full.
//!
//! Unflushed writes are kept separately. After a power cut each of their sectors is present or lost independently of the others,
//! because disks reorder writes. Names are those at the last flush, or the latest ones.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};

use super::client::Draw;

const PAGE: u64 = 4096;
const SECTOR: usize = 512;
const NO_TIME: Duration = Duration::ZERO;
const FOLDER: INodeNo = INodeNo::ROOT;

/// Sparse file content.
#[derive(Clone, Default)]
struct Content {
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
    size: u64,
}

impl Content {
    fn read(&self, range: Range<u64>) -> Vec<u8> {
        let mut data = Vec::new();
        let mut at = range.start;
        let end = range.end.min(self.size);
        while at < end {
            let (page, begin) = (at / PAGE, (at % PAGE) as usize);
            let part = ((PAGE as usize) - begin).min((end - at) as usize);
            match self.pages.get(&page) {
                Some(page) => data.extend(&page[begin..begin + part]),
                None => data.resize(data.len() + part, 0),
            }
            at += part as u64;
        }
        data
    }

    fn write(&mut self, mut offset: u64, mut data: &[u8]) {
        self.size = self.size.max(offset + data.len() as u64);
        while !data.is_empty() {
            let (page, begin) = (offset / PAGE, (offset % PAGE) as usize);
            let part = (PAGE as usize - begin).min(data.len());
            let page = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE as usize]));
            page[begin..begin + part].copy_from_slice(&data[..part]);
            (offset, data) = (offset + part as u64, &data[part..]);
        }
    }

    fn zero(&mut self, range: Range<u64>) {
        let whole = range.start.div_ceil(PAGE)..range.end / PAGE;
        if whole.start >= whole.end {
            if !self.pages.range(range.start / PAGE..range.end.div_ceil(PAGE)).collect::<Vec<_>>().is_empty() {
                self.write(range.start, &vec![0; (range.end - range.start) as usize]);
            }
            return;
        }
        let inside: Vec<u64> = self.pages.range(whole.clone()).map(|(page, _)| *page).collect();
        inside.iter().for_each(|page| drop(self.pages.remove(page)));
        for edge in [range.start..whole.start * PAGE, whole.end * PAGE..range.end] {
            if edge.start < edge.end && self.pages.contains_key(&(edge.start / PAGE)) {
                let size = self.size;
                self.write(edge.start, &vec![0; (edge.end - edge.start) as usize]);
                self.size = size;
            }
        }
    }

    fn resize(&mut self, size: u64) {
        if size < self.size {
            self.zero(size..self.size.next_multiple_of(PAGE));
        }
        self.size = size;
    }
}

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Zero(Range<u64>),
    Size(u64),
}

impl Change {
    fn apply(&self, content: &mut Content) {
        match self {
            Change::Write(offset, data) => content.write(*offset, data),
            Change::Zero(range) => content.zero(range.clone()),
            Change::Size(size) => content.resize(*size),
        }
    }

    /// Applies the part of the change that survives a power cut: all, none or some sectors.
    fn torn(&self, content: &mut Content, draw: &mut Draw, keeps_percent: u64) {
        match self {
            Change::Write(offset, data) => {
                for (number, sector) in data.chunks(SECTOR).enumerate() {
                    if draw.below(100) < keeps_percent {
                        content.write(offset + (number * SECTOR) as u64, sector);
                    }
                }
            }
            Change::Zero(range) if draw.below(100) < keeps_percent => {
                let pages = (range.end - range.start) / PAGE;
                let (begin, end) = (draw.below(pages + 1), draw.below(pages + 1));
                content.zero(range.start + begin.min(end) * PAGE..range.start + begin.max(end) * PAGE);
            }
            Change::Size(size) if draw.below(100) < keeps_percent => content.resize(*size),
            _ => {}
        }
    }
}

/// Fault injected into the requests of a file.
#[derive(Clone, Debug, Default)]
pub struct Fault {
    /// Reads and writes in this range fail with EIO.
    pub fails: Option<Range<u64>>,
    /// Requests receive no reply.
    pub stalls: bool,
    /// Writes fail with ENOSPC.
    pub is_full: bool,
}

#[derive(Default)]
struct File {
    now: Content,
    flushed: Content,
    /// Changes since the last flush.
    changes: Vec<Change>,
}

type Names = BTreeMap<String, u64>;
type Waiting = Box<dyn FnOnce(&mut State) + Send>;

#[derive(Default)]
struct State {
    files: BTreeMap<u64, File>,
    next: u64,
    names: Names,
    flushed_names: Names,
    /// Whether the power is off.
    is_cut: bool,
    faults: BTreeMap<String, Fault>,
    /// Requests held back by stalled files.
    waiting: Vec<Waiting>,
}

impl State {
    fn fault(&self, inode: INodeNo) -> Fault {
        let name = self.names.iter().find(|(_, number)| **number == inode.0).map(|(name, _)| name);
        name.and_then(|name| self.faults.get(name)).cloned().unwrap_or_default()
    }

    /// Error injected into a request of this range; `None` if it succeeds.
    fn refused(&self, inode: INodeNo, range: Range<u64>, writes: bool) -> Option<Errno> {
        let fault = self.fault(inode);
        let fails = fault.fails.is_some_and(|bad| bad.start < range.end && range.start < bad.end);
        if self.is_cut || fails {
            return Some(Errno::EIO);
        }
        (writes && fault.is_full).then_some(Errno::ENOSPC)
    }

    fn change(&mut self, inode: INodeNo, change: Change) {
        if let Some(file) = self.files.get_mut(&inode.0) {
            change.apply(&mut file.now);
            file.changes.push(change);
        }
    }

    fn flush(&mut self, inode: INodeNo) {
        if let Some(file) = self.files.get_mut(&inode.0) {
            for change in file.changes.drain(..) {
                change.apply(&mut file.flushed);
            }
        }
        // A journalling filesystem also commits names on a flush.
        self.flushed_names = self.names.clone();
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size, nlink) = match self.files.get(&inode.0) {
            _ if inode == FOLDER => (FileType::Directory, 0o700, 0, 2),
            Some(file) => (FileType::RegularFile, 0o600, file.now.size, 1),
            None => return None,
        };
        let time: SystemTime = UNIX_EPOCH;
        let (atime, mtime, ctime, crtime) = (time, time, time, time);
        let (uid, gid, rdev, blksize, flags, blocks) = (0, 0, 0, 4096, 0, size / 512);
        Some(FileAttr { ino: inode, size, blocks, atime, mtime, ctime, crtime, kind, perm, nlink, uid, gid, rdev, blksize, flags })
    }
}

/// The mounted filesystem; unmounted on drop.
pub struct Disk {
    state: Arc<Mutex<State>>,
    _session: BackgroundSession,
}

impl Disk {
    /// Mounts it on a folder; `None`, with a message, if that is not possible.
    pub fn mount(folder: &Path) -> Option<Disk> {
        let state: Arc<Mutex<State>> = Arc::new(Mutex::new(State { next: 2, ..State::default() }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("seekwise-test".into())];
        config.n_threads = Some(4);
        let mounted = Session::new(Mount(state.clone()), folder, &config).and_then(|session| session.spawn());
        match mounted {
            Ok(session) => Some(Disk { state, _session: session }),
            Err(error) => {
                eprintln!("skipped: needs FUSE: {error}");
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Cuts the power: every request fails from now on, and the surviving sectors are drawn at random.
    pub fn cut(&self, draw: &mut Draw) {
        // None, some or all.
        let keeps = [0, 50, 90, 100][draw.below(4) as usize];
        self.cut_keeping(draw, keeps);
    }

    /// Cuts the power, keeping this percentage of unflushed sectors.
    pub fn cut_keeping(&self, draw: &mut Draw, keeps: u64) {
        let mut state = self.lock();
        state.is_cut = true;
        for file in state.files.values_mut() {
            let mut content = std::mem::take(&mut file.flushed);
            let mut changes = std::mem::take(&mut file.changes);
            for change in changes.drain(..) {
                change.torn(&mut content, draw, keeps);
            }
            file.now = content.clone();
            file.flushed = content;
        }
        if keeps == 0 || draw.below(2) == 0 {
            state.names = state.flushed_names.clone();
        } else {
            state.flushed_names = state.names.clone();
        }
    }

    pub fn power_on(&self) {
        self.lock().is_cut = false;
    }

    /// Sets the fault of a file, by name.
    pub fn set(&self, file: &str, fault: Fault) {
        let mut state = self.lock();
        let stalls = fault.stalls;
        state.faults.insert(file.to_owned(), fault);
        if !stalls {
            for waiting in std::mem::take(&mut state.waiting) {
                waiting(&mut state);
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.faults.clear();
        for waiting in std::mem::take(&mut state.waiting) {
            waiting(&mut state);
        }
    }
}

struct Mount(Arc<Mutex<State>>);

impl Mount {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Runs `act` now, or when the file no longer stalls.
    fn does(&self, inode: INodeNo, act: impl FnOnce(&mut State) + Send + 'static) {
        let mut state = self.lock();
        if state.fault(inode).stalls {
            state.waiting.push(Box::new(act));
        } else {
            act(&mut state);
        }
    }
}

fn flags() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | FopenFlags::FOPEN_NOFLUSH
}

impl Filesystem for Mount {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.lock();
        let found = state.names.get(&*name.to_string_lossy()).and_then(|number| state.attributes(INodeNo(*number)));
        match found {
            Some(attributes) => reply.entry(&NO_TIME, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.lock().attributes(inode) {
            Some(attributes) => reply.attr(&NO_TIME, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.lock();
        if state.is_cut {
            return reply.error(Errno::EIO);
        }
        if let Some(size) = size {
            state.change(inode, Change::Size(size));
        }
        match state.attributes(inode) {
            Some(attributes) => reply.attr(&NO_TIME, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn create(&self, _: &Request, _: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut state = self.lock();
        if state.is_cut {
            return reply.error(Errno::EIO);
        }
        let number = state.next;
        state.next += 1;
        state.files.insert(number, File::default());
        state.names.insert(name.to_string_lossy().into_owned(), number);
        match state.attributes(INodeNo(number)) {
            Some(attributes) => reply.created(&NO_TIME, &attributes, Generation(0), FileHandle(0), flags()),
            None => reply.error(Errno::EIO),
        }
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.lock();
        if state.is_cut {
            return reply.error(Errno::EIO);
        }
        match state.names.remove(&*name.to_string_lossy()) {
            Some(_) => reply.ok(),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn rename(&self, _: &Request, _: INodeNo, name: &OsStr, _: INodeNo, new: &OsStr, _: RenameFlags, reply: ReplyEmpty) {
        let mut state = self.lock();
        if state.is_cut {
            return reply.error(Errno::EIO);
        }
        match state.names.remove(&*name.to_string_lossy()) {
            Some(number) => {
                state.names.insert(new.to_string_lossy().into_owned(), number);
                reply.ok();
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), flags());
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.does(inode, move |state| {
            let range = offset..offset + u64::from(size);
            if let Some(error) = state.refused(inode, range.clone(), false) {
                return reply.error(error);
            }
            match state.files.get(&inode.0) {
                Some(file) => reply.data(&file.now.read(range)),
                None => reply.error(Errno::EIO),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        self.does(inode, move |state| {
            if let Some(error) = state.refused(inode, offset..offset + data.len() as u64, true) {
                return reply.error(error);
            }
            let length = data.len() as u32;
            state.change(inode, Change::Write(offset, data));
            reply.written(length);
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.does(inode, move |state| {
            if state.is_cut {
                return reply.error(Errno::EIO);
            }
            state.flush(inode);
            reply.ok();
        });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut state = self.lock();
        if state.is_cut {
            return reply.error(Errno::EIO);
        }
        state.flushed_names = state.names.clone();
        reply.ok();
    }

    fn fallocate(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, length: u64, mode: i32, reply: ReplyEmpty) {
        // FALLOC_FL_PUNCH_HOLE and ZERO_RANGE with KEEP_SIZE.
        if mode & 1 == 0 || !matches!(mode & !1, 2 | 16) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        self.does(inode, move |state| {
            if let Some(error) = state.refused(inode, offset..offset + length, mode & 16 != 0) {
                return reply.error(error);
            }
            state.change(inode, Change::Zero(offset..offset + length));
            reply.ok();
        });
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let state = self.lock();
        for (next, (name, number)) in (1..).zip(&state.names).skip(offset as usize) {
            if reply.add(INodeNo(*number), next, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }
}
