//! Workloads drawn at random to learn from: one to three kinds of programs at once, as servers and workstations run them. Their files
//! are mostly too large to end up in memory, where no scheduler matters.

use std::fmt::Write as _;

use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Programs of one kind, drawn.
type Kind = fn(&mut Xoshiro256PlusPlus, &mut String, usize);

/// Every kind, those that read more often first.
const KINDS: &[Kind] = &[
    readers_in_order,
    readers_at_random,
    asynchronous,
    database,
    writers_in_order,
    streams,
    small_files,
    readers_at_random,
    readers_in_order,
];

/// The job file of this number.
pub fn text(seed: u64, number: u32, seconds: u32) -> String {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number)));
    let mut text = format!("[global]\nruntime={seconds}\ntime_based\n");
    let kinds = *[1, 1, 2, 2, 3].choose(&mut random).unwrap_or(&1);
    for part in 0..kinds {
        if let Some(kind) = KINDS.choose(&mut random) {
            kind(&mut random, &mut text, part);
        }
    }
    text
}

fn one_of<'a>(random: &mut Xoshiro256PlusPlus, choices: &[&'a str]) -> &'a str {
    choices.choose(random).copied().unwrap_or("")
}

fn job(text: &mut String, kind: &str, part: usize, lines: &[String]) {
    // Writing into a string cannot fail.
    let _ = writeln!(text, "\n[{kind}-{part}]\n{}", lines.join("\n"));
}

fn line(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

fn readers_in_order(random: &mut Xoshiro256PlusPlus, text: &mut String, part: usize) {
    let (count, size) = (one_of(random, &["1", "2", "3", "4", "8", "16", "30"]), one_of(random, &["16k", "64k", "256k"]));
    job(text, "in-order", part, &["rw=read".into(), line("bs", size), line("numjobs", count), "size=2g".into()]);
}

fn readers_at_random(random: &mut Xoshiro256PlusPlus, text: &mut String, part: usize) {
    let count = one_of(random, &["1", "2", "4", "8", "16"]);
    let (bytes, size) = (one_of(random, &["4k", "8k", "16k", "64k"]), one_of(random, &["512m", "2g", "8g"]));
    let direct = if random.random() { "1" } else { "0" };
    let lines = ["rw=randread".into(), line("bs", bytes), line("numjobs", count), line("size", size), line("direct", direct)];
    job(text, "at-random", part, &lines);
}

fn asynchronous(random: &mut Xoshiro256PlusPlus, text: &mut String, part: usize) {
    let (mix, depth) = (one_of(random, &["50", "67", "80", "100"]), one_of(random, &["4", "8", "32", "128"]));
    let (bytes, size) = (one_of(random, &["2k", "4k", "16k", "128k"]), one_of(random, &["256m", "1g", "3g"]));
    let lines = [
        "ioengine=libaio".into(),
        "direct=1".into(),
        "rw=randrw".into(),
        line("rwmixread", mix),
        line("iodepth", depth),
        line("bs", bytes),
        line("size", size),
    ];
    job(text, "asynchronous", part, &lines);
}

fn database(random: &mut Xoshiro256PlusPlus, text: &mut String, part: usize) {
    let (threads, mix) = (one_of(random, &["4", "8", "12", "24"]), one_of(random, &["60", "80", "95"]));
    let (page, size) = (one_of(random, &["4k", "8k", "16k"]), one_of(random, &["400m", "1500m", "3g", "8g"]));
    let lines = [
        "rw=randrw".into(),
        line("rwmixread", mix),
        line("bs", page),
        format!("filename=tables-{part}"),
        line("size", size),
        line("numjobs", threads),
    ];
    job(text, "tables", part, &lines);
    let rate = one_of(random, &["5", "20", "60"]);
    job(text, "log", part, &["rw=write".into(), "bs=4k".into(), "size=64m".into(), "fsync=1".into(), line("rate_iops", rate)]);
}

fn writers_in_order(random: &mut Xoshiro256PlusPlus, text: &mut String, part: usize) {
    let (count, size) = (one_of(random, &["1", "2", "4", "10"]), one_of(random, &["64k", "256k"]));
    job(text, "writing", part, &["rw=write".into(), line("bs", size), line("numjobs", count), "size=1g".into()]);
}

fn streams(random: &mut Xoshiro256PlusPlus, text: &mut String, part: usize) {
    let (count, rate) = (one_of(random, &["1", "4", "12", "40"]), one_of(random, &["4", "10", "25"]));
    let skip = one_of(random, &["read", "read:448k"]);
    job(
        text,
        "streams",
        part,
        &[line("rw", skip), "bs=64k".into(), line("numjobs", count), line("rate_iops", rate), "size=512m".into()],
    );
}

fn small_files(random: &mut Xoshiro256PlusPlus, text: &mut String, part: usize) {
    let (count, size) = (one_of(random, &["1", "3", "8"]), one_of(random, &["4k", "16k", "64k"]));
    let lines = [
        "rw=randread".into(),
        line("bs", size),
        line("filesize", size),
        "nrfiles=1500".into(),
        "direct=1".into(),
        line("numjobs", count),
    ];
    job(text, "small-files", part, &lines);
}
