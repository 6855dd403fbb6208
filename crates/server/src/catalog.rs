//! The volumes, and their extents on stores: one SQLite file, written before it is needed.

use std::path::Path;

use anyhow::{Context, bail};
use rusqlite::{Connection, OptionalExtension as _, params};

/// Bytes of an extent.
pub const EXTENT_BYTES: u64 = 64 << 20;

/// The layout of the file.
const VERSION: i64 = 1;

const SCHEMA: &str = "
create table store (name text primary key, extents integer not null) strict;
create table volume (
    id integer primary key autoincrement,
    name text not null unique,
    store text not null references store (name),
    bytes integer not null,
    contract text not null
) strict;
create table extent (
    store text not null references store (name),
    number integer not null,
    volume integer not null references volume (id) on delete cascade,
    place integer not null,
    primary key (store, number),
    unique (volume, place)
) strict, without rowid;
";

/// A volume as it is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Never used again.
    pub id: u32,
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub store: String,
    /// Its size.
    pub bytes: u64,
    /// What it was promised: keys of a tenant in TOML.
    pub contract: String,
    /// Its extents on the store: place in the volume and number on the store.
    pub extents: Vec<(u32, u32)>,
}

/// The file. Every change is on the disk when the call returns.
pub struct Catalog {
    file: Connection,
}

impl Catalog {
    /// Opens the file, or makes one.
    ///
    /// # Errors
    /// It cannot be opened or locked, or is of another version.
    pub fn open(path: &Path) -> anyhow::Result<Catalog> {
        let file = Connection::open(path)?;
        // Of one server: another one would give the same extents away.
        file.pragma_update(None, "locking_mode", "exclusive")?;
        file.pragma_update(None, "journal_mode", "wal")?;
        file.pragma_update(None, "synchronous", "full")?;
        file.pragma_update(None, "foreign_keys", true)?;
        let version: i64 = file.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match version {
            0 => file.execute_batch(&format!("begin exclusive; {SCHEMA} pragma user_version = {VERSION}; commit;"))?,
            VERSION => file.execute_batch("begin exclusive; commit;").context("another server uses it")?,
            other => bail!("is of version {other}, and this program knows {VERSION}"),
        }
        Ok(Catalog { file })
    }

    /// Makes a store known. Its size may grow.
    ///
    /// # Errors
    /// Of the file; or extents are in use that the store no longer has.
    pub fn add_store(&self, name: &str, extents: u32) -> anyhow::Result<()> {
        let last: Option<i64> = self.file.query_row("select max(number) from extent where store = ?1", [name], |row| row.get(0))?;
        if let Some(last) = last.filter(|last| *last >= i64::from(extents)) {
            bail!("store {name}: has {extents} extents of 64 MiB, and extent {last} is in use: it has become smaller");
        }
        let sql = "insert into store values (?1, ?2) on conflict (name) do update set extents = excluded.extents";
        self.file.execute(sql, params![name, extents])?;
        Ok(())
    }

    /// Every volume, by name.
    ///
    /// # Errors
    /// Of the file.
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

    /// Writes a new volume down, and returns its id.
    ///
    /// # Errors
    /// Of the file; or there is a volume of this name.
    pub fn create(&self, name: &str, store: &str, bytes: u64, contract: &str) -> anyhow::Result<u32> {
        let there: Option<u32> =
            self.file.query_row("select id from volume where name = ?1", [name], |row| row.get(0)).optional()?;
        if there.is_some() {
            bail!("volume {name}: there is one of this name already");
        }
        let sql = "insert into volume (name, store, bytes, contract) values (?1, ?2, ?3, ?4)";
        self.file.execute(sql, params![name, store, bytes.cast_signed(), contract])?;
        Ok(u32::try_from(self.file.last_insert_rowid())?)
    }

    /// Changes the size, and frees the extents behind the end.
    ///
    /// # Errors
    /// Of the file.
    pub fn resize(&mut self, id: u32, bytes: u64) -> anyhow::Result<()> {
        let change = self.file.transaction()?;
        change.execute("update volume set bytes = ?2 where id = ?1", params![id, bytes.cast_signed()])?;
        let extents = bytes.div_ceil(EXTENT_BYTES);
        change.execute("delete from extent where volume = ?1 and place >= ?2", params![id, extents.cast_signed()])?;
        Ok(change.commit()?)
    }

    /// Changes what a volume is promised.
    ///
    /// # Errors
    /// Of the file.
    pub fn promise(&self, id: u32, contract: &str) -> anyhow::Result<()> {
        self.file.execute("update volume set contract = ?2 where id = ?1", params![id, contract])?;
        Ok(())
    }

    /// Forgets a volume, and frees its extents.
    ///
    /// # Errors
    /// Of the file.
    pub fn delete(&self, id: u32) -> anyhow::Result<()> {
        self.file.execute("delete from volume where id = ?1", [id])?;
        Ok(())
    }

    /// Gives extents of a store to places of a volume.
    ///
    /// # Errors
    /// Of the file.
    pub fn allocate(&mut self, id: u32, store: &str, extents: &[(u32, u32)]) -> anyhow::Result<()> {
        let change = self.file.transaction()?;
        for (place, number) in extents {
            change.execute("insert into extent values (?1, ?2, ?3, ?4)", params![store, number, id, place])?;
        }
        Ok(change.commit()?)
    }
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
