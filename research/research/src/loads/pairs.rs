//! Two or three simple loads in parallel.

use super::composer::{Add, Composer, compose};
use super::{Family, asynchronous, at_random, in_order, small_files, writing};

/// See the file's head.
pub static FAMILY: Family =
    Family { name: "pairs", about: "two or three simple loads in parallel", draw: |random, scope| compose(random, scope, add) };

/// The families combined.
const SINGLE: &[Add] = &[in_order::add, at_random::add, asynchronous::add, writing::add, small_files::add];

pub(super) fn add(load: &mut Composer) {
    let number = load.one_of(&[2, 2, 2, 3]);
    // No family twice: a single one has that variety already.
    let mut left = SINGLE.to_vec();
    for _ in 0..number {
        let index = load.whole(0..=left.len() as u32 - 1) as usize;
        load.program(left.remove(index));
    }
}
