//! Writes: into memory, and from memory to the media.

use block::{Nanos, RequestId};

use super::cache::{Age, State, Waiting};
use super::layout::SectorLocation;
use super::mechanics::{Arm, Motion};
use super::media::Extent;
use super::spec::WriteCache;
use super::{Active, Completion, Hdd, Held, Pending, PendingFlush};
use crate::device::deferred::update_mean;

/// A write to be reported when it is on the media.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    id: RequestId,
    /// Time at which its data were in memory and the drive had disconnected.
    left_bus: u64,
    extra_disconnect: bool,
}

impl Hdd {
    /// Takes a write into memory and reports it early if the drive may. Returns whether it did.
    pub(super) fn take_write(&mut self, arrived: u64, age: Age, id: RequestId, lba: u64, end: u64, free: bool) -> bool {
        if !self.reports_early() || self.overtakes(age.order, lba, end) {
            return false;
        }
        let delays = &self.model.delays;
        let command_done = arrived.saturating_add(delays.write.after(self.link.last_was_read));
        let start = command_done.saturating_add(delays.data_preparation);
        if self.model.cache.combines_writes && self.join_write(start, id, lba, end) {
            return true;
        }
        if !free || self.cache.collides(lba, end) {
            return false;
        }
        let Some(segment) = self.segment_for_write(arrived) else { return false };
        let place = self.model.layout.locate(lba);
        self.fill_segment(segment, start, command_done, age, lba, end, place);
        self.report_from_memory(id, segment, end - lba, true);
        true
    }

    /// Reports a write whose data are in a segment, at the end of their bus transfer. `positions`: it adds a positioning of the
    /// arm.
    fn report_from_memory(&mut self, id: RequestId, segment: usize, sectors: u64, positions: bool) {
        let expected = self.media_time(segment, sectors) + if positions { self.write_positioning } else { 0 };
        self.cache.waiting[segment].expected += expected;
        let work = self.deferred.charge(expected);
        self.send_hit(id, self.link.free().saturating_add(self.model.delays.write_completion), Some(work), false);
    }

    /// Time in which `sectors` of a segment pass the head, without track changes.
    fn media_time(&self, segment: usize, sectors: u64) -> u64 {
        let zone = &self.model.layout.zones[usize::from(self.cache.waiting[segment].place.zone)];
        self.model.mechanics.transfer(zone.sector_angle, 1).saturating_mul(sectors)
    }

    /// Whether an older pending request overlaps: it must not see later writes, and writes that repeatedly overtook it would starve
    /// it.
    fn overtakes(&self, order: u64, lba: u64, end: u64) -> bool {
        self.pending.iter().any(|pending| pending.age.order < order && pending.lba < end && lba < pending.end)
    }

    /// Takes writes that waited for memory into it at `at`, the oldest first, so that they do not wait for the arm as well.
    pub(super) fn admit_writes(&mut self, at: u64) {
        if self.model.cache.write_cache != WriteCache::On || !self.model.cache.works_during_media_access {
            return;
        }
        let writes = |pending: &[Pending]| {
            let writes = pending.iter().enumerate().filter(|(_, request)| request.write);
            writes.min_by_key(|(_, request)| request.age.order).map(|(index, request)| (index, *request))
        };
        while let Some((index, request)) = writes(&self.pending)
            && self.take_write(at.max(request.arrived), request.age, request.id, request.lba, request.end, true)
        {
            self.pending.swap_remove(index);
        }
    }

    /// Begins a flush at `at`.
    pub(super) fn begin_flush(&mut self, at: u64, id: RequestId) {
        let delays = &self.model.delays;
        let ready = at.saturating_add(delays.request + delays.write.after(self.link.last_was_read));
        self.flush = Some(PendingFlush { id, ready: Some(ready) });
        self.end_flush(at);
    }

    /// Completes the flush at `at` if no request is before it and no data are unwritten.
    pub(super) fn end_flush(&mut self, at: u64) {
        let is_done = self.pending.is_empty() && self.arm.job.is_none() && self.cache.dirty == 0;
        if let Some(flush) = self.flush.as_mut().filter(|_| is_done)
            && let Some(ready) = flush.ready.take()
        {
            let id = flush.id;
            let done = at.max(ready).max(self.link.last()).saturating_add(self.model.delays.write_completion);
            self.send_hit(id, done, None, self.link.last_was_read);
        }
    }

    /// Processes the commands that arrived during a flush that was reported at `at`.
    pub(super) fn take_held(&mut self, at: u64) {
        while self.flush.is_none()
            && let Some(held) = self.held.pop_front()
        {
            match held {
                Held::Request(request) => self.accept(Nanos(at), &request),
                Held::Flush(id) => self.begin_flush(at, id),
            }
        }
    }

    /// Appends a write to the segment that it continues, if there is one. Returns whether there was.
    fn join_write(&mut self, start: u64, id: RequestId, lba: u64, end: u64) -> bool {
        let Some(index) = self.cache.appendable(lba, end) else { return false };
        let sector = self.model.delays.write_sector;
        let (begun, _) = self.link.occupy(start, end - lba, sector);
        self.report_from_memory(id, index, end - lba, false);
        let segment = &mut self.cache.segments[index];
        segment.end = end;
        let waiting = &mut self.cache.waiting[index];
        (waiting.incoming, waiting.incoming_since) = (lba, begun);
        if segment.state == State::Writing
            && let Some(active) = self.arm.job
        {
            // The arm continues after the earlier data, once the new data are in memory.
            let place = self.model.layout.locate(lba);
            let (extent, _) = Extent::reach(&self.model, active.until, self.arm.at, lba, place, Motion::Continuing, true);
            let until = self.write_extents(extent, index, 0, 0);
            let expected = std::mem::take(&mut self.cache.waiting[index].expected);
            self.deferred.spent(until.saturating_sub(active.until), expected);
            self.arm.job = Some(Active { until, writing: Some(index) });
            self.last_write = (end, until);
        }
        true
    }

    /// A segment for a write; its read-ahead is stopped. `None` if none is available.
    fn segment_for_write(&mut self, at: u64) -> Option<usize> {
        let segment = self.cache.for_write()?;
        if self.cache.segments[segment].state == State::Reading {
            if self.arm.job.is_some() {
                return None;
            }
            self.stop_stream(at);
        }
        Some(segment)
    }

    /// Transfers the data of a write over the bus into a segment.
    #[expect(clippy::too_many_arguments, reason = "one place fills a segment; a struct would only repeat these names")]
    fn fill_segment(&mut self, segment: usize, start: u64, ready: u64, age: Age, lba: u64, end: u64, place: SectorLocation) {
        let sector = self.model.delays.write_sector;
        let (begun, _) = self.link.occupy(start, end - lba, sector);
        if !self.model.cache.read_hits_on_written_data
            && let Some(stream) = self.stream_segment()
            && self.overlaps(stream, lba, end)
        {
            self.stop_stream(start);
        }
        self.cache.begin_write(segment, lba, end);
        self.cache.waiting[segment] = Waiting { age, ready, incoming: lba, incoming_since: begun, place, expected: 0 };
    }

    fn overlaps(&self, segment: usize, lba: u64, end: u64) -> bool {
        self.cache.segments[segment].start < end && lba < self.cache.segments[segment].end
    }

    fn stream_segment(&self) -> Option<usize> {
        self.cache.segments.iter().position(|segment| segment.state == State::Reading)
    }

    /// Starts a pending write at `at`.
    pub(super) fn start_write(&mut self, at: u64, request: &Pending) {
        let Some(segment) = self.segment_for_write(at) else {
            // `choose` starts a write only if a segment is available.
            return self.pending.push(*request);
        };
        let delays = &self.model.delays;
        let mut command_done = request.arrived.saturating_add(delays.write.after(request.after_read));
        let mut start = if request.connected { command_done } else { at.saturating_add(delays.first_reselect) };
        let extra = delays.extra_disconnect.filter(|_| request.extra_disconnect);
        if let Some(extra) = extra {
            start = request.arrived.saturating_add(extra.command + extra.away + delays.first_reselect);
            command_done = request.arrived.saturating_add(extra.command + extra.seek_delay);
        }
        let disconnect = extra.map_or(delays.write_disconnect, |extra| extra.second_disconnect);
        let start = start.saturating_add(delays.data_preparation);
        self.fill_segment(segment, start, command_done.max(at), request.age, request.lba, request.end, request.place);
        let sent = self.link.free();
        if self.reports_early() {
            self.report_from_memory(request.id, segment, request.end - request.lba, true);
            return self.start_destage(at, segment, None);
        }
        let left_bus = sent.saturating_add(disconnect);
        let reported = Reported { id: request.id, left_bus, extra_disconnect: extra.is_some() };
        self.start_destage(at, segment, Some(reported));
    }

    /// Starts writing a segment to the media at `at`. `reported`: the write to report when it is done, unless it was reported
    /// early.
    pub(super) fn start_destage(&mut self, at: u64, index: usize, reported: Option<Reported>) {
        self.arm.turned = at;
        let free = self.stop_stream(at);
        let segment = &mut self.cache.segments[index];
        segment.state = State::Writing;
        let (lba, end) = (segment.start, segment.end);
        let Waiting { ready, place, .. } = self.cache.waiting[index];
        let mut at = free.max(ready);
        let follows_on = self.last_write == (lba, at);
        let motion = if follows_on { Motion::Continuing } else { Motion::Fresh };
        let cylinders = self.arm.at.cylinder.abs_diff(place.cylinder);
        let mut least = 0;
        if !follows_on && self.model.mechanics.minimum_write_seek > 0 {
            let seek = self.model.mechanics.seek_time(self.arm.at, &place, motion, true);
            if seek < self.model.mechanics.minimum_write_seek {
                let minimum = self.model.mechanics.minimum_write_seek;
                at = at.saturating_add(minimum - seek);
                least = if self.model.deviations.delays_from_data { minimum } else { 0 };
            }
        }
        let (extent, positioning) = Extent::reach(&self.model, at, self.arm.at, lba, place, motion, true);
        let written = self.write_extents(extent, index, self.first_burst(end - lba), least);
        let mut until = written;
        if let Some(reported) = reported {
            let delays = &self.model.delays;
            let back = if reported.extra_disconnect { delays.other_reselect } else { delays.first_reselect };
            until = written.max(reported.left_bus).saturating_add(back + delays.write_completion);
            let (seek, rotation) = (Nanos(positioning.seek), Nanos(positioning.rotation));
            let completion = Completion {
                id: reported.id,
                at: Nanos(until),
                seek,
                rotation,
                seek_cylinders: cylinders,
                cache_hit: false,
                work: Some(Nanos(until.saturating_sub(self.arm.turned))),
            };
            self.link.send(completion, false);
        } else {
            let media = self.media_time(index, end - lba);
            let took = until.saturating_sub(self.arm.turned);
            update_mean(&mut self.write_positioning, took.saturating_sub(media));
            let expected = std::mem::take(&mut self.cache.waiting[index].expected);
            self.deferred.spent(took, expected);
        }
        self.arm.job = Some(Active { until, writing: Some(index) });
        self.last_write = (end, written);
    }

    /// Number of sectors that must be in memory before the first is written: drives that disconnect twice wait for more (DiskSim,
    /// `disksim_diskcache.c`: 10, or 15 of a write of 45 or more).
    fn first_burst(&self, sectors: u64) -> u64 {
        match self.model.delays.extra_disconnect {
            None => 1,
            Some(_) if sectors < 45 => sectors.min(10),
            Some(_) => 15,
        }
    }

    /// Computes the time at which the last sector of a segment is on the media, writing from `extent` on. A sector whose data are
    /// not in memory when it passes is written a revolution later. The first one waits until `burst` sectors are in memory and
    /// `least` has passed since: on the HP C2247A the minimum delay before the media is counted from the arrival of the data, not
    /// from the command.
    fn write_extents(&mut self, mut extent: Extent, index: usize, burst: u64, mut least: u64) -> u64 {
        let (period, bus) = (self.model.mechanics.period, self.model.delays.write_sector);
        let (segment, waiting) = (self.cache.segments[index], self.cache.waiting[index]);
        let came = |lba: u64| {
            if lba < waiting.incoming {
                return 0;
            }
            waiting.incoming_since.saturating_add((lba + 1 - waiting.incoming).max(burst).saturating_mul(bus))
        };
        loop {
            let end = extent.end.min(segment.end).max(extent.lba + 1);
            let last = if self.model.cache.zero_latency_writes {
                extent.lba + u64::from(extent.sectors_in_last_pass(&self.model, end))
            } else {
                end
            };
            let late_first = came(extent.lba).saturating_add(least).saturating_sub(extent.start);
            let late_last = came(last - 1).saturating_sub(extent.passed_at(&self.model, last - 1));
            let revolutions = late_first.max(late_last).div_ceil(period);
            let written = extent.passed_at(&self.model, last).saturating_add(revolutions.saturating_mul(period));
            self.arm.at = Arm::from(&extent.place);
            if extent.end >= segment.end {
                return written;
            }
            least = 0;
            extent = extent.next(&self.model, written, self.locate(extent.end), true);
        }
    }
}
