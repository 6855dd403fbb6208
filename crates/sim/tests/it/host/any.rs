//! Any calls under any settings.

use std::collections::BTreeMap;

use block::{Nanos, Op};
use proptest::prelude::*;
use sim::host::{Access, Action, FileId};

use crate::host::machine::{LoggedRequest, Machine, SECTORS, files, fsync};

const FILES: [u64; 3] = [3 << 20, (1 << 20) + 1234, 40 << 20];

fn actions() -> impl Strategy<Value = Action> {
    let op = prop_oneof![4 => Just(Op::Read), 5 => Just(Op::Write), 1 => Just(Op::Discard)];
    let access = prop_oneof![6 => Just(Access::Buffered), 1 => Just(Access::Direct), 1 => Just(Access::Synchronous)];
    let bytes = prop_oneof![3 => 1..20_000u64, 2 => Just(4096u64), 1 => 1..2_000_000u64];
    let place = (0..FILES.len(), prop_oneof![2 => 0.0..1.0f64, 2 => 0.0..0.01]);
    let call = (op, place, bytes, access).prop_map(|(op, (file, place), bytes, access)| {
        let offset = ((FILES[file] - 1) as f64 * place) as u64;
        let bytes = bytes.min(FILES[file] - offset) as u32;
        let (offset, bytes) = match access {
            Access::Direct => (offset / 512 * 512, bytes.div_ceil(512) * 512),
            _ => (offset, bytes),
        };
        Action::Access { op, file: file as FileId, offset, bytes, access }
    });
    let sync = (0..FILES.len()).prop_map(|file| fsync(file as FileId));
    prop_oneof![9 => call, 1 => sync]
}

fn settings() -> impl Strategy<Value = String> {
    let one = |name: &'static str, values: &'static [i64]| {
        proptest::sample::select(values).prop_map(move |value| format!("{name}={value}"))
    };
    let memory =
        prop_oneof![Just(""), Just(",anonymous_mib=10,swap_mib=20"), Just(",anonymous_mib=24,swap_mib=64,anonymous_touches=5000")];
    (
        one("memory_mib", &[16, 20, 64]),
        one("read_ahead_kb", &[0, 4, 128, 8192]),
        one("dirty_ratio", &[1, 5, 20, 100]),
        one("dirty_background_ratio", &[0, 10, 100]),
        one("dirty_expire_centisecs", &[0, 10, 3000]),
        one("dirty_writeback_centisecs", &[0, 5, 500]),
        one("nr_requests", &[4, 256]),
        one("max_sectors_kb", &[4, 64, 1280]),
        (one("nomerges", &[0, 1, 2]), one("wbt_lat_usec", &[-1, 0, 1, 2000])),
        (one("swappiness", &[0, 60, 200]), memory),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, (i, k), (j, memory))| [a, b, c, d, e, f, g, h, i, j, k].join(",") + memory)
}

/// Each process makes its calls one after the other, and at the end all files are synchronised.
fn play(processes: &[Vec<Action>], scheduler: &str, settings: &str) -> Result<Played, TestCaseError> {
    let mut machine = Machine::with(scheduler, files(&FILES), settings);
    let mut left: Vec<_> = processes.iter().map(|actions| actions.iter()).collect();
    let mut open: BTreeMap<u64, (usize, Action, Nanos)> = BTreeMap::new();
    let mut shadow = Shadow::default();
    let mut finished = Vec::new();
    let mut start = |machine: &mut Machine, open: &mut BTreeMap<_, _>, process: usize| {
        if let Some(&action) = left[process].next() {
            let token = machine.start(process as u32, action);
            open.insert(token, (process, action, machine.now));
        }
    };
    for process in 0..processes.len() {
        start(&mut machine, &mut open, process);
    }
    for event in 0.. {
        if open.is_empty() {
            break;
        }
        prop_assert!(event < 1_000_000 && machine.step(), "calls are never done: {open:?}");
        for done in machine.take_finished() {
            let call = open.remove(&done.token());
            prop_assert!(call.is_some(), "{} ended twice", done.token());
            let (process, action, began) = call.unwrap();
            finished.push((done.token(), done.at()));
            note(&mut shadow, action, began, done.at());
            start(&mut machine, &mut open, process);
        }
        prop_assert!(machine.host.tally().memory_peak <= 256 * machine.host.settings().memory_mib as u64);
    }
    for file in 0..FILES.len() {
        machine.call(9, fsync(file as FileId));
    }
    prop_assert_eq!(machine.host.tally().dirty, 0);
    Ok(Played { seen: machine.seen(), finished, shadow })
}

struct Played {
    seen: Vec<LoggedRequest>,
    finished: Vec<(u64, Nanos)>,
    shadow: Shadow,
}

/// Expected content of the device at the end, by file, and sector or page.
#[derive(Default)]
struct Shadow {
    written: BTreeMap<(FileId, u64), Nanos>,
    discarded: BTreeMap<(FileId, u64), Nanos>,
}

/// Notes for each page that a call wrote the first sector of it that it touched, and when the call began; and for each page
/// of which something was discarded, when that ended.
fn note(shadow: &mut Shadow, action: Action, began: Nanos, ended: Nanos) {
    let Action::Access { op, file, offset, bytes, .. } = action else { return };
    for page in offset / 4096..=(offset + u64::from(bytes) - 1) / 4096 {
        let sector = offset.max(page * 4096) / 512;
        let (map, key, at) = match op {
            Op::Read => continue,
            Op::Write if sector * 512 >= FILES[file as usize] => continue,
            Op::Write => (&mut shadow.written, sector, began),
            Op::Discard => (&mut shadow.discarded, page, ended),
        };
        let last = map.entry((file, key)).or_insert(at);
        *last = at.max(*last);
    }
}

proptest! {
    #[test]
    fn every_call_ends_once_and_no_page_is_lost_and_all_is_the_same_again(
        processes in proptest::collection::vec(proptest::collection::vec(actions(), 1..40), 1..5),
        scheduler in proptest::sample::select(&["noop", "deadline", "cfq"][..]),
        settings in settings(),
    ) {
        let played = play(&processes, scheduler, &settings)?;
        prop_assert_eq!(played.finished.len(), processes.iter().map(Vec::len).sum::<usize>());
        let laid_out = files(&FILES);
        for (&(file, sector), &began) in &played.shadow.written {
            if played.shadow.discarded.get(&(file, sector / 8)).is_some_and(|&ended| ended >= began) {
                continue;
            }
            let (lba, _) = laid_out[file as usize].pieces(sector, 1).next().unwrap();
            let down = played.seen.iter().any(|seen| seen.op == Op::Write && seen.covers(lba) && seen.at >= began);
            prop_assert!(down, "sector {} of file {}, written at {}, never reached the device", sector, file, began);
        }
        prop_assert!(played.seen.iter().all(|seen| seen.lba + u64::from(seen.sectors) <= SECTORS));
        let again = play(&processes, scheduler, &settings)?;
        prop_assert_eq!(played.finished, again.finished);
        prop_assert!(played.seen.iter().zip(&again.seen).all(|(a, b)| (a.at, a.lba, a.sectors) == (b.at, b.lba, b.sectors)));
    }
}
