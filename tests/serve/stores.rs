//! Identity of stores: exchanged, copied, truncated and older files are refused, and no client reads data of another.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::client::{BLOCK, Client, Draw};
use super::crash::times;
use super::{PROGRAM, Served};

/// Size of the small stores, of two extents.
const SMALL: u64 = 256 << 20;
const EXTENT: u64 = 64 << 20;

impl Served {
    /// A server with two small stores.
    fn small() -> Served {
        let mut served = Served::new(
            "[[store]]\nname = 'one'\npath = 'FOLDER/small-1'\nscheduler = 'none'\n\
             [[store]]\nname = 'two'\npath = 'FOLDER/small-2'\nscheduler = 'none'\n",
        );
        served.end();
        served
    }

    fn store(&self, arguments: &[&str]) -> Output {
        Command::new(PROGRAM).arg("store").args(arguments).arg("--config").arg(self.path("serve.toml")).output().unwrap()
    }

    /// Starts a server that should refuse to; returns its message.
    fn is_refused(&mut self) -> String {
        let (code, said) = self.try_start_by(&[]).expect_err("it should be refused");
        assert_eq!(code, Some(2), "{said}");
        said
    }

    fn adopts(&self, arguments: &[&str]) {
        let output = self.store(&[&["adopt"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn does_not_adopt(&self, arguments: &[&str], reason: &str) {
        let output = self.store(&[&["adopt"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(reason), "{said}");
    }

    /// Fills the first blocks of a volume with a byte.
    fn writes(&self, volume: &str, byte: u8) {
        let mut client = Client::open(&self.path("nbd"), volume).unwrap();
        for offset in [0, BLOCK, EXTENT - BLOCK] {
            assert_eq!(client.write(offset, &[byte; BLOCK as usize], true).unwrap(), 0);
        }
        drop(client);
        self.wait_until_closed(volume);
    }

    /// The bytes that a volume has in its first extent, each once.
    fn bytes_of(&self, volume: &str) -> Vec<u8> {
        let mut client = Client::open(&self.path("nbd"), volume).unwrap();
        let mut found = Vec::new();
        for offset in (0..EXTENT).step_by(1 << 20).chain([BLOCK, EXTENT - BLOCK]) {
            let (error, data) = client.read(offset, BLOCK as u32).unwrap();
            assert_eq!(error, 0);
            found.extend(data);
        }
        found.sort_unstable();
        found.dedup();
        drop(client);
        self.wait_until_closed(volume);
        found
    }

    fn swap(&self, one: &str, other: &str) {
        let aside = self.path("aside");
        fs::rename(self.path(one), &aside).unwrap();
        fs::rename(self.path(other), self.path(one)).unwrap();
        fs::rename(aside, self.path(other)).unwrap();
    }
}

/// Copies a file with its holes.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--sparse=always").args([from, to]).status().unwrap();
    assert!(status.success());
}

fn with_alice_and_bob() -> Served {
    let mut served = Served::small();
    served.start();
    for (volume, store, byte) in [("alice", "one", 0xaa), ("bob", "two", 0xbb)] {
        served.does(&["create", volume, "--size", "128M", "--store", store]);
        served.writes(volume, byte);
    }
    served
}

#[test]
fn exchanged_empty_and_truncated_stores_are_refused_with_both_identities() {
    let mut served = with_alice_and_bob();
    assert!(served.end().success());
    served.swap("small-1", "small-2");
    let said = served.is_refused();
    assert!(said.contains("store one: path: ") && said.contains("is store two ("), "{said}");
    let listed = served.store(&["list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!((&listed[0]["volumes"][0], &listed[0]["known_uuid"]), (&Value::from("bob"), &listed[1]["uuid"]), "{listed}");
    served.does_not_adopt(&["one"], "is store two");
    served.swap("small-1", "small-2");
    // An empty file of the same size.
    fs::rename(served.path("small-1"), served.path("away")).unwrap();
    fs::File::create(served.path("small-1")).unwrap().set_len(SMALL).unwrap();
    assert!(served.is_refused().contains("is empty, and the catalog knows store "));
    served.does_not_adopt(&["one"], "volumes alice are not on it");
    fs::rename(served.path("away"), served.path("small-1")).unwrap();
    let file = OpenOptions::new().write(true).open(served.path("small-1")).unwrap();
    file.set_len(SMALL - EXTENT).unwrap();
    assert!(served.is_refused().contains("is truncated: has 201326592 bytes"));
    served.does_not_adopt(&["one"], "is truncated");
    file.set_len(SMALL).unwrap();
    served.start();
    assert_eq!((served.bytes_of("alice"), served.bytes_of("bob")), (vec![0, 0xaa], vec![0, 0xbb]));
    served.end();
    // Twice the size.
    file.set_len(2 * SMALL).unwrap();
    served.start();
    assert_eq!((served.bytes_of("alice"), served.store_status("one")["bytes"].as_u64()), (vec![0, 0xaa], Some(6 * EXTENT)));
}

#[test]
fn an_older_store_or_catalog_is_refused_and_taken_on_demand() {
    let mut served = with_alice_and_bob();
    served.end();
    for file in ["small-1", "serve.db"] {
        copy(&served.path(file), &served.path(&format!("{file}.old")));
    }
    served.start();
    served.does(&["create", "carol", "--size", "64M", "--store", "one"]);
    served.writes("carol", 0xcc);
    served.writes("alice", 0xa1);
    served.end();
    copy(&served.path("small-1"), &served.path("small-1.new"));
    copy(&served.path("small-1.old"), &served.path("small-1"));
    let said = served.is_refused();
    assert!(said.contains("is an older copy of store ") && said.contains("store adopt one"), "{said}");
    served.does_not_adopt(&["one"], "volumes carol are not on it; --give-up");
    served.adopts(&["one", "--give-up"]);
    served.start();
    assert_eq!((served.bytes_of("alice"), served.status("carol")), (vec![0, 0xaa], Value::Null));
    served.end();
    // The newer one is now a copy that went on without the catalog.
    copy(&served.path("small-1.new"), &served.path("small-1"));
    assert!(served.is_refused().contains("copy"));
    served.adopts(&["one"]);
    served.start();
    assert_eq!(
        (served.bytes_of("alice"), served.bytes_of("carol"), served.bytes_of("bob")),
        (vec![0, 0xa1], vec![0, 0xcc], vec![0, 0xbb])
    );
    served.end();
    copy(&served.path("serve.db"), &served.path("serve.db.new"));
    copy(&served.path("serve.db.old"), &served.path("serve.db"));
    let said = served.is_refused();
    assert!(said.contains("is newer than the catalog") && said.contains("store recover"), "{said}");
    recovers(&mut served, 2);
    fs::remove_file(served.path("serve.db")).unwrap();
    recovers(&mut served, 2);
}

/// Makes the catalog from the stores, and checks the volumes.
fn recovers(served: &mut Served, times: usize) {
    for _ in 0..times {
        let output = served.store(&["recover"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("3 volumes: alice, bob, carol"), "{said}");
        served.start();
        assert_eq!(served.bytes_of("carol"), [0, 0xcc]);
        served.end();
    }
}

#[test]
fn a_store_of_another_server_is_taken_with_its_volumes_and_data_of_others_are_not_overwritten() {
    let (mut other, mut served) = (with_alice_and_bob(), Served::small());
    other.end();
    served.start();
    served.does(&["create", "carol", "--size", "64M", "--store", "two"]);
    served.writes("carol", 0xcc);
    served.end();
    copy(&other.path("small-1"), &served.path("small-1"));
    let said = served.is_refused();
    assert!(said.contains("of another catalog") && said.contains("the catalog knows store"), "{said}");
    served.adopts(&["one"]);
    served.start();
    assert_eq!((served.bytes_of("alice"), served.bytes_of("carol")), (vec![0, 0xaa], vec![0, 0xcc]));
    served.does(&["move", "carol", "--to", "one", "--pace", "1G", "--unchecked"]);
    served.wait_until_moved("carol");
    served.kill();
    served.start();
    assert_eq!((served.bytes_of("alice"), served.bytes_of("carol")), (vec![0, 0xaa], vec![0, 0xcc]));
    served.end();
    let text = fs::read_to_string(served.path("serve.toml")).unwrap();
    fs::write(
        served.path("serve.toml"),
        text + &format!("[[store]]\nname = 'three'\npath = '{}'\n", served.path("disk").display()),
    )
    .unwrap();
    fs::File::create(served.path("disk")).unwrap().set_len(SMALL).unwrap();
    let status = Command::new("mkfs.ext4").arg("-q").arg(served.path("disk")).status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("skipped: needs mkfs.ext4");
        return;
    }
    assert!(served.is_refused().contains("holds data that are not of a store"));
    served.does_not_adopt(&["three"], "--overwrite gives them up");
    served.adopts(&["three", "--overwrite"]);
    served.start();
    assert_eq!(served.bytes_of("alice"), [0, 0xaa]);
}

/// Extents that the label needs are moved.
#[test]
fn stores_from_before_labels_get_one_and_keep_their_volumes() {
    let mut served = Served::small();
    let file = rusqlite::Connection::open(served.path("serve.db")).unwrap();
    for (store, size) in [("small-1", 5 * EXTENT), ("small-2", SMALL)] {
        let store = fs::File::create(served.path(store)).unwrap();
        store.set_len(size).unwrap();
        // Former content of a free extent.
        std::os::unix::fs::FileExt::write_all_at(&store, &[0xdd; 4096], 2 * EXTENT).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&store, &[0xaa; 4096], 0).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&store, &[0xab; 4096], size - 4096).unwrap();
    }
    let sum = |row: &str| crc32fast::hash(row.as_bytes());
    fs::remove_file(served.path("serve.db")).unwrap();
    drop(file);
    let file = rusqlite::Connection::open(served.path("serve.db")).unwrap();
    file.execute_batch(&format!(
        "create table store (name text primary key, extents integer not null) strict;
         create table volume (id integer primary key autoincrement, name text not null unique, store text not null references store (name),
             bytes integer not null, contract text not null, checksum integer not null default 0) strict;
         create table extent (store text not null references store (name), number integer not null,
             volume integer not null references volume (id) on delete cascade, place integer not null, checksum integer not null default 0,
             primary key (store, number), unique (volume, place)) strict, without rowid;
         create table move (volume integer primary key references volume (id) on delete cascade, store text not null references store (name),
             bytes_per_second integer not null) strict;
         insert into store values ('one', 5), ('two', 4);
         insert into volume values (3, 'alice', 'one', {size}, '', {});
         insert into extent values ('one', 0, 3, 0, {}), ('one', 4, 3, 1, {});
         pragma user_version = 2;",
        sum(&format!("3|alice|one|{}|", 2 * EXTENT)),
        sum("one|0|3|0"),
        sum("one|4|3|1"),
        size = 2 * EXTENT
    ))
    .unwrap();
    drop(file);
    served.start();
    let mut client = Client::open(&served.path("nbd"), "alice").unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), (0, vec![0xaa; 4096]));
    assert_eq!(client.read(2 * EXTENT - 4096, 4096).unwrap(), (0, vec![0xab; 4096]));
    drop(client);
    served.kill();
    served.start();
    assert_eq!(served.bytes_of("alice"), [0, 0xaa]);
    served.does(&["create", "bob", "--size", "64M", "--store", "one"]);
    served.writes("bob", 0xbb);
    assert_eq!(served.bytes_of("bob"), [0, 0xbb]);
}

/// A file of the server: it stays, or is replaced by an earlier copy of any file, cut, or emptied.
fn tamper(served: &Served, file: &str, copies: u64, draw: &mut Draw) {
    let path = served.path(file);
    let size = if file == "serve.db" { fs::metadata(&path).unwrap().len() } else { SMALL };
    match draw.below(6) {
        0..4 if file == "serve.db" => copy(&served.path(&format!("copy-{}/serve.db", draw.below(copies))), &path),
        0..4 => {
            let of = ["small-1", "small-2"][draw.below(2) as usize];
            copy(&served.path(&format!("copy-{}/{of}", draw.below(copies))), &path);
        }
        4 => OpenOptions::new().write(true).open(&path).unwrap().set_len(draw.below(size)).unwrap(),
        _ => {
            fs::remove_file(&path).unwrap();
            if file != "serve.db" {
                fs::File::create(&path).unwrap().set_len(SMALL).unwrap();
            }
        }
    }
}

/// Any exchange, copy, truncation and rollback of any of the files: the server refuses, or every volume has its owner's data. So it is after
/// stores were adopted, or the catalog recovered.
fn tampered(count: u64, seed: u64) {
    let mut draw = Draw(seed);
    let (mut started, mut refused, mut read) = (0, 0, 0);
    for round in 0..count {
        let mut served = Served::small();
        let owners: [(&str, u8); 4] = [("alice", 0xa0), ("bob", 0xb0), ("carol", 0xc0), ("dave", 0xd0)];
        let copies = 2 + draw.below(3);
        for number in 0..copies {
            served.start();
            for _ in 0..3 + draw.below(4) {
                let (name, byte) = owners[draw.below(4) as usize];
                let store = ["one", "two"][draw.below(2) as usize];
                let is_there = served.status(name) != Value::Null;
                if !is_there {
                    served.volume(&["create", name, "--size", "64M", "--store", store]);
                } else if draw.below(3) == 0 {
                    served.does(&["delete", name]);
                    continue;
                } else if draw.below(4) == 0 {
                    // Refused where it is on that store already, or there is no room.
                    served.volume(&["move", name, "--to", store, "--pace", "1G"]);
                    served.wait_until_moved(name);
                }
                let mut client = Client::open(&served.path("nbd"), name).unwrap();
                // A full store refuses it.
                client.write(0, &[byte; BLOCK as usize], true).unwrap();
                client.write(BLOCK * (1 + draw.below(100)), &[byte; BLOCK as usize], true).unwrap();
                drop(client);
                served.wait_until_closed(name);
            }
            if draw.below(3) == 0 {
                served.kill();
            } else {
                served.end();
            }
            let folder = served.path(&format!("copy-{number}"));
            fs::create_dir(&folder).unwrap();
            for file in ["small-1", "small-2", "serve.db", "serve.db-wal"].into_iter().filter(|file| served.path(file).exists()) {
                copy(&served.path(file), &folder.join(file));
            }
        }
        // A log belongs to its catalog.
        let _ = fs::remove_file(served.path("serve.db-wal"));
        if draw.below(3) == 0 {
            served.swap("small-1", "small-2");
        }
        // Mostly one file, as of several some are refused.
        let files = ["serve.db", "small-1", "small-2"].into_iter().filter(|_| draw.below(2) == 0).collect::<Vec<_>>();
        files.into_iter().for_each(|file| tamper(&served, file, copies, &mut draw));
        for step in 0..4 {
            match step {
                0 => {}
                1 => drop(served.store(&["recover"])),
                _ => {
                    let store = ["one", "two"][step - 2];
                    let more: &[&str] =
                        if draw.below(2) == 0 { &["adopt", store] } else { &["adopt", store, "--give-up", "--overwrite"] };
                    drop(served.store(more));
                }
            }
            if let Err((code, said)) = served.try_start_by(&[]) {
                assert_eq!(code, Some(2), "{said}");
                refused += 1;
                continue;
            }
            started += 1;
            for (name, byte) in owners.iter().filter(|(name, _)| served.status(name) != Value::Null) {
                read += 1;
                let found = served.bytes_of(name);
                assert!(found.iter().all(|found| *found == 0 || found == byte), "round {round}: {name} reads {found:x?}");
            }
            served.end();
        }
    }
    println!("{count} draws: started {started}, refused {refused}, {read} volumes read");
    assert!(started > count / 2 && refused > count / 2 && read > count / 2, "{started} {refused} {read}");
}

#[test]
fn whatever_happens_to_the_files_no_client_reads_what_another_wrote() {
    tampered(times("TAMPERED", 12), times("SEED", 1));
}
