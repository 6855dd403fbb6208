//! Workloads as fio job files: parsing, rejection, and the requests of each job and their times.

mod against_fio;
mod command_lines;
mod ending;
mod flows;
mod invalidating;
mod new_files;
mod options;
mod parser;
mod streams;
mod timing;
mod verifying;

use block::Op;
use sim::host::Action;
use sim::workload::{PlacedWorkload, Workload};

/// A device of 16 GiB.
const CAPACITY: u64 = 1 << 25;

/// Reads a job file that must be right and lays it out.
fn placed(text: &str) -> PlacedWorkload {
    let workload = Workload::parse(text, "t.fio").unwrap_or_else(|error| panic!("{error}\n{text}"));
    workload.place(CAPACITY, 1).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// An action in short: the direction, the file, offset and bytes; a sync is an `S` with its file.
type Short = (char, u32, u64, u32);

fn short(action: Action) -> Short {
    match action {
        Action::Access { op, file, offset, bytes, .. } => {
            let letter = match op {
                Op::Read => 'r',
                Op::Write => 'w',
                Op::Discard => 't',
            };
            (letter, file, offset, bytes)
        }
        Action::Sync { file } => ('S', file, 0, 0),
        Action::Invalidate { file, offset, bytes } => ('I', file, offset, bytes as u32),
    }
}

/// The actions of the only job of `[j]` with these options.
fn stream(options: &str) -> Vec<Short> {
    let placed = placed(&format!("[j]\n{}\n", options.replace(' ', "\n")));
    placed.requests(0).take(1_000_000).map(short).collect()
}
