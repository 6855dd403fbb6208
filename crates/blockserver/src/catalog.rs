//! Catalog of volumes and their extents in one SQLite file. Write-ahead: a change is committed before a volume uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{anyhow, bail, ensure};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Transaction, params};

use crate::label::{Known, Uuid, Version};
pub use crate::record::{EXTENT_BYTES, MOST_BYTES, Record};

/// Schema version of the file. Version 1 had no checksums and no moves, version 2 no versions of stores.
const VERSION: i64 = 3;

/// The checksum of a row covers all its other columns: it detects damage that SQLite does not, such as a changed number.
const SCHEMA: &str = "
create table store (
    name text primary key,
    extents integer not null,
    uuid text,
    generation integer not null default 0,
    start text
) strict;
create table volume (
    id integer primary key autoincrement,
    name text not null unique,
    store text not null references store (name),
    bytes integer not null,
    contract text not null,
    moves integer not null default 0,
    thick integer not null default 0,
    max_used integer,
    checksum integer not null default 0
) strict;
create table extent (
    store text not null references store (name),
    number integer not null,
    volume integer not null references volume (id) on delete cascade,
    place integer not null,
    checksum integer not null default 0,
    primary key (store, number),
    unique (volume, place)
) strict, without rowid;
";

/// Moves in progress. Destination extents are recorded only when the move ends, so that after a crash they are free.
const MOVES: &str = "
create table move (
    volume integer primary key references volume (id) on delete cascade,
    store text not null references store (name),
    bytes_per_second integer not null
) strict;
";

const IDENTITY: &str = "create table catalog (uuid text not null) strict;";

const VERSIONS: &str = "
alter table store add column uuid text;
alter table store add column generation integer not null default 0;
alter table store add column start text;
alter table volume add column moves integer not null default 0;
alter table volume add column thick integer not null default 0;
alter table volume add column max_used integer;
";

const CHECKSUMS: &str = "
alter table volume add column checksum integer not null default 0;
alter table extent add column checksum integer not null default 0;
";

/// A store in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreRecord {
    /// Name.
    pub name: String,
    /// Number of extents, including reserved ones.
    pub extents: u32,
    /// State of its label; `None` for an emulated disk.
    pub version: Option<Version>,
}

/// The generation that a store has with a change; `None` for an emulated disk.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// Name of the store.
    pub store: &'a str,
    /// Generation of its label.
    pub generation: Option<u64>,
}

/// The open catalog, locked against other servers. Every change is durable when the call returns.
pub struct Catalog {
    file: Connection,
}

impl Catalog {
    /// Opens the catalog, and creates it if there is none.
    ///
    /// # Errors
    /// The file cannot be opened, is locked, has an unknown version, or is damaged.
    pub fn open(path: &Path) -> anyhow::Result<Catalog> {
        Catalog::open_or_create(path).map_err(|error| {
            let code = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
            match code {
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => error.context(DAMAGED),
                Some(ErrorCode::DatabaseBusy) => error.context("another server uses it"),
                _ => error,
            }
        })
    }

    fn open_or_create(path: &Path) -> anyhow::Result<Catalog> {
        if !path.try_exists()? {
            create(path, Uuid::random()?)?;
        }
        Catalog::open_file(path)
    }

    /// Creates a catalog with this identifier, which a lost one had.
    ///
    /// # Errors
    /// There is a file already, or it cannot be written.
    pub fn recreate(path: &Path, uuid: Uuid) -> anyhow::Result<Catalog> {
        ensure!(!path.try_exists()?, "is there already");
        create(path, uuid)?;
        Catalog::open_file(path)
    }

    fn open_file(path: &Path) -> anyhow::Result<Catalog> {
        let mut file = Connection::open(path)?;
        // Exclusive: a second server would allocate the same extents.
        file.pragma_update(None, "locking_mode", "exclusive")?;
        file.pragma_update(None, "journal_mode", "wal")?;
        file.pragma_update(None, "synchronous", "full")?;
        file.pragma_update(None, "foreign_keys", true)?;
        let version: i64 = file.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match version {
            0 => bail!("{DAMAGED}, or delete it if it never was a catalog: it is empty, or of another program"),
            1 | 2 => upgrade(&mut file, version)?,
            VERSION => file.execute_batch("begin exclusive; commit;")?,
            other => bail!("is of version {other}, and this program knows {VERSION}"),
        }
        let catalog = Catalog { file };
        catalog.check()?;
        Ok(catalog)
    }

    /// Checks integrity, references, checksums and extents. A damaged catalog is refused, as it might give a volume the extents of another.
    fn check(&self) -> anyhow::Result<()> {
        let found: String = self.file.query_row("pragma integrity_check (1)", [], |row| row.get(0))?;
        ensure!(found == "ok", "{DAMAGED}: {found}");
        let orphans = self.file.prepare("pragma foreign_key_check")?.exists([])?;
        ensure!(!orphans, "{DAMAGED}: rows of volumes or stores that are not there");
        for (table, sum) in [("volume", VOLUME_SUM), ("extent", EXTENT_SUM)] {
            verify(&self.file, table, sum)?;
        }
        let sql = "select count(*) from extent join volume on volume.id = extent.volume
                   where extent.store != volume.store or place * ?1 >= bytes";
        let astray: i64 = self.file.query_row(sql, [EXTENT_BYTES.cast_signed()], |row| row.get(0))?;
        ensure!(astray == 0, "{DAMAGED}: {astray} extents are not where their volumes are");
        Ok(())
    }

    /// The identifier of the catalog.
    ///
    /// # Errors
    /// The database cannot be read, or has none.
    pub fn uuid(&self) -> anyhow::Result<Uuid> {
        let text: String = self.file.query_row("select uuid from catalog", [], |row| row.get(0))?;
        text.parse().map_err(|error| anyhow!("{DAMAGED}: its UUID {error}"))
    }

    /// The stores with their versions.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn stores(&self) -> anyhow::Result<Known> {
        let mut read = self.file.prepare("select name, uuid, generation, start from store")?;
        let rows = read.query_map([], |row| {
            let (uuid, generation, start): (Option<String>, i64, Option<String>) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get::<_, String>(0)?, uuid.zip(start), generation.cast_unsigned()))
        })?;
        rows.map(|row| {
            let (name, uuids, generation) = row?;
            let version = |(store, start): (String, String)| -> Result<Version, String> {
                Ok(Version { store: store.parse()?, generation, start: start.parse()? })
            };
            let version = uuids.map(version).transpose();
            Ok((name, version.map_err(|error| anyhow!("{DAMAGED}: a UUID of a store {error}"))?))
        })
        .collect()
    }

    /// The id that the next volume gets. Ids are not reused.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn next_id(&self) -> anyhow::Result<u32> {
        let sql = "select seq from sqlite_sequence where name = 'volume'";
        let last: Option<i64> = self.file.query_row(sql, [], |row| row.get(0)).optional()?;
        Ok(u32::try_from(last.unwrap_or(0) + 1)?)
    }

    /// Sets the volumes, and the versions of these stores, in one transaction. A store that has changed its name is known by the new one.
    /// Returns the names of the volumes that it has changed, added or removed.
    ///
    /// # Errors
    /// The database cannot be written, or two volumes have the same name or extent.
    pub fn reconcile(&mut self, stores: &[StoreRecord], volumes: &[Record]) -> anyhow::Result<BTreeSet<String>> {
        let before = self.volumes()?;
        let change = self.file.transaction()?;
        change.execute_batch("pragma defer_foreign_keys = on")?;
        let known: BTreeMap<u32, &Record> = before.iter().map(|record| (record.id, record)).collect();
        let new: BTreeMap<u32, &Record> = volumes.iter().map(|record| (record.id, record)).collect();
        let removed = known.values().filter(|record| new.get(&record.id) != Some(record));
        let added = new.values().filter(|record| known.get(&record.id) != Some(record));
        let changed = removed.clone().chain(added.clone()).map(|record| record.name.clone()).collect();
        for record in removed {
            change.execute("delete from extent where volume = ?1", [record.id])?;
            if !new.contains_key(&record.id) {
                change.execute("delete from volume where id = ?1", [record.id])?;
            } else {
                // Frees the name, which another volume may have.
                change.execute("update volume set name = ?2 where id = ?1", params![record.id, format!(".{}", record.id)])?;
            }
        }
        for StoreRecord { name, extents, version } in stores {
            let sql = "insert into store values (?1, ?2, ?3, ?4, ?5) on conflict (name) do update
                       set extents = excluded.extents, uuid = excluded.uuid, generation = excluded.generation, start = excluded.start";
            let uuids = version.map(|version| (version.store.to_string(), version.start.to_string()));
            let generation = version.map_or(0, |version| version.generation.cast_signed());
            let (store, start) = uuids.unzip();
            change.execute(sql, params![name, extents, store, generation, start])?;
            let renamed = "select name from store where uuid = ?1 and name != ?2";
            change.execute(&format!("update move set store = ?2 where store in ({renamed})"), params![store, name])?;
            change.execute(&format!("delete from store where name in ({renamed})"), params![store, name])?;
        }
        for record in added {
            write_volume(&change, record)?;
            insert(&change, record.id, &record.store, &record.extents)?;
        }
        change.commit()?;
        Ok(changed)
    }

    /// All volumes with their extents, ordered by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn volumes(&self) -> anyhow::Result<Vec<Record>> {
        let mut read =
            self.file.prepare("select id, name, store, bytes, contract, moves, thick, max_used from volume order by name")?;
        let volumes = read.query_map([], |row| {
            Ok(Record {
                id: row.get(0)?,
                name: row.get(1)?,
                store: row.get(2)?,
                bytes: row.get::<_, i64>(3)?.cast_unsigned(),
                contract: row.get(4)?,
                moves: row.get(5)?,
                is_thick: row.get(6)?,
                max_used: row.get::<_, Option<i64>>(7)?.map(i64::cast_unsigned),
                extents: Vec::new(),
            })
        })?;
        let mut volumes = volumes.collect::<Result<Vec<_>, _>>()?;
        let mut read = self.file.prepare("select place, number from extent where volume = ?1 order by place")?;
        for volume in &mut volumes {
            let extents = read.query_map([volume.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
            volume.extents = extents.collect::<Result<Vec<_>, _>>()?;
        }
        Ok(volumes)
    }

    /// Records a new volume without extents.
    ///
    /// # Errors
    /// The database cannot be read or written, or the name or id is taken.
    pub fn create(&mut self, record: &Record, at: At<'_>) -> anyhow::Result<()> {
        let name = &record.name;
        let there: Option<u32> =
            self.file.query_row("select id from volume where name = ?1", [name], |row| row.get(0)).optional()?;
        if there.is_some() {
            bail!("volume {name}: there is one of this name already");
        }
        self.change(at, |change| write_volume(change, record))
    }

    /// Sets the size of a volume and its maximum space, and frees the extents beyond its end.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn resize(&mut self, record: &Record, at: At<'_>) -> anyhow::Result<()> {
        self.change(at, |change| {
            let extents = record.bytes.div_ceil(EXTENT_BYTES);
            change.execute("delete from extent where volume = ?1 and place >= ?2", params![record.id, extents.cast_signed()])?;
            write_volume(change, record)
        })
    }

    /// Sets the contract of a volume.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn promise(&mut self, id: u32, contract: &str, at: At<'_>) -> anyhow::Result<()> {
        self.change(at, |change| {
            change.execute("update volume set contract = ?2 where id = ?1", params![id, contract])?;
            seal_volume(change, id)
        })
    }

    /// Removes a volume and frees its extents.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn delete(&mut self, id: u32, at: At<'_>) -> anyhow::Result<()> {
        self.change(at, |change| {
            change.execute("delete from volume where id = ?1", [id])?;
            Ok(())
        })
    }

    /// Records extents, as place and number, that a volume is given on a store.
    ///
    /// # Errors
    /// The database cannot be written, or an extent is in use.
    pub fn allocate(&mut self, id: u32, extents: &[(u32, u32)], at: At<'_>) -> anyhow::Result<()> {
        self.change(at, |change| {
            // An extent that was there before is about to be freed.
            for (place, _) in extents {
                change.execute("delete from extent where volume = ?1 and place = ?2", params![id, place])?;
            }
            insert(change, id, at.store, extents)
        })
    }

    /// Frees extents of a volume, as place and number, that it has trimmed. Those that it does not have any more are ignored.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn free(&mut self, id: u32, extents: &[(u32, u32)], at: At<'_>) -> anyhow::Result<()> {
        self.change(at, |change| {
            for (_, number) in extents {
                let sql = "delete from extent where store = ?1 and number = ?2 and volume = ?3";
                change.execute(sql, params![at.store, number, id])?;
            }
            Ok(())
        })
    }

    /// Records the generation of a store after a change that the catalog does not have.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn advance(&mut self, at: At<'_>) -> anyhow::Result<()> {
        self.change(at, |_| Ok(()))
    }

    /// Moves in progress, by volume id: destination store and copy rate in bytes/s.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn moves(&self) -> anyhow::Result<BTreeMap<u32, (String, u64)>> {
        let mut read = self.file.prepare("select volume, store, bytes_per_second from move")?;
        let moves = read.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get::<_, i64>(2)?.cast_unsigned()))))?;
        Ok(moves.collect::<Result<_, _>>()?)
    }

    /// Records the start of a move.
    ///
    /// # Errors
    /// The database cannot be written, or the volume is being moved already.
    pub fn begin_move(&self, id: u32, store: &str, bytes_per_second: u64) -> anyhow::Result<()> {
        let sql = "insert into move values (?1, ?2, ?3)";
        self.file.execute(sql, params![id, store, bytes_per_second.cast_signed()])?;
        Ok(())
    }

    /// Records that a move was cancelled; the volume keeps its store and extents.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn cancel_move(&self, id: u32) -> anyhow::Result<()> {
        self.file.execute("delete from move where volume = ?1", [id])?;
        Ok(())
    }

    /// Ends a move: replaces the store and the extents of a volume in one transaction.
    ///
    /// # Errors
    /// The database cannot be written, or an extent is in use.
    pub fn finish_move(&mut self, id: u32, extents: &[(u32, u32)], at: At<'_>) -> anyhow::Result<()> {
        self.change(at, |change| {
            change.execute("delete from extent where volume = ?1", [id])?;
            insert(change, id, at.store, extents)?;
            change.execute("update volume set store = ?2, moves = moves + 1 where id = ?1", params![id, at.store])?;
            change.execute("delete from move where volume = ?1", [id])?;
            seal_volume(change, id)
        })
    }

    /// Makes a change and records the generation of its store, in one transaction.
    fn change(&mut self, at: At<'_>, make: impl FnOnce(&Transaction<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let change = self.file.transaction()?;
        make(&change)?;
        if let Some(generation) = at.generation {
            change.execute("update store set generation = ?2 where name = ?1", params![at.store, generation.cast_signed()])?;
        }
        Ok(change.commit()?)
    }
}

/// Error for a file that fails verification.
const DAMAGED: &str = "is damaged; restore it from a copy of the same time as the stores";

/// SQL expressions for the text that is checksummed, for each table.
const VOLUME_SUM: &str = "id || '|' || name || '|' || store || '|' || bytes || '|' || contract || '|' || moves
    || '|' || thick || '|' || ifnull(max_used, '')";
const EXTENT_SUM: &str = "store || '|' || number || '|' || volume || '|' || place";

/// As [`VOLUME_SUM`], in version 2.
const VOLUME_SUM_2: &str = "id || '|' || name || '|' || store || '|' || bytes || '|' || contract";

/// Checks the checksums of a table.
fn verify(file: &Connection, table: &str, sum: &str) -> anyhow::Result<()> {
    let mut read = file.prepare(&format!("select {sum}, checksum from {table}"))?;
    let mut rows = read.query([])?;
    while let Some(row) = rows.next()? {
        let (text, sum): (String, u32) = (row.get(0)?, row.get(1)?);
        ensure!(checksum(&text) == sum, "{DAMAGED}: the checksum of a row of {table} is wrong: {text}");
    }
    Ok(())
}

fn checksum(text: &str) -> u32 {
    crc32fast::hash(text.as_bytes())
}

/// Adds a volume without its extents, or sets its columns.
fn write_volume(change: &Transaction<'_>, record: &Record) -> anyhow::Result<()> {
    let Record { id, name, store, bytes, contract, moves, is_thick, max_used, .. } = record;
    let sql =
        "insert into volume (id, name, store, bytes, contract, moves, thick, max_used) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
               on conflict (id) do update set name = excluded.name, store = excluded.store, bytes = excluded.bytes,
               contract = excluded.contract, moves = excluded.moves, thick = excluded.thick, max_used = excluded.max_used";
    let max_used = max_used.map(u64::cast_signed);
    change.execute(sql, params![id, name, store, bytes.cast_signed(), contract, moves, is_thick, max_used])?;
    seal_volume(change, *id)
}

/// Updates the checksum of a volume after a change.
fn seal_volume(change: &Transaction<'_>, id: u32) -> anyhow::Result<()> {
    let text: Option<String> =
        change.query_row(&format!("select {VOLUME_SUM} from volume where id = ?1"), [id], |row| row.get(0)).optional()?;
    if let Some(text) = text {
        change.execute("update volume set checksum = ?2 where id = ?1", params![id, checksum(&text)])?;
    }
    Ok(())
}

/// Inserts extents, given as place and number.
fn insert(change: &Transaction<'_>, id: u32, store: &str, extents: &[(u32, u32)]) -> anyhow::Result<()> {
    let mut insert = change.prepare("insert into extent (store, number, volume, place, checksum) values (?1, ?2, ?3, ?4, ?5)")?;
    for (place, number) in extents {
        insert.execute(params![store, number, id, place, checksum(&format!("{store}|{number}|{id}|{place}"))])?;
    }
    Ok(())
}

/// Creates the file under a temporary name and renames it, so that an empty file at `path` is known to be damaged.
fn create(path: &Path, uuid: Uuid) -> anyhow::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    match std::fs::remove_file(new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = Connection::open(new)?;
    file.pragma_update(None, "synchronous", "full")?;
    let sql = format!(
        "begin exclusive; {SCHEMA} {MOVES} {IDENTITY} insert into catalog values ('{uuid}'); pragma user_version = {VERSION}; commit;"
    );
    file.execute_batch(&sql)?;
    file.close().map_err(|(_, error)| error)?;
    // Logs left over from a removed catalog must not be replayed into the new one.
    for left in ["-wal", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(left);
        let is_left = Path::new(&name).try_exists()?;
        ensure!(!is_left, "is missing, and {} is there: bring it back, or remove this file as well", Path::new(&name).display());
    }
    std::fs::rename(new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder)?.sync_all()?;
    Ok(())
}

/// Upgrades a file from an earlier version to [`VERSION`].
fn upgrade(file: &mut Connection, from: i64) -> anyhow::Result<()> {
    let uuid = Uuid::random()?;
    let change = file.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)?;
    if from == 1 {
        change.execute_batch(&format!("{CHECKSUMS} {MOVES}"))?;
    } else {
        verify(&change, "volume", VOLUME_SUM_2)?;
    }
    change.execute_batch(&format!("{VERSIONS} {IDENTITY} insert into catalog values ('{uuid}');"))?;
    // Space of a volume that has all of it was perhaps meant to stay.
    let sql = "update volume set thick = 1 where (select count(*) from extent where volume = volume.id) * ?1 >= bytes";
    change.execute(sql, [EXTENT_BYTES.cast_signed()])?;
    let ids = change.prepare("select id from volume")?.query_map([], |row| row.get(0))?.collect::<Result<Vec<u32>, _>>()?;
    for id in ids {
        seal_volume(&change, id)?;
    }
    if from == 1 {
        let read = "select store, number, volume, place from extent";
        let extents: Vec<(String, u32, u32, u32)> = change
            .prepare(read)?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
            .collect::<Result<_, _>>()?;
        for (store, number, volume, place) in extents {
            let sum = checksum(&format!("{store}|{number}|{volume}|{place}"));
            change.execute("update extent set checksum = ?3 where store = ?1 and number = ?2", params![store, number, sum])?;
        }
    }
    change.pragma_update(None, "user_version", VERSION)?;
    Ok(change.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(store: &str) -> At<'_> {
        At { store, generation: None }
    }

    /// Adds stores without labels.
    fn add_stores(catalog: &mut Catalog, names: &[&str]) {
        let record = |name: &&str| StoreRecord { name: (*name).to_owned(), extents: 100, version: None };
        let volumes = catalog.volumes().unwrap();
        catalog.reconcile(&names.iter().map(record).collect::<Vec<_>>(), &volumes).unwrap();
    }

    fn create(catalog: &mut Catalog, name: &str, store: &str, bytes: u64, contract: &str) -> anyhow::Result<u32> {
        let id = catalog.next_id()?;
        let (name, store, contract) = (name.to_owned(), store.to_owned(), contract.to_owned());
        catalog.create(
            &Record {
                id,
                name,
                store: store.clone(),
                bytes,
                contract,
                moves: 0,
                is_thick: false,
                max_used: None,
                extents: Vec::new(),
            },
            at(&store),
        )?;
        Ok(id)
    }

    #[test]
    fn what_was_written_is_there_after_opening_again_and_freed_extents_are_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.db");
        let mut catalog = Catalog::open(&path).unwrap();
        add_stores(&mut catalog, &["a"]);
        let id = create(&mut catalog, "one", "a", 3 * EXTENT_BYTES, "weight = 2").unwrap();
        catalog.allocate(id, &[(0, 4), (2, 5)], at("a")).unwrap();
        assert!(create(&mut catalog, "one", "a", 1, "").unwrap_err().to_string().contains("of this name"));
        assert!(catalog.allocate(id, &[(1, 4)], at("a")).is_err(), "an extent has one owner");
        drop(catalog);
        let mut catalog = Catalog::open(&path).unwrap();
        let record = catalog.volumes().unwrap().remove(0);
        assert_eq!((record.id, record.extents.as_slice(), record.contract.as_str()), (id, &[(0, 4), (2, 5)][..], "weight = 2"));
        let smaller = Record { bytes: EXTENT_BYTES + 1, ..catalog.volumes().unwrap().remove(0) };
        catalog.resize(&smaller, at("a")).unwrap();
        assert_eq!(catalog.volumes().unwrap()[0].extents, [(0, 4)]);
        catalog.allocate(id, &[(0, 7)], at("a")).unwrap();
        catalog.free(id, &[(0, 4)], at("a")).unwrap();
        assert_eq!(catalog.volumes().unwrap()[0].extents, [(0, 7)], "trimmed, and written again before it was freed");
        catalog.delete(id, at("a")).unwrap();
        let other = create(&mut catalog, "two", "a", EXTENT_BYTES, "").unwrap();
        catalog.allocate(other, &[(0, 4)], at("a")).unwrap();
        assert_ne!(other, id);
    }

    #[test]
    fn a_move_is_in_the_file_from_beginning_to_end_and_changes_the_store_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.db");
        let mut catalog = Catalog::open(&path).unwrap();
        add_stores(&mut catalog, &["a", "b"]);
        let id = create(&mut catalog, "one", "a", 3 * EXTENT_BYTES, "").unwrap();
        catalog.allocate(id, &[(0, 4), (2, 5)], at("a")).unwrap();
        catalog.begin_move(id, "b", 7).unwrap();
        assert!(catalog.begin_move(id, "a", 7).is_err(), "one move at a time");
        drop(catalog);
        let mut catalog = Catalog::open(&path).unwrap();
        assert_eq!(catalog.moves().unwrap(), [(id, ("b".to_owned(), 7))].into());
        catalog.cancel_move(id).unwrap();
        catalog.begin_move(id, "b", 8).unwrap();
        let other = create(&mut catalog, "two", "b", EXTENT_BYTES, "").unwrap();
        catalog.allocate(other, &[(0, 1)], at("b")).unwrap();
        assert!(catalog.finish_move(id, &[(0, 0), (2, 1)], at("b")).is_err(), "extent 1 is of another volume");
        let record = |catalog: &Catalog| catalog.volumes().unwrap().remove(0);
        assert_eq!((record(&catalog).store.as_str(), record(&catalog).extents), ("a", vec![(0, 4), (2, 5)]), "all or nothing");
        catalog.finish_move(id, &[(0, 0), (2, 2)], at("b")).unwrap();
        drop(catalog);
        let catalog = Catalog::open(&path).unwrap();
        assert_eq!((record(&catalog).store.as_str(), record(&catalog).extents), ("b", vec![(0, 0), (2, 2)]));
        assert!(catalog.moves().unwrap().is_empty());
    }

    /// With any byte changed, the file is either refused or read with its original contents.
    #[test]
    fn a_damaged_file_is_refused_and_never_says_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let (path, damaged) = (folder.path().join("serve.db"), folder.path().join("damaged.db"));
        let mut catalog = Catalog::open(&path).unwrap();
        add_stores(&mut catalog, &["a"]);
        let id = create(&mut catalog, "one", "a", 60 * EXTENT_BYTES, "weight = 2").unwrap();
        catalog.allocate(id, &(0..40).map(|place| (place, 59 - place)).collect::<Vec<_>>(), at("a")).unwrap();
        let said = catalog.volumes().unwrap();
        drop(catalog);
        let whole = std::fs::read(&path).unwrap();
        assert!(!path.with_extension("db-wal").exists(), "all of it is in one file");
        let mut refused = 0;
        let mut look = |bytes: &[u8], what: &str| {
            std::fs::write(&damaged, bytes).unwrap();
            match Catalog::open(&damaged).and_then(|catalog| catalog.volumes()) {
                Ok(found) => assert!(found == said, "{what}: {found:?}"),
                Err(error) => {
                    refused += 1;
                    assert!(format!("{error:#}").len() > 10, "{what}: {error:#}");
                }
            }
        };
        let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
        for at in used.iter().step_by(19) {
            let mut bytes = whole.clone();
            bytes[*at] ^= 1 << (at % 8);
            look(&bytes, &format!("byte {at}"));
        }
        for length in (0..whole.len()).step_by(1111) {
            look(&whole[..length], &format!("{length} bytes"));
        }
        assert!(refused > used.len() / 38, "{refused}");
        std::fs::write(&damaged, &whole[..whole.len() / 2]).unwrap();
        let error = format!("{:#}", Catalog::open(&damaged).err().unwrap());
        assert!(error.contains("is damaged; restore it"), "{error}");
    }

    #[test]
    fn a_file_of_an_earlier_version_is_taken_over() {
        for version in [1, 2] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("serve.db");
            let file = Connection::open(&path).unwrap();
            let checked = |row: &str| if version == 1 { String::new() } else { format!(", {}", checksum(row)) };
            let column = if version == 1 { "" } else { ", checksum integer not null default 0" };
            file.execute_batch(&format!(
                "create table store (name text primary key, extents integer not null) strict;
                 create table volume (id integer primary key autoincrement, name text not null unique, store text not null references store (name),
                     bytes integer not null, contract text not null{column}) strict;
                 create table extent (store text not null references store (name), number integer not null,
                     volume integer not null references volume (id) on delete cascade, place integer not null{column},
                     primary key (store, number), unique (volume, place)) strict, without rowid;
                 {}
                 insert into store values ('a', 9);
                 insert into volume values (3, 'one', 'a', {EXTENT_BYTES}, 'weight = 2'{});
                 insert into extent values ('a', 4, 3, 0{});
                 pragma user_version = {version};",
                if version == 1 { "" } else { MOVES },
                checked(&format!("3|one|a|{EXTENT_BYTES}|weight = 2")),
                checked("a|4|3|0")
            ))
            .unwrap();
            drop(file);
            let uuid = Catalog::open(&path).unwrap().uuid().unwrap();
            let catalog = Catalog::open(&path).unwrap();
            let record = catalog.volumes().unwrap().remove(0);
            assert_eq!((record.id, record.extents.as_slice(), record.contract.as_str()), (3, &[(0, 4)][..], "weight = 2"));
            assert_eq!((catalog.uuid().unwrap(), catalog.stores().unwrap()), (uuid, [("a".to_owned(), None)].into()));
        }
    }

    #[test]
    fn a_file_of_another_server_or_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.db");
        let catalog = Catalog::open(&path).unwrap();
        assert!(Catalog::open(&path).is_err());
        catalog.file.pragma_update(None, "user_version", 9).unwrap();
        drop(catalog);
        assert!(Catalog::open(&path).err().unwrap().to_string().contains("version 9"));
    }
}
