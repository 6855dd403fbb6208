//! Retention: deletes old rows to keep the file small.

use rusqlite::Connection;

use super::Knowledge;
use super::database::{Begin, Database, Reader, values};
use super::error::{KnowledgeError, Problem};

/// Limits on stored rows; the oldest beyond a limit are deleted. Merged and imported rows count as recorded at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Windows per plant, device and setting, so that frequent settings do not displace rare ones. Decisions are deleted with their window.
    pub windows: u64,
    /// Maximum number of requests.
    pub requests: u64,
    /// Models per name; the most recently trained are kept.
    pub models: u64,
    /// Maximum size of the file in MiB (2^20 bytes). The last model of each name and one window per setting are always kept.
    pub max_mib: u64,
}

impl Default for Retention {
    /// About a day of one-second windows for each of dozens of settings.
    fn default() -> Retention {
        Retention { windows: 10_000, requests: 1_000_000, models: 10, max_mib: 256 }
    }
}

/// Numbers of rows deleted by [`prune`](Knowledge::prune), and the change in size.
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

/// Approximate size of a request and of a window (with its decision), used to choose which to delete when both exceed their bounds.
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
        let database = &self.database;
        let before = counts(database)?;
        let bytes_before = pages(database)?.0;
        let transaction = database.begin(Begin::Runs)?;
        delete_windows(&transaction, retention.windows)?;
        delete_models(&transaction, retention.models)?;
        // Request numbers are contiguous except for duplicates that were ignored.
        let last = transaction.number("SELECT coalesce(max(request), 0) FROM requests", &[])?.cast_signed();
        let kept = i64::try_from(retention.requests).unwrap_or(i64::MAX);
        transaction.execute("DELETE FROM requests WHERE request <= ?1", values![last.saturating_sub(kept)])?;
        fit(&transaction, retention.max_mib.saturating_mul(1 << 20))?;
        delete_unused(&transaction)?;
        transaction.commit()?;
        match database.sqlite().map_or(Ok(()), shrink_file) {
            // The rows are deleted; a later call frees the pages.
            Err(Problem::Interrupted) => {}
            shrunk => shrunk?,
        }
        let after = counts(database)?;
        let bytes = pages(database)?.0;
        let [windows, decisions, requests, models] = std::array::from_fn(|i| before[i].saturating_sub(after[i]));
        Ok(Pruned { windows, decisions, requests, models, bytes_before, bytes })
    }

    /// Whether the data exceed `max_mib`.
    pub(super) fn is_beyond(&self, retention: &Retention) -> Result<bool, KnowledgeError> {
        let (_, used) = self.read(pages)?;
        Ok(used > retention.max_mib.saturating_mul(1 << 20))
    }
}

/// Returns free pages to the file system.
fn shrink_file(file: &Connection) -> Result<(), Problem> {
    let mut free = file.prepare("PRAGMA incremental_vacuum")?;
    let mut rows = free.query([])?;
    // Each step frees one page.
    while rows.next()?.is_some() {}
    drop(rows);
    // If a reader blocks the checkpoint, a later call truncates the log.
    let _ = file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    Ok(())
}

/// Deletes rows until the data take less than `bytes`, with some margin so that the next rows do not exceed it at once.
fn fit(database: &Database, bytes: u64) -> Result<(), Problem> {
    if pages(database)?.1 <= bytes {
        return Ok(());
    }
    while pages(database)?.1 > bytes / 8 * 7 && delete_an_eighth(database)? {}
    Ok(())
}

/// Total size and used part, in bytes. For PostgreSQL the used part is estimated from the number of rows.
pub(super) fn pages(database: &Reader) -> Result<(u64, u64), Problem> {
    let number = |sql: &str| database.number(sql, &[]);
    if database.sqlite().is_none() {
        let size = number(
            "SELECT CAST(coalesce(sum(pg_total_relation_size(c.oid)), 0) AS BIGINT) FROM pg_class c
             WHERE c.relkind = 'r' AND c.relnamespace = CAST('seekwise' AS regnamespace)",
        )?;
        let [windows, _, requests, _] = counts(database)?;
        let models = number("SELECT CAST(coalesce(sum(octet_length(json)), 0) AS BIGINT) FROM models")?;
        return Ok((size, windows * WINDOW_BYTES + requests * REQUEST_BYTES + models));
    }
    let (size, count, free) = (number("PRAGMA page_size")?, number("PRAGMA page_count")?, number("PRAGMA freelist_count")?);
    Ok((size * count, size * count.saturating_sub(free)))
}

/// Numbers of windows, decisions, requests and models.
pub(super) fn counts(database: &Reader) -> Result<[u64; 4], Problem> {
    let count = |table: &str| database.number(&format!("SELECT count(*) FROM {table}"), &[]);
    Ok([count("windows")?, count("decisions")?, count("requests")?, count("models")?])
}

fn delete_windows(database: &Database, kept: u64) -> Result<u64, Problem> {
    let kept = i64::try_from(kept).unwrap_or(i64::MAX);
    let mut deleted = 0;
    for row in database.query("SELECT setting FROM settings", &[])? {
        let setting: i64 = row.get(0)?;
        let find = "SELECT window FROM windows WHERE setting = ?1 ORDER BY window DESC LIMIT 1 OFFSET ?2";
        if let Some(last) = database.query_one(find, values![setting, kept])? {
            let delete = "DELETE FROM windows WHERE setting = ?1 AND window <= ?2";
            deleted += database.execute(delete, values![setting, last.get::<i64>(0)?])?;
        }
    }
    Ok(deleted)
}

fn delete_models(database: &Database, kept: u64) -> Result<u64, Problem> {
    let kept = i64::try_from(kept).unwrap_or(i64::MAX);
    database.execute(
        "DELETE FROM models WHERE model IN (SELECT model FROM
           (SELECT model, row_number() OVER (PARTITION BY name ORDER BY trained_s DESC, model DESC) AS place FROM models) AS ranked
         WHERE place > ?1)",
        values![kept],
    )
}

/// Deletes an eighth of the rows of the table that takes most space; false if nothing more may be deleted.
fn delete_an_eighth(database: &Database) -> Result<bool, Problem> {
    let [windows, _, requests, _] = counts(database)?;
    let most = |table: &str, group: &str| {
        let sql = format!("SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM {table} GROUP BY {group}) AS groups_of_rows");
        database.number(&sql, &[])
    };
    let most_windows = most("windows", "setting")?;
    if requests > 0 && (requests * REQUEST_BYTES >= windows * WINDOW_BYTES || most_windows <= 1) {
        let eighth = i64::try_from(requests / 8 + 1).unwrap_or(i64::MAX);
        let oldest = "DELETE FROM requests WHERE request IN (SELECT request FROM requests ORDER BY request LIMIT ?1)";
        return Ok(database.execute(oldest, values![eighth])? > 0);
    }
    if most_windows > 1 {
        return Ok(delete_windows(database, (most_windows * 7 / 8).max(1))? > 0);
    }
    let most_models = most("models", "name")?;
    Ok(most_models > 1 && delete_models(database, most_models - 1)? > 0)
}

/// Deletes entries that no row refers to.
fn delete_unused(database: &Database) -> Result<(), Problem> {
    database.execute_batch(
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
