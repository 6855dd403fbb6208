//! Copies volumes chunk by chunk at a limited rate.

use block::Nanos;

use super::Place;

/// Failed copies of a chunk after which further writes wait for it.
pub const ATTEMPTS: u32 = 4;

/// A volume to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Its number.
    pub volume: usize,
    /// Its size in sectors; at least 1.
    pub sectors: u64,
    /// Its new place, which must be unused.
    pub to: Place,
}

/// How volumes are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPace {
    /// Maximum rate in bytes per second; at least 1.
    pub bytes_per_s: u64,
    /// Size of a chunk in sectors; at least 1.
    pub chunk_sectors: u32,
}

impl Default for CopyPace {
    /// 8 MiB per second in chunks of 256 KiB.
    fn default() -> CopyPace {
        CopyPace { bytes_per_s: 8 << 20, chunk_sectors: 512 }
    }
}

/// A chunk being copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub volume: usize,
    pub begin: u64,
    pub end: u64,
    copy: usize,
}

/// A copy and its progress.
struct Progress {
    copy: Copy,
    position: u64,
}

/// How sectors of a volume are accessed.
pub(super) enum Passage {
    /// The volume is not being copied.
    Direct,
    /// They are copied: at the new place.
    Copied(Place),
    /// They are not copied: at the old place.
    Old,
    /// Those before this sector are copied, the others are not.
    Across(u64),
}

/// The remaining steps, and the progress of the current one.
pub(super) struct Copier {
    pace: CopyPace,
    began: Nanos,
    /// In reverse order.
    steps: Vec<Vec<Copy>>,
    step: u64,
    copies: Vec<Progress>,
    current: Option<Chunk>,
    /// The chunk to copy again.
    again: Option<Chunk>,
    /// Whether the current chunk was written to since its copy began.
    is_spoilt: bool,
    /// Number of failed copies of the current chunk.
    spoilt: u32,
    not_before: Nanos,
    copied_sectors: u64,
}

impl Copier {
    pub(super) fn new(begin: Nanos, steps: Vec<Vec<Copy>>, pace: CopyPace) -> Copier {
        let mut steps: Vec<Vec<Copy>> = steps.into_iter().filter(|step| !step.is_empty()).collect();
        steps.reverse();
        let mut copier = Copier {
            pace,
            began: begin,
            steps,
            step: 0,
            copies: Vec::new(),
            current: None,
            again: None,
            is_spoilt: false,
            spoilt: 0,
            not_before: begin,
            copied_sectors: 0,
        };
        copier.next_step();
        copier
    }

    fn next_step(&mut self) {
        let copies = self.steps.pop().unwrap_or_default();
        self.copies = copies.into_iter().map(|copy| Progress { copy, position: 0 }).collect();
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.copied_sectors * 512
    }

    /// Time at which it starts its next chunk; `None` while a chunk is being copied, or if there is nothing left.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        (self.current.is_none() && !self.copies.is_empty()).then_some(self.not_before)
    }

    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.next_event().is_some_and(|at| at <= now)
    }

    /// The chunk being copied.
    pub(super) fn chunk(&self) -> Option<Chunk> {
        self.current
    }

    /// The new place of a chunk's volume.
    pub(super) fn destination(&self, chunk: &Chunk) -> Place {
        self.copies[chunk.copy].copy.to
    }

    /// How these sectors of a volume are accessed.
    pub(super) fn passage(&self, volume: usize, begin: u64, end: u64) -> Passage {
        let Some(progress) = self.copies.iter().find(|progress| progress.copy.volume == volume) else { return Passage::Direct };
        match progress.position {
            position if end <= position => Passage::Copied(progress.copy.to),
            position if begin < position => Passage::Across(position),
            _ => Passage::Old,
        }
    }

    /// Records a write to sectors that are not copied yet. Returns whether it has to wait until a chunk is copied.
    pub(super) fn writes(&mut self, volume: usize, begin: u64, end: u64) -> bool {
        let meets = |chunk: Chunk| chunk.volume == volume && chunk.begin < end && begin < chunk.end;
        if !self.current.or(self.again).is_some_and(meets) {
            return false;
        }
        let holds = self.spoilt >= ATTEMPTS;
        self.is_spoilt |= !holds;
        holds
    }

    /// Starts copying the next chunk, of the volume with the smallest copied share. `is_written`: whether a write to these sectors
    /// is in flight, which the copy may miss.
    pub(super) fn next_chunk(&mut self, now: Nanos, is_written: impl Fn(usize, u64, u64) -> bool) -> Option<Chunk> {
        let chunk = self.again.take().or_else(|| self.least_advanced())?;
        self.is_spoilt = is_written(chunk.volume, chunk.begin, chunk.end);
        self.current = Some(chunk);
        let bytes = (chunk.end - chunk.begin) * 512;
        let lasts = Nanos::from_secs_f64(bytes as f64 / self.pace.bytes_per_s as f64);
        self.not_before = self.not_before.max(now) + lasts;
        self.current
    }

    fn least_advanced(&self) -> Option<Chunk> {
        let done = |progress: &Progress| progress.position as f64 / progress.copy.sectors as f64;
        let open = self.copies.iter().enumerate().filter(|(_, progress)| progress.position < progress.copy.sectors);
        let (copy, progress) = open.min_by(|(_, one), (_, other)| done(one).total_cmp(&done(other)))?;
        let Progress { copy: Copy { volume, sectors, .. }, position } = *progress;
        let end = sectors.min(position + u64::from(self.pace.chunk_sectors));
        Some(Chunk { volume, begin: position, end, copy })
    }

    /// Ends the copy of the current chunk; if it was written to meanwhile, it will be copied again.
    pub(super) fn copied(&mut self) {
        let Some(chunk) = self.current.take() else { return };
        self.copied_sectors += chunk.end - chunk.begin;
        if self.is_spoilt {
            self.spoilt += 1;
            self.again = Some(chunk);
        } else {
            self.spoilt = 0;
            self.copies[chunk.copy].position = chunk.end;
        }
    }

    /// If the current step is complete, gives its volumes their new places and starts the next step. Returns the step's number and
    /// start time.
    pub(super) fn take_done(&mut self, now: Nanos, places: &mut [Place]) -> Option<(u64, Nanos)> {
        if self.copies.is_empty() || self.copies.iter().any(|progress| progress.position < progress.copy.sectors) {
            return None;
        }
        for Progress { copy, .. } in self.copies.drain(..) {
            places[copy.volume] = copy.to;
        }
        let done = (self.step, self.began);
        self.step += 1;
        self.began = now;
        self.next_step();
        Some(done)
    }
}
