//! A database: threads on tables and their indexes, a log that is synced at each commit, and checkpoints that write many pages.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "database",
    about: "database: tables, a synced log, checkpoints",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let page = load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB]);
    let bytes = load.memories(1.5, 10.0);
    let tables = Files::Shared("tables", bytes);
    // Engines with their own cache use direct I/O.
    let direct = load.chance(0.4);
    readers(load, tables, page, direct);
    if load.chance(0.6) {
        report_query(load, tables, direct);
    }
    log(load);
    checkpoint(load, tables, page);
}

fn readers(load: &mut Composer, tables: Files, page: u64, direct: bool) {
    let threads = load.scaled(3.0, 40.0) as u32;
    let job = Job::new("query", "randrw", tables).block(page).processes(threads).mix_read(load.percent(70..=98)).direct(direct);
    let think_ms = load.scaled(2.0, 150.0);
    let job = if load.chance(0.6) { job.pace(Pace::Think(load.whole(2..=8), think_ms)) } else { job };
    let job = match load.whole(0..=2) {
        0 => job.set("norandommap", 1),
        1 => job.set("random_distribution", format!("zipf:0.{}", load.whole(50..=95))),
        // Most of the work is on recent orders.
        _ => {
            let (recent, part) = (load.whole(60..=85), load.whole(5..=20));
            job.set("random_distribution", format!("zoned:{recent}/{part}:{}/{}", 100 - recent, 100 - part))
        }
    };
    load.add(job.directory("data"));
}

/// A query that reads a large part of a table sequentially, followed by think time.
fn report_query(load: &mut Composer, tables: Files, direct: bool) {
    let block = load.one_of(&[64 * KIB, 128 * KIB, 256 * KIB]);
    let seconds = load.scaled(0.5, 8.0);
    let pace = Pace::Think(load.whole(50..=1000), seconds * 1000.0);
    load.add(Job::new("report", "read", tables).block(block).pace(pace).direct(direct).directory("data"));
}

fn log(load: &mut Composer) {
    let committers = load.whole(1..=4);
    let per_second = load.scaled(4.0, 120.0) / f64::from(committers);
    let small = load.percent(40..=80);
    let sizes = [(512, small), (4 * KIB, 90 - small), (16 * KIB, 10)];
    let bytes = load.mebibytes(32..=256);
    let job = Job::new("log", "write", Files::Own(bytes)).blocks(&sizes).processes(committers).set("fdatasync", 1);
    load.add(job.pace(Pace::Rate(per_second)).directory("log"));
}

/// Writes dirty pages in bursts, every few seconds.
fn checkpoint(load: &mut Composer, tables: Files, page: u64) {
    let apart_ms = load.lasts_ms() / load.scaled(3.0, 9.0);
    let pages = load.scaled(100.0, 2000.0) as u32;
    let job = Job::new("checkpoint", "randwrite", tables).block(page).pace(Pace::Think(pages, apart_ms));
    load.add(job.set("fsync", pages).set("norandommap", 1).directory("data"));
}
