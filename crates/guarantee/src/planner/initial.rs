//! The array for a new volume, and moves that make room for it.

use super::consumption::ROUNDING;
use super::findings::percent;
use super::{Assignment, Move, Step, Survey};

/// The criterion among arrays with room for a new volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initial {
    /// The largest spare capacity (section IV.D).
    LargestSpare,
    /// The volume's least share. Not in the paper.
    LeastShare,
}

/// Why a volume does not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// For each array: the part of its time that the volume needs there, and the spare part.
    pub arrays: Vec<(f64, f64)>,
    /// The reason as a sentence.
    pub text: String,
}

impl Survey {
    /// Chooses the array for a volume that is not placed yet.
    ///
    /// # Errors
    /// No array has room.
    pub fn initial(&self, assignment: &Assignment, volume: usize, by: Initial) -> Result<usize, Rejected> {
        let fits = |&array: &usize| {
            self.demand(array, volume) <= self.spare(assignment, array) + ROUNDING
                && self.sectors(volume) <= self.free_sectors(assignment, array)
        };
        let worth = |array: usize| match by {
            Initial::LargestSpare => self.spare(assignment, array),
            Initial::LeastShare => -self.share(array, volume),
        };
        let better = |one: &usize, other: &usize| worth(*one).total_cmp(&worth(*other)).then(other.cmp(one));
        (0..self.arrays()).filter(fits).max_by(better).ok_or_else(|| self.rejected(assignment, volume))
    }

    /// Moves after which a volume that is not placed yet fits, and its array. Beyond the paper, whose moves only consider placed volumes.
    ///
    /// The volume is tentatively placed on the array with its least share. Then the move or swap that most reduces the overcommitment is
    /// made until there is none; if that fails, the array with the next share is tried.
    ///
    /// # Errors
    /// No array can be relieved that way.
    pub fn make_room(&self, assignment: &Assignment, volume: usize) -> Result<(Vec<Step>, usize), Rejected> {
        let mut homes: Vec<usize> = (0..self.arrays()).collect();
        homes.sort_by(|one, other| self.share(*one, volume).total_cmp(&self.share(*other, volume)).then(one.cmp(other)));
        let found = homes.into_iter().find_map(|home| Some((self.room_on(assignment, volume, home)?, home)));
        found.ok_or_else(|| self.rejected(assignment, volume))
    }

    fn room_on(&self, assignment: &Assignment, volume: usize, home: usize) -> Option<Vec<Step>> {
        let mut now = assignment.clone();
        now[volume] = Some(home);
        let mut steps = Vec::new();
        // Every step reduces the excess. More steps than volumes are not tried: no volume needs to move twice.
        while self.excess(&now) > ROUNDING {
            if steps.len() == self.volumes() {
                return None;
            }
            let moves = self.best_relief(&now, volume)?;
            let names: Vec<String> = moves
                .iter()
                .map(|each| {
                    format!(
                        "{} goes from {} to {}",
                        self.volume_name(each.volume),
                        self.array_name(each.from),
                        self.array_name(each.to)
                    )
                })
                .collect();
            let reason = format!("{}, to make room for {}", names.join(" and "), self.volume_name(volume));
            moves.iter().for_each(|each| now[each.volume] = Some(each.to));
            steps.push(Step { moves, reason });
        }
        self.keeps_capacity(&now).then_some(steps)
    }

    /// The overcommitment of all arrays, as parts of their time.
    fn excess(&self, assignment: &Assignment) -> f64 {
        (0..self.arrays()).map(|array| (-self.spare(assignment, array)).max(0.0)).sum()
    }

    /// The move or swap of two volumes that reduces the excess most; the newcomer itself stays. `None` if there is none.
    fn best_relief(&self, assignment: &Assignment, newcomer: usize) -> Option<Vec<Move>> {
        let excess = self.excess(assignment);
        let crowded: Vec<usize> = (0..self.arrays()).filter(|array| self.spare(assignment, *array) < -ROUNDING).collect();
        let mut best: Option<(f64, Vec<Move>)> = None;
        let mut consider = |moves: Vec<Move>| {
            let mut after = assignment.clone();
            moves.iter().for_each(|each| after[each.volume] = Some(each.to));
            let left = self.excess(&after);
            let is_better = best.as_ref().is_none_or(|(known, _)| left < *known - ROUNDING);
            if left < excess - ROUNDING && is_better && self.has_sectors(&after) {
                best = Some((left, moves));
            }
        };
        for (volume, from) in assignment.iter().enumerate() {
            let Some(from) = from.filter(|from| crowded.contains(from) && volume != newcomer) else { continue };
            for to in (0..self.arrays()).filter(|to| *to != from) {
                let there = Move { volume, from, to };
                consider(vec![there]);
                for (other, _) in assignment.iter().enumerate().filter(|(other, host)| **host == Some(to) && *other != newcomer) {
                    consider(vec![there, Move { volume: other, from: to, to: from }]);
                }
            }
        }
        best.map(|(_, moves)| moves)
    }

    fn has_sectors(&self, assignment: &Assignment) -> bool {
        (0..self.arrays()).all(|array| {
            let here = assignment.iter().enumerate().filter(|(_, host)| **host == Some(array));
            here.map(|(volume, _)| self.sectors(volume)).sum::<u64>() <= self.arrays[array].2
        })
    }

    fn rejected(&self, assignment: &Assignment, volume: usize) -> Rejected {
        let arrays: Vec<(f64, f64)> =
            (0..self.arrays()).map(|array| (self.demand(array, volume), self.spare(assignment, array).max(0.0))).collect();
        let each: Vec<String> = arrays
            .iter()
            .enumerate()
            .map(|(array, (needs, has))| {
                let sectors = self.free_sectors(assignment, array);
                if self.sectors(volume) > sectors {
                    let (needs, has) = (self.sectors(volume) / 2048, sectors / 2048);
                    format!("{} MiB of {}, which has {} MiB left", needs, self.array_name(array), has)
                } else {
                    format!("{} of {}, which has {} left", percent(*needs), self.array_name(array), percent(*has))
                }
            })
            .collect();
        Rejected { text: format!("{} fits nowhere: it needs {}", self.volume_name(volume), each.join("; ")), arrays }
    }
}
