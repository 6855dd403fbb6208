//! A store on a medium that can stall and fail.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};

use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, load};

use super::*;
use backing::{Backing, MemoryBacking};

/// Memory that can be stalled, with a range whose reads fail.
#[derive(Default)]
struct Gated {
    memory: MemoryBacking,
    is_closed: Mutex<bool>,
    opened: Condvar,
    reads: AtomicUsize,
    bad: Mutex<std::ops::Range<u64>>,
    fails_to_flush: AtomicBool,
    /// All reads succeed without waiting, as from the page cache.
    is_cached: bool,
    zeroed: Mutex<Vec<(u64, u64)>>,
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
        self.zeroed.lock().unwrap().push((offset, length));
        self.pass();
        self.memory.discard(offset, length)
    }

    fn zeroes_at_once(&self) -> bool {
        false
    }

    fn is_cached(&self) -> bool {
        self.is_cached
    }

    fn read_now(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> bool {
        self.is_cached && self.memory.read_parts(offset, parts).is_ok()
    }

    fn flush(&self) -> io::Result<()> {
        if self.fails_to_flush.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }

    fn flush_takes_time(&self) -> bool {
        true
    }
}

type Answer = (u64, io::Result<()>, Buffers);

struct Client(Mutex<mpsc::Sender<Answer>>);

impl Replies for Client {
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Buffers) {
        self.0.lock().unwrap().send((cookie, result, buffers)).unwrap();
    }

    fn flush(&self) {}
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
        let pieces = if kind == Kind::Flush { None } else { Some(piece) }.into_iter().collect();
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
    // The first occupies the device while the others arrive out of order.
    medium.set_closed(true);
    *medium.bad.lock().unwrap() = 0..0;
    rig.ask(1, Kind::Read, 9000, &[0; 4096]);
    while medium.reads.load(Ordering::SeqCst) < 1 {
        std::thread::yield_now();
    }
    for (cookie, lba) in [(2, 808), (3, 800), (4, 824), (5, 816)] {
        rig.ask(cookie, Kind::Read, lba, &[0; 4096]);
    }
    // A reply to a later request shows that the queue has them all.
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

#[test]
fn what_is_at_hand_is_answered_before_the_thread_that_asks_goes_on() {
    let medium = Arc::new(Gated { is_cached: true, ..Gated::default() });
    medium.memory.write(4096, &[5; 4096]).unwrap();
    let rig = Rig::new(StoreDevice::real(medium, 1 << 20, 4, false));
    for cookie in 0..20 {
        rig.store.wait_for_sleep();
        rig.ask(cookie, Kind::Read, 8, &[0; 4096]);
        let (there, result, buffers) = rig.answers.try_recv().unwrap();
        assert!((there, result.is_ok(), buffers[0][0]) == (cookie, true, 5), "{cookie}");
    }
}

/// A store in a file, with or without io_uring and the page cache.
fn in_file(is_direct: bool, uses_threads: bool) -> (tempfile::TempDir, Rig) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let medium = Medium::open(&path, is_direct).unwrap();
    let device = StoreDevice::real(Arc::new(medium), (64 << 20) / 512, 8, false);
    (folder, Rig::new(if uses_threads { device.with_threads() } else { device }))
}

#[test]
fn every_engine_keeps_what_many_clients_write_and_answers_each_request_once() {
    for (is_direct, uses_threads) in [(false, false), (true, false), (false, true), (true, true)] {
        let (_folder, rig) = in_file(is_direct, uses_threads);
        let engine = rig.store.engine();
        assert!(engine == Engine::Threads || !uses_threads && engine == Engine::Ring, "{engine:?}");
        std::thread::scope(|scope| {
            for client in 0..4_u64 {
                let store = &rig.store;
                scope.spawn(move || {
                    let (sender, answers) = mpsc::channel();
                    let replies = Arc::new(Client(Mutex::new(sender)));
                    let mut batch = Batch::default();
                    for round in 0..100_u64 {
                        // Its own blocks, interleaved with those of others; written, then read, in batches of eight.
                        for kind in [Kind::Write, Kind::Read] {
                            for number in 0..8 {
                                let lba = 8 * (4 * ((37 * round + number) % 500) + client);
                                let mut buffer = Buffer::new(4096);
                                if kind == Kind::Write {
                                    buffer.fill((1 + round + number + client) as u8);
                                }
                                let piece = Piece { lba: Some(lba), sectors: 8, buffer: Some(buffer) };
                                let (pieces, is_durable) = ([piece].into(), kind == Kind::Write && number == 7 && round % 25 == 0);
                                let replies = replies.clone();
                                store.put(
                                    Work { stream: client as u32, kind, pieces, is_durable, replies, cookie: number },
                                    &mut batch,
                                );
                            }
                            batch.run();
                            let mut seen = [false; 8];
                            for _ in 0..8 {
                                let (cookie, result, buffers) = answers.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
                                result.unwrap();
                                assert!(!std::mem::replace(&mut seen[cookie as usize], true), "answered twice");
                                let wanted = (1 + round + cookie + client) as u8;
                                assert!(kind == Kind::Write || buffers[0].iter().all(|byte| *byte == wanted), "{round} {cookie}");
                            }
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn a_range_is_zeroed_in_requests_between_which_others_are_served() {
    let medium = Arc::new(Gated::default());
    let rig = Rig::new(StoreDevice::real(medium.clone(), 1 << 20, 1, false));
    rig.ask(0, Kind::Write, 2048, &[7; 4096]);
    rig.answers(1);
    medium.set_closed(true);
    std::thread::scope(|scope| {
        let zero = scope.spawn(|| rig.store.zero(9, [(1 << 20, 2 << 20), (3 << 20, 1 << 20)]));
        while medium.zeroed.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        // Waits for the first zeroing request, not for all three.
        rig.ask(1, Kind::Read, 2048, &[1; 4096]);
        medium.set_closed(false);
        let read = rig.answers(1).remove(0);
        assert!(read.1.is_ok() && read.2[0].iter().all(|byte| *byte == 0));
        zero.join().unwrap().unwrap();
    });
    let wanted: Vec<(u64, u64)> = (1..4).map(|number| (number << 20, 1 << 20)).collect();
    assert_eq!(*medium.zeroed.lock().unwrap(), wanted);
    assert_eq!(rig.store.status().flushes.load(Ordering::Relaxed), 1);
}

/// One client reads sequentially while another writes ahead of it: each read returns all data acknowledged before it was issued.
#[test]
fn what_is_read_ahead_is_never_older_than_an_acknowledged_write() {
    for uses_threads in [false, true] {
        let (_folder, rig) = in_file(true, uses_threads);
        let mut random = 1_u64;
        for round in 1..=6_u8 {
            // Resets the sequences and the pause: writes drop chunks unused, which would pause read-ahead.
            rig.store.set_read_ahead(2048, 131_072);
            let mut written = [round - 1; 1500];
            for block in 0..1500_u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Near enough to be in a chunk that is complete or being read.
                let ahead = block + 1 + (random >> 33) % 200;
                if random >> 60 == 0 && ahead < 1500 {
                    rig.ask(1, Kind::Write, 8 * ahead, &[round; 4096]);
                    if random >> 40 & 1 == 0 {
                        rig.answers(1)[0].1.as_ref().unwrap();
                    } else {
                        // In flight together with a read: the replies come in any order.
                        rig.ask(2, Kind::Read, 8 * block, &[0; 4096]);
                        rig.answers(2);
                    }
                    written[ahead as usize] = round;
                }
                rig.ask(3, Kind::Read, 8 * block, &[0; 4096]);
                let (_, result, buffers) = rig.answers(1).remove(0);
                result.unwrap();
                let is_new = buffers[0].iter().all(|byte| *byte == written[block as usize]);
                assert!(is_new, "round {round}, block {block}: {} for {}", buffers[0][0], written[block as usize]);
            }
            for block in 0..1500 {
                rig.ask(4, Kind::Write, 8 * block, &[round; 4096]);
                rig.answers(1);
            }
        }
        let [hits, read] = rig.store.report().unwrap().ahead_bytes;
        assert!(hits > 1 << 20 && read > hits / 2, "{hits} of {read}");
    }
}

#[test]
fn an_error_of_a_read_ahead_reaches_only_the_read_of_that_range() {
    let medium = Arc::new(Gated::default());
    let rig = Rig::new(StoreDevice::real(medium.clone(), 1 << 20, 4, false));
    rig.store.set_read_ahead(2048, 131_072);
    *medium.bad.lock().unwrap() = 512 * 8 * 20..512 * 8 * 20 + 1;
    for block in 0..40_u64 {
        rig.ask(block, Kind::Read, 8 * block, &[0; 4096]);
        assert_eq!(rig.answers(1)[0].1.is_err(), block == 20, "{block}");
    }
}

#[test]
fn requests_under_way_survive_a_change_of_scheduler_and_depth() {
    let medium = Arc::new(Gated::default());
    let rig = Rig::new(StoreDevice::real(medium.clone(), 1 << 20, 4, false));
    medium.set_closed(true);
    for cookie in 0..40 {
        rig.ask(cookie, Kind::Read, 800 * cookie, &[0; 4096]);
    }
    let bfq = block::find("bfq").unwrap();
    rig.store.set_scheduler((bfq.build)(&QueueSettings::default().limits(), &bfq.defaults()));
    rig.store.set_depth(1);
    assert!(rig.store.observe().unwrap().clients.is_empty(), "nothing is known of before");
    rig.ask(40, Kind::Read, 8, &[0; 4096]);
    medium.set_closed(false);
    let answers = rig.answers(41);
    assert!(answers.iter().enumerate().all(|(number, answer)| answer.0 == number as u64 && answer.1.is_ok()));
    let observed = rig.store.observe().unwrap();
    assert!(observed.clients.len() >= 2 && !observed.queue.is_empty() && !observed.is_incomplete, "{observed:?}");
}
