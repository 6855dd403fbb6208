//! Reads: from memory, from the media, and read-ahead.

use block::{Nanos, RequestId};

use super::cache::{Lookup, State};
use super::mechanics::{Arm, Motion};
use super::media::Extent;
use super::spec::{Preseek, ReadAhead, ReadAheadTrigger};
use super::{Active, Completion, Hdd, Pending};

/// A read from the media into a segment, including read-ahead.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    segment: usize,
    extent: Extent,
    /// LBA at which it ends.
    limit: u64,
    /// Minimum read-ahead: other work does not stop it before this LBA.
    least: u64,
    /// The time at which the whole track is in memory, including the sectors before the first requested one; `None` if it is not
    /// read.
    revolution_at: Option<u64>,
}

impl Hdd {
    /// Sends `lba..end` from a segment that holds all of it, not before `start`.
    pub(super) fn serve_hit(&mut self, start: u64, id: RequestId, segment: usize, lba: u64, end: u64) {
        let delays = &self.model.delays;
        let controller = delays.read_hit.after(self.link.last_was_read) + delays.data_preparation + delays.read_completion;
        let (begun, sent) = self.link.occupy(start, end - lba, self.model.delays.read_sector);
        self.send_hit(id, sent.saturating_add(self.model.delays.read_completion), Some(controller + sent - begun), true);
        self.cache.touch(segment);
        let limit = if self.triggers_read_ahead(lba) { self.read_ahead_limit(segment, lba, end, None) } else { end };
        self.cache.segments[segment].asked = end;
        match &mut self.stream {
            Some(stream) if stream.segment == segment => stream.limit = stream.limit.max(limit),
            None if self.model.cache.read_ahead_after_hit && self.arm.job.is_none() => self.start_read_ahead(start, segment, limit),
            _ => {}
        }
        self.release(segment, end);
    }

    /// Marks data before `end` as sent to the host; read-ahead may overwrite them if the profile allows it.
    fn release(&mut self, segment: usize, end: u64) {
        if self.model.cache.read_ahead_over_requested && !self.cache.segments[segment].written {
            self.cache.segments[segment].released = end;
            self.cache.grow(segment, 0);
        }
    }

    /// Starts read-ahead at the end of a clean segment, up to `limit`.
    fn start_read_ahead(&mut self, at: u64, segment: usize, limit: u64) {
        let held = &mut self.cache.segments[segment];
        if held.written || held.state != State::Clean || held.end >= limit {
            return;
        }
        held.state = State::Reading;
        let from = held.end;
        let place = self.model.layout.locate(from);
        let (extent, _) = Extent::reach(&self.model, at, self.arm.at, from, place, Motion::Fresh, false);
        self.stream = Some(Stream { segment, extent, limit, least: 0, revolution_at: None });
    }

    /// Whether a read from `lba` triggers read-ahead. Call it before the read changes the cache.
    fn triggers_read_ahead(&self, lba: u64) -> bool {
        match self.model.cache.read_ahead_trigger {
            ReadAheadTrigger::EveryRead => true,
            ReadAheadTrigger::AfterSequence => self.cache.follows_on(lba),
        }
    }

    /// The LBA at which read-ahead ends after a request for `lba..end`. `extent`: the part being read, if any.
    fn read_ahead_limit(&self, segment: usize, lba: u64, end: u64, extent: Option<&Extent>) -> u64 {
        let cache = &self.model.cache;
        let capacity = self.model.layout.capacity_sectors;
        let longest = u64::from(cache.read_ahead_max_sectors);
        let fills_segment = cache.read_ahead_over_requested && longest > 0;
        let limit = match cache.read_ahead {
            ReadAhead::None => end,
            _ if end >= capacity => capacity,
            ReadAhead::Track => self.model.layout.track_end(end, &self.locate(end)),
            ReadAhead::Cylinder => self.cylinder_end(end),
            ReadAhead::NextTrack if !fills_segment => {
                let here = extent.filter(|extent| (extent.lba..extent.end).contains(&end));
                let place = match here {
                    Some(extent) => self.model.layout.further(&extent.place, (end - extent.lba) as u32),
                    None => self.locate(end),
                };
                let track_end = self.model.layout.track_end(end, &place);
                let came_from_before = self.cache.segments[segment].start + u64::from(place.sector) < end;
                if came_from_before && track_end < capacity {
                    self.model.layout.track_end(track_end, &self.locate(track_end))
                } else {
                    track_end
                }
            }
            ReadAhead::NextTrack | ReadAhead::Segment => {
                let by_size = if cache.read_ahead_over_requested { end } else { lba } + u64::from(cache.segment_sectors);
                if longest > 0 { by_size.min(end + longest).max(end) } else { by_size }
            }
        };
        let limit = if longest > 0 { limit.min(end + longest) } else { limit };
        limit.max(end + u64::from(cache.read_ahead_min_sectors)).min(capacity)
    }

    fn cylinder_end(&self, end: u64) -> u64 {
        let layout = &self.model.layout;
        let cylinder = layout.locate(end).cylinder;
        let mut limit = end;
        while limit < layout.capacity_sectors {
            let place = layout.locate(limit);
            if place.cylinder != cylinder {
                break;
            }
            limit += u64::from(place.run);
        }
        limit
    }

    /// Starts a pending read at `at`. Its data may be in memory by now.
    pub(super) fn start_read(&mut self, at: u64, request: &Pending) {
        self.advance_stream(at);
        let found = self.cache.look_up(request.lba, request.end);
        self.start_read_of(at, request, found);
    }

    /// Starts a read at `at`; the stream must have been advanced to `at`, and the read looked up (`found`).
    pub(super) fn start_read_of(&mut self, at: u64, request: &Pending, found: Lookup) {
        self.arm.turned = at;
        let (lba, end) = (request.lba, request.end);
        let delays = &self.model.delays;
        let hit = delays.read_hit.after(request.after_read) + delays.data_preparation;
        let back = delays.first_reselect + delays.data_preparation;
        let from_memory = if request.connected { request.arrived.saturating_add(hit) } else { at.saturating_add(back) };
        if let Lookup::Whole(segment) = found {
            return self.serve_hit(from_memory, request.id, segment, lba, end);
        }
        let command_done = request.arrived.saturating_add(delays.read_miss.after(request.after_read));
        let reads_on = self.triggers_read_ahead(lba);
        if let Lookup::Partial(segment) = found {
            if let Some(stream) = self.stream.filter(|stream| stream.segment == segment) {
                return self.read_from_stream(at, from_memory, request, stream, reads_on);
            }
            let free = self.stop_stream(at).max(command_done);
            // This segment does not change when the stream stops: a segment being read belongs to the stream.
            let from = self.cache.segments[segment].end;
            self.cache.segments[segment].state = State::Reading;
            self.cache.touch(segment);
            return self.read_media(free, request, segment, from, Some(from_memory), reads_on);
        }
        if let Some(stream) = self.stream.filter(|stream| self.reads_next(stream, lba)) {
            return self.read_from_stream(at, from_memory, request, stream, reads_on);
        }
        let free = self.stop_stream(at).max(command_done);
        // `choose` starts a read only if a segment is available.
        let Some(segment) = self.cache.for_read() else { return self.pending.push(*request) };
        self.cache.begin_read(segment, lba);
        self.read_media(free, request, segment, lba, None, reads_on);
    }

    /// Reads `from..request.end` from the media into a segment that holds the sectors before it, and continues with read-ahead if
    /// `reads_on`.
    fn read_media(&mut self, at: u64, request: &Pending, segment: usize, from: u64, connected: Option<u64>, reads_on: bool) {
        let place = if from == request.lba { request.place } else { self.model.layout.locate(from) };
        let cylinders = self.arm.at.cylinder.abs_diff(place.cylinder);
        let (extent, positioning) = Extent::reach(&self.model, at, self.arm.at, from, place, Motion::Fresh, false);
        let revolution_at = self.keep_sectors_on_the_way(segment, &extent).filter(|_| reads_on);
        let limit = if reads_on { self.read_ahead_limit(segment, request.lba, request.end, Some(&extent)) } else { request.end };
        let least = request.end + u64::from(self.model.cache.read_ahead_min_sectors);
        let stream = Stream { segment, extent, limit, least, revolution_at };
        let (seek, rotation) = (Nanos(positioning.seek), Nanos(positioning.rotation));
        let completion =
            Completion { id: request.id, at: Nanos::ZERO, seek, rotation, seek_cylinders: cylinders, cache_hit: false, work: None };
        self.follow(at, stream, request, completion, connected);
    }

    /// Whether read-ahead reaches an LBA next, sooner than any other access could.
    fn reads_next(&self, stream: &Stream, lba: u64) -> bool {
        let next = self.cache.segments[stream.segment].end..=stream.extent.end;
        self.model.cache.joins_read_ahead && next.contains(&lba) && lba < stream.limit
    }

    /// Whether read-ahead has read the LBA or reaches it next.
    pub(super) fn stream_covers(&self, lba: u64) -> bool {
        self.stream.is_some_and(|stream| {
            let held = &self.cache.segments[stream.segment];
            (held.start..held.end).contains(&lba) || self.reads_next(&stream, lba)
        })
    }

    /// Serves a read whose beginning is, or soon will be, in memory, while the stream reads the rest.
    fn read_from_stream(&mut self, at: u64, start: u64, request: &Pending, mut stream: Stream, reads_on: bool) {
        let limit = if reads_on { self.read_ahead_limit(stream.segment, request.lba, request.end, None) } else { request.end };
        stream.limit = stream.limit.max(limit);
        stream.least = request.end + u64::from(self.model.cache.read_ahead_min_sectors);
        self.cache.touch(stream.segment);
        let none = Nanos::ZERO;
        let completion =
            Completion { id: request.id, at: none, seek: none, rotation: none, seek_cylinders: 0, cache_hit: false, work: None };
        self.follow(at, stream, request, completion, Some(start));
    }

    /// Computes when a request that the stream reads is complete, and queues its completion; the stream continues with read-ahead.
    ///
    /// `connected`: time from which the drive is ready to send; `None`: it reselects when enough has been read. The transfer of n
    /// sectors that are in memory at times mᵢ ends at the latest of mᵢ + (n − i)·bus. Within an extent mᵢ is linear in i, so its
    /// first and its last sector determine the maximum.
    fn follow(&mut self, at: u64, mut stream: Stream, request: &Pending, mut completion: Completion, connected: Option<u64>) {
        let delays = &self.model.delays;
        let zero_latency = self.model.cache.zero_latency_reads;
        let (bus, sectors) = (delays.read_sector, request.end - request.lba);
        let back = delays.first_reselect + delays.data_preparation;
        let enough =
            (sectors.min(u64::from(self.model.cache.segment_sectors)) as u32 as f64 * self.model.cache.read_watermark) as u64;
        let enough = request.lba + enough.clamp(1, sectors);
        let takes = sectors.saturating_mul(bus);
        let mut sent = connected.unwrap_or(0).max(self.link.idle()).saturating_add(takes);
        let held = self.cache.segments[stream.segment].end;
        let off_media = loop {
            let extent = &stream.extent;
            let end = extent.end.min(request.end);
            let last = if zero_latency { extent.lba + u64::from(extent.sectors_in_last_pass(&self.model, end)) } else { end };
            let first = extent.lba.max(held).max(request.lba).min(end - 1);
            let all = last.max(first + 1);
            let all_passed = extent.passed_at(&self.model, all);
            // A joined stream may be in an extent that ends before the request.
            if end > request.lba {
                for (came, passed) in [(first + 1, extent.passed_at(&self.model, first + 1)), (all, all_passed)] {
                    let left = request.end - (came - 1);
                    sent = sent.max(passed.saturating_add(left.saturating_mul(bus)));
                }
            }
            if connected.is_none() && extent.lba < enough && enough <= end {
                // The drive knows in advance when enough will be in memory, and reselects by then.
                let came = if enough < all { extent.passed_at(&self.model, enough) } else { all_passed };
                let begin = if self.model.deviations.reselects_in_time {
                    came.max(extent.settled.saturating_add(back))
                } else {
                    came.saturating_add(back)
                };
                sent = sent.max(begin.saturating_add(takes));
            }
            let off_media = if last == all { all_passed } else { extent.passed_at(&self.model, last) };
            if extent.end >= request.end {
                break off_media;
            }
            stream.extent = extent.next(&self.model, off_media, self.locate(extent.end), false);
            stream.revolution_at = None;
        };
        let completed = sent.saturating_add(self.model.delays.read_completion);
        self.link.reserve(sent, takes);
        let until = match self.model.queue.preseek {
            Preseek::AfterCompletion => completed,
            Preseek::DuringCompletion => sent,
            // The joined stream may have read the sectors before `at`.
            Preseek::BeforeCompletion => off_media.max(at),
        };
        completion.at = Nanos(completed);
        completion.work = Some(Nanos(until.saturating_sub(self.arm.turned)));
        self.arm.at = Arm::from(&stream.extent.place);
        self.arm.job = Some(Active { until, writing: None });
        self.cache.segments[stream.segment].asked = request.end;
        self.stream = Some(stream);
        self.release(stream.segment, request.end);
        self.link.send(completion, true);
    }

    /// Keeps the sectors that pass between the arm's arrival and the first requested one. Returns the time at which a drive with
    /// zero-latency reads has the whole track, one revolution after the arm has settled; `None` if it does not read it.
    fn keep_sectors_on_the_way(&mut self, segment: usize, extent: &Extent) -> Option<u64> {
        let cache = &self.model.cache;
        if !cache.reads_sectors_on_the_way || cache.read_ahead == ReadAhead::None {
            return None;
        }
        let track = &self.model.layout.zones[usize::from(extent.place.zone)];
        let on_the_way = self.model.mechanics.passed(&self.model.layout, &extent.place, extent.start - extent.settled);
        // Slips are rare; without looking for them, at most a few sectors of the track before are included.
        let on_the_way = u64::from(on_the_way.min(extent.place.sector)).min(extent.lba);
        let held = &mut self.cache.segments[segment];
        if held.start == extent.lba {
            held.start = extent.lba - on_the_way;
            held.released = held.start;
        }
        let whole = self.model.deviations.reads_whole_track && cache.zero_latency_reads;
        (whole && track.sectors_per_track <= cache.segment_sectors)
            .then_some(extent.settled.saturating_add(self.model.mechanics.period))
    }

    /// Advances the stream to `at`, and ends it when it has reached its limit.
    pub(super) fn advance_stream(&mut self, at: u64) {
        let Some(mut stream) = self.stream.take() else { return };
        loop {
            let extent = &stream.extent;
            let reached = extent.reached(&self.model, at).min(stream.limit);
            self.cache.grow(stream.segment, reached);
            if reached >= stream.limit || reached < extent.end {
                break;
            }
            let off_media = extent.passed_at(&self.model, extent.end);
            stream.extent = extent.next(&self.model, off_media, self.locate(extent.end), false);
            stream.revolution_at = None;
        }
        self.arm.at = Arm::from(&stream.extent.place);
        if stream.revolution_at.is_some_and(|complete| complete <= at) {
            stream.revolution_at = None;
            self.hold_whole_track(stream.segment, &stream.extent);
        }
        let finished = self.cache.segments[stream.segment].end >= stream.limit && stream.revolution_at.is_none();
        if finished && self.arm.job.is_none_or(|active| active.until <= at) {
            self.cache.end_read(stream.segment);
        } else {
            self.stream = Some(stream);
        }
    }

    fn hold_whole_track(&mut self, segment: usize, extent: &Extent) {
        let start = self.model.layout.track_start(extent.lba, &extent.place);
        let held = &mut self.cache.segments[segment];
        if held.end.saturating_sub(start) <= u64::from(self.model.cache.segment_sectors) {
            held.start = held.start.min(start);
        }
    }

    /// Ends read-ahead for other work at `at`, after its minimum. Returns the time at which the arm is free.
    pub(super) fn stop_stream(&mut self, at: u64) -> u64 {
        self.advance_stream(at);
        let Some(mut stream) = self.stream.take() else { return at };
        let mut free = at;
        let least = stream.least.min(stream.limit);
        if self.cache.segments[stream.segment].end < least {
            while stream.extent.end < least {
                let off_media = stream.extent.passed_at(&self.model, stream.extent.end);
                stream.extent = stream.extent.next(&self.model, off_media, self.locate(stream.extent.end), false);
            }
            free = stream.extent.passed_at(&self.model, least);
            self.cache.grow(stream.segment, least);
        } else if at < stream.extent.settled {
            free = stream.extent.settled;
        } else if at > stream.extent.start && !self.model.cache.stops_in_sector {
            let reached = stream.extent.reached(&self.model, at);
            free = stream.extent.passed_at(&self.model, (reached + 1).min(stream.extent.end)).max(at);
        }
        self.arm.at = Arm::from(&stream.extent.place);
        self.cache.end_read(stream.segment);
        free
    }
}
