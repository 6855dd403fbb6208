//! Tables II and III: volumes on three unlike arrays, and how many of them these hold.

use crate::report::paper::{Bar, Cell, Row, Table};
use block::Nanos;

use super::sharing::table;
use crate::paper::aims::at_least;
use crate::paper::stated::{Measures, Stated};
use experiment::placement::hybrid::{FACTORS, Flash, Hybrid, Matrix, Row as Holding};
use experiment::pool::Workers;

/// How long volumes run where it is tried whether promises are kept: the paper does not say.
const LASTS: Nanos = Nanos::from_millis(10_000);
const QUICK_LASTS: Nanos = Nanos::from_millis(2_000);
/// Factors of a quick run: those where there is something to gain.
const QUICK_FACTORS: [f64; 2] = [FACTORS[1], FACTORS[2]];
/// What the paper gains at the factors 0.3 and 0.7, in percent (section IV.D).
const GAINS: [(&str, f64, f64); 2] = [("30", 0.3, 24.0), ("70", 0.7, 20.0)];

/// What was found with this many disks of flash.
pub struct Placed {
    flash: Flash,
    matrix: Matrix,
    rows: Vec<(Holding, f64)>,
}

/// Places volumes with the paper's six disks of flash and with one; a quick run with one.
///
/// # Errors
/// It was interrupted.
pub fn place(is_quick: bool, seed: u64, workers: Workers) -> anyhow::Result<Vec<Placed>> {
    let (flashes, factors, lasts) = match is_quick {
        true => (&[Flash::One][..], &QUICK_FACTORS[..], QUICK_LASTS),
        false => (&[Flash::Six, Flash::One][..], &FACTORS[..], LASTS),
    };
    let one = |&flash: &Flash| {
        let hybrid = Hybrid::new(flash, seed, lasts, workers)?;
        let row = |&factor: &f64| Ok((hybrid.row(factor, workers)?, hybrid.most(factor)));
        let rows = factors.iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Placed { flash, matrix: hybrid.matrix(), rows })
    };
    flashes.iter().map(one).collect()
}

/// Whether these tables are the paper's own setting: six disks of flash. Where only the other was tried, it stands in.
fn id(base: &'static str, placed: &Placed, all: &[Placed]) -> &'static str {
    match (base, placed.flash) {
        ("table-2", Flash::One) if all.len() > 1 => "table-2-one",
        ("table-3", Flash::One) if all.len() > 1 => "table-3-one",
        _ => base,
    }
}

fn disks(placed: &Placed) -> &'static str {
    match placed.flash {
        Flash::Six => "six disks of flash, as in the paper",
        Flash::One => {
            "one disk of flash, which has the “moderate advantage” for films that the paper describes; six of ours have far more"
        }
    }
}

/// Both tables, for each number of flash disks.
pub fn tables(placed: &[Placed], stated: &Stated) -> Vec<Table> {
    placed.iter().flat_map(|one| [matrix(one, placed, stated), holding(one, placed, stated)]).collect()
}

fn matrix(placed: &Placed, all: &[Placed], stated: &Stated) -> Table {
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
            id("table-2", placed, all),
            "array",
            &format!(
                "Seven volumes, factor 0.7, {}. The paper’s VSD 4 and 7 search, the others read films. Ours: {}. Then: {moves}.",
                disks(placed),
                volumes.join(", ")
            ),
        )
    }
}

fn holding(placed: &Placed, all: &[Placed], stated: &Stated) -> Table {
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
            id("table-3", placed, all),
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

/// What statements about Table III are judged by, with as many flash disks as the paper has.
pub fn measures(placed: &[Placed], measures: &mut Measures) {
    let Some(six) = placed.iter().find(|placed| placed.flash == Flash::Six) else { return };
    for (measure, factor) in [("gain-30", 0.3), ("gain-70", 0.7)] {
        let row = six.rows.iter().map(|(row, _)| row).find(|row| (row.factor - factor).abs() < 0.01);
        measures.printed(measure, row.map(|row| percent_more(row.migrating.volumes, row.fixed.volumes)));
        measures.ours(measure, row.map(gain));
    }
}

/// By how many percent more volumes are held, with all that ours can do.
fn gain(row: &Holding) -> f64 {
    percent_more(row.making_room.volumes.max(row.migrating.volumes), row.fixed.volumes)
}

/// From one division: 36 are 20% more than 30, and not a little less.
fn percent_more(volumes: usize, than: usize) -> f64 {
    100.0 * (volumes as f64 - than as f64) / than.max(1) as f64
}

/// Those of placement.
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
