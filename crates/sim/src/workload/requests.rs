//! The sequence of a job's actions: direction, file, offset, size, and syncs. Timing is handled elsewhere.
//!
//! The rules are those of fio 3.33, determined by logging its I/O (`--write_iolog` with the null engine): each direction has its
//! own position; a file is finished when an I/O of the smallest size no longer fits after the position, or every block has been
//! visited; when all files are finished the pass is over, and the next one, if any, begins like the first.

use block::Op;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::distribution::{Sampler, below};
use super::options::{BlockSizes, DIRECTIONS, FileService, JobKind, Options, Order, Sequencer, SyncMode, Syncs, Zones};
use super::plan::{Plan, Target};
use super::random_map::RandomMap;
use super::verify::{Piece, Written};
use crate::host::{Access, Action, FileId};

/// Indices of directions.
pub(super) const READ: usize = 0;
pub(super) const WRITE: usize = 1;
pub(super) const TRIM: usize = 2;

/// Maximum number of draws of a size until one fits; after that the smallest size is used, which does.
const SIZE_DRAWS: u32 = 64;

/// The actions of a job; endless if only time ends it.
pub(super) struct Requests {
    rules: Rules,
    files: Vec<FileState>,
    turn: Turn,
    random: Xoshiro256PlusPlus,
    seed: u64,
    stage: Stage,
    /// I/Os until the next one at a new offset.
    until_new: u32,
    synced_last: bool,
    progress: Progress,
    /// Written data still to be read back; `None` if the job does not read back.
    written: Option<Written>,
    /// Whether the last I/O was a read.
    after_read: bool,
}

/// The file whose turn it is.
struct Turn {
    service: (FileService, u32),
    current: usize,
    /// I/Os until the next file is chosen.
    left: u32,
    unfinished: usize,
}

impl Turn {
    fn new(service: (FileService, u32), files: usize) -> Turn {
        // The first call advances to the first file.
        Turn { service, current: files - 1, left: 0, unfinished: files }
    }

    /// Starts a new pass over `files` files.
    fn restart(&mut self, files: usize) {
        *self = Turn::new(self.service, files);
    }

    /// Removes a file that is finished from the pass.
    fn finish(&mut self) {
        self.unfinished -= 1;
        self.left = 0;
    }

    /// The file of the next I/O, the first of its pass if `is_first`; `None` if all are finished.
    fn next(&mut self, files: &[FileState], is_first: bool, random: &mut Xoshiro256PlusPlus) -> Option<usize> {
        if self.unfinished == 0 {
            return None;
        }
        if files.len() == 1 {
            return Some(0);
        }
        if self.left > 0 && !files[self.current].finished {
            self.left -= 1;
            return Some(self.current);
        }
        let (service, every) = self.service;
        let number = files.len();
        let from = match service {
            FileService::RoundRobin => self.current + 1,
            // A pass starts with the last file as the current one, but the first file must come first.
            FileService::Sequential if is_first => 0,
            FileService::Sequential => self.current,
            FileService::Random => below(random, number as u64) as usize,
        };
        let next = (from..number).chain(0..from.min(number)).find(|&index| !files[index].finished)?;
        self.current = next;
        self.left = every - 1;
        Some(next)
    }
}

/// The work done by a job.
#[derive(Default)]
struct Progress {
    /// Further passes that `loops` asks for.
    loops_left: u32,
    /// I/Os and bytes that count towards the limits.
    ios: u64,
    bytes: u64,
    writes: u64,
    pass_ios: u64,
    pass_writes: u64,
    /// Bytes of verifying reads.
    read_back: u64,
}

impl Progress {
    /// Counts an I/O. `is_limited`: whether it counts towards the limits.
    fn count(&mut self, direction: usize, bytes: u32, is_limited: bool) {
        self.pass_ios += 1;
        if direction == WRITE {
            self.writes += 1;
            self.pass_writes += 1;
        }
        if is_limited {
            self.ios += 1;
            self.bytes += u64::from(bytes);
        }
    }

    fn begin_pass(&mut self) {
        self.loops_left = self.loops_left.saturating_sub(1);
        (self.pass_ios, self.pass_writes) = (0, 0);
    }
}

/// The limits that end a pass, and the job.
struct Limits {
    time_based: bool,
    /// Whether `io_size` is given.
    io_size: bool,
    bytes: u64,
    ios: u64,
    /// The largest I/O in bytes.
    largest: u64,
    /// Whether only verifying reads are issued.
    verify_only: bool,
}

impl Limits {
    /// Whether the limits on bytes or I/Os are reached, which end a pass unless `time_based` is set; with `verify_only` they end it
    /// even then.
    fn are_reached(&self, progress: &Progress) -> bool {
        (!self.time_based || self.verify_only) && (progress.bytes >= self.bytes || progress.ios >= self.ios)
    }

    /// Whether another pass follows this one.
    fn allow_pass(&self, progress: &Progress) -> bool {
        // As in fio, verifying reads count when another pass is considered.
        let room = self.io_size && self.bytes.saturating_sub(progress.bytes + progress.read_back) >= self.largest;
        let again = self.time_based || !self.are_reached(progress) && (progress.loops_left > 0 || room);
        // After a pass without I/O, all further ones would be like it.
        again && progress.pass_ios > 0
    }
}

/// The syncs of a job.
struct SyncRules {
    fsync: u64,
    fdatasync: u64,
    at_end: bool,
}

impl SyncRules {
    fn new(options: &Syncs) -> SyncRules {
        SyncRules {
            fsync: u64::from(options.fsync),
            fdatasync: u64::from(options.fdatasync),
            at_end: options.end_fsync || options.fsync_on_close,
        }
    }

    /// Whether a sync is due after this many writes.
    fn are_due(&self, writes: u64) -> bool {
        let due = |every: u64| every > 0 && writes > 0 && writes.is_multiple_of(every);
        due(self.fsync) || due(self.fdatasync)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// The pass is over; the files from this index on are still to be synced.
    Closing(usize),
    /// The data written in the pass are being read back.
    Verifying,
    Ended,
}

/// The options in evaluated form.
struct Rules {
    order: Order,
    sizes: [Sizes; DIRECTIONS],
    align: [u64; DIRECTIONS],
    map: bool,
    zones: Option<Zones>,
    syncs: SyncRules,
    access: Access,
    limits: Limits,
    /// Whether a file is dropped from the page cache when it is opened.
    invalidate: bool,
}

enum Sizes {
    Fixed(u32),
    /// Smallest and largest size, and the unit to whose multiples sizes are rounded down.
    Range(u32, u32, u32),
    /// Sizes with their cumulative percentages.
    Split(Vec<(u32, u8)>),
}

impl Sizes {
    fn new(sizes: &BlockSizes, unaligned: bool) -> Sizes {
        match sizes {
            BlockSizes::Range(low, high) if low == high => Sizes::Fixed(*low),
            BlockSizes::Range(low, high) => Sizes::Range(*low, *high, if unaligned { 1 } else { *low }),
            BlockSizes::Split(sizes) => {
                let mut up_to = 0;
                let sizes = sizes.iter().map(|&(bytes, share)| {
                    up_to += share;
                    (bytes, up_to)
                });
                Sizes::Split(sizes.collect())
            }
        }
    }

    fn least(&self) -> u64 {
        match self {
            Sizes::Fixed(bytes) | Sizes::Range(bytes, ..) => u64::from(*bytes),
            Sizes::Split(sizes) => sizes.iter().map(|&(bytes, _)| u64::from(bytes)).min().unwrap_or(1),
        }
    }

    /// Draws a size of at most `room` bytes; `None` if the smallest does not fit.
    fn draw(&self, room: u64, random: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let least = self.least();
        if least > room {
            return None;
        }
        for _ in 0..SIZE_DRAWS {
            let bytes = match self {
                Sizes::Fixed(bytes) => *bytes,
                Sizes::Range(low, high, multiple) => {
                    let bytes = (u64::from(*low) + below(random, u64::from(*high))).min(u64::from(*high)) as u32;
                    bytes - bytes % multiple
                }
                Sizes::Split(sizes) => {
                    let share = below(random, 100) as u8;
                    let fits = |&&(bytes, up_to): &&(u32, u8)| share < up_to && u64::from(bytes) <= room;
                    sizes.iter().find(fits).or(sizes.last()).map_or(1, |&(bytes, _)| bytes)
                }
            };
            if u64::from(bytes) <= room {
                return Some(bytes);
            }
        }
        Some(least as u32)
    }
}

/// A job's part of a file, and its positions relative to the start of the part.
struct FileState {
    file: FileId,
    start: u64,
    bytes: u64,
    finished: bool,
    /// Whether it was reopened to be read back.
    opened: bool,
    /// Start of the last I/O of each direction.
    last_start: [Option<u64>; DIRECTIONS],
    /// Its end.
    last_end: [u64; DIRECTIONS],
    /// Start of the current zone, and the bytes transferred in it.
    zone: u64,
    zone_bytes: u64,
    map: Option<RandomMap>,
    samplers: Option<[Sampler; DIRECTIONS]>,
}

/// An offset, and whether the random map applies to it.
struct Offset {
    bytes: u64,
    mapped: bool,
}

impl Requests {
    pub(super) fn new(options: &Options, plan: &Plan, depth: u32) -> Requests {
        let rules = Rules::new(options, plan.limit);
        let file =
            |(index, target): (usize, &Target)| FileState::new(target, &rules, options, plan.seed.wrapping_add(index as u64));
        let files: Vec<FileState> = plan.targets.iter().enumerate().map(file).collect();
        Requests {
            turn: Turn::new(options.files.service, files.len()),
            random: Xoshiro256PlusPlus::seed_from_u64(plan.seed),
            seed: plan.seed,
            stage: Stage::Running,
            until_new: 1,
            synced_last: false,
            progress: Progress { loops_left: options.length.loops - 1, ..Progress::default() },
            written: Written::new(options, depth),
            after_read: false,
            files,
            rules,
        }
    }

    /// Draws the direction of the next I/O if the options leave it open. `None` before a sync or a verifying read, at the end, or
    /// if the job is not mixed.
    pub(super) fn draw_direction(&mut self) -> Option<usize> {
        let open = self.rules.order.pattern.kind == JobKind::Mixed && self.stage == Stage::Running;
        if !open || self.sync_due() || self.exhausted() || self.read_is_due() {
            return None;
        }
        Some(self.mixed_direction())
    }

    /// The next action, `None` at the end. An I/O whose direction is open has `direction` if that is given.
    pub(super) fn next_in(&mut self, mut direction: Option<usize>) -> Option<Action> {
        loop {
            match self.stage {
                Stage::Ended => return None,
                Stage::Closing(at) => match self.files.get(at) {
                    Some(file) if self.rules.syncs.at_end && self.progress.pass_writes > 0 && !self.rules.limits.verify_only => {
                        self.stage = Stage::Closing(at + 1);
                        return Some(Action::Sync { file: file.file });
                    }
                    _ if self.written.is_some() => self.stage = Stage::Verifying,
                    _ => self.next_pass(),
                },
                Stage::Verifying => match self.read_back() {
                    Some(action) => return Some(action),
                    None => self.next_pass(),
                },
                Stage::Running if self.exhausted() => self.stage = Stage::Closing(0),
                Stage::Running => {
                    if self.read_is_due()
                        && let Some(piece) = self.written.as_mut().and_then(Written::take_due)
                    {
                        return Some(self.read(piece));
                    }
                    let Some(index) = self.pick_file() else {
                        self.stage = Stage::Closing(0);
                        continue;
                    };
                    if self.sync_due() && !self.rules.limits.verify_only {
                        self.synced_last = true;
                        return Some(Action::Sync { file: self.files[index].file });
                    }
                    let direction = self.direction(index, direction.take());
                    if let Some(action) = self.access(index, direction) {
                        if self.rules.limits.verify_only {
                            continue;
                        }
                        return Some(action);
                    }
                    self.files[index].finished = true;
                    self.turn.finish();
                }
            }
        }
    }

    /// Ends the I/O; only the final syncs of files remain, if the options require them.
    pub(super) fn stop(&mut self) {
        self.stage = match self.stage {
            Stage::Running => Stage::Closing(0),
            Stage::Verifying => Stage::Ended,
            stage => stage,
        };
        self.written = None;
        self.progress.loops_left = 0;
        self.rules.limits.time_based = false;
        self.rules.limits.io_size = false;
    }

    /// Ends immediately, without syncs.
    pub(super) fn abort(&mut self) {
        self.stage = Stage::Ended;
    }

    /// The next verifying read after the writes; `None` if everything has been read.
    fn read_back(&mut self) -> Option<Action> {
        let written = self.written.as_mut()?;
        let piece = written.next()?;
        let file = &mut self.files[piece.file];
        if self.rules.invalidate && !std::mem::replace(&mut file.opened, true) {
            written.put_back(piece);
            return Some(Action::Invalidate { file: file.file, offset: file.start, bytes: file.bytes });
        }
        Some(self.read(piece))
    }

    fn read(&mut self, piece: Piece) -> Action {
        let Piece { file, start, bytes } = piece;
        let FileState { file, start: begin, .. } = self.files[file];
        self.after_read = true;
        self.progress.read_back += u64::from(bytes);
        Action::Access { op: Op::Read, file, offset: begin + start, bytes, access: self.rules.access }
    }

    /// Whether a verifying read precedes the next write.
    fn read_is_due(&self) -> bool {
        self.written.as_ref().is_some_and(|written| written.is_due(self.after_read))
    }

    fn exhausted(&self) -> bool {
        self.rules.limits.are_reached(&self.progress)
    }

    fn next_pass(&mut self) {
        if !self.rules.limits.allow_pass(&self.progress) {
            self.stage = Stage::Ended;
            return;
        }
        self.progress.begin_pass();
        // In fio a new pass syncs again even if a sync came last.
        self.synced_last = false;
        self.stage = Stage::Running;
        self.turn.restart(self.files.len());
        self.files.iter_mut().for_each(FileState::reset);
        self.after_read = false;
        if self.rules.limits.time_based && self.rules.limits.verify_only {
            (self.progress.ios, self.progress.bytes) = (0, 0);
        }
        if let Some(written) = &mut self.written {
            written.clear();
        }
        if self.rules.order.repeatable {
            self.random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        }
    }

    /// Whether a sync is due: after every given number of writes, unless the last action was a sync.
    fn sync_due(&self) -> bool {
        !self.synced_last && self.rules.syncs.are_due(self.progress.writes)
    }

    fn pick_file(&mut self) -> Option<usize> {
        self.turn.next(&self.files, self.progress.pass_ios == 0, &mut self.random)
    }

    fn mixed_direction(&mut self) -> usize {
        if (below(&mut self.random, 100) as u8) < self.rules.order.mix_read { READ } else { WRITE }
    }

    fn direction(&mut self, index: usize, given: Option<usize>) -> usize {
        match self.rules.order.pattern.kind {
            JobKind::Read => READ,
            JobKind::Write => WRITE,
            JobKind::Trim => TRIM,
            JobKind::Mixed => given.unwrap_or_else(|| self.mixed_direction()),
            // A trimmed block is written next.
            JobKind::TrimWrite => {
                let [_, written, trimmed] = self.files[index].last_start;
                if written == trimmed { TRIM } else { WRITE }
            }
        }
    }

    /// An I/O in `direction`; `None` if the file has none left.
    fn access(&mut self, index: usize, direction: usize) -> Option<Action> {
        let Requests { rules, files, random, .. } = self;
        let file = &mut files[index];
        let (start, bytes) = if rules.order.pattern.kind == JobKind::TrimWrite && direction == WRITE {
            let trimmed = file.last_start[TRIM]?;
            (trimmed, (file.last_end[TRIM] - trimmed) as u32)
        } else {
            if let Some(zones) = &rules.zones {
                file.stride(zones);
            }
            self.until_new -= 1;
            let new = self.until_new == 0;
            if new {
                self.until_new = rules.order.pattern.every;
            }
            let offset = file.offset(rules, direction, new, random)?;
            let bytes = rules.sizes[direction].draw(file.bytes.checked_sub(offset.bytes)?, random)?;
            (offset.bytes, if offset.mapped { file.visit(rules, direction, offset.bytes, bytes) } else { bytes })
        };
        file.last_start[direction] = Some(start);
        file.last_end[direction] = start + u64::from(bytes);
        file.zone_bytes += u64::from(bytes);
        let action = Action::Access { op: op(direction), file: file.file, offset: file.start + start, bytes, access: rules.access };
        if let (WRITE, Some(written)) = (direction, &mut self.written) {
            written.push(Piece { file: index, start, bytes });
        }
        self.count(direction, bytes);
        Some(action)
    }

    fn count(&mut self, direction: usize, bytes: u32) {
        self.synced_last = false;
        self.after_read = direction == READ;
        // If the same blocks are trimmed and written, fio's limits count only the writes.
        let is_limited = self.rules.order.pattern.kind != JobKind::TrimWrite || direction == WRITE;
        self.progress.count(direction, bytes, is_limited);
    }
}

impl Iterator for Requests {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        self.next_in(None)
    }
}

impl Rules {
    fn new(options: &Options, limit: u64) -> Rules {
        let sizes = options.blocks.sizes.each_ref().map(|sizes| Sizes::new(sizes, options.blocks.unaligned));
        let access = match (options.queue.direct, options.sync.mode) {
            (true, _) => Access::Direct,
            (false, SyncMode::None) => Access::Buffered,
            (false, SyncMode::EachWrite) => Access::Synchronous,
        };
        Rules {
            order: options.order.clone(),
            align: std::array::from_fn(|direction| options.blocks.align[direction].unwrap_or(sizes[direction].least())),
            sizes,
            map: options.random_map(),
            zones: options.order.zones(),
            syncs: SyncRules::new(&options.sync),
            access,
            limits: Limits {
                time_based: options.length.time_based,
                io_size: options.files.io_size.is_some(),
                bytes: limit,
                ios: options.length.number_ios.unwrap_or(u64::MAX),
                largest: u64::from(options.all_block_bounds().1),
                verify_only: options.verify.on && options.verify.only,
            },
            invalidate: options.files.invalidate,
        }
    }
}

impl FileState {
    fn new(target: &Target, rules: &Rules, options: &Options, seed: u64) -> FileState {
        let least = u64::from(options.all_block_bounds().0);
        let sampler = |direction: usize| {
            let align = rules.align[direction];
            Sampler::new(&rules.order.distribution[direction], (target.bytes / align).max(1), align, seed)
        };
        FileState {
            file: target.file,
            start: target.start,
            bytes: target.bytes,
            finished: false,
            opened: false,
            last_start: [None; DIRECTIONS],
            last_end: [0; DIRECTIONS],
            zone: 0,
            zone_bytes: 0,
            map: rules.map.then(|| RandomMap::new(target.bytes / least)),
            samplers: (rules.order.pattern.random && !rules.order.is_uniform()).then(|| std::array::from_fn(sampler)),
        }
    }

    /// Resets the state for a new pass.
    fn reset(&mut self) {
        (self.finished, self.opened) = (false, false);
        self.last_start = [None; DIRECTIONS];
        self.last_end = [0; DIRECTIONS];
        (self.zone, self.zone_bytes) = (0, 0);
        if let Some(map) = &mut self.map {
            map.clear();
        }
    }

    /// Moves to the next zone when `size` bytes were transferred in this one, and returns to its start when its end is reached.
    fn stride(&mut self, zones: &Zones) {
        if self.zone_bytes >= zones.size {
            self.zone_bytes = 0;
            let next = self.zone.saturating_add(zones.range).saturating_add(zones.skip);
            self.zone = if next >= self.bytes { 0 } else { next };
            self.last_end = [self.zone; DIRECTIONS];
        }
        for end in &mut self.last_end {
            if *end >= self.zone.saturating_add(zones.range) {
                *end = self.zone;
            }
        }
    }

    /// Start of the next I/O; `None` if the file is finished.
    fn offset(&mut self, rules: &Rules, direction: usize, new: bool, random: &mut Xoshiro256PlusPlus) -> Option<Offset> {
        let unmapped = |bytes| Offset { bytes, mapped: false };
        if !new && rules.order.sequencer == Sequencer::Identical {
            return Some(unmapped(self.last_start[direction].unwrap_or(0)));
        }
        if !rules.order.pattern.random {
            return self.following(rules, direction).map(unmapped);
        }
        let percentage = rules.order.percentage_random[direction];
        if new && (percentage >= 100 || (below(random, 100) as u8) < percentage) {
            return self.at_random(rules, direction, random).map(|bytes| Offset { bytes, mapped: self.map.is_some() });
        }
        match self.following(rules, direction) {
            Some(bytes) => Some(unmapped(bytes)),
            None => self.at_random(rules, direction, random).map(unmapped),
        }
    }

    /// The position after the last I/O of this direction, with holes if configured; `None` at the end of the file.
    fn following(&mut self, rules: &Rules, direction: usize) -> Option<u64> {
        if rules.limits.time_based && self.last_end[direction] >= self.bytes {
            self.last_end[direction] = self.zone;
        }
        let at = self.last_end[direction];
        if at >= self.bytes {
            return None;
        }
        if rules.order.pattern.skip == 0 || at == 0 {
            return Some(at);
        }
        Some(match at.checked_add_signed(rules.order.pattern.skip) {
            Some(at) if at >= self.bytes => 0,
            Some(at) => at,
            // Moving backwards, it continues at the end.
            None if rules.order.pattern.skip < 0 => self.bytes.saturating_add_signed(rules.order.pattern.skip),
            None => 0,
        })
    }

    /// The start of a random block, of an unvisited one if there is a map; `None` if there is none.
    fn at_random(&mut self, rules: &Rules, direction: usize, random: &mut Xoshiro256PlusPlus) -> Option<u64> {
        let align = rules.align[direction];
        let room = rules.zones.map_or(self.bytes, |zones| zones.range.min(self.bytes - self.zone));
        let blocks = room / align;
        if blocks == 0 {
            return None;
        }
        let drawn = match &self.samplers {
            Some(samplers) => samplers[direction].draw(random),
            None => below(random, blocks),
        };
        let block = match &mut self.map {
            Some(map) if map.contains(drawn) => match map.next_free(drawn) {
                None if rules.limits.time_based => {
                    map.clear();
                    drawn
                }
                free => free?,
            },
            _ => drawn,
        };
        let offset = self.zone + block.checked_mul(align)?;
        (offset < self.bytes).then_some(offset)
    }

    /// Marks the blocks from `offset` on as visited, up to the first that already was. Returns how many of the `bytes` precede that
    /// one.
    fn visit(&mut self, rules: &Rules, direction: usize, offset: u64, bytes: u32) -> u32 {
        let Some(map) = &mut self.map else { return bytes };
        let block = rules.align[direction];
        let free = map.insert_run(offset / block, u64::from(bytes).div_ceil(block)) * block;
        // The block was free, so at least one is marked. fio counts in blocks of the direction, even if the map has smaller ones.
        if free == 0 { bytes.min(block as u32) } else { u64::from(bytes).min(free) as u32 }
    }
}

fn op(direction: usize) -> Op {
    [Op::Read, Op::Write, Op::Discard][direction]
}
