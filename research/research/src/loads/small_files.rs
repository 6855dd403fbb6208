//! Readers of many small files, each read as a whole.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, compose};

/// See the file's head.
pub static FAMILY: Family =
    Family { name: "small-files", about: "readers of many small whole files", draw: |random, scope| compose(random, scope, add) };

pub(super) fn add(load: &mut Composer) {
    let (processes, bytes) = (load.one_of(&[1, 3, 8]), load.one_of(&[4 * KIB, 16 * KIB, 64 * KIB]));
    let files = Files::Many(load.one_of(&[1500, 4000, 8000]), bytes, bytes);
    load.add(Job::new("small-files", "randread", files).block(bytes).processes(processes).direct(true));
}
