//! What is written: one numbered change after the other.

use std::sync::Arc;

use crate::kv::{Revision, Settled};

/// A change to the set of leases.
#[derive(Debug)]
pub(crate) enum LeaseChange {
    Grant { id: i64, ttl: i64 },
    Revoke { id: i64 },
}

/// One numbered change, written whole or not at all.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) revision: Option<Arc<Revision>>,
    pub(crate) lease: Option<LeaseChange>,
    pub(crate) compaction: Option<(i64, Vec<Settled>)>,
}

impl Record {
    pub(crate) fn of_revision(revision: Arc<Revision>) -> Self {
        Self { revision: Some(revision), ..Self::default() }
    }

    pub(crate) fn of_lease(lease: LeaseChange, revision: Option<Arc<Revision>>) -> Self {
        Self { revision, lease: Some(lease), ..Self::default() }
    }

    pub(crate) fn of_compaction(revision: i64, settled: Vec<Settled>) -> Self {
        Self { compaction: Some((revision, settled)), ..Self::default() }
    }
}
