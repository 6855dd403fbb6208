//! A store with a medium that can be stopped and can fail.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};

use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, load};

use super::*;
use crate::backing::{Backing, MemoryBacking};

/// Memory whose gate can be closed, with a range that cannot be read.
#[derive(Default)]
struct Gated {
    memory: MemoryBacking,
    is_closed: Mutex<bool>,
    opened: Condvar,
    reads: AtomicUsize,
    bad: Mutex<std::ops::Range<u64>>,
    fails_to_flush: AtomicBool,
}

impl Gated {
    fn set_closed(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.opened.notify_all();
    }

    fn pass(&self) {
        drop(self.opened.wait_while(self.is_closed.lock().unwrap(), |is_closed| *is_closed).unwrap());
    }
}

impl Backing for Gated {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.memory.read(offset, buffer)
    }

    fn read_parts(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.pass();
        let end = offset + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let bad = self.bad.lock().unwrap().clone();
        if bad.start < end && offset < bad.end {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.memory.read_parts(offset, parts)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.memory.write(offset, data)
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.memory.discard(offset, length)
    }

    fn flush(&self) -> io::Result<()> {
        if self.fails_to_flush.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }

    fn flush_takes_time(&self) -> bool {
        true
    }
}

type Answer = (u64, io::Result<()>, Vec<Buffer>);

struct Client(Mutex<mpsc::Sender<Answer>>);

impl Replies for Client {
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Vec<Buffer>) {
        self.0.lock().unwrap().send((cookie, result, buffers)).unwrap();
    }
}

struct Rig {
    store: StoreHost,
    client: Arc<Client>,
    answers: mpsc::Receiver<Answer>,
}

impl Rig {
    fn new(device: StoreDevice) -> Rig {
        let settings = QueueSettings::default();
        let scheduler =
            (block::find("mq-deadline").unwrap().build)(&settings.limits(), &block::find("mq-deadline").unwrap().defaults());
        let (sender, answers) = mpsc::channel();
        Rig { store: StoreHost::start(device, scheduler, settings).unwrap(), client: Arc::new(Client(Mutex::new(sender))), answers }
    }

    fn ask(&self, cookie: u64, kind: Kind, lba: u64, data: &[u8]) {
        let mut buffer = Buffer::new(data.len());
        buffer.copy_from_slice(data);
        let piece = Piece { lba: Some(lba), sectors: (data.len() / 512) as u32, buffer: Some(buffer) };
        let pieces = if kind == Kind::Flush { Vec::new() } else { vec![piece] };
        self.store.submit(Work { stream: 1, kind, pieces, is_durable: false, replies: self.client.clone(), cookie });
    }

    fn answers(&self, count: usize) -> Vec<Answer> {
        let mut answers: Vec<Answer> = (0..count).map(|_| self.answers.recv().unwrap()).collect();
        answers.sort_by_key(|answer| answer.0);
        answers
    }
}

#[test]
fn neighbours_that_wait_become_one_request_and_fail_together_and_no_other_does() {
    let medium = Arc::new(Gated::default());
    let rig = Rig::new(StoreDevice::real(medium.clone(), 1 << 20, 1, false));
    let data: Vec<u8> = (0..4096 * 4_u32).map(|at| (at / 512) as u8 + 1).collect();
    rig.ask(0, Kind::Write, 800, &data);
    assert!(rig.answers(1)[0].1.is_ok());
    // The first holds the device while the others arrive, in no order.
    medium.set_closed(true);
    *medium.bad.lock().unwrap() = 0..0;
    rig.ask(1, Kind::Read, 9000, &[0; 4096]);
    while medium.reads.load(Ordering::SeqCst) < 1 {
        std::thread::yield_now();
    }
    for (cookie, lba) in [(2, 808), (3, 800), (4, 824), (5, 816)] {
        rig.ask(cookie, Kind::Read, lba, &[0; 4096]);
    }
    // The queue has them all once it has answered something that was asked after them.
    rig.ask(6, Kind::Flush, 0, &[]);
    assert_eq!(rig.answers(1)[0].0, 6);
    medium.set_closed(false);
    let answers = rig.answers(5);
    assert_eq!(medium.reads.load(Ordering::SeqCst), 2, "four reads in one");
    for (cookie, place) in [(2, 1), (3, 0), (4, 3), (5, 2)] {
        let (_, result, buffers) = &answers[cookie - 1];
        assert!(result.is_ok() && buffers[0][..] == data[4096 * place..4096 * (place + 1)], "{cookie}");
    }
    // One bad sector in the middle.
    *medium.bad.lock().unwrap() = 512 * 810..512 * 811;
    medium.set_closed(true);
    rig.ask(1, Kind::Read, 9000, &[0; 4096]);
    while medium.reads.load(Ordering::SeqCst) < 3 {
        std::thread::yield_now();
    }
    for (cookie, lba) in [(2, 800), (3, 808), (4, 12_000)] {
        rig.ask(cookie, Kind::Read, lba, &[0; 4096]);
    }
    rig.ask(6, Kind::Flush, 0, &[]);
    assert_eq!(rig.answers(1)[0].0, 6);
    medium.set_closed(false);
    let failed: Vec<bool> = rig.answers(4).iter().map(|answer| answer.1.is_err()).collect();
    assert_eq!(failed, [false, true, true, false]);
}

#[test]
fn after_a_flush_that_failed_nothing_is_said_to_be_written() {
    let medium = Arc::new(Gated::default());
    let rig = Rig::new(StoreDevice::real(medium.clone(), 1 << 20, 4, false));
    rig.ask(1, Kind::Write, 0, &[7; 512]);
    assert!(rig.answers(1)[0].1.is_ok());
    medium.fails_to_flush.store(true, Ordering::SeqCst);
    rig.ask(2, Kind::Flush, 0, &[]);
    assert!(rig.answers(1)[0].1.is_err());
    medium.fails_to_flush.store(false, Ordering::SeqCst);
    for (cookie, kind) in [(3, Kind::Write), (4, Kind::Flush), (5, Kind::Read)] {
        rig.ask(cookie, kind, 0, &[7; 512]);
        let answer = rig.answers(1).remove(0);
        assert_eq!(answer.1.is_ok(), kind == Kind::Read, "{kind:?}");
    }
}

#[test]
fn an_emulated_store_keeps_data_and_takes_its_time() {
    let model = load("sata7200").unwrap().build(DeviceOptions::default());
    let rig = Rig::new(StoreDevice::emulated(model, Arc::new(MemoryBacking::default())));
    let begun = std::time::Instant::now();
    rig.ask(0, Kind::Write, 1_000_000, &[9; 4096]);
    rig.ask(1, Kind::Flush, 0, &[]);
    assert!(rig.answers(2).iter().all(|answer| answer.1.is_ok()));
    for cookie in 2..12_u64 {
        rig.ask(cookie, Kind::Read, cookie * 90_000_000 % 400_000_000 / 8 * 8, &[0; 4096]);
        rig.answers(1);
    }
    assert!(begun.elapsed().as_millis() > 50, "ten reads far apart take over 5 ms each: {:?}", begun.elapsed());
    rig.ask(12, Kind::Read, 1_000_000, &[0; 4096]);
    assert!(rig.answers(1)[0].2[0].iter().all(|byte| *byte == 9));
}

#[test]
fn what_is_under_way_is_done_before_the_end() {
    let rig = Rig::new(StoreDevice::real(Arc::new(Gated::default()), 1 << 20, 2, false));
    for cookie in 0..50 {
        rig.ask(cookie, Kind::Write, 8 * cookie, &[1; 4096]);
    }
    drop(rig.store);
    assert_eq!(rig.answers.try_iter().count(), 50);
}
