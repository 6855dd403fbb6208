//! The present load: its windows as points, and whether they still belong to it.

use block::Nanos;
use control::Window;
use observe::description::describe;
use observe::load_tracker::LoadTracker;
use observe::similarity::{Columns, Point};

use super::pool::Pool;

/// The present load.
pub(super) struct PresentLoad {
    /// Whether there have been enough requests to describe it.
    pub is_known: bool,
    /// Its start and its windows.
    pub load: LoadTracker,
    columns: Columns,
    /// Windows with too few requests to describe a load.
    pool: Pool,
}

impl PresentLoad {
    /// No load yet.
    pub fn new() -> PresentLoad {
        PresentLoad { is_known: false, load: LoadTracker::new(Nanos::ZERO), columns: Columns::described(), pool: Pool::new() }
    }

    /// The features of this window under an arm, pooled with earlier windows that had too few requests, and the start of the first of
    /// these. `None` if there are still too few requests.
    pub fn pooled_point(&mut self, window: &Window, arm: usize) -> Option<(Nanos, Point)> {
        let row = describe(&window.features, &window.outcome);
        let point = self.columns.point(|column| row.get(column).copied());
        self.pool.add(window, arm, &point)
    }
}
