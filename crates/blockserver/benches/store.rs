//! Time of a request in a store without sockets: put, queued, picked, moved, answered. The data is that of a medium that moves nothing, so
//! that the measured time is the store's own.
//!
//! `at once`: the medium has the data at hand, as the page cache has, and the thread that asks does everything. `by threads`: the pool moves
//! it. 16 requests of 4 KiB at random places are put together, as a client's are that asks for 32 at a time.
#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so at once")]

use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use backing::Backing;
use block::{Roster, Tenant};
use blockserver::store::{Batch, Buffer, Buffers, Kind, Piece, Replies, StoreDevice, StoreHost, Work};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sim::host::QueueSettings;

/// Requests that are put together.
const TOGETHER: u64 = 16;
const SECTORS: u64 = 1 << 24;

/// A medium that moves nothing.
struct Nothing {
    is_cached: bool,
}

impl Backing for Nothing {
    fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush_takes_time(&self) -> bool {
        false
    }

    fn is_cached(&self) -> bool {
        self.is_cached
    }

    fn read_now(&self, _: u64, _: &mut [IoSliceMut<'_>]) -> bool {
        self.is_cached
    }
}

/// Counts answers.
#[derive(Default)]
struct Client {
    answered: AtomicU64,
    waits: Mutex<()>,
    wake: Condvar,
}

impl Replies for Client {
    fn done(&self, _: u64, result: io::Result<()>, _: Buffers) {
        result.expect("the medium never fails");
        self.answered.fetch_add(1, Ordering::SeqCst);
    }

    fn flush(&self) {
        drop(self.waits.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }
}

impl Client {
    fn wait(&self, count: u64) {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.wake.wait_while(waits, |()| self.answered.load(Ordering::SeqCst) < count));
    }
}

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store_request");
    group.throughput(Throughput::Elements(TOGETHER));
    for scheduler in ["none", "mq-deadline", "youchoose"] {
        for (way, is_cached) in [("at once", true), ("by threads", false)] {
            let spec = block::find(scheduler).expect("a scheduler of the block crate");
            let settings = QueueSettings::default();
            let device = StoreDevice::real(Arc::new(Nothing { is_cached }), SECTORS, 32, false);
            let store = StoreHost::start(device, (spec.build)(&settings.limits(), &spec.defaults()), settings).expect("threads");
            let tenants = vec![Tenant::new("a"), Tenant::new("b").with_weight(3)];
            store.set_roster(Roster::new(tenants, Vec::new(), &[(1, 0), (2, 1)], 1).expect("two tenants"), &[(1, 0), (2, 1)]);
            let client = Arc::<Client>::default();
            let (mut batch, mut asked, mut place) = (Batch::default(), 0, 1_u64);
            group.bench_function(BenchmarkId::new(scheduler, way), |bencher| {
                bencher.iter(|| {
                    for number in 0..TOGETHER {
                        // Knuth's multiplicative hash: places far apart.
                        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let piece =
                            Piece { lba: Some((place >> 32) % (SECTORS / 8) * 8), sectors: 8, buffer: Some(Buffer::dirty(4096)) };
                        let (stream, pieces, cookie) = (1 + (number % 2) as u32, [piece].into(), asked);
                        let work = Work { stream, kind: Kind::Read, pieces, is_durable: false, replies: client.clone(), cookie };
                        store.put(work, &mut batch);
                        asked += 1;
                    }
                    batch.run();
                    client.wait(asked);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, requests);
criterion_main!(benches);
