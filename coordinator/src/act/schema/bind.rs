//! What an upgrade is bound to when it is started: the schema's own id, the digest of the migrations, their order.

use super::bound::{Bound, Unbound};
use super::refused;
use super::sessions::warnings;
use super::term::{acknowledged, countable, term_of};
use crate::context::Context;
use crate::leadership::Leadership;
use std::collections::BTreeMap;
use tidegate_migrations::{Requires, RowCount, SchemaId};
use tidegate_planner::SchemaFacts;
use tidegate_proto::record::upgrade::{MigrateOrder, SchemaBinding};
use tidegate_proto::spec::{DatabaseSource, Spec, SpecSchema};
use tidegate_proto::{SchemaName, ServiceName, ServiceVersion, UpgradeId};
use tokio_util::sync::CancellationToken;

/// What a spec's database shows before an upgrade begins.
pub(crate) struct Preview {
    /// Its schema.
    pub binding: SchemaBinding,
    /// What forbids to begin.
    pub obstacles: Vec<String>,
    /// Sessions that contract will wait for, see [`warnings`].
    pub warnings: Vec<String>,
}

/// Looks at a spec's database without changing anything. A schema that was never claimed has no id yet: until then its
/// name is `unclaimed`.
/// One that obeyed a term which the store does not know, or for which it gives no higher number, is refused; where a
/// leader asks, it is heard as a witness by the next reconciliation.
pub(crate) async fn look_only(
    context: &Context,
    leadership: Option<&Leadership>,
    upgrade: &UpgradeId,
    spec: &Spec,
) -> Result<Option<Preview>, Unbound> {
    let Some(schema) = &spec.schema else { return Ok(None) };
    let bound = Bound::open(context, upgrade, spec, schema, None).await?;
    // Drift, and a history that cannot be read, are said before anything begins.
    let seen = bound.facts(RowCount::Uncounted).await?;
    if let Some(leadership) = leadership {
        refused::hear(context, leadership, upgrade, spec, &seen);
    }
    known(context, schema, &seen)?;
    let identity = bound.engine.identity().await?;
    let id = identity.id.unwrap_or_else(|| SchemaId("unclaimed".to_owned()));
    let (obstacles, warnings) = (bound.obstacles().await?, warnings(&bound, spec, schema).await);
    Ok(Some(Preview { binding: binding(&bound, &id, spec)?, obstacles, warnings }))
}

/// Claims a spec's schema, see [`claim`]. The operator who starts an upgrade waits for the answer, and a lost leadership ends
/// the wait for a lock.
pub(crate) async fn bind(
    context: &Context,
    leadership: &Leadership,
    upgrade: &UpgradeId,
    spec: &Spec,
) -> Result<Option<SchemaBinding>, Unbound> {
    let Some(schema) = &spec.schema else { return Ok(None) };
    let bound = Bound::open(context, upgrade, spec, schema, None).await?;
    claim(context, leadership, &bound, spec, schema, &leadership.lost).await.map(Some)
}

/// Raises the database's term to ours and makes its history and id where they are missing, unless it is cancelled before.
pub(super) async fn claim(
    context: &Context,
    leadership: &Leadership,
    bound: &Bound,
    spec: &Spec,
    schema: &SpecSchema,
    cancel: &CancellationToken,
) -> Result<SchemaBinding, Unbound> {
    // What it obeyed last is asked before it is made to obey us.
    let (seen, obeyed) = bound.facts_and_term(RowCount::Uncounted).await?;
    known(context, schema, &seen)?;
    let engine = bound.engine.clone().last_obeyed(obeyed);
    let id = engine.claim(&term_of(context, leadership)?, cancel).await?;
    binding(bound, &id, spec)
}

/// Whether the store knows the term that the database obeyed last, and gives a higher number.
fn known(context: &Context, schema: &SpecSchema, seen: &SchemaFacts) -> Result<(), Unbound> {
    let DatabaseSource::FromEnv(variable) = &schema.database;
    countable(context, variable, seen)?;
    match &seen.obeyed {
        Some((term, number)) if !acknowledged(context, seen) => {
            Err(Unbound::Stranger { variable: variable.clone(), term: term.clone(), number: *number })
        }
        _ => Ok(()),
    }
}

fn binding(bound: &Bound, id: &SchemaId, spec: &Spec) -> Result<SchemaBinding, Unbound> {
    let id: SchemaName = id.0.parse().map_err(Unbound::Id)?;
    let migrate_floors = floors(bound.set.own().map(|migration| &migration.requires), spec)?;
    // One migration that requires a floor which only the roll commits makes all of them wait for it.
    let waits_for_roll = migrate_floors.get(&spec.service).is_some_and(|floor| *floor > spec.from);
    Ok(SchemaBinding {
        id,
        migrations: bound.digest,
        order: if waits_for_roll { MigrateOrder::AfterRoll } else { MigrateOrder::BeforeRoll },
        old_reads_migrated: bound.set.old_reads_migrated(),
        own: bound.set.own().map(|migration| migration.id.clone()).collect(),
        left: Vec::new(),
        form_left: false,
        migrate_floors,
    })
}

/// The floor that these migrations require of each service before migrate: the highest where several name it.
fn floors<'a>(
    requires: impl Iterator<Item = &'a Requires>,
    spec: &Spec,
) -> Result<BTreeMap<ServiceName, ServiceVersion>, Unbound> {
    let mut floors: BTreeMap<ServiceName, ServiceVersion> = BTreeMap::new();
    let mut require = |service: ServiceName, floor: ServiceVersion| {
        let known = floors.entry(service).or_insert(floor);
        *known = (*known).max(floor);
    };
    let version = |floor: u32| ServiceVersion::new(i64::from(floor)).map_err(Unbound::Floor);
    for requires in requires {
        match requires {
            Requires::Expanded => {}
            Requires::Floor(floor) => {
                require(spec.service.clone(), version(*floor)?);
                let sharing = spec.schema.iter().flat_map(|schema| &schema.shared_with);
                sharing.for_each(|(service, floor)| require(service.clone(), *floor));
            }
            Requires::Services(named) => {
                for (service, floor) in named {
                    require(service.parse().map_err(Unbound::Required)?, version(*floor)?);
                }
            }
        }
    }
    Ok(floors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        let sha256 = tidegate_proto::Digest::of(b"artifact");
        serde_json::from_value(serde_json::json!({
            "service": "conductor", "from": 1, "to": 2, "release": {"tag": "r2", "sha256": sha256},
            "schema": {"database": {"from_env": "URL"}, "migrations": "m", "shared_with": {"scheduler": 2, "api": 3}},
        }))
        .unwrap()
    }

    fn required(requires: &[Requires]) -> Vec<(String, u32)> {
        let floors = floors(requires.iter(), &spec()).unwrap();
        floors.into_iter().map(|(service, floor)| (service.to_string(), floor.get())).collect()
    }

    #[test]
    fn floors_are_required_of_exactly_the_sharing_services() {
        let pairs = |of: &[(&str, u32)]| of.iter().map(|(s, n)| ((*s).to_owned(), *n)).collect::<Vec<_>>();
        assert_eq!(required(&[Requires::Expanded]), []);
        assert_eq!(required(&[Requires::Floor(2)]), pairs(&[("api", 3), ("conductor", 2), ("scheduler", 2)]));
        let named = |of: &[(&str, u32)]| Requires::Services(pairs(of).into_iter().collect());
        assert_eq!(required(&[named(&[("scheduler", 2)])]), pairs(&[("scheduler", 2)]));
        let both = [named(&[("scheduler", 4), ("conductor", 1)]), Requires::Floor(2), Requires::Expanded];
        assert_eq!(required(&both), pairs(&[("api", 3), ("conductor", 2), ("scheduler", 4)]));
        assert!(floors([named(&[("no name", 2)])].iter(), &spec()).is_err());
    }
}
