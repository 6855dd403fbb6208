//! Arrays of two to six generated drives. Mostly all are equal; in some, each is a different one of its family, as after repairs.
//!
//! Levels, minimum numbers of members and stripe units are those that md offers and that are in use (mdadm(8): 512 KiB by default;
//! controllers of the 1990s and 2000s: 16 to 256 KiB).

use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance::{happens, one_of};

use super::{DrawnDevice, Family, desktop, laptop, nearline, sata_flash, scsi_1990s, scsi_2000s};

/// See the file's head.
pub static FAMILY: Family = Family { name: "array", about: "RAID 0, 1, 5 or 10 of two to six drawn drives", draw };

/// Families of the members, repeated by frequency.
const MEMBERS: &[&Family] = &[
    &desktop::FAMILY,
    &desktop::FAMILY,
    &nearline::FAMILY,
    &nearline::FAMILY,
    &scsi_2000s::FAMILY,
    &scsi_2000s::FAMILY,
    &scsi_1990s::FAMILY,
    &laptop::FAMILY,
    &sata_flash::FAMILY,
];

/// RAID levels, each with the possible numbers of members.
const LEVELS: &[(u32, &[usize])] = &[(0, &[2, 3, 4, 6]), (1, &[2, 2, 3]), (5, &[3, 4, 5, 6]), (10, &[4, 6])];

fn draw(random: &mut Xoshiro256PlusPlus) -> DrawnDevice {
    of(random, MEMBERS)
}

/// An array of drives of one of these families.
pub(super) fn of(random: &mut Xoshiro256PlusPlus, members: &[&Family]) -> DrawnDevice {
    at_level(random, members, LEVELS)
}

/// An array of such drives whose first member has failed; in half of them, a spare of the same kind is being rebuilt.
pub(super) fn failed(random: &mut Xoshiro256PlusPlus, members: &[&Family]) -> DrawnDevice {
    // RAID 0 does not survive a failure.
    let mut array = at_level(random, members, &LEVELS[1..]);
    array.text += "failed = 0\n";
    if happens(random, 0.5) {
        let busy_kib_s = one_of(random, &[1000, 1000, 5000, 20_000]);
        array.text += &format!("spare = \"{}\"\nrebuild_busy_kib_s = {busy_kib_s}\n", array.members[0].0);
    }
    array
}

fn at_level(random: &mut Xoshiro256PlusPlus, members: &[&Family], levels: &[(u32, &[usize])]) -> DrawnDevice {
    let family = one_of(random, members);
    let (level, numbers) = one_of(random, levels);
    let number = one_of(random, numbers);
    let all_differ = happens(random, 0.2);
    let drawn: Vec<DrawnDevice> = (0..if all_differ { number } else { 1 }).map(|_| (family.draw)(random)).collect();
    let unit = one_of(random, &[16, 32, 64, 64, 128, 256, 512, 512, 1024]);
    let file = |member: usize| format!("{}.toml", drawn[if all_differ { member } else { 0 }].name);
    let list: Vec<String> = (0..number).map(|member| format!("\"{}\"", file(member))).collect();
    let name = format!("raid{level}-{number}x-{}", drawn[0].name);
    // RAID 1 has no stripes.
    let stripe = if level == 1 { String::new() } else { format!("stripe_unit_kib = {unit}\n") };
    let text = format!(
        "kind = \"raid\"\nname = \"{name}\"\ndescription = \"RAID {level} of {number} drawn drives: {}\"\nlevel = {level}\n\
         members = [{}]\n{stripe}",
        family.name,
        list.join(", ")
    );
    let members = drawn.into_iter().map(|member| (format!("{}.toml", member.name), member.text)).collect();
    DrawnDevice { name, text, members }
}
