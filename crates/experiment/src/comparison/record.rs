//! The outcome of a run as a record.

use std::collections::BTreeMap;

use block::{Nanos, StreamId};
use report::record::{
    Curves, DirectionFigures, Figures, FlashFigures, JobsFigures, MemoryFigures, SamplePoint, ServiceFigures, StreamFigures,
};
use sim::device::FlashTally;
use sim::host::{HostTally, RunSummary};
use sim::run::{Measure, Responses, STRETCH, StreamMeasure};
use testbed::figures::{rate, response_figures};
use testbed::load::{Load, Row};
use testbed::world::World;

/// Minimum number of requests for a stream to count in fairness: with fewer, one cache hit or seek may decide.
const JUDGED_REQUESTS: u64 = 100;

/// Results of streams that ran alone, the baseline of their slowdown.
pub type Alone = BTreeMap<StreamId, StreamMeasure>;

/// Streams that count in fairness: those with enough requests in this run or alone, so that a starved one counts; all streams if these are
/// fewer than two.
pub fn judged<'a>(streams: &'a [StreamFigures], alone: Option<&Alone>) -> Vec<&'a StreamFigures> {
    let has_enough = |stream: &&StreamFigures| stream.requests.max(requests_alone(stream, alone)) >= JUDGED_REQUESTS;
    let enough: Vec<_> = streams.iter().filter(has_enough).collect();
    if enough.len() < 2 { streams.iter().collect() } else { enough }
}

/// Speed of a stream relative to running alone, at most 1; 0 if it completed requests only when alone. `None` without a baseline.
fn progress(stream: &StreamFigures, alone: Option<&Alone>) -> Option<f64> {
    match stream.slowdown {
        Some(slowdown) => Some((1.0 / slowdown).min(1.0)),
        None => (stream.requests == 0 && requests_alone(stream, alone) > 0).then_some(0.0),
    }
}

/// Requests that the stream completed when alone; 0 without a baseline.
fn requests_alone(stream: &StreamFigures, alone: Option<&Alone>) -> u64 {
    alone.and_then(|alone| alone.get(&stream.stream)).map_or(0, |alone| alone.responses.count())
}

/// The figures of the summary table.
pub fn figures(
    outcome: &RunSummary,
    disks: usize,
    (streams, alone): (&[StreamFigures], Option<&Alone>),
    cpu_ns: Option<u64>,
) -> Figures {
    let measure = &outcome.measure;
    let seconds = measure.duration().as_secs_f64();
    let watched = measure.watched().as_secs_f64();
    let per_second = |count: u64| rate(count, seconds);
    let mechanical = outcome.tally.mechanical.max(1) as f64;
    let arm = outcome.flash.is_none();
    let judged = judged(streams, alone);
    let slowdowns: Vec<(u32, f64)> = judged.iter().filter_map(|stream| Some((stream.stream, stream.slowdown?))).collect();
    let worst = slowdowns.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| slowdowns.len() > 1);
    Figures {
        duration_s: seconds,
        throughput_mb_s: per_second(measure.read_bytes + measure.written_bytes) / 1e6,
        read_mb_s: per_second(measure.read_bytes) / 1e6,
        write_mb_s: per_second(measure.written_bytes) / 1e6,
        iops: per_second(measure.all.count()),
        response: response_figures(&measure.all),
        read_response: (measure.reads.count() > 0).then(|| response_figures(&measure.reads)),
        write_response: (measure.writes.count() > 0).then(|| response_figures(&measure.writes)),
        sync_response: (measure.syncs.count() > 0).then(|| response_figures(&measure.syncs)),
        fairness_jain: jain(judged.iter().filter_map(|stream| progress(stream, alone))),
        worst_slowdown: worst.map(|(_, slowdown)| slowdown),
        worst_slowdown_stream: worst.map(|(stream, _)| stream),
        disk_utilisation: outcome.utilisation(),
        mean_seek_cylinders: arm.then(|| outcome.tally.seek_cylinders as f64 / mechanical),
        seek_time_share: arm.then(|| if watched > 0.0 { outcome.tally.seek.as_secs_f64() / watched / disks as f64 } else { 0.0 }),
        queue_size_mean: outcome.queue_size(),
        device_requests: outcome.tally.requests,
        scheduler_cpu_ns_per_request: cpu_ns.map(|ns| ns as f64 / measure.all.count().max(1) as f64),
        sustainable_speed: None,
        flash: outcome.flash.as_ref().map(flash_figures),
        memory: outcome.host.as_ref().and_then(memory_figures),
    }
}

/// The figures of a single run, without baselines of streams running alone.
pub fn figures_of(load: &dyn Load, outcome: &RunSummary, world: &World) -> Figures {
    let streams = streams(load, outcome, None);
    figures(outcome, world.profile.disks(), (&streams, None), None)
}

fn flash_figures(flash: &FlashTally) -> FlashFigures {
    FlashFigures {
        write_amplification: flash.write_amplification(),
        mapping_hit_ratio: flash.map_hit_ratio(),
        collection_s: flash.collection.as_secs_f64(),
        pages_moved: flash.pages_moved,
        erases: flash.erases,
    }
}

/// `None` if no request used the page cache or swap.
fn memory_figures(host: &HostTally) -> Option<MemoryFigures> {
    host.is_used().then(|| MemoryFigures {
        page_cache_hit_ratio: host.hit_ratio(),
        read_ahead_pages: host.read_ahead,
        read_ahead_wasted_pages: host.read_ahead_wasted,
        written_back_pages: host.written_back,
        throttled_s: host.throttled.as_secs_f64(),
        swapped_in_pages: host.swap.pages_in,
        swapped_out_pages: host.swap.pages_out,
    })
}

/// Jain's index, (sum x)² / (n · sum x²); `None` for fewer than two streams. A stream that runs faster than alone, for example because the
/// read-ahead of others fills the cache, counts as 1: it costs the others nothing.
fn jain(progress: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in progress {
        count += 1.0;
        sum += x;
        squares += x * x;
    }
    (count >= 2.0 && squares > 0.0).then(|| sum * sum / (count * squares))
}

/// Service of streams together, from the first request to the last completion.
pub fn service<'a>(measures: impl IntoIterator<Item = &'a StreamMeasure>) -> ServiceFigures {
    let mut measures = measures.into_iter();
    let mut measure = measures.next().cloned().unwrap_or_default();
    measures.for_each(|other| measure.add(other));
    let seconds = measure.duration().as_secs_f64();
    let of = |bytes: u64, responses: &Responses| DirectionFigures {
        bytes,
        throughput_mb_s: rate(bytes, seconds) / 1e6,
        iops: rate(responses.count(), seconds),
        response: response_figures(responses),
    };
    let any = |bytes, responses: &Responses| (responses.count() > 0).then(|| of(bytes, responses));
    ServiceFigures {
        duration_s: seconds,
        all: of(measure.bytes(), &measure.responses),
        reads: any(measure.read_bytes, &measure.reads),
        writes: any(measure.written_bytes, &measure.writes),
        discards: any(0, &measure.discards),
        syncs: any(0, &measure.syncs),
    }
}

/// The followed streams, busiest first, with their slowdown compared with `alone` if that was run.
pub fn streams(load: &dyn Load, outcome: &RunSummary, alone: Option<&Alone>) -> Vec<StreamFigures> {
    let one = |(&stream, here): (&StreamId, &StreamMeasure)| {
        let mean = here.responses.mean();
        let alone = alone.and_then(|alone| alone.get(&stream));
        let mean_alone = alone.map(|alone| alone.responses.mean()).filter(|&mean| mean > Nanos::ZERO);
        let service = service([here]);
        StreamFigures {
            stream,
            name: load.stream_name(stream).map(str::to_owned),
            requests: here.responses.count(),
            throughput_mb_s: service.all.throughput_mb_s,
            iops: service.all.iops,
            mean_ms: mean.as_millis_f64(),
            p99_ms: here.responses.quantile(0.99).as_millis_f64(),
            slowdown: mean_alone.filter(|_| mean > Nanos::ZERO).map(|alone| mean.0 as f64 / alone.0 as f64),
            service,
        }
    };
    let followed = outcome.measure.streams.iter().filter(|(stream, _)| load.follows(**stream));
    let mut streams: Vec<StreamFigures> = followed.map(one).collect();
    streams.sort_by_key(|figures| (std::cmp::Reverse(figures.requests), figures.stream));
    streams
}

/// Rows of a report; those without a measured stream are left out.
pub fn rows(rows: Vec<Row>, outcome: &RunSummary) -> Vec<JobsFigures> {
    let one = |Row { name, group, streams }: Row| {
        let measures = || streams.iter().filter_map(|stream| outcome.measure.streams.get(stream));
        measures().next()?;
        Some(JobsFigures { name, group, jobs: streams.len() as u32, service: service(measures()) })
    };
    rows.into_iter().filter_map(one).collect()
}

/// The curves of the report page.
pub fn curves(measure: &Measure) -> Curves {
    let used = measure.last_completion.0 / measure.bin.0 + 1;
    let bins = &measure.bins[..measure.bins.len().min(used as usize)];
    let width = measure.bin.as_secs_f64();
    let mut sample = measure.sample.clone();
    sample.sort_by_key(|done| (done.issue.token / STRETCH, done.dispatched, done.issue.token));
    let point = |done: &sim::run::Transferred| SamplePoint {
        number: done.issue.token,
        dispatched_s: done.dispatched.as_secs_f64(),
        lba: done.issue.lba,
        sectors: done.issue.sectors,
        read: done.issue.op == block::Op::Read,
        response_ms: (done.at - done.issue.arrival).as_millis_f64(),
        stream: done.issue.stream,
    };
    Curves {
        response_cdf: measure.all.cumulative().into_iter().map(|(at, share)| (at.as_millis_f64(), share)).collect(),
        bin_s: width,
        throughput_mb_s: bins.iter().map(|bin| bin.bytes as f64 / 1e6 / width).collect(),
        response_mean_ms: bins
            .iter()
            .map(|bin| (bin.requests > 0).then(|| bin.response_sum.as_millis_f64() / bin.requests as f64))
            .collect(),
        response_max_ms: bins.iter().map(|bin| (bin.requests > 0).then(|| bin.response_max.as_millis_f64())).collect(),
        sample: sample.iter().filter(|done| done.issue.op.transfers()).map(point).collect(),
    }
}

/// The page relies on the stretches of the sample.
const _: () = assert!(STRETCH == report::record::STRETCH);
