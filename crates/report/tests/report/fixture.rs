//! Made-up records with the shapes of real ones: for tests of presentation, never of truth.

use report::record::{
    ControlRecord, Curves, Decision, DirectionFigures, DiskDigest, Evidence, Figures, FlashFigures, JobsFigures, Kind,
    MemoryFigures, PredictionFigures, Record, Replay, ResponseFigures, SCHEMA, STRETCH, SamplePoint, SchedulerSetting,
    ServiceFigures, StreamFigures, TraceDigest,
};

const DURATION_S: f64 = 4086.0;
const BINS: usize = 200;
const STREAMS: [(Option<&str>, f64); 14] = [
    (Some("postgres"), 9.0),
    (Some("rsync"), 8.0),
    (Some("kworker/u8:2-flush-8:0"), 6.0),
    (Some("java"), 4.0),
    (Some("updatedb.mlocate"), 3.5),
    (None, 3.0),
    (Some("git"), 2.0),
    (Some("systemd-journald"), 1.5),
    (Some("cron"), 1.0),
    (Some("bash"), 0.8),
    (Some("sshd"), 0.6),
    (None, 0.4),
    (Some("top"), 0.2),
    (Some("vi"), 0.1),
];

/// A scheduler's manner: its factor on response times, how heavy the tail is, how unequal the streams are treated.
struct Manner {
    label: &'static str,
    tunables: &'static [(&'static str, i64)],
    factor: f64,
    tail: f64,
    inequality: f64,
    seek: f64,
    cpu_ns: f64,
}

const MANNERS: [Manner; 6] = [
    Manner { label: "noop", tunables: &[], factor: 3.0, tail: 1.0, inequality: 0.4, seek: 1630.0, cpu_ns: 41.0 },
    Manner { label: "sstf", tunables: &[], factor: 1.0, tail: 1.7, inequality: 0.9, seek: 410.0, cpu_ns: 212.0 },
    Manner { label: "clook", tunables: &[], factor: 1.08, tail: 1.25, inequality: 0.5, seek: 520.0, cpu_ns: 198.0 },
    Manner {
        label: "mq-deadline read_expire=200",
        tunables: &[("read_expire", 200), ("write_expire", 5000), ("writes_starved", 2), ("fifo_batch", 16)],
        factor: 1.2,
        tail: 1.05,
        inequality: 0.35,
        seek: 640.0,
        cpu_ns: 318.0,
    },
    Manner {
        label: "kyber",
        tunables: &[("read_lat_nsec", 2_000_000), ("write_lat_nsec", 10_000_000)],
        factor: 2.4,
        tail: 1.1,
        inequality: 0.45,
        seek: 1480.0,
        cpu_ns: 160.0,
    },
    Manner {
        label: "bfq",
        tunables: &[("slice_idle_us", 8000), ("low_latency", 1), ("max_budget", 0)],
        factor: 1.35,
        tail: 1.3,
        inequality: 0.15,
        seek: 700.0,
        cpu_ns: 655.0,
    },
];

/// A small generator (Knuth's MMIX constants): the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal, mean 0, deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

/// Six schedulers' records, each with `points` requests in its sample.
pub fn six(points: usize) -> Vec<Record> {
    MANNERS.iter().enumerate().map(|(i, manner)| record(manner, i as u64, points)).collect()
}

fn record(manner: &Manner, seed: u64, points: usize) -> Record {
    let mut numbers = Numbers(seed + 7);
    let mut times: Vec<f64> = (0..20_000).map(|_| 4.2 * manner.factor * (numbers.normal() * 0.75 * manner.tail).exp()).collect();
    times.sort_by(f64::total_cmp);
    let response = response(&times);
    let streams: Vec<StreamFigures> = STREAMS.iter().enumerate().map(|(i, _)| stream(i, manner, &response, &mut numbers)).collect();
    let slowdown = |stream: &&StreamFigures| stream.slowdown.unwrap_or_default();
    let worst = streams.iter().max_by(|a, b| slowdown(a).total_cmp(&slowdown(b)));
    let throughput = 6.4 - 0.11 * manner.factor;
    Record {
        schema: SCHEMA,
        kind: Kind::Simulate,
        seekwise_version: "0.1.0".to_owned(),
        trace: TraceDigest {
            name: "office-server.vscsi".to_owned(),
            format: "vscsi".to_owned(),
            sha256: "3f0a6c1d9b7e52480f3a6c1d9b7e52483f0a6c1d9b7e52480f3a6c1d9b7e5248".to_owned(),
            requests: Some(60_000),
            skipped_lines: 0,
        },
        disk: DiskDigest {
            name: "atlas10k".to_owned(),
            sha256: "9b7e52480f3a6c1d9b7e52483f0a6c1d9b7e52480f3a6c1d9b7e52483f0a6c1d".to_owned(),
            description: "Quantum Atlas 10K, 10,025 rpm, 6 surfaces".to_owned(),
            capacity_sectors: 17_938_986,
            queue_depth: 1,
            queue_policy: "fifo".into(),
        },
        position: seed as u32,
        scheduler: SchedulerSetting {
            name: manner.label.split(' ').next().unwrap_or_default().to_owned(),
            label: manner.label.to_owned(),
            tunables: manner.tunables.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect(),
            host: Vec::new(),
        },
        steering: None,
        replay: Replay {
            mode: "open".to_owned(),
            speed: 2.5,
            fit: "exact".to_owned(),
            seed: None,
            host: vec![("nr_requests".to_owned(), 256)],
        },
        figures: Figures {
            duration_s: DURATION_S,
            throughput_mb_s: throughput,
            read_mb_s: throughput * 0.7,
            write_mb_s: throughput * 0.3,
            iops: 60_000.0 / (DURATION_S - 40.0 + 12.0 * manner.factor),
            read_response: Some(response.clone()),
            write_response: None,
            sync_response: None,
            response,
            fairness_jain: Some(1.0 - manner.inequality * 0.55),
            worst_slowdown: worst.and_then(|stream| stream.slowdown),
            worst_slowdown_stream: worst.map(|stream| stream.stream),
            queue_size_mean: 1.7 * manner.factor,
            disk_utilisation: 0.31 + 0.12 * manner.factor,
            mean_seek_cylinders: Some(manner.seek),
            seek_time_share: Some(0.05 + manner.seek / 6000.0),
            device_requests: 57_312,
            scheduler_cpu_ns_per_request: Some(manner.cpu_ns),
            sustainable_speed: None,
            flash: None,
            memory: None,
        },
        curves: curves(manner, &times, points, &mut numbers),
        streams,
        jobs: Vec::new(),
        groups: Vec::new(),
        tenants: None,
        warnings: vec!["412 requests lie beyond the disk's last sector and were folded back onto it.".to_owned()],
    }
}

/// As if a controller had been asked `windows` times: it changes something on every third, is refused once, and has expectations.
pub fn steer(record: &mut Record, windows: u64) {
    const SETTINGS: [&str; 3] = ["noop", "mq-deadline:read_expire=200 read_ahead_kb=1024", "kyber"];
    let decision = |n: u64| {
        let setting = |n: u64| SETTINGS[(n / 3 % 3) as usize].to_owned();
        let (from, to) = (setting(n.saturating_sub(1)), setting(n));
        let is_change = from != to;
        Decision {
            at_s: n as f64 * DURATION_S / windows as f64,
            window: n.checked_sub(1),
            why: if is_change { format!("window {n} reads <in order> & much") } else { "it is good as it is".to_owned() },
            expected_gain_percent: is_change.then_some(12.5),
            measured_gain_percent: is_change.then_some(-3.25),
            refused: (n == 4).then(|| "host has no tunable 'a<b'".to_owned()),
            evidence: None,
            from,
            to,
        }
    };
    let decisions: Vec<Decision> = (0..=windows).map(decision).collect();
    let changes = decisions.iter().filter(|decision| decision.is_change()).count() as u64;
    let kept = windows - changes - u64::from(windows >= 4);
    let (preference, candidates) = ("2,3,1".to_owned(), vec!["noop".to_owned(), "deadline:fifo_batch=4".to_owned()]);
    record.steering = Some(ControlRecord { preference, candidates, windows, kept, changes, left_out: 0, decisions });
}

/// As if the decisions of a steered record rested on evidence: of each change, its prediction.
#[allow(dead_code, reason = "the example does not use it")]
pub fn rest_on_evidence(record: &mut Record) {
    let Some(steering) = &mut record.steering else { return };
    for (n, decision) in steering.decisions.iter_mut().enumerate() {
        let promise = |setting: &str, gain_percent: f64| PredictionFigures {
            setting: setting.to_owned(),
            throughput_mb_s: 20.0 + gain_percent / 10.0,
            response_ms: 9.0,
            p99_by_bound: if gain_percent < 0.0 { 1.204 } else { 0.25 },
            gain_percent,
            error_percent: 3.0,
        };
        let others = (0..8).map(|n| promise(&format!("cfq:quantum={n}"), -10.0 - f64::from(n)));
        let candidates = [promise(&decision.to, 12.5), promise(&decision.from, 0.0)].into_iter().chain(others).collect();
        let seen = vec![
            ("stream 7".to_owned(), "closed, 1 in flight, 80.0 requests/s".to_owned()),
            ("seek over the whole stroke".to_owned(), format!("{} ms", 15 + n / 6)),
        ];
        let sources = vec![
            ("memory".to_owned(), "no similar load of 12 known".to_owned()),
            ("trials".to_owned(), format!("{} +9 ± 3% in {} turns", decision.to, 1 + n / 6)),
        ];
        decision.evidence = Some(Evidence { seen, candidates, sources });
    }
}

/// As if the record came from jobs on a flash device: no arm, but flash and the host's memory.
pub fn on_flash_through_memory(record: &mut Record) {
    let figures = &mut record.figures;
    (figures.mean_seek_cylinders, figures.seek_time_share) = (None, None);
    figures.flash = Some(FlashFigures {
        write_amplification: Some(2.34),
        mapping_hit_ratio: Some(0.876),
        collection_s: 43.21,
        pages_moved: 123_456,
        erases: 4_321,
    });
    figures.memory = Some(MemoryFigures {
        page_cache_hit_ratio: Some(0.654),
        read_ahead_pages: 98_765,
        read_ahead_wasted_pages: 432,
        written_back_pages: 56_789,
        throttled_s: 7.89,
        swapped_in_pages: 11,
        swapped_out_pages: 22,
    });
}

fn response(times: &[f64]) -> ResponseFigures {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    ResponseFigures {
        requests: 60_000,
        mean_ms: times.iter().sum::<f64>() / times.len() as f64,
        stdev_ms: times[times.len() / 2] * 1.5,
        min_ms: at(0.0),
        p50_ms: at(0.5),
        p95_ms: at(0.95),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
        max_ms: at(1.0),
    }
}

fn stream(i: usize, manner: &Manner, response: &ResponseFigures, numbers: &mut Numbers) -> StreamFigures {
    let (name, weight) = STREAMS[i];
    let slowdown = 1.0 + manner.factor * (numbers.normal() * manner.inequality).exp();
    StreamFigures {
        stream: 1000 + 17 * i as u32,
        name: name.map(str::to_owned),
        requests: (weight * 1500.0) as u64,
        throughput_mb_s: weight / 6.0,
        iops: weight * 7.0,
        mean_ms: response.mean_ms * slowdown / (1.0 + manner.factor),
        p99_ms: response.p99_ms * slowdown / (1.0 + manner.factor),
        slowdown: Some(slowdown),
        service: service(weight, response),
    }
}

/// Two thirds reads, a third writes.
fn service(weight: f64, response: &ResponseFigures) -> ServiceFigures {
    let part = |share: f64| DirectionFigures {
        bytes: (weight * share * 1e9) as u64,
        throughput_mb_s: weight * share / 6.0,
        iops: weight * share * 7.0,
        response: ResponseFigures { requests: (weight * share * 1500.0) as u64, ..response.clone() },
    };
    let (reads, writes) = (Some(part(2.0 / 3.0)), Some(part(1.0 / 3.0)));
    ServiceFigures { duration_s: 200.0, all: part(1.0), reads, writes, discards: None, syncs: None }
}

/// As if the record came from a job file of two groups, the second of which reports its three jobs as one.
#[allow(dead_code, reason = "the example does not use it")]
pub fn of_jobs(record: &mut Record) {
    let row = |name: &str, group, jobs, weight| JobsFigures {
        name: name.to_owned(),
        group,
        jobs,
        service: service(weight, &record.figures.response),
    };
    record.jobs = vec![row("prepare", 0, 1, 2.0), row("serve", 1, 3, 9.0)];
    record.groups = record.jobs.clone();
}

fn curves(manner: &Manner, times: &[f64], points: usize, numbers: &mut Numbers) -> Curves {
    let share = |i: usize| 1.0 - 10f64.powf(-4.3 * i as f64 / 400.0);
    let quantile = |share: f64| (times[((times.len() - 1) as f64 * share) as usize], share);
    let cdf = (0..400).map(|i| quantile(share(i))).chain([(times[times.len() - 1], 1.0)]).collect();
    let load = |bin: usize| 5.0 + 3.5 * (bin as f64 / 13.0).sin() + if (120..140).contains(&bin) { 9.0 } else { 0.0 };
    let mean = |bin: usize, numbers: &mut Numbers| {
        let idle = (60..66).contains(&bin);
        (!idle).then(|| 1.2 * manner.factor * load(bin) * (numbers.normal() * 0.2).exp())
    };
    let response_mean_ms: Vec<Option<f64>> = (0..BINS).map(|bin| mean(bin, numbers)).collect();
    let longest = |mean: &Option<f64>, numbers: &mut Numbers| mean.map(|mean| mean * (4.0 + 20.0 * numbers.share() * manner.tail));
    let sample = |i: usize, numbers: &mut Numbers| {
        let time = DURATION_S * i as f64 / points as f64;
        let sequential = i.is_multiple_of(3);
        let lba = if sequential {
            (time * 3000.0) as u64 + 2_000_000
        } else {
            let area = [1_000_000.0, 6_000_000.0, 15_000_000.0][(numbers.share() * 3.0) as usize];
            (area + numbers.normal() * 300_000.0).max(0.0) as u64
        };
        let read = sequential || numbers.share() < 0.5;
        // The first of two neighbours goes last under one scheduler, first under another.
        let stretch = i as u64 / STRETCH;
        let place = if manner.factor > 2.0 { i as u64 % STRETCH } else { (i as u64 * 37) % STRETCH };
        SamplePoint {
            number: 7 * stretch * STRETCH + i as u64 % STRETCH,
            dispatched_s: time + place as f64 * 1e-3,
            lba,
            sectors: 16,
            read,
            response_ms: times[(numbers.share() * 19_999.0) as usize],
            stream: 1000,
        }
    };
    Curves {
        response_cdf: cdf,
        bin_s: DURATION_S / BINS as f64,
        throughput_mb_s: (0..BINS).map(|bin| load(bin) * (1.0 + 0.05 * numbers.normal()) / manner.factor.sqrt()).collect(),
        response_max_ms: response_mean_ms.iter().map(|mean| longest(mean, numbers)).collect(),
        response_mean_ms,
        sample: (0..points).map(|i| sample(i, numbers)).collect(),
    }
}
