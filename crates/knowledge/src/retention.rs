//! Retention: deletes old rows to keep the file small.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::Knowledge;
use super::error::{KnowledgeError, Problem};

/// Numbers of rows that are kept, the most recently recorded first; merged and imported rows count as recorded at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Windows per plant, device and setting, so that frequent settings do not displace rare ones. Decisions are deleted with their window.
    pub windows: u64,
    /// Requests in all.
    pub requests: u64,
    /// Models per name, the last trained.
    pub models: u64,
    /// Maximum size of the file in MiB (2^20 bytes). The last model of each name and one window per setting stay in any case.
    pub max_mib: u64,
}

impl Default for Retention {
    /// About a day of one-second windows for each of dozens of settings.
    fn default() -> Retention {
        Retention { windows: 10_000, requests: 1_000_000, models: 10, max_mib: 256 }
    }
}

/// Rows deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Windows.
    pub windows: u64,
    /// Decisions.
    pub decisions: u64,
    /// Requests.
    pub requests: u64,
    /// Models.
    pub models: u64,
    /// The file's size before, in bytes.
    pub bytes_before: u64,
    /// Its size after, in bytes.
    pub bytes: u64,
}

/// Approximate size of a request and of a window (with its decision), used to choose which to delete when both exceed their
/// bounds.
const REQUEST_BYTES: u64 = 90;
const WINDOW_BYTES: u64 = 500;

impl Knowledge {
    /// Deletes rows beyond the bounds and shrinks the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn prune(&mut self, retention: &Retention) -> Result<Pruned, KnowledgeError> {
        self.pruned(retention).map_err(|problem| problem.of(&self.path))
    }

    fn pruned(&mut self, retention: &Retention) -> Result<Pruned, Problem> {
        let before = counts(&self.connection)?;
        let bytes_before = pages(&self.connection)?.0;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        delete_windows(&transaction, retention.windows)?;
        delete_models(&transaction, retention.models)?;
        // Requests are numbered without gaps but for those that were there already.
        let last: Option<i64> = transaction.query_row("SELECT max(request) FROM requests", [], |row| row.get(0))?;
        let kept = i64::try_from(retention.requests).unwrap_or(i64::MAX);
        transaction.execute("DELETE FROM requests WHERE request <= ?1", [last.unwrap_or(0).saturating_sub(kept)])?;
        fit(&transaction, retention.max_mib.saturating_mul(1 << 20))?;
        delete_unused(&transaction)?;
        transaction.commit()?;
        match self.shrink_file() {
            // The rows are deleted; the pages are returned another time.
            Err(Problem::Interrupted) => {}
            shrunk => shrunk?,
        }
        let after = counts(&self.connection)?;
        let bytes = pages(&self.connection)?.0;
        let [windows, decisions, requests, models] = std::array::from_fn(|i| before[i].saturating_sub(after[i]));
        Ok(Pruned { windows, decisions, requests, models, bytes_before, bytes })
    }

    /// Whether the data in the file exceeds its bound.
    pub(super) fn is_beyond(&self, retention: &Retention) -> Result<bool, KnowledgeError> {
        let (_, used) = self.read(pages)?;
        Ok(used > retention.max_mib.saturating_mul(1 << 20))
    }

    /// Returns free pages to the file system.
    fn shrink_file(&self) -> Result<(), Problem> {
        let mut free = self.connection.prepare("PRAGMA incremental_vacuum")?;
        let mut rows = free.query([])?;
        // It frees a page per step.
        while rows.next()?.is_some() {}
        drop(rows);
        // If a reader blocks it, the log is emptied another time.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        Ok(())
    }
}

/// Deletes rows until the rest takes less than this; then some more, so that the next rows do not exceed it at once.
fn fit(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    if pages(connection)?.1 <= bytes {
        return Ok(());
    }
    while pages(connection)?.1 > bytes / 8 * 7 && delete_an_eighth(connection)? {}
    Ok(())
}

/// The file's size and its used part, in bytes.
pub(super) fn pages(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0));
    let (size, count, free) = (number("PRAGMA page_size")?, number("PRAGMA page_count")?, number("PRAGMA freelist_count")?);
    Ok((size * count, size * count.saturating_sub(free)))
}

/// Windows, decisions, requests, models.
pub(super) fn counts(connection: &Connection) -> rusqlite::Result<[u64; 4]> {
    let count = |table: &str| connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
    Ok([count("windows")?, count("decisions")?, count("requests")?, count("models")?])
}

fn delete_windows(connection: &Connection, kept: u64) -> rusqlite::Result<usize> {
    let kept = i64::try_from(kept).unwrap_or(i64::MAX);
    let settings: Vec<i64> =
        connection.prepare_cached("SELECT setting FROM settings")?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut find =
        connection.prepare_cached("SELECT window FROM windows WHERE setting = ?1 ORDER BY window DESC LIMIT 1 OFFSET ?2")?;
    let mut delete = connection.prepare_cached("DELETE FROM windows WHERE setting = ?1 AND window <= ?2")?;
    let mut deleted = 0;
    for setting in settings {
        if let Some(last) = find.query_row(params![setting, kept], |row| row.get::<_, i64>(0)).optional()? {
            deleted += delete.execute(params![setting, last])?;
        }
    }
    Ok(deleted)
}

fn delete_models(connection: &Connection, kept: u64) -> rusqlite::Result<usize> {
    let kept = i64::try_from(kept).unwrap_or(i64::MAX);
    connection.execute(
        "DELETE FROM models WHERE model IN (SELECT model FROM
           (SELECT model, row_number() OVER (PARTITION BY name ORDER BY trained_s DESC, model DESC) AS place FROM models)
         WHERE place > ?1)",
        [kept],
    )
}

/// Deletes an eighth of the table that takes most space; false if nothing more may be deleted.
fn delete_an_eighth(connection: &Connection) -> rusqlite::Result<bool> {
    let [windows, _, requests, _] = counts(connection)?;
    let most: u64 = connection.query_row(
        "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM windows GROUP BY setting)",
        [],
        |row| row.get(0),
    )?;
    if requests > 0 && (requests * REQUEST_BYTES >= windows * WINDOW_BYTES || most <= 1) {
        let eighth = i64::try_from(requests / 8 + 1).unwrap_or(i64::MAX);
        let oldest = "DELETE FROM requests WHERE request IN (SELECT request FROM requests ORDER BY request LIMIT ?1)";
        return Ok(connection.execute(oldest, [eighth])? > 0);
    }
    if most > 1 {
        return Ok(delete_windows(connection, (most * 7 / 8).max(1))? > 0);
    }
    let most: u64 =
        connection
            .query_row("SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM models GROUP BY name)", [], |row| row.get(0))?;
    Ok(most > 1 && delete_models(connection, most - 1)? > 0)
}

/// Deletes entries that no row refers to.
fn delete_unused(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DELETE FROM runs WHERE NOT EXISTS (SELECT 1 FROM windows w WHERE w.run = runs.run)
           AND NOT EXISTS (SELECT 1 FROM decisions d WHERE d.run = runs.run)
           AND NOT EXISTS (SELECT 1 FROM requests q WHERE q.run = runs.run);
         DELETE FROM settings WHERE NOT EXISTS (SELECT 1 FROM windows w WHERE w.setting = settings.setting)
           AND NOT EXISTS (SELECT 1 FROM decisions d WHERE d.from_setting = settings.setting)
           AND NOT EXISTS (SELECT 1 FROM decisions d WHERE d.to_setting = settings.setting);
         DELETE FROM feature_lists WHERE NOT EXISTS (SELECT 1 FROM windows w WHERE w.list = feature_lists.list)
           AND NOT EXISTS (SELECT 1 FROM models m WHERE m.list = feature_lists.list);",
    )
}
