//! Results of the real kernel compared with the simulator's.

use ::report::number;
use ::report::plot::OUTLINES;
use ::report::plot::panel::{Axis, Mark, Panel, Size};
use ::report::plot::scale::Scale;
use ::report::text::printable;

use super::row::{Row, Spread};

/// Height of a row, and of the margins above and below.
const ROW: f64 = 18.0;
const AROUND: f64 = 90.0;
/// Axis titles of the figures, and whether the scale is logarithmic: throughput starts from zero, times are logarithmic.
const AXES: [(&str, bool); 3] = [("throughput, MB/s", false), ("mean response time, ms", true), ("p99 response time, ms", true)];

/// Three panels for each workload and direction, one for each figure, with a row for each setting.
pub fn side_by_side(rows: &[Row]) -> Vec<String> {
    let mut panels = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let key = (row.workload.as_str(), row.direction.as_str());
        if !seen.contains(&key) {
            seen.push(key);
            let group: Vec<&Row> = rows.iter().filter(|other| (other.workload.as_str(), other.direction.as_str()) == key).collect();
            panels.extend((0..AXES.len()).filter_map(|figure| panel(&group, figure)));
        }
    }
    panels
}

fn interval(spread: &Spread) -> (f64, f64) {
    let half = spread.interval.unwrap_or(0.0);
    ((spread.median - half).max(spread.median / 10.0), spread.median + half)
}

fn panel(rows: &[&Row], figure: usize) -> Option<String> {
    let (title, is_log) = AXES[figure];
    let values = rows.iter().flat_map(|row| {
        let (low, high) = interval(&row.real[figure]);
        [low, high, row.simulated[figure].median]
    });
    let scale = if is_log { Scale::log(values.filter(|value| *value > 0.0))? } else { Scale::from_zero(values)? };
    let x = Axis { scale, title, tick: number::short };
    let size = Size { width: 400.0, height: AROUND + ROW * rows.len() as f64, left: 150.0 };
    let mut panel = Panel::new(size, &x, None);
    for (number, row) in rows.iter().enumerate() {
        let (name, real, simulated) = (printable(&row.scheduler), &row.real[figure], row.simulated[figure].median);
        panel.bars((number, rows.len()), &name, "promise", &[interval(real)]);
        let mark = |class: &str, outline, value: f64, tip: &str| Mark {
            class: class.to_owned(),
            outline,
            value,
            tip: format!("{name}: {} {tip}", number::three_digits(value)),
        };
        let marks = [mark("measured", OUTLINES[0], real.median, "really"), mark("promised", OUTLINES[2], simulated, "simulated")];
        panel.row((number, rows.len()), "", &marks);
    }
    let row = rows.first()?;
    let name = format!("{} {}", printable(&row.workload), row.direction);
    let description =
        format!("{name}: {title}, of the real kernel (circles, with the confidence interval) and simulated (diamonds).");
    Some(panel.finish("", &name, "", &description))
}
