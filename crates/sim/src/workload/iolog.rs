//! A job's requests as an fio log (iolog version 2, which has no times), for `fio --read_iolog`.

use std::fmt::Write as _;
use std::sync::Arc;

use block::Op;

use super::PlacedWorkload;
use super::requests::Requests;
use crate::host::{Action, Files};

/// The log of one job, as an iterator over pieces of limited size.
pub struct Iolog {
    actions: std::iter::Take<Requests>,
    files: Arc<Files>,
    opened: Vec<bool>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Head,
    Requests,
    Over,
}

/// Number of requests in a piece.
const PIECE: usize = 1_000;

impl Iolog {
    /// The first `limit` requests of a job, by its index in [`PlacedWorkload::jobs`].
    pub fn new(placed: &PlacedWorkload, job: usize, limit: usize) -> Iolog {
        let files = placed.files();
        let opened = vec![false; files.len()];
        Iolog { actions: placed.stream(job).take(limit), files, opened, stage: Stage::Head }
    }

    fn requests(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..PIECE {
            let Some(action) = self.actions.next() else {
                let opened = self.files.iter().zip(&self.opened).filter(|(_, opened)| **opened);
                opened.for_each(|(file, _)| text += &format!("{} close\n", file.name));
                self.stage = Stage::Over;
                break;
            };
            line(&mut text, &self.files, &mut self.opened, action);
        }
        text
    }
}

impl Iterator for Iolog {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self.stage {
            Stage::Head => {
                self.stage = Stage::Requests;
                Some("fio version 2 iolog\n".to_owned())
            }
            Stage::Requests => Some(self.requests()),
            Stage::Over => None,
        }
    }
}

fn line(text: &mut String, files: &Files, opened: &mut [bool], action: Action) {
    let (Action::Access { file, .. } | Action::Sync { file } | Action::Invalidate { file, .. }) = action;
    let name = &files[file as usize].name;
    // Writing into a String cannot fail.
    if !std::mem::replace(&mut opened[file as usize], true) {
        let _ = writeln!(text, "{name} add\n{name} open");
    }
    let _ = match action {
        Action::Access { op, offset, bytes, .. } => {
            let verb = match op {
                Op::Read => "read",
                Op::Write => "write",
                Op::Discard => "trim",
            };
            writeln!(text, "{name} {verb} {offset} {bytes}")
        }
        Action::Sync { .. } => writeln!(text, "{name} sync 0 0"),
        // fio invalidates by itself when it opens a file.
        Action::Invalidate { .. } => Ok(()),
    };
}
