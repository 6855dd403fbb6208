//! Formats coefficients as lines for the kernel and systemd.

use std::fmt::Write as _;

use super::{Learned, NAMES, Qos};

/// The name of the solution for systemd. The names of its properties have it in capitals.
const SOLUTION: &str = "seekwise";

fn coefficients(learned: &Learned) -> String {
    let figures = NAMES.iter().zip(&learned.model).map(|(name, figure)| format!("{name}={}", figure.value.round().max(1.0)));
    figures.collect::<Vec<_>>().join(" ")
}

fn targets(qos: &Qos) -> String {
    let [rlat, wlat] = [qos.rlat_us, qos.wlat_us].map(|figure| figure.value.round().max(1.0));
    format!("rpct={:.2} rlat={rlat} wpct={:.2} wlat={wlat} min={:.2} max={:.2}", qos.rpct, qos.wpct, qos.min, qos.max)
}

/// A line for `io.cost.model`. `number`: the device's major and minor number, as in `8:0`.
pub fn model(learned: &Learned, number: &str) -> String {
    format!("{number} ctrl=user model=linear {}", coefficients(learned))
}

/// A line for `io.cost.qos`, which enables io.cost.
pub fn qos(learned: &Learned, number: &str) -> String {
    format!("{number} enable=1 ctrl=user {}", targets(&learned.qos))
}

/// An entry of systemd's hardware database for disks of this model. `model`: the property `ID_MODEL` of udev.
pub fn hwdb(learned: &Learned, model: &str) -> String {
    let (name, mut escaped) = (SOLUTION.to_uppercase(), String::new());
    for character in model.chars() {
        match character {
            // udev replaces spaces by underscores.
            ' ' => escaped.push('_'),
            // The entry is a glob pattern.
            '*' | '?' | '[' | ']' | '\\' => _ = write!(escaped, "\\{character}"),
            _ => escaped.push(character),
        }
    }
    format!(
        "block:*:name:{escaped}:fwrev:*:\n  IOCOST_SOLUTIONS={SOLUTION}\n  IOCOST_MODEL_{name}={}\n  IOCOST_QOS_{name}={}\n",
        coefficients(learned),
        targets(&learned.qos)
    )
}

#[cfg(test)]
mod tests {
    use super::super::Figure;
    use super::*;

    fn learned() -> Learned {
        let figure = |value| Figure { value, error_percent: Some(1.0) };
        let model = [2e8, 40_000.4, 370.0, 1.9e8, 41_000.0, 0.2].map(figure);
        let qos = Qos { rpct: 95.0, rlat_us: figure(8_500.0), wpct: 95.0, wlat_us: figure(70_000.0), min: 62.5, max: 110.0 };
        Learned { model, qos, knees: [32, 1], mixed: Vec::new() }
    }

    #[test]
    fn lines_are_as_the_kernel_and_systemd_take_them() {
        let (learned, figures) =
            (learned(), "rbps=200000000 rseqiops=40000 rrandiops=370 wbps=190000000 wseqiops=41000 wrandiops=1");
        assert_eq!(model(&learned, "8:0"), format!("8:0 ctrl=user model=linear {figures}"));
        let targets = "rpct=95.00 rlat=8500 wpct=95.00 wlat=70000 min=62.50 max=110.00";
        assert_eq!(qos(&learned, "8:0"), format!("8:0 enable=1 ctrl=user {targets}"));
        assert_eq!(
            hwdb(&learned, "ACME Disk [2]"),
            format!(
                "block:*:name:ACME_Disk_\\[2\\]:fwrev:*:\n  IOCOST_SOLUTIONS=seekwise\n  IOCOST_MODEL_SEEKWISE={figures}\n  \
                 IOCOST_QOS_SEEKWISE={targets}\n"
            )
        );
    }
}
