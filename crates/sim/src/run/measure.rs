//! Measures taken while requests complete. Their memory does not grow with the length of the run.

use std::collections::BTreeMap;

use block::{Nanos, Op, Roster, StreamId};

use super::{Finished, Issue, Owner, Responses, Tenants, Transferred};

/// Number of bins of the curves over time; their width doubles when the run outgrows them.
const BINS: usize = 240;
/// Maximum number of requests to keep to show their order of service; of a longer run at least about half as many are kept.
const SAMPLE: usize = 6_000;
/// The sample consists of stretches of this many consecutively issued requests: only neighbours show an order.
pub const STRETCH: u64 = 64;

/// Significant digits of a stream's quantiles: there may be many streams, so this saves memory.
const STREAM_DIGITS: u8 = 1;

/// One stream's share of a run, or several streams' together. Quantiles are to one significant digit (5%).
#[derive(Clone, Debug)]
pub struct StreamMeasure {
    /// Arrival of its first request.
    pub first_arrival: Nanos,
    /// Completion of its last request.
    pub last_completion: Nanos,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Response times of its reads, writes and discards. Combined when the run ends.
    pub responses: Responses,
    /// Of reads.
    pub reads: Responses,
    /// Of writes.
    pub writes: Responses,
    /// Of discards.
    pub discards: Responses,
    /// Of fsyncs, which are not in `responses`.
    pub syncs: Responses,
}

impl Default for StreamMeasure {
    fn default() -> StreamMeasure {
        StreamMeasure::new()
    }
}

impl StreamMeasure {
    /// Without any requests.
    pub fn new() -> StreamMeasure {
        StreamMeasure {
            first_arrival: Nanos::MAX,
            last_completion: Nanos::ZERO,
            read_bytes: 0,
            written_bytes: 0,
            responses: Responses::new(STREAM_DIGITS),
            reads: Responses::new(STREAM_DIGITS),
            writes: Responses::new(STREAM_DIGITS),
            discards: Responses::new(STREAM_DIGITS),
            syncs: Responses::new(STREAM_DIGITS),
        }
    }

    /// Records a request that was completed at `at`.
    pub fn record(&mut self, op: Op, arrival: Nanos, at: Nanos, bytes: u64) {
        self.span(arrival, at);
        let (responses, moved) = match op {
            Op::Read => (&mut self.reads, &mut self.read_bytes),
            Op::Write => (&mut self.writes, &mut self.written_bytes),
            Op::Discard => (&mut self.discards, &mut 0),
        };
        responses.record(at - arrival);
        *moved += bytes;
    }

    /// Requests recorded so far.
    fn transferred(&self) -> u64 {
        self.reads.count() + self.writes.count() + self.discards.count()
    }

    fn span(&mut self, arrival: Nanos, at: Nanos) {
        self.first_arrival = self.first_arrival.min(arrival);
        self.last_completion = self.last_completion.max(at);
    }

    /// Combines the directions, after the last request.
    pub fn finish(&mut self) {
        self.responses = self.reads.clone();
        self.responses.add(&self.writes);
        self.responses.add(&self.discards);
    }

    /// Adds another stream's share, for the total of several.
    pub fn add(&mut self, other: &StreamMeasure) {
        self.span(other.first_arrival, other.last_completion);
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.responses.add(&other.responses);
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.discards.add(&other.discards);
        self.syncs.add(&other.syncs);
    }

    /// Bytes it moved.
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }

    /// From its first request to its last completion, the divisor of its rates. Zero if it had no request.
    pub fn duration(&self) -> Nanos {
        self.last_completion - self.first_arrival
    }
}

/// The followed streams during the run. Consecutive requests of the same stream are found by a single comparison.
#[derive(Clone, Debug)]
struct Followed {
    /// By stream.
    measures: Vec<(StreamId, StreamMeasure)>,
    last: usize,
}

impl Followed {
    fn new(followed: impl IntoIterator<Item = StreamId>) -> Followed {
        let mut streams: Vec<StreamId> = followed.into_iter().collect();
        streams.sort_unstable();
        streams.dedup();
        Followed { measures: streams.into_iter().map(|stream| (stream, StreamMeasure::new())).collect(), last: 0 }
    }

    fn get_mut(&mut self, stream: StreamId) -> Option<&mut StreamMeasure> {
        if self.measures.get(self.last).is_none_or(|&(last, _)| last != stream) {
            self.last = self.measures.binary_search_by_key(&stream, |&(other, _)| other).ok()?;
        }
        Some(&mut self.measures[self.last].1)
    }
}

/// One bin of the curves over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Bytes completed in it.
    pub bytes: u64,
    /// Requests completed in it.
    pub requests: u64,
    /// Sum of their response times.
    pub response_sum: Nanos,
    /// The longest of them.
    pub response_max: Nanos,
}

/// The measures of one run.
#[derive(Clone, Debug)]
pub struct Measure {
    /// Arrival of the first request.
    pub first_arrival: Nanos,
    /// Arrival of the first request of the ramp, which is not measured; `Nanos::MAX` without a ramp.
    ramp_arrival: Nanos,
    /// Arrival of the last request.
    pub last_arrival: Nanos,
    /// Completion of the last request.
    pub last_completion: Nanos,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Response times of reads, writes and discards. Combined when the run ends.
    pub all: Responses,
    /// Of reads.
    pub reads: Responses,
    /// Of writes.
    pub writes: Responses,
    /// Of fsyncs, which are not in [`all`](Measure::all).
    pub syncs: Responses,
    /// Of discards.
    pub discards: Responses,
    /// The followed streams. Filled when the run ends.
    pub streams: BTreeMap<StreamId, StreamMeasure>,
    /// Width of a bin.
    pub bin: Nanos,
    /// The run in bins, from time zero on.
    pub bins: Vec<Bin>,
    /// Some stretches of [`STRETCH`] requests, chosen by their numbers alone: the same ones in every run of as many requests.
    pub sample: Vec<Transferred>,
    /// Per-tenant measures; `None` unless [requested](Measure::by_tenant).
    pub tenants: Option<Box<Tenants>>,
    followed: Followed,
    /// The only followed stream, until another has a request. Its measures are those of the run and are not recorded twice.
    sole: Option<StreamId>,
    /// Whether only the followed streams are measured.
    only_streams: bool,
    sample_below: u64,
    /// The last bin used: its index, start and end. Most requests fall into the same bin as the previous one, which is then found without a
    /// division.
    current: (usize, Nanos, Nanos),
}

impl Measure {
    /// Measures a run, and the `followed` streams separately.
    pub fn new(followed: impl IntoIterator<Item = StreamId>) -> Measure {
        let followed = Followed::new(followed);
        Measure {
            first_arrival: Nanos::MAX,
            ramp_arrival: Nanos::MAX,
            last_arrival: Nanos::ZERO,
            last_completion: Nanos::ZERO,
            read_bytes: 0,
            written_bytes: 0,
            all: Responses::new(3),
            reads: Responses::new(3),
            writes: Responses::new(3),
            syncs: Responses::new(3),
            discards: Responses::new(3),
            streams: BTreeMap::new(),
            sole: if let [(stream, _)] = followed.measures[..] { Some(stream) } else { None },
            followed,
            only_streams: false,
            bin: Nanos::from_millis(1),
            bins: vec![Bin::default(); BINS],
            sample: Vec::new(),
            tenants: None,
            sample_below: u64::MAX,
            current: (0, Nanos::ZERO, Nanos::ZERO),
        }
    }

    /// Adds per-tenant measures if there is a roster.
    #[must_use]
    pub fn by_tenant(self, roster: Option<&Roster>, by: Owner) -> Measure {
        Measure { tenants: roster.map(|roster| Box::new(Tenants::new(roster, by))), ..self }
    }

    /// Measures only these streams, for runs in which each is alone.
    pub fn of_streams(followed: impl IntoIterator<Item = StreamId>) -> Measure {
        Measure { only_streams: true, sole: None, ..Measure::new(followed) }
    }

    pub(crate) fn record(&mut self, finished: &Finished) {
        if self.only_streams {
            if let Some(done) = finished.transfer() {
                self.record_stream(done);
            }
            return;
        }
        if self.sole.is_some_and(|sole| sole != finished.stream()) {
            self.separate();
        }
        let (arrival, at) = (finished.arrival(), finished.at());
        self.first_arrival = self.first_arrival.min(arrival);
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_completion = self.last_completion.max(at);
        match finished {
            Finished::Transfer(done) => self.record_transfer(done),
            Finished::Flush(flushed) => {
                self.syncs.record(at - arrival);
                if self.sole.is_none()
                    && let Some(stream) = self.followed.get_mut(flushed.stream)
                {
                    stream.span(arrival, at);
                    stream.syncs.record(at - arrival);
                }
            }
        }
    }

    /// Copies the measures of the run to the stream that had all of its requests so far.
    #[cold]
    fn separate(&mut self) {
        let Some(stream) = self.sole.take().and_then(|sole| self.followed.get_mut(sole)) else { return };
        *stream = StreamMeasure {
            first_arrival: self.first_arrival,
            last_completion: self.last_completion,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            responses: Responses::new(STREAM_DIGITS),
            reads: self.reads.coarser(STREAM_DIGITS),
            writes: self.writes.coarser(STREAM_DIGITS),
            discards: self.discards.coarser(STREAM_DIGITS),
            syncs: self.syncs.coarser(STREAM_DIGITS),
        };
    }

    /// Records a request of the ramp, which is not measured.
    pub(crate) fn record_unmeasured(&mut self, finished: &Finished) {
        self.ramp_arrival = self.ramp_arrival.min(finished.arrival());
    }

    /// Excludes the time before `from` (`ramp_time`) from a stream's duration.
    pub(crate) fn begin_stream(&mut self, stream: StreamId, from: Nanos) {
        if let Some(measure) = self.streams.get_mut(&stream) {
            measure.first_arrival = measure.first_arrival.max(from);
        }
    }

    /// Excludes the time before `from` from the run's duration.
    pub(crate) fn begin(&mut self, from: Nanos) {
        self.first_arrival = self.first_arrival.max(from);
    }

    fn record_transfer(&mut self, done: &Transferred) {
        let issue = &done.issue;
        let response = done.at - issue.arrival;
        let bytes = done.moved();
        if self.sole.is_none() {
            self.record_stream(done);
        }
        let (responses, total) = match issue.op {
            Op::Read => (&mut self.reads, &mut self.read_bytes),
            Op::Write => (&mut self.writes, &mut self.written_bytes),
            Op::Discard => (&mut self.discards, &mut 0),
        };
        responses.record(response);
        *total += bytes;
        self.record_bin(done.at, bytes, response);
        if rank(issue) <= self.sample_below {
            self.take_sample(done);
        }
    }

    fn record_stream(&mut self, done: &Transferred) {
        if let Some(stream) = self.followed.get_mut(done.issue.stream) {
            stream.record(done.issue.op, done.issue.arrival, done.at, done.moved());
        }
    }

    /// Adds a request to the sample. Of a long run an ever smaller share is kept, so that the sample stays within bounds.
    fn take_sample(&mut self, done: &Transferred) {
        self.sample.push(*done);
        if self.sample.len() > SAMPLE {
            self.sample_below /= 2;
            self.sample.retain(|kept| rank(&kept.issue) <= self.sample_below);
        }
    }

    fn record_bin(&mut self, at: Nanos, bytes: u64, response: Nanos) {
        let (index, begins, ends) = self.current;
        let index = if begins <= at && at < ends { index } else { self.find_bin(at) };
        let bin = &mut self.bins[index];
        bin.bytes += bytes;
        bin.requests += 1;
        bin.response_sum += response;
        bin.response_max = bin.response_max.max(response);
    }

    /// The bin of a time. Bins are widened until the time fits.
    fn find_bin(&mut self, at: Nanos) -> usize {
        while at.0 / self.bin.0 >= BINS as u64 {
            self.widen_bins();
        }
        let index = at.0 / self.bin.0;
        let begins = Nanos(index * self.bin.0);
        self.current = (index as usize, begins, begins + self.bin);
        index as usize
    }

    fn widen_bins(&mut self) {
        for i in 0..BINS / 2 {
            let (a, b) = (self.bins[2 * i], self.bins[2 * i + 1]);
            self.bins[i] = Bin {
                bytes: a.bytes + b.bytes,
                requests: a.requests + b.requests,
                response_sum: a.response_sum + b.response_sum,
                response_max: a.response_max.max(b.response_max),
            };
        }
        self.bins[BINS / 2..].fill(Bin::default());
        self.bin = self.bin + self.bin;
    }

    /// The followed streams, in ascending order.
    pub(crate) fn followed(&self) -> Vec<StreamId> {
        self.followed.measures.iter().map(|&(stream, _)| stream).collect()
    }

    /// Requests recorded so far.
    pub fn completed(&self) -> u64 {
        if self.only_streams {
            return self.followed.measures.iter().map(|(_, measure)| measure.transferred()).sum();
        }
        self.reads.count() + self.writes.count() + self.discards.count()
    }

    /// Combines the separately recorded directions once at the end, instead of recording every request several times.
    pub(crate) fn finish(&mut self, at: Nanos) {
        if let Some(tenants) = &mut self.tenants {
            tenants.finish(at);
        }
        self.separate();
        self.all = self.reads.clone();
        self.all.add(&self.writes);
        self.all.add(&self.discards);
        self.streams = std::mem::take(&mut self.followed.measures).into_iter().collect();
        self.streams.values_mut().for_each(StreamMeasure::finish);
    }

    /// From the first arrival to the last completion.
    pub fn duration(&self) -> Nanos {
        self.last_completion - self.first_arrival
    }

    /// Like [`Measure::duration`], including the ramp.
    pub fn watched(&self) -> Nanos {
        self.last_completion - self.first_arrival.min(self.ramp_arrival)
    }
}

/// A request's rank in the order of sampling, the same for all of its stretch. Multiples of the golden ratio spread the stretches
/// evenly over a run of any length (Knuth, The Art of Computer Programming, volume 3, section 6.4).
fn rank(issue: &Issue) -> u64 {
    (issue.token / STRETCH).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::super::Flushed;
    use super::*;

    /// A synchronous request of 4 KiB at sector 0.
    fn issue(arrival: Nanos, op: Op, stream: StreamId, token: u64) -> Issue {
        Issue { arrival, lba: 0, sectors: 8, op, sync: true, stream, priority: block::Priority::DEFAULT, token }
    }

    #[test]
    fn a_discard_counts_among_all_and_as_neither_read_nor_write_and_moves_nothing() {
        let mut measure = Measure::new([7]);
        for (token, op) in [(0, Op::Read), (1, Op::Write), (2, Op::Discard)] {
            let issue = issue(Nanos::ZERO, op, 7, token);
            let (dispatched, at) = (Nanos::ZERO, Nanos::from_millis(1));
            measure.record(&Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched, at }));
        }
        measure.finish(Nanos::ZERO);
        assert_eq!((measure.all.count(), measure.reads.count(), measure.writes.count()), (3, 1, 1));
        assert_eq!((measure.read_bytes, measure.written_bytes, measure.streams[&7].bytes()), (4096, 4096, 8192));
        assert_eq!((measure.bins.iter().map(|bin| bin.bytes).sum::<u64>(), measure.streams[&7].responses.count()), (8192, 3));
    }

    #[test]
    fn of_streams_alone_the_followed_ones_are_measured_as_ever_and_nothing_else() {
        let (mut all, mut alone) = (Measure::new([7]), Measure::of_streams([7]));
        for token in 0..100 {
            let issue = issue(Nanos(token * 1_000), Op::Read, 7 + (token % 2) as StreamId, token);
            let (dispatched, at) = (issue.arrival, Nanos(token * 2_000 + 1));
            for measure in [&mut all, &mut alone] {
                measure.record(&Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched, at }));
            }
        }
        assert_eq!((all.completed(), alone.completed()), (100, 50));
        for measure in [&mut all, &mut alone] {
            measure.finish(Nanos::ZERO);
        }
        let figures = |measure: &Measure| {
            let stream = &measure.streams[&7];
            let responses = &stream.responses;
            (stream.bytes(), responses.count(), responses.mean(), responses.max(), responses.quantile(0.9))
        };
        assert_eq!(figures(&alone), figures(&all));
        assert_eq!((alone.all.count(), alone.sample.len()), (0, 0));
    }

    #[test]
    fn a_stream_without_others_is_measured_as_next_to_others() {
        // Three cases: a second followed stream never has a request; has one late; a stream that is not followed has one late.
        let [mut sole, mut accompanied, mut late, mut first_alone] =
            [&[7][..], &[7, 9], &[7, 8], &[7]].map(|followed| Measure::new(followed.iter().copied()));
        let mut random = 1_u64;
        for token in 0..5_000 {
            random = block::scramble::scramble(random);
            let op = [Op::Read, Op::Write, Op::Discard][random as usize % 3];
            let issue = issue(Nanos(token * 1_000), op, 7, token);
            let (arrival, at) = (issue.arrival, Nanos(token * 1_000 + (random >> (10 + token % 50))));
            let transfer = |issue| Finished::Transfer(Transferred { issue, bytes: 4096, dispatched: arrival, at });
            for measure in [&mut sole, &mut accompanied, &mut late, &mut first_alone] {
                measure.record(&transfer(issue));
                if token % 100 == 0 {
                    measure.record(&Finished::Flush(Flushed { arrival, stream: 7, token, at }));
                }
            }
            if token > 3_000 {
                [&mut late, &mut first_alone]
                    .into_iter()
                    .for_each(|measure| measure.record(&transfer(Issue { stream: 8, ..issue })));
            }
        }
        let stream = |mut measure: Measure| {
            measure.finish(Nanos::ZERO);
            let StreamMeasure {
                first_arrival,
                last_completion,
                read_bytes,
                written_bytes,
                responses,
                reads,
                writes,
                discards,
                syncs,
            } = &measure.streams[&7];
            let figures = [responses, reads, writes, discards, syncs].map(|of| {
                let quantiles: Vec<Nanos> = (0..=1000).map(|thousandth| of.quantile(f64::from(thousandth) / 1000.0)).collect();
                (of.count(), of.mean(), of.deviation(), of.min(), of.max(), quantiles, of.cumulative())
            });
            ((*first_arrival, *last_completion, *read_bytes, *written_bytes), figures)
        };
        let wanted = stream(accompanied);
        assert!(stream(late) == wanted && stream(first_alone) == wanted && stream(sole) == wanted);
    }

    #[test]
    fn an_fsync_counts_among_fsyncs_and_nowhere_else() {
        let mut measure = Measure::new([7]);
        let (arrival, at) = (Nanos::ZERO, Nanos::from_millis(3));
        measure.record(&Finished::Flush(Flushed { arrival, stream: 7, token: 0, at }));
        measure.finish(Nanos::ZERO);
        assert_eq!((measure.syncs.count(), measure.syncs.max()), (1, Nanos::from_millis(3)));
        assert_eq!((measure.all.count(), measure.writes.count(), measure.streams[&7].responses.count()), (0, 0, 0));
        assert_eq!(measure.last_completion, Nanos::from_millis(3));
    }

    #[test]
    fn a_stream_is_measured_over_its_own_time_reads_and_writes_apart() {
        let mut measure = Measure::new([7, 8]);
        let mut done = |stream, op, from_ms, to_ms, sectors| {
            let priority = block::Priority::DEFAULT;
            let issue = Issue { arrival: Nanos::from_millis(from_ms), lba: 0, sectors, op, sync: true, stream, priority, token: 0 };
            let (dispatched, at) = (issue.arrival, Nanos::from_millis(to_ms));
            measure.record(&Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched, at }));
        };
        done(7, Op::Read, 0, 10, 8);
        done(8, Op::Write, 1000, 1030, 16);
        done(8, Op::Read, 1040, 1050, 8);
        measure.finish(Nanos::ZERO);
        let [first, second] = [7, 8].map(|stream| &measure.streams[&stream]);
        assert_eq!((first.duration(), second.duration()), (Nanos::from_millis(10), Nanos::from_millis(50)));
        assert_eq!((second.reads.count(), second.read_bytes, second.reads.mean()), (1, 4096, Nanos::from_millis(10)));
        assert_eq!((second.writes.count(), second.written_bytes, second.writes.mean()), (1, 8192, Nanos::from_millis(30)));
        assert_eq!((second.responses.count(), second.responses.mean()), (2, Nanos::from_millis(20)));
        let mut both = first.clone();
        both.add(second);
        assert_eq!((both.duration(), both.bytes(), both.responses.count()), (Nanos::from_millis(1050), 16_384, 3));
    }

    #[test]
    fn a_sample_has_whole_stretches_of_neighbours() {
        let mut measure = Measure::new([]);
        for token in 0..100_000 {
            let at = Nanos(token * 1000);
            let issue = issue(at, Op::Read, 1, token);
            measure.record(&Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched: at, at }));
        }
        let tokens: Vec<u64> = measure.sample.iter().map(|kept| kept.issue.token).collect();
        assert!(
            tokens
                .chunks(STRETCH as usize)
                .all(|stretch| stretch[0].is_multiple_of(STRETCH) && stretch.is_sorted_by(|a, b| a + 1 == *b))
        );
    }

    #[test]
    fn a_sample_of_a_run_of_any_length_is_neither_small_nor_large_and_the_same_again() {
        let sample = |requests: u64| {
            let mut measure = Measure::new([]);
            for token in 0..requests {
                let at = Nanos(token * 1000);
                let issue = issue(at, Op::Read, 1, token);
                measure.record(&Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched: at, at }));
            }
            measure.sample.iter().map(|kept| kept.issue.token).collect::<Vec<_>>()
        };
        assert_eq!(sample(100).len(), 100);
        for requests in [6_000, 50_000, 300_000] {
            let tokens = sample(requests);
            assert!((2_700..=6_000).contains(&tokens.len()), "{} of {requests}", tokens.len());
            let late = tokens.iter().filter(|&&token| token >= requests / 2).count();
            assert!((0.45..0.55).contains(&(late as f64 / tokens.len() as f64)), "{late} of {} from the second half", tokens.len());
            assert_eq!(tokens, sample(requests));
        }
    }

    #[test]
    fn bins_hold_everything_in_a_run_of_any_length() {
        let mut measure = Measure::new([]);
        for seconds in [0, 1, 100_000] {
            measure.record_bin(Nanos::from_millis(seconds * 1000), 512, Nanos::from_millis(2));
        }
        assert_eq!(measure.bins.iter().map(|bin| bin.bytes).sum::<u64>(), 3 * 512);
        assert_eq!(measure.bins.iter().map(|bin| bin.requests).sum::<u64>(), 3);
        assert!(measure.bin.0 * BINS as u64 > 100_000_000_000_000);
        assert!(measure.bin.0 * (BINS as u64) / 2 <= 100_000_000_000_000);
    }
}
