//! Comparable records, and the winner.

use report::comparison::Comparison;
use report::record::Record;
use report::verdict::sentence;

use crate::fixture;

fn verdict(records: &[Record]) -> String {
    sentence(&Comparison::new(records).unwrap())
}

/// Three schedulers `a`, `b`, `c` with these throughputs, mean response times, p99s and fairness.
fn three(throughput: [f64; 3], mean: [f64; 3], p99: [f64; 3], fairness: [Option<f64>; 3]) -> Vec<Record> {
    let mut records = fixture::six(0);
    records.truncate(3);
    for (i, record) in records.iter_mut().enumerate() {
        record.scheduler.label = ["a", "b", "c"][i].to_owned();
        record.figures.throughput_mb_s = throughput[i];
        record.figures.response.mean_ms = mean[i];
        record.figures.response.p99_ms = p99[i];
        record.figures.fairness_jain = fairness[i];
    }
    records
}

#[test]
fn the_verdict_names_the_winner_and_its_lead_over_the_next_and_over_the_worst() {
    let records = three([10.0, 12.0, 11.0], [8.0, 5.0, 4.0], [9.0; 3], [Some(0.9), Some(0.2), Some(0.6)]);
    assert_eq!(
        verdict(&records),
        "Throughput: b wins with 12.0 MB/s, 9.1% above c and 20% above a; \
         response time: c wins with a mean of 4.00 ms, 20% below b and 50% below a; \
         fairness: a wins with a Jain index of 0.900, 50% above c and 4.50 times that of b."
    );
}

#[test]
fn a_difference_below_one_per_cent_is_no_victory() {
    let records = three([10.0, 10.05, 10.09], [8.0, 8.0, 7.95], [9.0; 3], [Some(0.9), Some(0.9), Some(0.9)]);
    assert_eq!(verdict(&records), "No scheduler wins by more than 1% in throughput, response time or fairness.");
}

#[test]
fn those_nearly_equal_lead_together() {
    let records = three([10.0, 10.05, 5.0], [8.0, 8.0, 8.0], [9.0; 3], [None; 3]);
    assert_eq!(
        verdict(&records),
        "Throughput: b and a lead with 10.1 MB/s, within 1% of each other and 101% above c; \
         response time: no scheduler wins by more than 1%; fairness: not measured."
    );
}

#[test]
fn another_scheduler_with_the_shortest_p99_is_named_unless_the_difference_is_negligible() {
    let mean = [4.0, 5.0, 6.0];
    let other = verdict(&three([1.0; 3], mean, [90.0, 30.0, 40.0], [None; 3]));
    assert!(
        other.contains(
            "a wins with a mean of 4.00 ms, 20% below b and 33% below c, while b has the shortest p99 (30.0 against 90.0 ms);"
        ),
        "{other}"
    );
    for p99 in [[30.0, 30.0, 40.0], [30.1, 30.0, 40.0], [30.0, 90.0, 40.0], [f64::NAN; 3]] {
        assert!(!verdict(&three([1.0; 3], mean, p99, [None; 3])).contains("p99"), "{p99:?}");
    }
}

#[test]
fn fairness_is_not_defined_for_one_stream() {
    let mut records = three([1.0; 3], [1.0; 3], [1.0; 3], [None; 3]);
    records.iter_mut().for_each(|record| record.streams.truncate(1));
    assert!(verdict(&records).ends_with("fairness: not defined with fewer than two streams."), "{}", verdict(&records));
}

#[test]
fn one_record_has_figures_but_no_winner() {
    let mut records = three([10.0; 3], [8.0; 3], [9.0; 3], [Some(0.5); 3]);
    records.truncate(1);
    let expected = "Only a was run, so there is no winner: throughput: 10.0 MB/s; response time: a mean of 8.00 ms; fairness: a Jain index of 0.500.";
    assert_eq!(verdict(&records), expected);
}

#[test]
fn numbers_without_a_meaning_win_nothing() {
    let records = three([0.0, 2.0, f64::NAN], [f64::INFINITY, f64::NAN, 5.0], [1.0; 3], [Some(0.0), Some(0.0), Some(f64::NAN)]);
    assert_eq!(
        verdict(&records),
        "Throughput: b wins with 2.00 MB/s, above a with 0 (2 of 3 schedulers have a figure); \
         response time: c has a mean of 5.00 ms (1 of 3 schedulers have a figure); \
         fairness: no scheduler wins by more than 1% (2 of 3 schedulers have a figure)."
    );
}

#[test]
fn records_that_differ_in_more_than_the_scheduler_are_refused() {
    let refusal = |change: fn(&mut Record)| {
        let mut records = fixture::six(0);
        change(&mut records[2]);
        Comparison::new(&records).err().unwrap().to_string()
    };
    let trace = refusal(|record| record.trace.sha256 = "00ff".to_owned());
    assert_eq!(
        trace,
        "trace: the record of clook has office-server.vscsi (sha256 00ff…, 60000 requests), the record of noop has \
         office-server.vscsi (sha256 3f0a6c1d9b7e…, 60000 requests); only records of the same trace can be compared"
    );
    assert!(refusal(|record| record.disk.name = "barracuda".to_owned()).starts_with("disk: the record of clook has barracuda"));
    assert!(refusal(|record| record.disk.queue_depth = 32).starts_with("disk queue depth: the record of clook has 32"));
    assert!(refusal(|record| record.replay.speed = 1.0).contains("open at speed 1, fit exact"));
    assert!(refusal(|record| record.replay.fit = "compact".to_owned()).contains("fit compact"));
    assert!(refusal(|record| record.replay.host[0].1 = 128).starts_with("host: the record of clook has nr_requests = 128"));
    assert!(refusal(|record| record.replay.seed = Some(7)).contains("fit exact, seed 7"));
    assert!(refusal(|record| record.schema = 5).starts_with("schema: the record of clook has 5"));
    assert!(refusal(|record| record.scheduler.label = "noop".to_owned()).starts_with("scheduler: two records are of noop"));
    assert_eq!(Comparison::new(&[]).err().unwrap().to_string(), "a comparison needs at least one record; none was given");
}

#[test]
fn each_warning_is_shown_once_with_its_rows() {
    let mut records = fixture::six(0);
    records[1].warnings.push("The disk could not keep up.".to_owned());
    records[4].warnings.push("The disk could not keep up.".to_owned());
    records[5].seekwise_version = "0.2.0".to_owned();
    assert_eq!(
        Comparison::new(&records).unwrap().warnings(),
        [
            "412 requests lie beyond the disk's last sector and were folded back onto it.",
            "sstf, kyber: The disk could not keep up.",
            "The records were written by different versions of seekwise: 0.1.0, 0.2.0.",
        ]
    );
}

#[test]
fn a_setting_that_starves_a_stream_is_not_the_fairest_and_the_warning_names_the_stream() {
    let mut records = three([10.0; 3], [8.0; 3], [9.0; 3], [Some(1.0), Some(0.8), Some(0.6)]);
    assert!(verdict(&records).contains("fairness: a wins"));
    let rsync = |record: &mut Record, requests: u64| {
        let stream = record.streams.iter_mut().find(|stream| stream.name.as_deref() == Some("rsync")).unwrap();
        stream.requests = requests;
    };
    rsync(&mut records[0], 1);
    let comparison = Comparison::new(&records).unwrap();
    let verdict = sentence(&comparison);
    assert!(
        verdict.ends_with("fairness: b wins with a Jain index of 0.800, 33% above c, without 1 that starves a stream."),
        "{verdict}"
    );
    assert!(comparison.warnings()[0].starts_with("a starves rsync (1 request, p99 "), "{:?}", comparison.warnings());
    // Where it is served under no other either there is nothing to blame.
    records.iter_mut().for_each(|record| rsync(record, 1));
    assert!(Comparison::new(&records).unwrap().warnings().iter().all(|warning| !warning.contains("starves")));
}

#[test]
fn a_winner_that_linux_does_not_have_is_named_with_the_best_that_can_be_set() {
    let mut records = three([10.0, 12.0, 11.0], [8.0, 5.0, 4.0], [9.0; 3], [Some(0.9), Some(0.2), Some(0.6)]);
    for (record, name) in records.iter_mut().zip(["bfq", "youchoose", "kyber"]) {
        record.scheduler.name = name.to_owned();
        record.scheduler.label = name.to_owned();
    }
    let named = |records: &[Record]| report::verdict::not_settable(&Comparison::new(records).unwrap());
    assert_eq!(
        named(&records).unwrap(),
        "Not in today's Linux is youchoose. The best that can be set there in throughput: kyber with 11.0 MB/s."
    );
    records.remove(1);
    assert_eq!(named(&records), None);
}

#[test]
fn on_a_fast_device_where_nothing_wins_the_schedulers_own_time_decides() {
    let mut records = three([1.0; 3], [1.0; 3], [1.0; 3], [Some(0.5); 3]);
    let nothing = "No scheduler wins by more than 1% in throughput, response time or fairness.";
    assert_eq!(verdict(&records), nothing);
    for (record, ns) in records.iter_mut().zip([101.0, 334.0, 250.0]) {
        record.figures.iops = 200_000.0;
        record.figures.scheduler_cpu_ns_per_request = Some(ns);
    }
    let own = "At 200,000 requests a second the scheduler's own processor time decides";
    assert_eq!(verdict(&records), format!("{nothing} {own}, of which a takes the least, 101 ns a request (334 at most)."));
    records.iter_mut().for_each(|record| record.figures.scheduler_cpu_ns_per_request = None);
    assert_eq!(verdict(&records), format!("{nothing} {own}; --cpu-time measures it."));
}
