//! Section III.C as printed: slot groups, the resource-consumption matrix, and the migration manager.
//!
//! ```text
//! requests of each VSD ─▶ the same slots of each ─▶ CART model of each array ─▶ service times ─▶ percentages ─▶ misplaced VSDs
//! ```
//! Details that the paper leaves open, and the choices made here: an array's spare capacity is the share of its time that the service times
//! of its VSDs leave; a VSD is consistently identified if it was in a given number of runs in a row; the VSD whose percentage falls most comes
//! first, and a run carries out one operation. Whether the VSDs fit after an exchange is not checked, as in the paper.

use std::sync::Arc;

use block::tenants::ServiceModel as _;
use block::{Nanos, Request};

use super::cart::Cart;

/// "We use 10% as the threshold value for making migration decision" (section IV.D).
pub const THRESHOLD: f64 = 0.1;

/// The requests in a VSD's contiguous slots.
#[derive(Clone, Debug, Default)]
pub struct SlotGroup {
    /// In order of arrival; sectors are relative to the VSD's first.
    pub requests: Vec<Request>,
    /// The reference time of the slots.
    pub lasts: Nanos,
}

impl SlotGroup {
    /// The first of these requests that fit into slots of this total reference time.
    pub fn of(requests: impl IntoIterator<Item = Request>, reference: &Cart, lasts: Nanos) -> SlotGroup {
        let (mut running, mut clock) = (reference.begin(), Nanos::ZERO);
        let within = |request: &Request| {
            clock += running.service_time(clock, request, 0);
            clock <= lasts
        };
        SlotGroup { requests: requests.into_iter().take_while(within).collect(), lasts }
    }

    /// Requests per second of reference time.
    pub fn rate(&self) -> f64 {
        self.requests.len() as f64 / self.lasts.as_secs_f64()
    }
}

/// Table I: each VSD's consumption of each array.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// By array, then by VSD: seconds of service time per second of full slots.
    pub seconds: Vec<Vec<f64>>,
    /// By VSD: the share of its slots that is full; below 1 if requests arrive more slowly than the reference system could serve them.
    pub filled: Vec<f64>,
}

impl Matrix {
    /// Evaluates each group with the model of each array; `start` is the first sector of a VSD on an array.
    pub fn new(groups: &[Arc<SlotGroup>], arrays: &[Cart], start: impl Fn(usize, usize) -> u64) -> Matrix {
        let cell = |array: usize, vsd: usize| {
            let (group, mut running) = (&groups[vsd], arrays[array].begin());
            let place = |request: &Request| Request { lba: request.lba + start(array, vsd), ..*request };
            let times = group.requests.iter().map(|request| running.service_time(Nanos::ZERO, &place(request), 0).as_secs_f64());
            times.sum::<f64>() / group.lasts.as_secs_f64()
        };
        let seconds = (0..arrays.len()).map(|array| (0..groups.len()).map(|vsd| cell(array, vsd)).collect());
        Matrix { seconds: seconds.collect(), filled: vec![1.0; groups.len()] }
    }

    /// The percentage of a cell, from 0 to 1: "the percentage of service time for any VSD on a particular array over total service time on
    /// the array".
    pub fn share(&self, array: usize, vsd: usize) -> f64 {
        let taken = |vsd: usize| self.seconds[array][vsd] * self.filled[vsd];
        taken(vsd) / (0..self.filled.len()).map(taken).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// The spare share of an array's time with VSDs on the arrays `on`. Counts full slots, as capacity is planned by the reference system:
    /// "actual resource demand is bounded by the capability of the reference system".
    pub fn spare(&self, array: usize, on: &[usize]) -> f64 {
        1.0 - on.iter().enumerate().filter(|(_, host)| **host == array).map(|(vsd, _)| self.seconds[array][vsd]).sum::<f64>()
    }

    fn reduction(&self, vsd: usize, from: usize, to: usize) -> f64 {
        self.share(from, vsd) - self.share(to, vsd)
    }
}

/// A migration of a VSD to another array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Index of the VSD.
    pub vsd: usize,
    /// Index of the target array.
    pub to: usize,
}

/// The migration manager.
#[derive(Clone, Debug)]
pub struct Manager {
    /// In how many runs in a row a VSD must be identified.
    looks: usize,
    /// Moves identified in the last run, and in how many in a row.
    identified: Vec<(Move, usize)>,
}

impl Manager {
    /// A manager that acts on moves identified in this many runs in a row.
    pub fn new(looks: usize) -> Manager {
        Manager { looks, identified: Vec::new() }
    }

    /// One periodic run: the migrations to carry out together.
    pub fn look(&mut self, matrix: &Matrix, on: &[usize]) -> Vec<Move> {
        let arrays = matrix.seconds.len();
        let all = on.iter().enumerate().flat_map(|(vsd, from)| (0..arrays).map(move |to| (Move { vsd, to }, *from)));
        let reduced = all.map(|(wanted, from)| (wanted, matrix.reduction(wanted.vsd, from, wanted.to)));
        let mut wanted: Vec<(Move, f64)> = reduced.filter(|(_, reduction)| *reduction > THRESHOLD).collect();
        wanted.sort_by(|one, other| other.1.total_cmp(&one.1).then((one.0.vsd, one.0.to).cmp(&(other.0.vsd, other.0.to))));
        let before = |wanted: Move| self.identified.iter().find(|(known, _)| *known == wanted).map_or(0, |(_, times)| *times);
        self.identified = wanted.iter().map(|(wanted, _)| (*wanted, before(*wanted) + 1)).collect();
        let consistent = self.identified.iter().filter(|(_, times)| *times >= self.looks);
        let moves = consistent.map(|(wanted, _)| operation(matrix, on, *wanted)).find(|moves| !moves.is_empty());
        moves.inspect(|_| self.identified.clear()).unwrap_or_default()
    }
}

/// The migration alone if there is room, or together with those that make room for it; empty if impossible.
fn operation(matrix: &Matrix, on: &[usize], wanted: Move) -> Vec<Move> {
    let Move { vsd, to } = wanted;
    let from = on[vsd];
    let mut moves = vec![wanted];
    let mut lacks = matrix.seconds[to][vsd] - matrix.spare(to, on);
    if lacks <= 0.0 {
        return moves;
    }
    let there = on.iter().enumerate().filter(|(_, host)| **host == to).map(|(other, _)| (other, matrix.reduction(other, to, from)));
    let mut others: Vec<(usize, f64)> = there.filter(|(_, reduction)| *reduction > THRESHOLD).collect();
    others.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    for (other, _) in others {
        if lacks <= 0.0 {
            break;
        }
        lacks -= matrix.seconds[to][other];
        moves.push(Move { vsd: other, to: from });
    }
    if moves.len() > 1 { moves } else { Vec::new() }
}

/// Placement rules of Table III.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// "The pre-set sequentiality factor … is also maintained for the VSDs on disk arrays when the migration policy is disabled."
    Disabled,
    /// "The migration policy is in effect."
    Enabled,
}

/// Result of adding VSDs one by one.
#[derive(Clone, Debug, Default)]
pub struct Filling {
    /// Whether each VSD is sequential.
    pub films: Vec<bool>,
    /// The array of every VSD, after each addition.
    pub on: Vec<Vec<usize>>,
    /// Number of VSDs when no array had spare capability for another.
    pub planned: usize,
}

/// "We stress the host system by keeping adding VSDs onto it until no spare capability in any array is available. VSDs are initially placed on
/// the disk array with the largest spare capability" (section IV.D); and `beyond` more, where the least is lacking.
///
/// `matrix` returns the matrix of VSDs, each sequential or not.
pub fn fill(factor: f64, policy: Policy, arrays: usize, beyond: usize, matrix: impl Fn(&[bool]) -> Matrix) -> Filling {
    let mut filling = Filling::default();
    let mut on: Vec<usize> = Vec::new();
    let mut is_full = false;
    while !is_full || on.len() < filling.planned + beyond {
        // The kind of the next VSD, overall and on each array; without migration it depends on the array.
        let kind = |array: usize| match policy {
            Policy::Enabled => is_film(factor, on.len()),
            Policy::Disabled => is_film(factor, on.iter().filter(|host| **host == array).count()),
        };
        let with = |array: usize| {
            let matrix = matrix(&[&filling.films[..], &[kind(array)]].concat());
            let spare = matrix.spare(array, &on);
            (spare, spare - matrix.seconds[array][on.len()])
        };
        let offers: Vec<(f64, f64)> = (0..arrays).map(with).collect();
        let best = |offers: &mut dyn Iterator<Item = (usize, f64)>| {
            offers.max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0))).map(|(array, _)| array)
        };
        let mut with_room = (0..arrays).filter(|array| offers[*array].1 >= 0.0).map(|array| (array, offers[array].0));
        let home = best(&mut with_room);
        if home.is_none() && !is_full {
            (is_full, filling.planned) = (true, on.len());
            continue;
        }
        let Some(home) = home.or_else(|| best(&mut (0..arrays).map(|array| (array, offers[array].1)))) else { break };
        filling.films.push(kind(home));
        on.push(home);
        if policy == Policy::Enabled {
            let (matrix, mut manager) = (matrix(&filling.films), Manager::new(1));
            // Terminates: each operation lowers the sum of the shares by more than the threshold.
            loop {
                let moves = manager.look(&matrix, &on);
                if moves.is_empty() {
                    break;
                }
                moves.iter().for_each(|each| on[each.vsd] = each.to);
            }
        }
        filling.on.push(on.clone());
    }
    filling
}

/// Whether the VSD added after `before` others is sequential, with sequential ones spread as evenly as `factor` allows.
pub fn is_film(factor: f64, before: usize) -> bool {
    let until = |count: usize| (count as f64 * factor + 1e-9) as usize;
    until(before + 1) > until(before)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    /// The paper's Table I in percent, on arrays without spare capacity.
    fn table_1() -> Matrix {
        let rows = [[53.0, 12.0, 33.0, 2.0], [10.0, 54.0, 30.0, 6.0], [8.0, 68.0, 16.0, 8.0]];
        Matrix { seconds: rows.iter().map(|row| row.to_vec()).collect(), filled: vec![1.0; 4] }
    }

    #[test]
    fn table_1_exchanges_the_hosts_of_vsd_1_and_2_and_leaves_vsd_4() {
        // VSD 1 on A, 2 on the SSD array, 3 and 4 on B. VSD 2 falls by 68 - 12 = 56 points on A, VSD 1 by 53 - 8 = 45 on the SSD array and by 43
        // on B. A has nothing to spare, and VSD 1 on it falls by more than 10 points where VSD 2 was: they are exchanged. VSD 4 takes 6%.
        let (matrix, on) = (table_1(), [0, 2, 1, 1]);
        let mut manager = Manager::new(2);
        assert_eq!(manager.look(&matrix, &on), [], "not consistently yet");
        let moves = manager.look(&matrix, &on);
        assert_eq!(moves, [Move { vsd: 1, to: 0 }, Move { vsd: 0, to: 2 }]);
        // Then VSD 3 alone would gain: 30 - 16 = 14 points on the SSD array, where VSD 1 would lose by giving way (8 - 10 on B).
        let after = [2, 0, 1, 1];
        assert_eq!([manager.look(&matrix, &after), manager.look(&matrix, &after)], [[], []]);
    }

    #[test]
    fn table_2_moves_vsd_7_to_the_ssd_array_which_has_room() {
        // As printed; the share of VSD 7 on array B, 8.4%, is inconsistent: the row adds up to 79.4%, and to 100% with the 29.0% of VSD 4.
        let row = |films: f64, search: f64| vec![films, films, films, search, films, films, search];
        let percent = [row(7.6, 31.0), row(8.4, 29.0), row(14.2, 14.5)];
        // Seconds per second of an array's time, low enough to leave spare capacity everywhere.
        let seconds = percent.iter().map(|row| row.iter().map(|percent| percent / 200.0).collect());
        let matrix = Matrix { seconds: seconds.collect(), filled: vec![1.0; 7] };
        let on = [0, 0, 2, 2, 1, 1, 0];
        assert!((matrix.share(0, 6) - matrix.share(2, 6) - 0.165).abs() < 1e-3, "31.0 - 14.5 = 16.5 points");
        assert_eq!(Manager::new(1).look(&matrix, &on), [Move { vsd: 6, to: 2 }]);
    }

    #[test]
    fn the_matrix_runs_the_same_slots_of_each_vsd_along_the_model_of_each_array() {
        use super::super::cart::{Examples, Features};
        use block::{Op, Priority};
        use experiment::learned_device::served::Served;
        let request = |sectors: u32| {
            let (op, priority) = (Op::Read, Priority::DEFAULT);
            Request { id: 0, stream: 0, op, sync: true, priority, sectors, lba: 0, arrival: Nanos::ZERO }
        };
        // A device that takes `small` ms for 8 sectors and `large` ms for 16.
        let device = |small: u64, large: u64| {
            let one =
                |sectors, ms| Served { request: request(sectors), start: Nanos::ZERO, waiting: 0, took: Nanos::from_millis(ms) };
            let mut examples = Examples::default();
            examples.add(&[[one(8, small); 5], [one(16, large); 5]].concat(), |_| true);
            Cart::grow(&examples, Features::Printed)
        };
        // The reference takes 10 and 20 ms: 100 ms hold ten small requests and five large ones. On an array that takes 2 and 6 ms that is 20 ms
        // and 30 ms: 40% and 60%.
        let reference = device(10, 20);
        let group = |sectors| Arc::new(SlotGroup::of(std::iter::repeat(request(sectors)), &reference, Nanos::from_millis(100)));
        let groups = [group(8), group(16)];
        assert_eq!(groups.each_ref().map(|group| group.requests.len()), [10, 5]);
        let matrix = Matrix::new(&groups, &[device(2, 6)], |_, _| 0);
        assert!((matrix.seconds[0][0] - 0.2).abs() < 1e-9 && (matrix.seconds[0][1] - 0.3).abs() < 1e-9);
        assert!((matrix.share(0, 0) - 0.4).abs() < 1e-9);
        assert!((matrix.spare(0, &[0, 0]) - 0.5).abs() < 1e-9);
        // If the small ones fill half of their slots, 10 ms and 30 ms: 25%. Capacity is still planned with full ones.
        let matrix = Matrix { filled: vec![0.5, 1.0], ..matrix };
        assert!((matrix.share(0, 0) - 0.25).abs() < 1e-9 && (matrix.spare(0, &[0, 0]) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn vsds_are_added_where_most_is_to_spare_until_nothing_is() {
        // A film takes 0.4 of array 0 and 0.3 of array 1, a search 0.5 and 0.2.
        let matrix = |films: &[bool]| Matrix {
            seconds: [[0.5, 0.4], [0.2, 0.3]]
                .iter()
                .map(|row| films.iter().map(|film| row[usize::from(*film)]).collect())
                .collect(),
            filled: vec![1.0; films.len()],
        };
        // All films: 0 (1.0 each, the first), 1 (0.6, 1.0), 1 (0.6, 0.7), 0 (0.6, 0.4), 1 (0.2, 0.4); then 0.2 and 0.1 are left.
        let filling = fill(1.0, Policy::Disabled, 2, 1, matrix);
        assert_eq!((filling.planned, filling.on[4].as_slice()), (5, &[0, 1, 1, 0, 1][..]));
        assert_eq!(filling.on.len(), 6, "and one beyond");
        // Half of them films, on each array as well: the second on array 1 is a film, as the second on array 0.
        let filling = fill(0.5, Policy::Disabled, 2, 0, matrix);
        assert_eq!((filling.films.as_slice(), filling.planned), (&[false, false, true, true, false, true][..], 6));
        assert_eq!([0.3, 0.7].map(|factor| (0..10).filter(|before| is_film(factor, *before)).count()), [3, 7]);
    }
}
