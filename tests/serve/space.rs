//! Space of stores: trims give it back, and a volume gets no more than its maximum.

use std::time::{Duration, Instant};

use super::Served;
use super::client::{BLOCK, Client, Draw};

const MIB: u64 = 1 << 20;
const EXTENT: u64 = 64 * MIB;
/// Commands of the protocol: trim, and write zeroes with its flag not to make a hole.
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const NO_HOLE: u16 = 1 << 1;
const FULL: u32 = 28;

fn ask(client: &mut Client, command: u16, flags: u16, offset: u64, bytes: u64) -> u32 {
    client.send(command, flags, offset, bytes as u32, &[]).unwrap();
    client.receive(0).unwrap().0
}

impl Served {
    /// Free extents of the store.
    fn free(&self) -> u64 {
        self.store_status("main")["free_bytes"].as_u64().unwrap() / EXTENT
    }

    fn until_free(&self, extents: u64) {
        let until = Instant::now() + Duration::from_secs(5);
        while self.free() != extents {
            assert!(Instant::now() < until, "{} extents are free, and should be {extents}", self.free());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A store of 2 GiB has 30 extents besides its label.
#[test]
fn trims_give_space_back_to_others_and_what_was_written_since_stays() {
    let mut served = Served::file("none");
    served.does(&["create", "v", "--size", "2G"]);
    served.does(&["create", "z", "--size", "64M"]);
    let (mut client, data) = (Client::open(&served.path("nbd"), "v").unwrap(), [7; BLOCK as usize]);
    for extent in 0..30 {
        assert_eq!(client.write(extent * EXTENT, &data, false).unwrap(), 0);
    }
    let mut other = Client::open(&served.path("nbd"), "z").unwrap();
    assert_eq!((client.write(31 * EXTENT, &data, false).unwrap(), other.write(0, &data, false).unwrap()), (FULL, FULL));
    assert_eq!(client.write(BLOCK, &data, false).unwrap(), 0, "a volume with space is not stopped");
    // In parts, and one by zeroes that may be a hole. A part of the extent at 4 is written again, and one at 5 is left out.
    for extent in 0..3 {
        for part in 0..4 {
            assert_eq!(ask(&mut client, TRIM, 0, extent * EXTENT + part * 16 * MIB, 16 * MIB), 0);
        }
    }
    assert_eq!(ask(&mut client, WRITE_ZEROES, 0, 3 * EXTENT, 3 * EXTENT - 64 * 1024), 0);
    assert_eq!(client.write(4 * EXTENT + 5 * BLOCK, &data, true).unwrap(), 0);
    served.until_free(4);
    for extent in [0, 2, 3] {
        assert_eq!(client.read(extent * EXTENT, BLOCK as u32).unwrap(), (0, vec![0; BLOCK as usize]));
    }
    assert_eq!((client.write(31 * EXTENT, &data, false).unwrap(), other.write(0, &data, false).unwrap()), (0, 0));
    served.until_free(2);
    served.kill();
    served.start();
    let mut client = Client::open(&served.path("nbd"), "v").unwrap();
    assert_eq!(client.read(4 * EXTENT + 5 * BLOCK, BLOCK as u32).unwrap(), (0, data.to_vec()));
    assert_eq!(served.free(), 2);
    // All of it, also the part left out.
    for extent in 0..32 {
        assert_eq!(ask(&mut client, TRIM, 0, extent * EXTENT, EXTENT), 0);
    }
    served.until_free(29);
    assert_eq!(served.status("v")["allocated_bytes"], 0);
    // Full, trimmed, and written at once: the writer waits for the space.
    for extent in 0..29 {
        assert_eq!(client.write(extent * EXTENT, &data, false).unwrap(), 0);
    }
    served.does(&["create", "y", "--size", "64M"]);
    let mut other = Client::open(&served.path("nbd"), "y").unwrap();
    assert_eq!(other.write(0, &data, false).unwrap(), FULL);
    assert_eq!(ask(&mut client, TRIM, 0, 0, 29 * EXTENT), 0);
    assert_eq!((client.write(30 * EXTENT, &data, false).unwrap(), other.write(0, &data, false).unwrap()), (0, 0));
}

/// Writers and trimmers on two volumes of a store: each reads its last write, or zeros where it trimmed.
#[test]
fn while_extents_change_hands_every_volume_reads_its_own() {
    let served = Served::file("none");
    std::thread::scope(|scope| {
        for tag in 1..=3_u8 {
            let (served, name) = (&served, format!("v{tag}"));
            scope.spawn(move || {
                served.does(&["create", &name, "--size", "512M"]);
                let mut client = Client::open(&served.path("nbd"), &name).unwrap();
                let mut draw = Draw(u64::from(tag));
                let mut written = [false; 8];
                let until = Instant::now() + Duration::from_secs(4);
                while Instant::now() < until {
                    let extent = draw.below(8);
                    let place = extent * EXTENT + 3 * MIB;
                    let found = client.read(place, BLOCK as u32).unwrap();
                    let wanted = if written[extent as usize] { tag } else { 0 };
                    assert_eq!(found, (0, vec![wanted; BLOCK as usize]), "{name} {extent}");
                    written[extent as usize] = draw.below(2) == 0;
                    if written[extent as usize] {
                        assert_eq!(client.write(place, &[tag; BLOCK as usize], false).unwrap(), 0);
                    } else {
                        assert_eq!(ask(&mut client, TRIM, 0, extent * EXTENT, EXTENT), 0);
                    }
                    std::thread::sleep(Duration::from_millis(draw.below(60)));
                }
            });
        }
    });
}

#[test]
fn a_volume_gets_no_more_than_its_maximum_and_a_thick_one_keeps_all() {
    let mut served = Served::file("none");
    served.does(&["create", "v", "--size", "1G", "--max-used", "128M"]);
    served.does(&["create", "thick", "--size", "256M", "--thick"]);
    served.refuses(&["resize", "thick", "--max-used", "64M"], "has all of its space, and cannot have a maximum");
    let mut client = Client::open(&served.path("nbd"), "v").unwrap();
    // One request must not take the pool.
    assert_eq!(ask(&mut client, WRITE_ZEROES, NO_HOLE, 0, 1 << 30), FULL);
    assert_eq!(ask(&mut client, WRITE_ZEROES, NO_HOLE, 0, 2 * EXTENT), 0);
    assert_eq!(client.write(2 * EXTENT, &[1; BLOCK as usize], false).unwrap(), FULL);
    let status = served.status("v");
    assert_eq!((status["max_used_bytes"].as_u64(), status["allocated_bytes"].as_u64()), (Some(2 * EXTENT), Some(2 * EXTENT)));
    assert_eq!(served.store_status("main")["promised_bytes"].as_u64(), Some(6 * EXTENT));
    served.does(&["resize", "v", "--max-used", "192M"]);
    assert_eq!(client.write(2 * EXTENT, &[1; BLOCK as usize], false).unwrap(), 0);
    let mut thick = Client::open(&served.path("nbd"), "thick").unwrap();
    assert_eq!(ask(&mut thick, TRIM, 0, 0, 4 * EXTENT), 0);
    assert_eq!(ask(&mut client, TRIM, 0, 0, EXTENT), 0);
    served.until_free(30 - 2 - 4);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(served.free(), 30 - 2 - 4);
    served.end();
    served.start();
    let mut client = Client::open(&served.path("nbd"), "v").unwrap();
    assert_eq!(client.write(0, &[1; BLOCK as usize], false).unwrap(), 0);
    assert_eq!(client.write(3 * EXTENT, &[1; BLOCK as usize], false).unwrap(), FULL, "the maximum is recorded");
    served.does(&["resize", "v", "--max-used", "0"]);
    assert_eq!(client.write(3 * EXTENT, &[1; BLOCK as usize], false).unwrap(), 0);
}
