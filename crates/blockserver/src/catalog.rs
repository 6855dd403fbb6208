//! Catalog of volumes and their extents in one SQLite file. Write-ahead: a change is committed before a volume uses it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{bail, ensure};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Transaction, params};

/// Bytes of an extent.
pub const EXTENT_BYTES: u64 = 64 << 20;

/// Schema version of the file. Version 1 had no checksums and no moves.
const VERSION: i64 = 2;

/// The checksum of a row covers all its other columns: it detects damage that SQLite does not, such as a changed number.
const SCHEMA: &str = "
create table store (name text primary key, extents integer not null) strict;
create table volume (
    id integer primary key autoincrement,
    name text not null unique,
    store text not null references store (name),
    bytes integer not null,
    contract text not null,
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

const CHECKSUMS: &str = "
alter table volume add column checksum integer not null default 0;
alter table extent add column checksum integer not null default 0;
";

/// A volume with its extents, as recorded in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Unique; not reused after the volume is deleted.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Name of its store.
    pub store: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Contract: keys of a tenant in TOML; empty without guarantees.
    pub contract: String,
    /// Allocated extents: place in the volume and number on the store.
    pub extents: Vec<(u32, u32)>,
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
        Catalog::open_file(path).map_err(|error| {
            let code = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
            match code {
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => error.context(DAMAGED),
                Some(ErrorCode::DatabaseBusy) => error.context("another server uses it"),
                _ => error,
            }
        })
    }

    fn open_file(path: &Path) -> anyhow::Result<Catalog> {
        if !path.try_exists()? {
            create(path)?;
        }
        let mut file = Connection::open(path)?;
        // Exclusive: a second server would allocate the same extents.
        file.pragma_update(None, "locking_mode", "exclusive")?;
        file.pragma_update(None, "journal_mode", "wal")?;
        file.pragma_update(None, "synchronous", "full")?;
        file.pragma_update(None, "foreign_keys", true)?;
        let version: i64 = file.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match version {
            0 => bail!("{DAMAGED}, or delete it if it never was a catalog: it is empty, or of another program"),
            1 => upgrade(&mut file)?,
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
            let mut read = self.file.prepare(&format!("select {sum}, checksum from {table}"))?;
            let mut rows = read.query([])?;
            while let Some(row) = rows.next()? {
                let (text, sum): (String, u32) = (row.get(0)?, row.get(1)?);
                ensure!(checksum(&text) == sum, "{DAMAGED}: the checksum of a row of {table} is wrong: {text}");
            }
        }
        let sql = "select count(*) from extent join volume on volume.id = extent.volume
                   where extent.store != volume.store or place * ?1 >= bytes";
        let astray: i64 = self.file.query_row(sql, [EXTENT_BYTES.cast_signed()], |row| row.get(0))?;
        ensure!(astray == 0, "{DAMAGED}: {astray} extents are not where their volumes are");
        Ok(())
    }

    /// Registers a store, or updates its size.
    ///
    /// # Errors
    /// The database cannot be read or written, or the store has shrunk below an extent that is in use.
    pub fn add_store(&self, name: &str, extents: u32) -> anyhow::Result<()> {
        let last: Option<i64> = self.file.query_row("select max(number) from extent where store = ?1", [name], |row| row.get(0))?;
        if let Some(last) = last.filter(|last| *last >= i64::from(extents)) {
            bail!("store {name}: has {extents} extents of 64 MiB, and extent {last} is in use: it has become smaller");
        }
        let sql = "insert into store values (?1, ?2) on conflict (name) do update set extents = excluded.extents";
        self.file.execute(sql, params![name, extents])?;
        Ok(())
    }

    /// All volumes with their extents, ordered by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn volumes(&self) -> anyhow::Result<Vec<Record>> {
        let mut read = self.file.prepare("select id, name, store, bytes, contract from volume order by name")?;
        let volumes = read.query_map([], |row| {
            Ok(Record {
                id: row.get(0)?,
                name: row.get(1)?,
                store: row.get(2)?,
                bytes: row.get::<_, i64>(3)?.cast_unsigned(),
                contract: row.get(4)?,
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

    /// Records a new volume without extents and returns its id.
    ///
    /// # Errors
    /// The database cannot be read or written, or the name is taken.
    pub fn create(&mut self, name: &str, store: &str, bytes: u64, contract: &str) -> anyhow::Result<u32> {
        let there: Option<u32> =
            self.file.query_row("select id from volume where name = ?1", [name], |row| row.get(0)).optional()?;
        if there.is_some() {
            bail!("volume {name}: there is one of this name already");
        }
        let change = self.file.transaction()?;
        let sql = "insert into volume (name, store, bytes, contract) values (?1, ?2, ?3, ?4)";
        change.execute(sql, params![name, store, bytes.cast_signed(), contract])?;
        let id = u32::try_from(change.last_insert_rowid())?;
        seal_volume(&change, id)?;
        change.commit()?;
        Ok(id)
    }

    /// Sets the size of a volume and frees the extents beyond its end.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn resize(&mut self, id: u32, bytes: u64) -> anyhow::Result<()> {
        let change = self.file.transaction()?;
        change.execute("update volume set bytes = ?2 where id = ?1", params![id, bytes.cast_signed()])?;
        let extents = bytes.div_ceil(EXTENT_BYTES);
        change.execute("delete from extent where volume = ?1 and place >= ?2", params![id, extents.cast_signed()])?;
        seal_volume(&change, id)?;
        Ok(change.commit()?)
    }

    /// Sets the contract of a volume.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn promise(&mut self, id: u32, contract: &str) -> anyhow::Result<()> {
        let change = self.file.transaction()?;
        change.execute("update volume set contract = ?2 where id = ?1", params![id, contract])?;
        seal_volume(&change, id)?;
        Ok(change.commit()?)
    }

    /// Removes a volume and frees its extents.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn delete(&self, id: u32) -> anyhow::Result<()> {
        self.file.execute("delete from volume where id = ?1", [id])?;
        Ok(())
    }

    /// Records extents, as place and number, that a volume is given on a store.
    ///
    /// # Errors
    /// The database cannot be written, or an extent is in use.
    pub fn allocate(&mut self, id: u32, store: &str, extents: &[(u32, u32)]) -> anyhow::Result<()> {
        let change = self.file.transaction()?;
        insert(&change, id, store, extents)?;
        Ok(change.commit()?)
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
    pub fn finish_move(&mut self, id: u32, store: &str, extents: &[(u32, u32)]) -> anyhow::Result<()> {
        let change = self.file.transaction()?;
        change.execute("delete from extent where volume = ?1", [id])?;
        insert(&change, id, store, extents)?;
        change.execute("update volume set store = ?2 where id = ?1", params![id, store])?;
        change.execute("delete from move where volume = ?1", [id])?;
        seal_volume(&change, id)?;
        Ok(change.commit()?)
    }
}

/// Error for a file that fails verification.
const DAMAGED: &str = "is damaged; restore it from a copy of the same time as the stores";

/// SQL expressions for the text that is checksummed, for each table.
const VOLUME_SUM: &str = "id || '|' || name || '|' || store || '|' || bytes || '|' || contract";
const EXTENT_SUM: &str = "store || '|' || number || '|' || volume || '|' || place";

fn checksum(text: &str) -> u32 {
    crc32fast::hash(text.as_bytes())
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
fn create(path: &Path) -> anyhow::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    match std::fs::remove_file(new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = Connection::open(new)?;
    file.pragma_update(None, "synchronous", "full")?;
    file.execute_batch(&format!("begin exclusive; {SCHEMA} {MOVES} pragma user_version = {VERSION}; commit;"))?;
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

/// Upgrades a file from version 1 to [`VERSION`].
fn upgrade(file: &mut Connection) -> anyhow::Result<()> {
    let change = file.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)?;
    change.execute_batch(&format!("{CHECKSUMS} {MOVES}"))?;
    let ids = change.prepare("select id from volume")?.query_map([], |row| row.get(0))?.collect::<Result<Vec<u32>, _>>()?;
    for id in ids {
        seal_volume(&change, id)?;
    }
    let read = "select store, number, volume, place from extent";
    let extents: Vec<(String, u32, u32, u32)> = change
        .prepare(read)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<Result<_, _>>()?;
    for (store, number, volume, place) in extents {
        let sum = checksum(&format!("{store}|{number}|{volume}|{place}"));
        change.execute("update extent set checksum = ?3 where store = ?1 and number = ?2", params![store, number, sum])?;
    }
    change.pragma_update(None, "user_version", VERSION)?;
    Ok(change.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_there_after_opening_again_and_freed_extents_are_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.db");
        let mut catalog = Catalog::open(&path).unwrap();
        catalog.add_store("a", 10).unwrap();
        let id = catalog.create("one", "a", 3 * EXTENT_BYTES, "weight = 2").unwrap();
        catalog.allocate(id, "a", &[(0, 4), (2, 5)]).unwrap();
        assert!(catalog.create("one", "a", 1, "").unwrap_err().to_string().contains("of this name"));
        assert!(catalog.allocate(id, "a", &[(1, 4)]).is_err(), "an extent has one owner");
        drop(catalog);
        let mut catalog = Catalog::open(&path).unwrap();
        let record = catalog.volumes().unwrap().remove(0);
        assert_eq!((record.id, record.extents.as_slice(), record.contract.as_str()), (id, &[(0, 4), (2, 5)][..], "weight = 2"));
        assert!(catalog.add_store("a", 5).unwrap_err().to_string().contains("extent 5 is in use"));
        catalog.resize(id, EXTENT_BYTES + 1).unwrap();
        assert_eq!(catalog.volumes().unwrap()[0].extents, [(0, 4)]);
        catalog.delete(id).unwrap();
        let other = catalog.create("two", "a", EXTENT_BYTES, "").unwrap();
        catalog.allocate(other, "a", &[(0, 4)]).unwrap();
        assert_ne!(other, id);
    }

    #[test]
    fn a_move_is_in_the_file_from_beginning_to_end_and_changes_the_store_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.db");
        let mut catalog = Catalog::open(&path).unwrap();
        catalog.add_store("a", 10).unwrap();
        catalog.add_store("b", 10).unwrap();
        let id = catalog.create("one", "a", 3 * EXTENT_BYTES, "").unwrap();
        catalog.allocate(id, "a", &[(0, 4), (2, 5)]).unwrap();
        catalog.begin_move(id, "b", 7).unwrap();
        assert!(catalog.begin_move(id, "a", 7).is_err(), "one move at a time");
        drop(catalog);
        let mut catalog = Catalog::open(&path).unwrap();
        assert_eq!(catalog.moves().unwrap(), [(id, ("b".to_owned(), 7))].into());
        catalog.cancel_move(id).unwrap();
        catalog.begin_move(id, "b", 8).unwrap();
        let other = catalog.create("two", "b", EXTENT_BYTES, "").unwrap();
        catalog.allocate(other, "b", &[(0, 1)]).unwrap();
        assert!(catalog.finish_move(id, "b", &[(0, 0), (2, 1)]).is_err(), "extent 1 is of another volume");
        let record = |catalog: &Catalog| catalog.volumes().unwrap().remove(0);
        assert_eq!((record(&catalog).store.as_str(), record(&catalog).extents), ("a", vec![(0, 4), (2, 5)]), "all or nothing");
        catalog.finish_move(id, "b", &[(0, 0), (2, 2)]).unwrap();
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
        catalog.add_store("a", 100).unwrap();
        let id = catalog.create("one", "a", 60 * EXTENT_BYTES, "weight = 2").unwrap();
        catalog.allocate(id, "a", &(0..40).map(|place| (place, 59 - place)).collect::<Vec<_>>()).unwrap();
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
    fn a_file_of_version_1_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.db");
        let file = Connection::open(&path).unwrap();
        let schema = SCHEMA
            .replace(",\n    checksum integer not null default 0\n", "\n")
            .replace("    checksum integer not null default 0,\n", "");
        file.execute_batch(&format!(
            "{schema} insert into store values ('a', 9); insert into volume values (3, 'one', 'a', {EXTENT_BYTES}, 'weight = 2');
             insert into extent values ('a', 4, 3, 0); pragma user_version = 1;"
        ))
        .unwrap();
        drop(file);
        drop(Catalog::open(&path).unwrap());
        let record = Catalog::open(&path).unwrap().volumes().unwrap().remove(0);
        assert_eq!((record.id, record.extents.as_slice(), record.contract.as_str()), (3, &[(0, 4)][..], "weight = 2"));
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
