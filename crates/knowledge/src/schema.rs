//! The tables, and migration from earlier versions.

use rusqlite::{Connection, TransactionBehavior};

/// SQLite's `application_id` of every knowledge base: "SkWs". `file` and the like can tell it from other databases by that.
pub(super) const APPLICATION: i32 = i32::from_be_bytes(*b"SkWs");

/// The migrations, one per version; a file's `user_version` is the number of those applied. A new version appends one: released ones never
/// change.
pub(super) static STEPS: &[&str] = &[VERSION_1];

/// Rows are small: runs, settings and lists of features are stored once and referred to by number. Features are 8 bytes
/// each, little-endian IEEE 754, in the order of their list. Times are nanoseconds by the clock of their run; `_s` is seconds. Where
/// a number has no value there is NULL, in `features` NaN.
const VERSION_1: &str = "
CREATE TABLE runs (
  run INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16), -- the same in every file that knows the run
  began_s INTEGER NOT NULL,                        -- since 1970
  plant TEXT NOT NULL,
  device TEXT NOT NULL,
  source TEXT NOT NULL,                            -- the workload or trace
  seed TEXT,                                       -- decimal: SQLite's integers end at 2^63-1
  program TEXT NOT NULL
) STRICT;

CREATE TABLE settings (
  setting INTEGER PRIMARY KEY,
  plant TEXT NOT NULL,
  device TEXT NOT NULL,
  text TEXT NOT NULL,
  UNIQUE (plant, device, text)
) STRICT;

CREATE TABLE feature_lists (
  list INTEGER PRIMARY KEY,
  names TEXT NOT NULL UNIQUE -- a JSON array
) STRICT;

CREATE TABLE windows (
  window INTEGER PRIMARY KEY, -- ascending in the order of recording
  run INTEGER NOT NULL REFERENCES runs,
  number INTEGER NOT NULL,
  setting INTEGER NOT NULL REFERENCES settings,
  from_ns INTEGER NOT NULL,
  to_ns INTEGER NOT NULL,
  list INTEGER NOT NULL REFERENCES feature_lists,
  features BLOB NOT NULL,
  requests INTEGER NOT NULL,
  waited_for INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  mean_response_s REAL,
  waited_s REAL,
  p99_response_s REAL,
  max_response_s REAL,
  mean_service_s REAL,
  fairness REAL,
  unfinished INTEGER NOT NULL,
  calls INTEGER,
  call_bytes INTEGER,
  call_waited_s REAL,
  UNIQUE (run, number)
) STRICT;
CREATE INDEX windows_by_setting ON windows (setting);
CREATE INDEX windows_by_list ON windows (list);

CREATE TABLE decisions (
  decision INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES runs,
  number INTEGER NOT NULL,
  at_ns INTEGER NOT NULL,
  window_number INTEGER, -- of the same run
  from_setting INTEGER NOT NULL REFERENCES settings,
  to_setting INTEGER NOT NULL REFERENCES settings,
  why TEXT NOT NULL,
  expected_gain REAL,
  measured_gain REAL,
  refused TEXT,
  UNIQUE (run, number)
) STRICT;
CREATE INDEX decisions_by_window ON decisions (run, window_number);
CREATE INDEX decisions_by_from ON decisions (from_setting);
CREATE INDEX decisions_by_to ON decisions (to_setting);

-- A decision goes with the window it was made on.
CREATE TRIGGER window_gone AFTER DELETE ON windows BEGIN
  DELETE FROM decisions WHERE run = OLD.run AND window_number = OLD.number;
END;

CREATE TABLE requests (
  request INTEGER PRIMARY KEY, -- ascending in the order of recording
  run INTEGER NOT NULL REFERENCES runs,
  number INTEGER NOT NULL,
  op TEXT NOT NULL CHECK (op IN ('R', 'W', 'D')),
  lba INTEGER NOT NULL,
  sectors INTEGER NOT NULL,
  sync INTEGER NOT NULL CHECK (sync IN (0, 1)),
  distance INTEGER NOT NULL,   -- sectors from the end of the request before
  queued_ns INTEGER NOT NULL,
  dispatched_ns INTEGER NOT NULL,
  done_ns INTEGER NOT NULL,
  UNIQUE (run, number)
) STRICT;

CREATE TABLE models (
  model INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  json TEXT NOT NULL,
  trained_s INTEGER NOT NULL, -- since 1970
  list INTEGER NOT NULL REFERENCES feature_lists
) STRICT;
CREATE INDEX models_by_name ON models (name, trained_s);
CREATE INDEX models_by_list ON models (list);
";

/// Kind of a database file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// An empty database.
    Nothing,
    /// A knowledge base of this schema version.
    Version(u32),
    /// Another program's database.
    Other,
    /// A knowledge base with a view or a trigger of another's.
    ForeignCode,
}

/// Whether the schema has a view, or a trigger other than those that the migrations so far make. A query would run it, and it may run for ever.
pub(super) fn has_foreign_code(connection: &Connection, steps: &[&str]) -> rusqlite::Result<bool> {
    let of = |connection: &Connection| -> rusqlite::Result<Vec<(String, Option<String>)>> {
        let mut query = connection.prepare("SELECT type, sql FROM sqlite_schema WHERE type IN ('view', 'trigger')")?;
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    let found = of(connection)?;
    if found.is_empty() {
        return Ok(false);
    }
    let ours = Connection::open_in_memory()?;
    steps.iter().try_for_each(|step| ours.execute_batch(step))?;
    let ours = of(&ours)?;
    Ok(found.iter().any(|one| !ours.contains(one)))
}

/// The kind of an open database.
pub(super) fn file_kind(connection: &Connection) -> rusqlite::Result<FileKind> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    Ok(match u32::try_from(version) {
        Ok(version) if application == i64::from(APPLICATION) && version > 0 => FileKind::Version(version),
        Ok(0) if application == 0 && number("SELECT count(*) FROM sqlite_master")? == 0 => FileKind::Nothing,
        _ => FileKind::Other,
    })
}

/// Migrates an empty database or one of an earlier version to the last of the steps, in one transaction.
pub(super) fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another program may have done it while this one waited for the lock.
    let done = match file_kind(&transaction)? {
        FileKind::Version(version) => version as usize,
        FileKind::Nothing => 0,
        FileKind::Other | FileKind::ForeignCode => steps.len(),
    };
    for (number, step) in steps.iter().enumerate().skip(done) {
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", number + 1)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::super::open::{Access, open};
    use super::super::{Knowledge, Problem, Retention};
    use super::*;

    /// The steps of a possible next version.
    fn later() -> Vec<&'static str> {
        [STEPS, &["ALTER TABLE runs ADD COLUMN remark TEXT; CREATE TABLE remarks (remark TEXT) STRICT;"]].concat()
    }

    fn version(connection: &Connection) -> FileKind {
        file_kind(connection).unwrap()
    }

    #[test]
    fn a_file_of_an_earlier_version_is_migrated_with_its_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kb");
        let connection = open(&path, Access::Create, STEPS).unwrap();
        connection.execute("INSERT INTO runs VALUES (1, zeroblob(16), 0, 'a', 'b', 'c', NULL, 'd')", []).unwrap();
        drop(connection);
        let connection = open(&path, Access::Write, &later()).unwrap();
        assert_eq!(version(&connection), FileKind::Version(STEPS.len() as u32 + 1));
        assert_eq!(
            connection.query_row("SELECT device, remark FROM runs", [], |row| Ok((row.get(0)?, row.get(1)?))),
            Ok(("b".to_owned(), None::<String>))
        );
        let refused = Knowledge::open(&path).unwrap_err();
        assert!(matches!(refused.problem, Problem::Newer { .. }), "{refused}");
    }

    #[test]
    fn opening_an_earlier_version_to_read_names_the_migration_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kb");
        drop(open(&path, Access::Create, STEPS).unwrap());
        let refused = open(&path, Access::Read, &later()).unwrap_err();
        assert!(refused.to_string().contains("run `seekwise kb prune` on it once"), "{refused}");
        Knowledge::open(&path).unwrap().prune(&Retention::default()).unwrap();
    }

    #[test]
    fn a_step_that_fails_leaves_the_earlier_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kb");
        drop(open(&path, Access::Create, STEPS).unwrap());
        let broken = [&later()[..], &["CREATE TABLE remarks (twice TEXT) STRICT"]].concat();
        open(&path, Access::Write, &broken).unwrap_err();
        let connection = open(&path, Access::Write, STEPS).unwrap();
        assert_eq!(version(&connection), FileKind::Version(STEPS.len() as u32));
    }
}
