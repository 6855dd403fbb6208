//! Gene pools as rows of the knowledge base, among the models.

use control::experience::GenePool;
use observe::description::names;

use crate::rows::ModelRow;

/// The kind of a gene pool's row; the row of a model has the learner's name there.
const KIND: &str = "gene-pool";

impl TryFrom<&GenePool> for ModelRow {
    type Error = serde_json::Error;

    /// Pools of similar workloads have the same name, so that only the latest of them are kept. Never fails for numbers and names.
    fn try_from(pool: &GenePool) -> Result<ModelRow, serde_json::Error> {
        let names = names();
        let value = |name: &str| {
            let column = names.iter().position(|known| known == name);
            column.and_then(|column| *pool.features.get(column)?).unwrap_or(f32::NAN)
        };
        let workload = format!(
            "{:.0}% reads, {:.0} KiB, {:.0} streams",
            100.0 * value("read_share"),
            value("size_mean_bytes") / 1024.0,
            value("streams")
        );
        Ok(ModelRow {
            name: format!("gene pool on {}: {workload}", pool.device),
            kind: KIND.to_owned(),
            json: serde_json::to_string(pool)?,
            trained_s: 0,
            features: names,
        })
    }
}

impl ModelRow {
    /// The gene pool of this row; `None` if it contains none, or one of another version of this program.
    pub fn gene_pool(&self) -> Option<GenePool> {
        if self.kind == KIND && self.features == names() { serde_json::from_str(&self.json).ok() } else { None }
    }
}
