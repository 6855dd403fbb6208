//! `verify`: written data are read back.

use sim::workload::Ending;

use super::timing::{MS, run_against};
use super::{short, stream};

fn letters(options: &str) -> String {
    stream(options).iter().map(|action| action.0).collect()
}

#[test]
fn each_file_leaves_the_page_cache_before_it_is_read_back() {
    assert_eq!(letters("rw=write size=16k verify=md5"), "wwwwIrrrr");
    assert_eq!(letters("rw=write size=16k verify=md5 invalidate=0"), "wwwwrrrr");
    assert_eq!(letters("rw=write size=16k nrfiles=2 verify=md5 loops=2"), "wwwwIrrIrrwwwwIrrIrr");
    assert_eq!(letters("rw=write size=16k verify=md5 end_fsync=1"), "wwwwSIrrrr");
}

#[test]
fn only_completed_writes_are_read_back_amid_the_writes() {
    let (server, _) =
        run_against("[j]\nrw=write\nsize=256k\nverify=md5\nverify_backlog=8\nioengine=libaio\ndirect=1\niodepth=4\n", 1000, None);
    let done = |at: u64, offset: u64| {
        server.calls.iter().any(|(written, call)| {
            let (letter, _, place, _) = short(call.action);
            letter == 'w' && place == offset && written.0 + MS <= at
        })
    };
    let mut reads = 0;
    for (at, call) in &server.calls {
        let (letter, _, offset, _) = short(call.action);
        if letter == 'r' {
            reads += 1;
            assert!(done(at.0, offset), "{offset} is read at {at:?}, before it is written");
        }
    }
    assert_eq!(reads, 64);
}

#[test]
fn a_job_stopped_while_writing_reads_nothing_back() {
    let (server, outcome) = run_against("[j]\nrw=write\nsize=1m\nverify=md5\nruntime=50ms\n", 1000, None);
    assert!(server.calls.iter().all(|(_, call)| short(call.action).0 == 'w'));
    assert_eq!(outcome.spans[0].map(|span| (span.ended.0 / MS, span.ending)), Some((50, Ending::Done)));
    // Stopped while reading back, it ends as well.
    let (server, _) = run_against("[j]\nrw=write\nsize=40k\nverify=md5\nruntime=15ms\n", 1000, None);
    assert_eq!(server.calls.len(), 15);
}
