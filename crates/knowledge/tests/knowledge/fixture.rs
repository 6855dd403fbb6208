//! Sample rows, and generators of arbitrary rows for property tests.

use std::path::Path;
use std::sync::Arc;

use block::{Nanos, Op};
use knowledge::{DecisionRow, Filter, Knowledge, ModelRow, RequestRow, Row, Rows, Run, RunId, Stored, WindowRow};
use observe::WindowOutcome;
use observe::window::Calls;
use proptest::prelude::*;

/// `PROPTEST_CASES` cases, else `default`; a number set in the code would override the variable.
pub fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A distinct run for each number.
pub fn run(number: u64) -> Run {
    let mut id = [7; 16];
    id[..8].copy_from_slice(&number.to_le_bytes());
    Run {
        id: RunId(id),
        began_s: 1_790_000_000,
        plant: "simulator".into(),
        device: "barracuda".into(),
        source: format!("workload {number}"),
        seed: Some(u64::MAX - number),
        program: "seekwise 0.1.0".into(),
    }
}

/// A distinct window for each number.
pub fn window(number: u64) -> WindowRow {
    let x = number as f64;
    let (from, to) = (Nanos(number * 1_000_000_000), Nanos((number + 1) * 1_000_000_000));
    WindowRow {
        number,
        from,
        to,
        setting: if number.is_multiple_of(3) { "deadline:read_expire=100".into() } else { "cfq nr_requests=64".into() },
        features: Arc::from(["requests_per_s".to_owned(), "read_share".to_owned(), "seek_sectors".to_owned()]),
        values: vec![100.0 + x, 1.0 / (x + 3.0), f64::NAN],
        outcome: WindowOutcome {
            duration: to - from,
            requests: number + 10,
            waited_for: number,
            bytes: number * 4096,
            mean_response_s: 0.1 / (x + 1.0),
            waited_s: 0.2 / (x + 1.0),
            p99_response_s: 0.4,
            max_response_s: 0.5,
            mean_service_s: f64::NAN,
            fairness: 1.0,
            unfinished: 3,
            calls: number.is_multiple_of(2).then_some(Calls { done: number, bytes: 4096, waited_s: 0.25 }),
        },
    }
}

/// The decision made on the window with this number.
pub fn decision(number: u64) -> DecisionRow {
    DecisionRow {
        number,
        at: Nanos((number + 1) * 1_000_000_000),
        window: Some(number),
        from: window(number).setting,
        to: window(number + 1).setting,
        why: "it looks like \"reading\",\nsaid the tree".into(),
        expected_gain: Some(0.25),
        measured_gain: None,
        refused: None,
    }
}

/// A distinct request for each number.
pub fn request(number: u64) -> RequestRow {
    RequestRow {
        number,
        op: [Op::Read, Op::Write, Op::Discard][(number % 3) as usize],
        lba: number * 8,
        sectors: 8,
        sync: number.is_multiple_of(2),
        distance: -(number as i64),
        queued: Nanos(number),
        dispatched: Nanos(number + 1),
        done: Nanos(number + 2),
    }
}

/// A model trained at `trained_s`.
pub fn model(name: &str, trained_s: i64) -> ModelRow {
    ModelRow {
        name: name.into(),
        kind: "c4.5".into(),
        json: format!("{{\"leaf\":\"cfq\",\"at\":{trained_s}}}"),
        trained_s,
        features: vec!["requests_per_s".into(), "read_share".into()],
    }
}

/// Commits rows of a run.
pub fn record(knowledge: &mut Knowledge, run: &Run, rows: impl IntoIterator<Item = Row>) {
    let mut batch = knowledge.batch().unwrap();
    for row in rows {
        batch.row(run, &row).unwrap();
    }
    batch.commit().unwrap();
}

/// A knowledge base with 20 windows and decisions, 50 requests and two models.
pub fn filled(path: &Path) -> Knowledge {
    let mut knowledge = Knowledge::open(path).unwrap();
    record(&mut knowledge, &run(1), (0..20).flat_map(|number| [Row::Window(window(number)), Row::Decision(decision(number))]));
    record(&mut knowledge, &run(1), (0..50).map(|number| Row::Request(request(number))));
    record(&mut knowledge, &run(1), [Row::Model(model("tree", 5)), Row::Model(model("tree", 9))]);
    knowledge
}

/// All rows as text, for comparison including NaN.
pub fn contents(knowledge: &Knowledge) -> Vec<String> {
    expected(&rows_of(knowledge))
}

/// All rows.
pub fn rows_of(knowledge: &Knowledge) -> Vec<(Run, Row)> {
    fn pairs<T: Into<Row>>(rows: Rows<T>) -> Vec<(Run, Row)> {
        rows.map(Result::unwrap).map(|stored| (Run::clone(&stored.run), stored.row.into())).collect()
    }
    let all = Filter::default();
    let mut rows = [pairs(knowledge.windows(&all)), pairs(knowledge.decisions(&all)), pairs(knowledge.requests(&all))].concat();
    rows.extend(knowledge.models().unwrap().into_iter().map(|model| (run(0), model.into())));
    rows
}

/// Sorts the features of windows by name, because an imported table has them in the order of its columns.
pub fn by_name(mut rows: Vec<(Run, Row)>) -> Vec<(Run, Row)> {
    for (_, row) in &mut rows {
        if let Row::Window(row) = row {
            let mut pairs: Vec<(String, f64)> = row.features.iter().cloned().zip(row.values.iter().copied()).collect();
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            row.features = pairs.iter().map(|(name, _)| name.clone()).collect();
            row.values = pairs.iter().map(|(_, value)| *value).collect();
        }
    }
    rows
}

/// The result of [`contents`] after these rows were recorded.
pub fn expected(rows: &[(Run, Row)]) -> Vec<String> {
    fn stored<T: std::fmt::Debug + Clone>(run: &Run, row: &T) -> String {
        format!("{:?}", Stored { run: Arc::new(run.clone()), row: row.clone() })
    }
    let mut lines = Vec::new();
    for kind in 0..4 {
        lines.extend(rows.iter().filter_map(|(run, row)| match (kind, row) {
            (0, Row::Window(row)) => Some(stored(run, row)),
            (1, Row::Decision(row)) => Some(stored(run, row)),
            (2, Row::Request(row)) => Some(stored(run, row)),
            _ => None,
        }));
    }
    let mut models: Vec<&ModelRow> =
        rows.iter().filter_map(|(_, row)| if let Row::Model(row) = row { Some(row) } else { None }).collect();
    models.sort_by_key(|model| (&model.name, model.trained_s));
    lines.extend(models.into_iter().map(|model| format!("{model:?}")));
    lines
}

/// Arbitrary valid rows: up to 30 rows of up to three runs, with distinct numbers within a run.
pub fn any_rows() -> impl Strategy<Value = Vec<(Run, Row)>> {
    let runs = prop::collection::vec(any_run(), 3);
    (runs, prop::collection::vec((0..3usize, any_row()), 0..30)).prop_map(|(mut runs, rows)| {
        for (index, run) in runs.iter_mut().enumerate() {
            run.id.0[0] = index as u8;
        }
        let number = |(index, (run, mut row)): (usize, (usize, Row))| {
            match &mut row {
                Row::Window(row) => row.number = index as u64,
                Row::Decision(row) => row.number = index as u64,
                Row::Request(row) => row.number = index as u64,
                // Identical models are stored once.
                Row::Model(row) => row.trained_s = index as i64,
            }
            (runs[run].clone(), row)
        };
        rows.into_iter().enumerate().map(number).collect()
    })
}

fn any_run() -> impl Strategy<Value = Run> {
    (any::<([u8; 16], i64, Option<u64>)>(), any::<[String; 4]>()).prop_map(
        |((id, began_s, seed), [plant, device, source, program])| Run {
            id: RunId(id),
            began_s,
            plant,
            device,
            source,
            seed,
            program,
        },
    )
}

fn any_row() -> impl Strategy<Value = Row> {
    prop_oneof![
        any_window().prop_map(Row::Window),
        any_decision().prop_map(Row::Decision),
        any_request().prop_map(Row::Request),
        any_model().prop_map(Row::Model)
    ]
}

/// Storable times and counts: below 2^63.
fn count() -> impl Strategy<Value = u64> {
    0..=i64::MAX as u64
}

/// Any float, with one canonical NaN: the payload of a NaN is not stored.
fn real() -> impl Strategy<Value = f64> {
    use prop::num::f64::{INFINITE, NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    prop_oneof![4 => POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO | INFINITE, 1 => Just(f64::NAN)]
}

/// Any float as a column stores it: minus zero becomes zero.
fn column() -> impl Strategy<Value = f64> {
    real().prop_map(|number| number + 0.0)
}

fn any_window() -> impl Strategy<Value = WindowRow> {
    let features = prop::sample::subsequence(vec!["a", "b c", "d,\"e\"", "f\ng", "h\r", " ", "ä"], 0..=7);
    let features = features.prop_flat_map(|names| (prop::collection::vec(real(), names.len()), Just(names)));
    let counts = (count(), count(), count(), count(), count(), count());
    (features, counts, (column(), column(), column(), column(), column(), column()), any::<String>()).prop_map(
        |((values, names), counts, reals, setting)| {
            let (from, to) = (Nanos(counts.0.min(counts.1)), Nanos(counts.0.max(counts.1)));
            WindowRow {
                number: 0,
                from,
                to,
                setting,
                features: names.into_iter().map(str::to_owned).collect(),
                values,
                outcome: WindowOutcome {
                    duration: to - from,
                    requests: counts.2,
                    waited_for: counts.3,
                    bytes: counts.4,
                    mean_response_s: reals.0,
                    waited_s: reals.4,
                    p99_response_s: reals.5,
                    max_response_s: reals.1,
                    mean_service_s: reals.2,
                    fairness: reals.3,
                    unfinished: counts.5,
                    calls: (counts.5 % 2 == 0).then_some(Calls { done: counts.2, bytes: counts.3, waited_s: reals.4 }),
                },
            }
        },
    )
}

fn any_decision() -> impl Strategy<Value = DecisionRow> {
    let gain = || prop::option::of(column().prop_filter("a gain that is NaN is none", |gain| !gain.is_nan()));
    let reason = prop::option::of(any::<String>().prop_filter("an empty reason is none", |reason| !reason.is_empty()));
    (count(), prop::option::of(count()), any::<[String; 3]>(), gain(), gain(), reason).prop_map(
        |(at, window, [from, to, why], expected_gain, measured_gain, refused)| DecisionRow {
            number: 0,
            at: Nanos(at),
            window,
            from,
            to,
            why,
            expected_gain,
            measured_gain,
            refused,
        },
    )
}

fn any_request() -> impl Strategy<Value = RequestRow> {
    let op = prop::sample::select(vec![Op::Read, Op::Write, Op::Discard]);
    (op, (count(), count(), count(), count()), any::<(u32, bool, i64)>()).prop_map(|(op, times, (sectors, sync, distance))| {
        RequestRow {
            number: 0,
            op,
            lba: times.0,
            sectors,
            sync,
            distance,
            queued: Nanos(times.1),
            dispatched: Nanos(times.2),
            done: Nanos(times.3),
        }
    })
}

fn any_model() -> impl Strategy<Value = ModelRow> {
    (any::<[String; 3]>(), prop::sample::subsequence(vec!["a", "b", "c"], 0..=3)).prop_map(|([name, kind, json], features)| {
        ModelRow {
            name,
            kind,
            json: serde_json::to_string(&json).unwrap(),
            trained_s: 0,
            features: features.into_iter().map(str::to_owned).collect(),
        }
    })
}
