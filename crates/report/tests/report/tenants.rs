//! Guarantees and service of tenants: the same words wherever they are shown.

use report::comparison::Comparison;
use report::record::{
    CapacityFigures, ChanceFigures, GuaranteeFigures, NeedKind, NeedParts, Record, RecoveryFigures, ReferenceFigures,
    ResponseFigures, ShareFigures, Tenancy, TenantCurve, TenantFigures, WindowFigures,
};

use crate::fixture;
#[cfg(feature = "pages")]
use crate::page;

fn response(p99_ms: f64) -> ResponseFigures {
    let (mean_ms, stdev_ms, min_ms, p50_ms, p95_ms) = (5.0, 2.0, 1.0, 4.0, 9.0);
    ResponseFigures { requests: 4000, mean_ms, stdev_ms, min_ms, p50_ms, p95_ms, p99_ms, p999_ms: 80.0, max_ms: 90.0 }
}

fn tenant(name: &str, broken: &[&str]) -> TenantFigures {
    let windows = vec![WindowFigures { window_s: 1.0, windows: 40, violated: 3, worst_ratio: Some(0.4) }];
    TenantFigures {
        name: name.to_owned(),
        promised: GuaranteeFigures {
            weight: 3,
            is_weighted: true,
            reference: Some("barracuda".to_owned()),
            best_effort: false,
            reservation_iops: None,
            limit_iops: None,
            limit_mb_s: None,
            reservation_mb_s: None,
            limit_read_iops: None,
            limit_write_iops: None,
            limit_read_mb_s: None,
            limit_write_mb_s: None,
            limit_burst_s: None,
            io_unit_kib: 256,
            latency_p99_ms: None,
        },
        requests: 4000,
        bytes: 32_768_000,
        wanted_s: 40.0,
        throughput_mb_s: 0.8192,
        iops: 100.0,
        response: response(30.0),
        disk_time_s: Some(20.0),
        share: Some(ShareFigures { promised_percent: 75.0, got_percent: 71.0 }),
        reference: Some(ReferenceFigures {
            scheduler: "clook".to_owned(),
            wanted_s: 40.0,
            throughput_mb_s: 1.0,
            response: response(20.0),
            throughput_ratio: 0.8192,
            p99_ratio: 1.5,
            p99_ratio_at_least: 1.3,
            certainly_violated: 1,
            certainly_missing: 0.4,
            chance: ChanceFigures { throughput_ratio: 0.99, p99_ratio: 1.05, windows: 40, violated: 2, window_deviation: 0.03 },
            lost_s: 0.25,
            windows,
            recovery: RecoveryFigures { returns: 2, never: 1, longest_s: Some(0.4) },
        }),
        broken: broken.iter().map(|&broken| broken.to_owned()).collect(),
        curve: TenantCurve { bin_s: 1.0, throughput_mb_s: vec![0.8; 40], reference_mb_s: vec![1.0; 40] },
    }
}

/// Two schedulers; the second breaks a promise.
fn two() -> Vec<Record> {
    let mut records = fixture::six(10);
    records.truncate(2);
    for (record, broken) in records.iter_mut().zip([&[][..], &["it got 82% of the throughput that it has on barracuda"]]) {
        record.tenants = Some(Tenancy {
            contract: "promises.toml".to_owned(),
            sha256: "ab".repeat(32),
            tenants: vec![tenant("a <b> & c", broken), tenant("other", &[])],
            others_requests: 7,
            all_wanted_s: 39.0,
            idle_while_waiting_s: 0.0,
            capacity: Some(CapacityFigures {
                needs_percent: 125.0,
                parts: NeedParts { largest: NeedKind::Time, work_percent: 50.0, time_percent: 125.0, wait_percent: 90.0 },
                needs_of_tenants_percent: vec![Some(125.0), None],
            }),
        });
    }
    records
}

#[test]
fn a_comparison_shows_kept_promises_and_the_worst_tenant_of_each_scheduler() {
    let records = two();
    let table = report::table::text(&Comparison::new(&records).unwrap(), None, false);
    let labels = records.iter().map(|record| record.scheduler.label.as_str()).collect::<Vec<_>>();
    let kept = format!("{}: guarantees of 2 of 2 tenants kept; closest a <b> & c: 81.9% of barracuda’s throughput", labels[0]);
    assert!(table.contains(&kept), "{table}");
    let broken = format!("{}: guarantees of 1 of 2 tenants kept; worst a <b> & c: it got 82%", labels[1]);
    assert!(table.contains(&broken), "{table}");
    assert!(table.contains("this disk would need 125% of its capacity (work 50.0%, time 125%, wait for one request of a neighbour 90.0%). Here all guarantees were kept."), "{table}");
}

#[test]
fn a_run_says_what_each_was_promised_and_got() {
    let text = report::single::text(&two()[1], None, None);
    for words in [
        "Tenants of promises.toml",
        "  on barracuda",
        "a <b> & c: guaranteed at least as fast as barracuda alone, weight 3. BROKEN: it got 82% of the throughput",
        "windows with less than 95%: 3 of 40 of 1.00 s; chance alone makes 99.0%, 1.05 times, 2 of 40 windows of 1 s; at most 0.250 s lost over any period",
        "2 times active after a pause: as fast as there within 0.400 s, never as fast after 1",
        "71.0% of the disk’s time, 75.0% by weight",
        "7 requests belong to no tenant and have no guarantee.",
        "The disk was never idle as a whole while requests waited.",
    ] {
        assert!(text.contains(words), "{words:?} is missing in\n{text}");
    }
}

#[test]
#[cfg(feature = "pages")]
fn the_page_draws_each_tenant_next_to_its_reference_disk_under_each_scheduler() {
    let html = page::html(&two());
    let parsed = page::checked(&html);
    let drawn = parsed.descendants().filter(|node| {
        node.attribute("aria-label")
            .is_some_and(|label| label.starts_with("Throughput over time of ") && label.contains("guarantees"))
    });
    assert_eq!(drawn.count(), 4, "two tenants under two schedulers");
    assert!(html.contains("a &#60;b&#62; &#38; c") || html.contains("a &lt;b&gt; &amp; c"), "names are escaped");
}

#[test]
fn runs_under_different_promises_are_not_compared() {
    let mut records = two();
    records[1].tenants.as_mut().unwrap().sha256 = "cd".repeat(32);
    let error = Comparison::new(&records).err().unwrap().to_string();
    assert!(error.starts_with("tenants: "), "{error}");
}

#[test]
fn a_record_with_tenants_comes_back_as_it_was_and_one_from_before_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let record = two().remove(0);
    let path = report::record::write(folder.path(), &record).unwrap();
    assert_eq!(report::record::read(&path).unwrap(), record);
    let mut old = serde_json::to_value(&record).unwrap();
    old.as_object_mut().unwrap().remove("tenants");
    assert_eq!(serde_json::from_value::<Record>(old).unwrap().tenants, None);
}
