//! The front door for vhost-user: the virtual machine monitor (QEMU, Cloud Hypervisor) shares the guest's memory, and requests to its
//! virtio-blk disk are taken from there instead of from a socket. Requires the feature `vhost-user`.
//!
//! ```text
//! guest ─▶ virtqueue in shared memory ─▶ event thread ─▶ Export::submit ─▶ store ─▶ Replies::done ─▶ data and status into shared memory
//! ```
//! The monitor is trusted not to shrink the shared memory: the kernel kills a server that accesses memory that has gone.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use vhost::vhost_user::{Listener, VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{ShutdownHandle, VhostUserBackend, VhostUserDaemon, VringRwLock, VringT};
use virtio_queue::{DescriptorChain, QueueT as _};
use vm_memory::{GuestAddressSpace as _, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::nbd::{Ask, Export, pieces};
use crate::store::{Buffer, Buffers, Kind, Replies};

/// Maximum virtqueues; a guest uses one for each of its processors.
const QUEUES: u16 = 4;
/// Maximum size of a virtqueue, in descriptors.
const QUEUE_SIZE: u16 = 256;
/// Maximum data segments of a request (`seg_max`).
const SEGMENTS: u32 = 126;
/// Data in flight, in bytes, at which no more requests are taken.
const MOST_BYTES: u64 = 64 << 20;
/// Events, after those of the queues and of the crate itself: resume after back-pressure, and end.
const GO_ON: u16 = QUEUES + 1;
const END: u16 = QUEUES + 2;

/// Feature bits, request types and status codes of the virtio specification, version 1.2, section 5.2.
const F_SEG_MAX: u64 = 1 << 2;
const F_RO: u64 = 1 << 5;
const F_BLK_SIZE: u64 = 1 << 6;
const F_FLUSH: u64 = 1 << 9;
const F_MQ: u64 = 1 << 12;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;
const F_INDIRECT_DESC: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
const F_VERSION_1: u64 = 1 << 32;
const T_IN: u32 = 0;
const T_OUT: u32 = 1;
const T_FLUSH: u32 = 4;
const T_GET_ID: u32 = 8;
const T_DISCARD: u32 = 11;
const T_WRITE_ZEROES: u32 = 13;
const S_OK: u8 = 0;
const S_IOERR: u8 = 1;
const S_UNSUPP: u8 = 2;
/// Length of a disk's id in bytes.
const ID_BYTES: usize = 20;

type Memory = GuestMemoryMmap<()>;
type Chain = DescriptorChain<Arc<Memory>>;

/// Serves an export at a socket to one monitor after the other, until `is_ended` returns true. `open` finds the export for each connection.
/// `begins` gets a function that ends the connection, and returns the connection's number, or `None` to refuse it; `ends` is called with
/// that number.
///
/// # Errors
/// The socket failed.
pub fn serve(
    listener: UnixListener,
    open: impl Fn() -> Result<Arc<dyn Export>, String>,
    is_ended: impl Fn() -> bool,
    begins: impl Fn(Box<dyn FnOnce() + Send>) -> Option<u64>,
    ends: impl Fn(u64),
) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let look = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let waiting = listener.try_clone()?;
    let mut listener = Listener::from(listener);
    while !is_ended() {
        let mut polled = [PollFd::new(&waiting, PollFlags::IN)];
        if matches!(poll(&mut polled, Some(&look)), Ok(ready) if ready > 0) {
            match open() {
                // An error of one connection does not end the server.
                Ok(export) => drop(connection(&mut listener, &export, &begins, &ends)),
                Err(_) => drop(listener.accept()),
            }
        }
    }
    Ok(())
}

fn connection(
    listener: &mut Listener,
    export: &Arc<dyn Export>,
    begins: &impl Fn(Box<dyn FnOnce() + Send>) -> Option<u64>,
    ends: &impl Fn(u64),
) -> io::Result<()> {
    let memory = GuestMemoryAtomic::new(Memory::new());
    let disk = Arc::new(Disk::new(export.clone(), memory.clone())?);
    let mut daemon =
        VhostUserDaemon::new("vhost-user".to_owned(), Backend(disk.clone()), memory).map_err(|error| failed(&error))?;
    for handler in daemon.get_epoll_handlers() {
        handler.register_listener(disk.go_on.as_raw_fd(), EventSet::IN, u64::from(GO_ON))?;
        handler.register_listener(disk.end.as_raw_fd(), EventSet::IN, u64::from(END))?;
    }
    let started = daemon.start(listener).map_err(|error| failed(&error));
    let begun = started.is_ok() && export.begins();
    let number = if begun {
        let end: Option<ShutdownHandle> = daemon.shutdown_handle();
        begins(Box::new(move || end.iter().for_each(ShutdownHandle::shutdown)))
    } else {
        None
    };
    if number.is_none() {
        daemon.request_shutdown();
    }
    let result = daemon.wait().map_err(|error| failed(&error));
    // Ends the event thread, which the daemon waits for when dropped.
    disk.end.write(1)?;
    drop(daemon);
    disk.wait_until_idle();
    if begun {
        export.ends();
    }
    number.into_iter().for_each(ends);
    started.and(result)
}

fn failed(error: &vhost_user_backend::Error) -> io::Error {
    io::Error::other(error.to_string())
}

/// A request in flight.
struct Pending {
    vring: VringRwLock,
    chain: Chain,
    kind: Kind,
    bytes: u64,
}

#[derive(Default)]
struct State {
    pending: BTreeMap<u64, Pending>,
    next: u64,
    bytes: u64,
    /// Since when requests wait for room; `None` if none do.
    is_held_back: Option<Instant>,
}

/// The disk of a virtual machine.
struct Disk {
    export: Arc<dyn Export>,
    memory: GuestMemoryAtomic<Memory>,
    features: AtomicU64,
    state: Mutex<State>,
    idle: Condvar,
    go_on: EventFd,
    end: EventFd,
}

/// A request, decoded from the guest's memory.
enum Wanted {
    Ask(Kind, u64, u64, Buffers),
    Id,
    Refused(u8),
}

impl Disk {
    fn new(export: Arc<dyn Export>, memory: GuestMemoryAtomic<Memory>) -> io::Result<Disk> {
        Ok(Disk {
            export,
            memory,
            features: AtomicU64::new(0),
            state: Mutex::default(),
            idle: Condvar::new(),
            go_on: EventFd::new(EFD_NONBLOCK)?,
            end: EventFd::new(EFD_NONBLOCK)?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until_idle(&self) {
        let state = self.lock();
        drop(self.idle.wait_while(state, |state| !state.pending.is_empty()));
    }

    /// Takes requests from a queue until it is empty or too much data is in flight.
    fn take(self: &Arc<Self>, vring: &VringRwLock) -> io::Result<()> {
        loop {
            vring.disable_notification().map_err(io::Error::other)?;
            loop {
                {
                    let mut state = self.lock();
                    if state.bytes >= MOST_BYTES {
                        state.is_held_back.get_or_insert_with(Instant::now);
                        return Ok(());
                    }
                }
                let memory = self.memory.memory().into_inner();
                let Some(chain) = vring.get_mut().get_queue_mut().pop_descriptor_chain(memory) else { break };
                self.request(vring, chain);
            }
            // A request may have arrived before notifications were enabled.
            if !vring.enable_notification().map_err(io::Error::other)? {
                return Ok(());
            }
        }
    }

    fn request(self: &Arc<Self>, vring: &VringRwLock, chain: Chain) {
        let wanted = self.wanted(&chain).unwrap_or(Wanted::Refused(S_IOERR));
        match wanted {
            Wanted::Refused(status) => answer(vring, &chain, status, &[]),
            Wanted::Id => {
                let mut id = self.export.name().into_bytes();
                id.resize(ID_BYTES, 0);
                answer(vring, &chain, S_OK, &[&id]);
            }
            Wanted::Ask(kind, offset, bytes, data) => {
                let held = if matches!(kind, Kind::Read | Kind::Write) { bytes } else { 0 };
                let cookie = {
                    let mut state = self.lock();
                    state.next += 1;
                    state.bytes += held;
                    let cookie = state.next;
                    state.pending.insert(cookie, Pending { vring: vring.clone(), chain, kind, bytes: held });
                    cookie
                };
                // A guest without the flush feature relies on answered writes being durable.
                let is_durable = kind != Kind::Read && self.features.load(Ordering::Relaxed) & F_FLUSH == 0;
                self.export.submit(Ask { cookie, kind, offset, bytes, is_durable, data }, self.clone());
            }
        }
    }

    /// Decodes a request; `None` if it is malformed.
    fn wanted(&self, chain: &Chain) -> Option<Wanted> {
        let mut reader = chain.clone().reader(chain.memory()).ok()?;
        let kind: u32 = reader.read_obj().ok()?;
        let _: u32 = reader.read_obj().ok()?;
        let sector: u64 = reader.read_obj().ok()?;
        let offset = sector.checked_mul(512)?;
        let writes = !matches!(kind, T_IN | T_FLUSH | T_GET_ID);
        if writes && self.export.is_read_only() {
            return Some(Wanted::Refused(S_IOERR));
        }
        // The last writable byte is the status.
        let space = chain.clone().writer(chain.memory()).ok()?.available_bytes().checked_sub(1)?;
        match kind {
            T_IN => self.checked(Kind::Read, offset, space as u64, Buffers::new()),
            T_OUT => {
                let bytes = reader.available_bytes() as u64;
                self.checked(Kind::Write, offset, bytes, Buffers::new())?;
                let (boundary, longest) = self.export.cuts();
                let mut data = Buffers::new();
                for length in pieces(offset, bytes, boundary, longest) {
                    let mut buffer = Buffer::dirty(length as usize);
                    reader.read_exact(&mut buffer).ok()?;
                    data.push(buffer);
                }
                Some(Wanted::Ask(Kind::Write, offset, bytes, data))
            }
            T_FLUSH => Some(Wanted::Ask(Kind::Flush, 0, 0, Buffers::new())),
            T_GET_ID => (space >= ID_BYTES).then_some(Wanted::Id),
            T_DISCARD | T_WRITE_ZEROES => {
                let sector: u64 = reader.read_obj().ok()?;
                let (sectors, flags): (u32, u32) = (reader.read_obj().ok()?, reader.read_obj().ok()?);
                let may_unmap = u32::from(kind == T_WRITE_ZEROES);
                if flags & !may_unmap != 0 || reader.available_bytes() > 0 {
                    return Some(Wanted::Refused(S_UNSUPP));
                }
                let keeps_space = kind == T_WRITE_ZEROES && flags == 0;
                let kind = if keeps_space { Kind::Zero } else { Kind::Trim };
                self.checked(kind, sector.checked_mul(512)?, 512 * u64::from(sectors), Buffers::new())
            }
            _ => Some(Wanted::Refused(S_UNSUPP)),
        }
    }

    /// A request that lies within the export, in whole blocks and within the maximum transfer; `None` if it does not.
    fn checked(&self, kind: Kind, offset: u64, bytes: u64, data: Buffers) -> Option<Wanted> {
        let [least, _, most] = self.export.block_bytes().map(u64::from);
        let is_within = offset.checked_add(bytes)? <= self.export.bytes();
        let is_whole = bytes > 0 && offset.is_multiple_of(least) && bytes.is_multiple_of(least);
        let moves_data = matches!(kind, Kind::Read | Kind::Write);
        (is_within && is_whole && (!moves_data || bytes <= most)).then_some(Wanted::Ask(kind, offset, bytes, data))
    }

    /// The configuration space as the guest reads it: `virtio_blk_config`.
    fn properties(&self) -> Vec<u8> {
        let [least, preferred, most] = self.export.block_bytes();
        let mut bytes = vec![0; 60];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &(self.export.bytes() / 512).to_le_bytes());
        put(12, &SEGMENTS.to_le_bytes());
        put(20, &least.to_le_bytes());
        put(28, &(preferred / least).to_le_bytes());
        put(34, &QUEUES.to_le_bytes());
        let sectors = (most / 512).to_le_bytes();
        for (at, value) in
            [(36, sectors), (40, 1_u32.to_le_bytes()), (44, (least / 512).to_le_bytes()), (48, sectors), (52, 1_u32.to_le_bytes())]
        {
            put(at, &value);
        }
        put(56, &[1]);
        bytes
    }
}

/// Writes data and status to the guest, and notifies it.
fn answer(vring: &VringRwLock, chain: &Chain, status: u8, data: &[&[u8]]) {
    let written = || -> Option<u32> {
        let mut writer = chain.clone().writer(chain.memory()).ok()?;
        let mut last = writer.split_at(writer.available_bytes().checked_sub(1)?).ok()?;
        for part in data {
            writer.write_all(part).ok()?;
        }
        last.write_all(&[status]).ok()?;
        Some((writer.bytes_written() + 1) as u32)
    };
    // A chain without room for a status is returned unchanged.
    let _ = vring.add_used(chain.head_index(), written().unwrap_or(0));
    if vring.needs_notification().unwrap_or(true) {
        let _ = vring.signal_used_queue();
    }
}

impl Replies for Disk {
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Buffers) {
        let Some(Pending { vring, chain, kind, bytes }) = self.lock().pending.remove(&cookie) else { return };
        let status = match &result {
            Ok(()) => S_OK,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => S_UNSUPP,
            Err(_) => S_IOERR,
        };
        let data: Vec<&[u8]> =
            if result.is_ok() && kind == Kind::Read { buffers.iter().map(|buffer| &**buffer).collect() } else { Vec::new() };
        answer(&vring, &chain, status, &data);
        let mut state = self.lock();
        state.bytes -= bytes;
        if state.bytes < MOST_BYTES
            && let Some(since) = state.is_held_back.take()
        {
            self.export.held_back(since.elapsed());
            // Resumed in the event thread: the store is locked here and must not be called.
            let _ = self.go_on.write(1);
        }
        if state.pending.is_empty() {
            self.idle.notify_all();
        }
    }

    fn flush(&self) {}
}

/// A disk as the backend of the vhost-user crate.
#[derive(Clone)]
struct Backend(Arc<Disk>);

impl VhostUserBackend for Backend {
    type Bitmap = ();
    type Vring = VringRwLock;

    fn num_queues(&self) -> usize {
        usize::from(QUEUES)
    }

    fn max_queue_size(&self) -> usize {
        usize::from(QUEUE_SIZE)
    }

    fn features(&self) -> u64 {
        let writes = if self.0.export.is_read_only() { F_RO } else { F_DISCARD | F_WRITE_ZEROES };
        let disk = F_SEG_MAX | F_BLK_SIZE | F_FLUSH | F_MQ | writes;
        disk | F_INDIRECT_DESC | F_EVENT_IDX | F_VERSION_1 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn acked_features(&self, features: u64) {
        self.0.features.store(features, Ordering::Relaxed);
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK
    }

    // Handled by the queues.
    fn set_event_idx(&self, _: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let properties = self.0.properties();
        let begin = (offset as usize).min(properties.len());
        let mut part = properties[begin..begin.saturating_add(size as usize).min(properties.len())].to_vec();
        // Fields after those known here read as zeros.
        part.resize(size.min(4096) as usize, 0);
        part
    }

    fn update_memory(&self, _: GuestMemoryAtomic<Memory>) -> io::Result<()> {
        Ok(())
    }

    fn handle_event(&self, event: u16, _: EventSet, vrings: &[VringRwLock], _: usize) -> io::Result<()> {
        match event {
            // An error ends the thread.
            END => Err(io::Error::other("the connection has ended")),
            GO_ON => {
                let _ = self.0.go_on.read();
                vrings.iter().try_for_each(|vring| self.0.take(vring))
            }
            queue => vrings.get(usize::from(queue)).map_or(Ok(()), |vring| self.0.take(vring)),
        }
    }
}
