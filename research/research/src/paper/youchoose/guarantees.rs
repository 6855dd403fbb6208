//! Guarantees of the volumes of a scene, in the form that a scheduler supports.

use std::sync::Arc;

use block::tenants::{ConstantTime, ServiceModel};
use block::{Nanos, Rate, Rates};

use crate::stage::{Actor, Stage};

/// The form of guarantee that a scheduler supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promised {
    /// The reference disk, by a model trained on it.
    Disk,
    /// The reference disk, by a shadow simulation: no model is more accurate.
    Shadow,
    /// The reference disk, by the paper's model.
    Printed,
    /// The reference disk, by the paper's model with the operation as a feature.
    PrintedWithOperation,
    /// A hundred requests per second, as a disk with a constant service time: "a special case of the RSS interface" (section V).
    Constant,
    /// The volume's request rate on the reference disk, which must be measured beforehand.
    Rate,
    /// No guarantee: all volumes are equal.
    Nothing,
}

/// Models of the reference disk that schedulers may use.
pub struct Models {
    /// Our trained model.
    pub trained: Arc<dyn ServiceModel>,
    /// The simulated disk itself, which serves the same requests at its own speed.
    pub shadow: Arc<dyn ServiceModel>,
    /// The paper's trained model.
    pub printed: Arc<dyn ServiceModel>,
    /// The paper's model with the operation as an additional feature.
    pub printed_with_operation: Arc<dyn ServiceModel>,
}

/// A stage whose volumes are guaranteed a disk or a rate.
pub fn promised(stage: Stage, promised: Promised, models: &Models, rates: &[f64]) -> Stage {
    let actors = stage.actors.into_iter().zip(rates).map(|(actor, rate)| {
        let tenant = match promised {
            Promised::Disk => actor.tenant.with_reference(Arc::clone(&models.trained)),
            Promised::Shadow => actor.tenant.with_reference(Arc::clone(&models.shadow)),
            Promised::Printed => actor.tenant.with_reference(Arc::clone(&models.printed)),
            Promised::PrintedWithOperation => actor.tenant.with_reference(Arc::clone(&models.printed_with_operation)),
            Promised::Constant => actor.tenant.with_reference(Arc::new(HUNDRED_IOPS)),
            Promised::Rate => actor.tenant.with_rates(Rates { reservation: Rate::iops(rate.round() as u64), ..Rates::default() }),
            Promised::Nothing => actor.tenant,
        };
        Actor { tenant, ..actor }
    });
    Stage { actors: actors.collect(), ..stage }
}

/// The throughput bound of sections IV.B and IV.C.
const HUNDRED_IOPS: ConstantTime = ConstantTime { request: Nanos::from_millis(10), sector: Nanos::ZERO };
