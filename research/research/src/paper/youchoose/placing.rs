//! Tables II and III: volumes on three different arrays, and the number of volumes that these hold.

use crate::report::paper::{Bar, Cell, Row, Table};
use block::Nanos;
use testbed::pool::{Unseen, Workers};
use testbed::synthetic::Pattern;

use super::hybrid::{FACTORS, Flash, Hybrid, Matrix, Row as Holding};
use super::printed::cart::Features;
use super::printed::hybrid::{self as printed, Confirmation, Held, Watched};
use super::printed::migration::{Manager, Matrix as PrintedMatrix, Move, Policy, fill};
use super::sharing::table;
use crate::paper::aims::at_least;
use crate::paper::stated::{Measures, Stated};

/// Duration of the runs that check whether volumes meet their guarantees; the paper does not give one.
const LASTS: Nanos = Nanos::from_millis(10_000);
const QUICK_LASTS: Nanos = Nanos::from_millis(2_000);
/// Factors of a quick run: those where migration can improve the result.
const QUICK_FACTORS: [f64; 2] = [FACTORS[1], FACTORS[2]];
/// The paper's gains at the factors 0.3 and 0.7, in percent (section IV.D).
const GAINS: [(&str, f64, f64); 2] = [("30", 0.3, 24.0), ("70", 0.7, 20.0)];

/// Results with a number of flash disks.
pub struct Placed {
    flash: Flash,
    matrix: Matrix,
    rows: Vec<(Holding, f64)>,
}

/// Section IV.D as printed.
pub struct Printed {
    arrays: Vec<&'static str>,
    matrix: PrintedMatrix,
    moves: Vec<Move>,
    held: HeldByFactor,
    watched: Watched,
    /// Throughput of a VSD alone on its reference system, in percent of the model's prediction: searches, films.
    alone_percent: [f64; 2],
    variations: Vec<Variation>,
}

/// By factor: results without and with migration.
type HeldByFactor = Vec<(f64, [Held; 2])>;

/// A variant of Tables II and III.
struct Variation {
    name: String,
    matrix: PrintedMatrix,
    moves: Vec<Move>,
    held: HeldByFactor,
}

/// Shares of its slots that a film fills. A film is read at the speed of playback; the paper does not say how much of the reference system
/// that takes.
const FILLED: [f64; 3] = [1.0, 0.5, 0.25];

/// Places volumes as printed, with six disks of flash.
///
/// # Errors
/// The work was interrupted.
pub fn place_as_printed(is_quick: bool, search: &Pattern, seed: u64, workers: Workers) -> anyhow::Result<Printed> {
    let lasts = if is_quick { QUICK_LASTS } else { LASTS };
    let hybrid = |flash, features, is_sampled| printed::Hybrid::new((flash, features, is_sampled), search, seed, lasts, workers);
    let as_printed = hybrid(Flash::Six, Features::Printed, false)?;
    let trial = |factor: f64| match is_quick {
        true if QUICK_FACTORS.contains(&factor) => Confirmation::Planned,
        true => Confirmation::None,
        false => Confirmation::Most,
    };
    let held = held(&as_printed, trial, workers)?;
    let (matrix, moves) = as_printed.table_2();
    let (watched, alone_percent) = (as_printed.watch(workers)?, as_printed.alone_percent(workers)?);
    let mut variations = Vec::new();
    let mut vary = |name: String, varied: &printed::Hybrid| {
        let (matrix, moves) = varied.table_2();
        variations.push(Variation { name, matrix, moves, held: self::held(varied, |_| Confirmation::None, workers)? });
        anyhow::Ok(())
    };
    vary("the operation a feature".to_owned(), &hybrid(Flash::Six, Features::WithOperation, false)?)?;
    vary("one disk of flash".to_owned(), &hybrid(Flash::One, Features::Printed, false)?)?;
    for (flash, name) in [(Flash::Six, "six disks of flash"), (Flash::One, "one disk of flash")] {
        let mut sampled = hybrid(flash, Features::Printed, true)?;
        for filled in FILLED {
            sampled = sampled.with_films_filling(filled);
            let films = if filled < 1.0 { format!(", films fill {:.0}% of their slots", 100.0 * filled) } else { String::new() };
            vary(format!("{name}, samples for the arrays’ models{films}"), &sampled)?;
        }
    }
    Ok(Printed { arrays: as_printed.names(), matrix, moves, held, watched, alone_percent, variations })
}

fn held(hybrid: &printed::Hybrid, trial: impl Fn(f64) -> Confirmation + Sync, workers: Workers) -> anyhow::Result<HeldByFactor> {
    let policies = |&factor: &f64| [Policy::Disabled, Policy::Enabled].map(|policy| (factor, policy));
    let each: Vec<(f64, Policy)> = printed::FACTORS.iter().flat_map(policies).collect();
    let held = workers.map("numbers of VSDs that are held", &each, |&(factor, policy)| {
        hybrid.held(factor, policy, trial(factor), Workers { monitor: &Unseen(workers.monitor), threads: 1 })
    })?;
    Ok(printed::FACTORS.iter().zip(held.chunks(2)).map(|(&factor, held)| (factor, [held[0], held[1]])).collect())
}

/// Number of films that the paper's arrays hold (Table III, factor 100%).
const FILMS_HELD: usize = 13;

/// The largest number of VSDs by the paper's own Table II, without and with migration at each factor: the maximum over all ways to split
/// [`FILMS_HELD`] films among the arrays, where a search costs in proportion to Table II (VSD 4 relative to VSD 1).
fn by_papers_matrix(stated: &Stated) -> Option<Vec<[usize; 2]>> {
    let names = ["HDD Array A", "HDD Array B", "SSD Array"];
    let ratio = |name: &str| Some(stated.number("table-2", name, "VSD4")? / stated.number("table-2", name, "VSD1")?);
    let ratios: Vec<f64> = names.iter().map(|name| ratio(name)).collect::<Option<_>>()?;
    let splits = (0..=FILMS_HELD).flat_map(|a| (0..=FILMS_HELD - a).map(move |b| [a, b, FILMS_HELD - a - b]));
    let splits: Vec<[usize; 3]> = splits.filter(|split| split.iter().all(|films| *films > 0)).collect();
    let held = |factor: f64, policy: Policy, split: &[usize; 3]| {
        let seconds = |array: usize, film: &bool| if *film { 1.0 } else { ratios[array] } / split[array] as f64;
        let row = |array: usize, films: &[bool]| films.iter().map(|film| seconds(array, film)).collect();
        let matrix = |films: &[bool]| PrintedMatrix {
            seconds: (0..names.len()).map(|array| row(array, films)).collect(),
            filled: vec![1.0; films.len()],
        };
        fill(factor, policy, names.len(), 1, matrix).planned
    };
    let most = |factor: f64, policy| splits.iter().map(|split| held(factor, policy, split)).max().unwrap_or(0);
    Some(printed::FACTORS.map(|factor| [Policy::Disabled, Policy::Enabled].map(|policy| most(factor, policy))).to_vec())
}

/// Variants of section IV.D: details that the paper leaves open, or that may differ from its text.
fn variations(printed: &Printed, stated: &Stated) -> Table {
    let row = |(name, matrix, moves, held): (&str, &PrintedMatrix, &[Move], &HeldByFactor)| {
        let percent = |array: usize, vsd: usize| Cell::ours(Some(100.0 * matrix.share(array, vsd)));
        let shares = [percent(0, 0), percent(0, 6), percent(2, 2), percent(2, 6), Cell::ours(Some(moves.len() as f64))];
        let counts = |(_, held): &(f64, [Held; 2])| {
            let [disabled, enabled] = held;
            [disabled.planned, disabled.on_flash, enabled.planned, enabled.on_flash].map(|count| Cell::ours(Some(count as f64)))
        };
        let counts = held.iter().flat_map(counts);
        Row { name: name.to_owned(), cells: shares.into_iter().chain(counts).collect() }
    };
    let Printed { matrix, moves, held, variations, .. } = printed;
    let printed = std::iter::once(("as printed", matrix, moves.as_slice(), held));
    let rows = printed.chain(variations.iter().map(|one| (one.name.as_str(), &one.matrix, one.moves.as_slice(), &one.held)));
    let of_paper = by_papers_matrix(stated).map(|held| Row {
        name: "the paper’s Table II, arrays that hold 13 films".to_owned(),
        cells: (0..5)
            .map(|_| Cell::ours(None))
            .chain(held.into_iter().flatten().flat_map(|count| [Cell::ours(Some(count as f64)), Cell::ours(None)]))
            .collect(),
    });
    let mut columns: Vec<_> = ["a film on array A, %", "VSD 7 on A, %", "a film on flash, %", "VSD 7 on flash, %", "migrations"]
        .map(|name| Table::column(name, false))
        .into();
    let factor = |factor: &f64| [&format!("factor {factor}: disabled"), "on flash", "enabled", "on flash"].map(str::to_owned);
    columns.extend(printed::FACTORS.iter().flat_map(factor).map(|name| Table::column(&name, false)));
    Table {
        columns,
        rows: rows.map(row).chain(of_paper).collect(),
        ..table(
            "placing",
            "variant",
            "Tables II and III by the models; with the operation as a feature of the models; with samples of the workloads in the training of the \
             arrays’ models; with the one disk of flash that has the “moderate performance advantage” for films that the paper describes, as \
             six of the paper’s 32 µs a page serve a film’s 64 KiB many times faster than an array of disks; and with films that are played \
             more slowly than their reference system could serve them, as the slots of a sample show arrival rates, too (III.C). Capacity is \
             planned with what a reference system can do. The last row takes what a search needs beside a film from the paper’s own Table II \
             (4.1, 3.5 and 1.02 times as much on the three arrays), and is the most over all arrays that hold the 13 films of Table III: as a search \
             never needs less than a film, no arrays hold more than 13 of both, and Table III has 15 to 22.",
        )
    }
}

/// Tables I to III as printed, and the manager's migrations in the simulator.
pub fn printed_tables(printed: &Printed, stated: &Stated) -> Vec<Table> {
    vec![
        example(stated),
        printed_matrix(printed, stated),
        printed_holding(printed, stated),
        variations(printed, stated),
        watched(printed),
    ]
}

/// Table I, the paper's example of misplaced VSDs, and the manager's migrations for it.
fn example(stated: &Stated) -> Table {
    let (matrix, names) = table_1(stated);
    let row = |(array, name): (usize, &&str)| {
        let cell = |vsd: usize| {
            Cell::ours(Some(100.0 * matrix.share(array, vsd))).with_paper(stated.number("table-1", name, TABLE_1[vsd]))
        };
        Row { name: (*name).to_owned(), cells: (0..TABLE_1.len()).map(cell).collect() }
    };
    let moves = moves_text(&example_moves(stated), &names);
    Table {
        columns: TABLE_1.iter().map(|vsd| Table::column(vsd, false)).collect(),
        rows: names.iter().enumerate().map(row).collect(),
        ..table(
            "table-1",
            "array",
            &format!(
                "VSD 1 on array A, VSD 2 on the SSD array, the others on array B, nothing to spare. The manager as printed: {moves}."
            ),
        )
    }
}

/// The columns of Table I.
const TABLE_1: [&str; 4] = ["VSD 1", "VSD 2", "VSD 3", "VSD 4"];
/// The arrays of its VSDs; those of 1 and 2 are given by its caption.
const TABLE_1_ON: [usize; 4] = [0, 2, 1, 1];

fn table_1(stated: &Stated) -> (PrintedMatrix, [&'static str; 3]) {
    let names = ["HDD Array A", "HDD Array B", "SSD Array"];
    let row = |array: &&str| TABLE_1.iter().map(|vsd| stated.number("table-1", array, vsd).unwrap_or(0.0)).collect();
    (PrintedMatrix { seconds: names.iter().map(row).collect(), filled: vec![1.0; TABLE_1.len()] }, names)
}

fn example_moves(stated: &Stated) -> Vec<Move> {
    Manager::new(1).look(&table_1(stated).0, &TABLE_1_ON)
}

fn moves_text(moves: &[Move], arrays: &[&str]) -> String {
    let each: Vec<String> = moves.iter().map(|each| format!("VSD {} to {}", each.vsd + 1, arrays[each.to])).collect();
    if each.is_empty() { "no migration".to_owned() } else { each.join(", ") }
}

fn printed_matrix(printed: &Printed, stated: &Stated) -> Table {
    let vsds = printed.matrix.seconds[0].len();
    let row = |(array, name): (usize, &&str)| {
        let cell = |vsd: usize| {
            Cell::ours(Some(100.0 * printed.matrix.share(array, vsd))).with_paper(stated.number(
                "table-2",
                name,
                &format!("VSD{}", vsd + 1),
            ))
        };
        Row { name: (*name).to_owned(), cells: (0..vsds).map(cell).collect() }
    };
    Table {
        columns: (1..=vsds).map(|vsd| Table::column(&format!("VSD{vsd}, %"), true)).collect(),
        rows: printed.arrays.iter().enumerate().map(row).collect(),
        ..table(
            "table-2",
            "array",
            &format!(
                "As printed, by the CART models of the arrays, with the paper’s placement: VSD 1, 2 and 7 on array A, 5 and 6 on B, 3 and 4 on \
                 flash; 4 and 7 search, the others read films. The manager: {}. The paper’s row of array B adds up to 79.4%: VSD 7 must take \
                 29.0% of it, as VSD 4 does, and not 8.4%.",
                moves_text(&printed.moves, &printed.arrays)
            ),
        )
    }
}

fn printed_holding(printed: &Printed, stated: &Stated) -> Table {
    let row = |(factor, [disabled, enabled]): &(f64, [Held; 2])| {
        let percent = format!("{:.0}", 100.0 * factor);
        let paper = |cell: Cell, column: &str| cell.with_paper(stated.number("table-3", &percent, column));
        let count = |count: usize| Cell::ours(Some(count as f64));
        let cells = vec![
            paper(count(disabled.planned), "disabled"),
            paper(count(enabled.planned), "enabled"),
            Cell::ours(Some(percent_more(enabled.planned, disabled.planned))),
            Cell::ours(disabled.worst_percent),
            Cell::ours(enabled.worst_percent),
            Cell::ours(disabled.simulated.map(|held| held as f64)),
            Cell::ours(enabled.simulated.map(|held| held as f64)),
            Cell::ours(disabled.simulated.zip(enabled.simulated).map(|(disabled, enabled)| percent_more(enabled, disabled))),
        ];
        Row { name: format!("{percent}%"), cells }
    };
    let [search, film] = printed.alone_percent;
    Table {
        columns: vec![
            Table::column("disabled", true),
            Table::column("enabled", true),
            Table::column("gain, %", false),
            Table::column("disabled, in the simulator: worst VSD, % of its model", false),
            Table::column("enabled", false),
            Table::column("disabled, held in the simulator", false),
            Table::column("enabled", false),
            Table::column("gain, %", false),
        ],
        rows: printed.held.iter().map(row).collect(),
        ..table(
            "table-3",
            "factor",
            &format!(
                "As printed: VSDs are added where most is to spare by the CART models, until no array has spare capability. In the \
                 simulator, under the printed scheduler: what the worst served of these gets by what the model of its reference system \
                 promises, and in a whole run as many as are held before one gets less than 97% of that. Alone on the reference system with 32 outstanding a search gets {search:.0}% and films {film:.0}% of that promise."
            ),
        )
    }
}

fn watched(printed: &Printed) -> Table {
    let Watched { migrations, before_percent, after_percent } = &printed.watched;
    let each: Vec<String> = migrations
        .iter()
        .map(|(decided, moves, done)| {
            let done = done.map_or_else(|| "not done in time".to_owned(), |done| format!("done at {:.1} s", done.as_secs_f64()));
            format!("at {:.0} s {}, {done}", decided.as_secs_f64(), moves_text(moves, &printed.arrays))
        })
        .collect();
    let row = |(vsd, (before, after)): (usize, (&f64, &f64))| Row {
        name: format!("VSD {}", vsd + 1),
        cells: vec![Cell::ours(Some(*before)), Cell::ours(Some(*after))],
    };
    Table {
        columns: vec![Table::column("before, % of its model", false), Table::column("after", false)],
        rows: before_percent.iter().zip(after_percent).enumerate().map(row).collect(),
        ..table(
            "manager",
            "VSD",
            &format!(
                "The VSDs of Table II, of 64 MiB each, run for 8 s where the paper has them; the manager looks every second and moves what it \
                 finds misplaced three times in a row: {}.",
                if each.is_empty() { "no migration".to_owned() } else { each.join("; ") }
            ),
        )
    }
}

/// The results by which statements about section IV.D are judged, as printed.
pub fn printed_measures(printed: &Printed, stated: &Stated, measures: &mut Measures) {
    let moves = moves_text(&example_moves(stated), &table_1(stated).1);
    let is_exchange = example_moves(stated) == [Move { vsd: 1, to: 0 }, Move { vsd: 0, to: 2 }];
    measures.printed_words("table-1-exchange", moves, is_exchange);
    let percent = |array: usize, vsd: usize| Some(100.0 * printed.matrix.share(array, vsd));
    for (name, array, vsd) in [
        ("vsd-7-on-a", 0, 6),
        ("vsd-7-on-flash", 2, 6),
        ("search-on-b", 1, 3),
        ("film-on-a", 0, 0),
        ("film-on-b", 1, 0),
        ("film-on-flash", 2, 2),
    ] {
        measures.printed(name, percent(array, vsd));
    }
    measures.printed("vsd-7-falls", Some(100.0 * (printed.matrix.share(0, 6) - printed.matrix.share(2, 6))));
    measures.printed_words("vsd-7-moves", moves_text(&printed.moves, &printed.arrays), printed.moves == [Move { vsd: 6, to: 2 }]);
    // The factor by which flash serves a kind faster than the better array of disks, by the models.
    let advantage = |vsd: usize| {
        printed.matrix.seconds[..2].iter().map(|row| row[vsd]).fold(f64::INFINITY, f64::min) / printed.matrix.seconds[2][vsd]
    };
    measures.printed("film-advantage", Some(advantage(2)));
    measures.printed("search-advantage", Some(advantage(3) / advantage(2)));
    let names = [
        ["held-0", "held-0-enabled"],
        ["held-30", "held-30-enabled"],
        ["held-70", "held-70-enabled"],
        ["held-100", "held-100-enabled"],
    ];
    let gains = ["gain-0", "gain-30", "gain-70", "gain-100"];
    for ((names, gain), (_, held)) in names.into_iter().zip(gains).zip(&printed.held) {
        names.into_iter().zip(held).for_each(|(name, held)| measures.printed(name, Some(held.planned as f64)));
        measures.printed(gain, Some(percent_more(held[1].planned, held[0].planned)));
    }
    let numbers: Vec<usize> = printed.held.iter().map(|(_, [disabled, _])| disabled.planned).collect();
    let fewer = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
    measures.printed("held-order", Some(fewer as f64));
}

/// Places volumes with the paper's six disks of flash and with one; a quick run with one.
///
/// # Errors
/// The work was interrupted.
pub fn place(is_quick: bool, search: &Pattern, seed: u64, workers: Workers) -> anyhow::Result<Vec<Placed>> {
    let (flashes, factors, lasts) = match is_quick {
        true => (&[Flash::One][..], &QUICK_FACTORS[..], QUICK_LASTS),
        false => (&[Flash::Six, Flash::One][..], &FACTORS[..], LASTS),
    };
    let one = |&flash: &Flash| {
        let hybrid = Hybrid::new(flash, search, seed, lasts, workers)?;
        let rows = hybrid.rows(factors, workers)?.into_iter().map(|row| (hybrid.most(row.factor), row));
        let rows = rows.map(|(most, row)| (row, most)).collect();
        Ok(Placed { flash, matrix: hybrid.matrix(), rows })
    };
    flashes.iter().map(one).collect()
}

/// The id of our version of a table.
fn id(base: &str, placed: &Placed) -> String {
    format!("{base}-{}", if placed.flash == Flash::Six { "ours" } else { "one" })
}

fn disks(placed: &Placed) -> &'static str {
    match placed.flash {
        Flash::Six => "six disks of flash, as in the paper",
        Flash::One => {
            "one disk of flash, which has the “moderate advantage” for films that the paper describes; six of ours have far more"
        }
    }
}

/// Our versions of both tables, for each number of flash disks.
pub fn tables(placed: &[Placed], stated: &Stated) -> Vec<Table> {
    placed.iter().flat_map(|one| [matrix(one, stated), holding(one, stated)]).collect()
}

fn matrix(placed: &Placed, stated: &Stated) -> Table {
    let matrix = &placed.matrix;
    let arrays = ["HDD Array A", "HDD Array B", "SSD Array"];
    let row = |(array, shares): (usize, &Vec<f64>)| {
        let cell = |(volume, &share): (usize, &f64)| {
            let paper = stated.number("table-2", arrays[array], &format!("VSD{}", volume + 1));
            Cell::ours(Some(share)).with_paper(paper)
        };
        Row { name: arrays[array].to_owned(), cells: shares.iter().enumerate().map(cell).collect() }
    };
    let volume = |(number, (&on, &films)): (usize, (&usize, &bool))| {
        format!("VSD{} {} on {}", number + 1, if films { "reads films" } else { "searches" }, arrays[on])
    };
    let volumes: Vec<String> = matrix.on.iter().zip(&matrix.films).enumerate().map(volume).collect();
    let moves = if matrix.moves.is_empty() { "no moves".to_owned() } else { matrix.moves.join("; ") };
    Table {
        columns: (1..=matrix.films.len()).map(|number| Table::column(&format!("VSD{number}, %"), false)).collect(),
        rows: matrix.shares_percent.iter().enumerate().map(row).collect(),
        ..table(
            &id("table-2", placed),
            "array",
            &format!(
                "Seven volumes, factor 0.7, {}. The paper’s VSD 4 and 7 search, the others read films. Ours: {}. Then: {moves}.",
                disks(placed),
                volumes.join(", ")
            ),
        )
    }
}

fn holding(placed: &Placed, stated: &Stated) -> Table {
    let row = |(row, most): &(Holding, f64)| {
        let percent = format!("{:.0}", 100.0 * row.factor);
        let count =
            |held: usize, column: &str| Cell::ours(Some(held as f64)).with_paper(stated.number("table-3", &percent, column));
        let cells = vec![
            count(row.fixed.volumes, "disabled"),
            count(row.migrating.volumes, "enabled"),
            Cell::ours(Some(row.making_room.volumes as f64)),
            Cell::ours(Some(gain(row))),
            Cell::ours(Some(*most)),
            Cell::ours(Some(100.0 * row.making_room.worst_ratio)),
        ];
        Row { name: format!("{percent}%"), cells }
    };
    Table {
        columns: vec![
            Table::column("without migration", true),
            Table::column("with it", true),
            Table::column("with extra moves to make room", false),
            Table::column("gain, %", false),
            Table::column("upper bound", false),
            Table::column("worst volume, % of reference", false),
        ],
        rows: placed.rows.iter().map(row).collect(),
        ..table(
            &id("table-3", placed),
            "factor",
            &format!(
                "{}. Volumes are added until the planner has no room; then the number is tried in the simulator, under youchoose, until one more \
                 breaks a promise of throughput. Making room is beyond the paper: others move where a new volume has none. The most \
                 possible is a bound for every assignment, were volumes divisible.",
                disks(placed)
            ),
        )
    }
}

/// Results for statements about Table III, with the paper's number of flash disks.
pub fn measures(placed: &[Placed], measures: &mut Measures) {
    let Some(six) = placed.iter().find(|placed| placed.flash == Flash::Six) else { return };
    for (measure, factor) in [("gain-30", 0.3), ("gain-70", 0.7)] {
        let row = six.rows.iter().map(|(row, _)| row).find(|row| (row.factor - factor).abs() < 0.01);
        measures.ours(measure, row.map(gain));
    }
}

/// Percentage by which our placement with migration holds more volumes than without.
fn gain(row: &Holding) -> f64 {
    percent_more(row.making_room.volumes.max(row.migrating.volumes), row.fixed.volumes)
}

/// A relative difference in percent. Computed with one division, so that 36 against 30 yields exactly 20.
fn percent_more(volumes: usize, than: usize) -> f64 {
    100.0 * (volumes as f64 - than as f64) / than.max(1) as f64
}

/// Targets for placement.
pub fn bars(placed: &[Placed]) -> Vec<Bar> {
    let bar = |(percent, factor, paper): (&str, f64, f64)| {
        let of = |placed: &Placed| {
            let row = placed.rows.iter().find(|(row, _)| (row.factor - factor).abs() < 0.01);
            let name = if placed.flash == Flash::Six { "six disks of flash" } else { "one disk of flash" };
            (name.to_owned(), row.map(|(row, _)| gain(row)))
        };
        let about =
            format!("additional volumes through migration, factor {factor} (the paper: {paper}%), worst number of flash disks");
        at_least(&format!("placement-{percent}"), &about, paper, placed.iter().map(of).collect(), "")
    };
    GAINS.into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn by_its_own_table_ii_the_paper_holds_no_more_searches_than_films() {
        let stated = Stated::read(&super::super::PAPER).unwrap();
        let held = by_papers_matrix(&stated).unwrap();
        assert_eq!(held[3], [FILMS_HELD; 2], "films alone");
        // By hand: with flash for 11 films and one film on each other array, 11 / 1.021 = 10 searches fit on flash, and none elsewhere.
        assert_eq!(held[0], [10; 2], "searches alone");
        assert!(held.iter().flatten().all(|held| *held <= FILMS_HELD), "{held:?}");
    }
}
