//! Interrupts long queries when the program is stopped.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

/// Number of SQLite virtual-machine instructions between checks of the flag: at most a millisecond.
const STEPS_PER_CHECK: i32 = 10_000;

static STOP: OnceLock<&'static AtomicBool> = OnceLock::new();

/// While `stop` is set, queries on knowledge bases opened after this call end soon, with
/// [`Problem::Interrupted`](crate::Problem::Interrupted), and their transactions are rolled back. Only the first call of a program has an
/// effect.
pub fn interrupt_on(stop: &'static AtomicBool) {
    STOP.get_or_init(|| stop);
}

/// Installs the interrupt handler on a connection.
pub(super) fn watch(connection: &Connection) {
    if let Some(stop) = STOP.get() {
        watch_flag(connection, stop);
    }
}

fn watch_flag(connection: &Connection, stop: &'static AtomicBool) {
    connection.progress_handler(STEPS_PER_CHECK, Some(|| stop.load(Ordering::Relaxed)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;

    static FLAG: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_long_query_ends_when_the_flag_is_set_and_is_undone() {
        const LONG: &str = "WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n LIMIT 300000)
                            INSERT INTO kept SELECT x FROM n";
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE kept (x)").unwrap();
        watch_flag(&connection, &FLAG);
        let kept = || connection.query_row("SELECT count(*) FROM kept", [], |row| row.get::<_, u64>(0)).unwrap();
        connection.execute(LONG, []).unwrap();
        assert_eq!(kept(), 300_000);
        FLAG.store(true, Ordering::Relaxed);
        let problem = connection.execute(LONG, []).map_err(Problem::from);
        assert!(matches!(problem, Err(Problem::Interrupted)), "{problem:?}");
        FLAG.store(false, Ordering::Relaxed);
        assert_eq!(kept(), 300_000);
    }
}
