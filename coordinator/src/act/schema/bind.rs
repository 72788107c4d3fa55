//! What an upgrade is bound to when it is started: the schema's own id, the digest of the migrations, their order.

use super::bound::{Bound, Unbound};
use crate::operation::OperationError;
use crate::room::Room;
use crate::seat::Seat;
use tidegate_migrations::{Requires, SchemaId, Term};
use tidegate_proto::record::upgrade::{MigrateOrder, SchemaBinding};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Revision, SchemaName, UpgradeId};

impl From<Unbound> for OperationError {
    fn from(unbound: Unbound) -> Self {
        OperationError::Refused(unbound.told())
    }
}

/// What a spec's schema is, without changing anything. A database that was never claimed has no id yet: until then
/// it stands under the name `unclaimed`.
pub async fn look_only(
    room: &Room,
    upgrade: &UpgradeId,
    spec: &Spec,
) -> Result<Option<SchemaBinding>, Unbound> {
    let Some(schema) = &spec.schema else { return Ok(None) };
    let bound = Bound::open(room, upgrade, spec, schema, None).await?;
    // Drift, and a history that cannot be read, are said before anything begins.
    bound.facts().await?;
    let identity = bound.engine.identity().await?;
    let id = identity.id.unwrap_or_else(|| SchemaId("unclaimed".to_owned()));
    binding(&bound, &id).map(Some)
}

/// Claims a spec's schema: raises the database's term to ours and makes its history and id where they are missing.
pub async fn bind(
    room: &Room,
    seat: &Seat,
    upgrade: &UpgradeId,
    spec: &Spec,
) -> Result<Option<SchemaBinding>, Unbound> {
    let Some(schema) = &spec.schema else { return Ok(None) };
    let bound = Bound::open(room, upgrade, spec, schema, None).await?;
    let id = bound.engine.claim(&term_of(room, seat)?).await?;
    binding(&bound, &id).map(Some)
}

/// The term as databases keep it. After a store was restored, its numbers count on from the highest that the former
/// one had given, because a database obeys no lower one.
///
/// # Errors
/// Where the reconciliation record names a revision that no store can have given.
pub fn term_of(room: &Room, seat: &Seat) -> Result<Term, Unbound> {
    let former = room.mirror.picture().fleet.reconciliation().map_or(Revision::ABSENT, |by| by.revision);
    let number = former.checked_add(seat.leading.revision).ok_or(Unbound::Term(former))?;
    Ok(Term { revision: number.0, id: seat.leading.term.to_string() })
}

fn binding(bound: &Bound, id: &SchemaId) -> Result<SchemaBinding, Unbound> {
    let id: SchemaName = id.0.parse().map_err(Unbound::Id)?;
    // One migration that wants the floor makes all of them wait for it.
    let waits_for_floor = bound.set.own().any(|migration| matches!(migration.requires, Requires::Floor(_)));
    Ok(SchemaBinding {
        id,
        migrations: bound.digest,
        order: if waits_for_floor { MigrateOrder::AfterRoll } else { MigrateOrder::BeforeRoll },
        old_reads_migrated: bound.set.old_reads_migrated(),
        own: bound.set.own().map(|migration| migration.id.clone()).collect(),
        left: Vec::new(),
    })
}
