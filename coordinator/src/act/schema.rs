//! The schema worker.

use crate::operation::OperationError;
use crate::room::Room;
use crate::seat::Seat;
use std::sync::Arc;
use tidegate_planner::SchemaJob;
use tidegate_proto::UpgradeId;
use tidegate_proto::record::upgrade::SchemaBinding;
use tidegate_proto::spec::Spec;

/// The jobs of one leadership.
pub struct Workers {}

impl Workers {
    /// No jobs yet.
    pub fn new(_room: Room, _seat: Arc<Seat>) -> Self {
        Self {}
    }
    /// Makes sure that a job runs.
    pub fn sees_to(&self, upgrade: UpgradeId, job: SchemaJob) {
        tracing::warn!(%upgrade, job = job.word(), "schema jobs are not built in yet");
    }
    /// Makes sure that a certificate is being made.
    pub fn certifies(&self, upgrade: UpgradeId) {
        tracing::warn!(%upgrade, "certificates are not built in yet");
    }
    /// Ends all jobs.
    pub async fn stop(self) {}
}

/// Finds the schema that a spec names.
pub async fn bind(_room: &Room, spec: &Spec) -> Result<Option<SchemaBinding>, OperationError> {
    match &spec.schema {
        None => Ok(None),
        Some(_) => Err(OperationError::Refused("schema changes are not built in yet".to_owned())),
    }
}
