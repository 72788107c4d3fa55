//! Whether this coordinator may campaign: not while an active upgrade needs what it lacks, because it could only delay
//! what another could drive.

use crate::act::schema;
use crate::context::Context;
use crate::report::View;
use tidegate_proto::UpgradeId;
use tidegate_proto::key::Kind;
use tidegate_proto::record::upgrade::Upgrade;

/// Why it does not campaign; none = it does.
pub(crate) async fn hindrance(context: &Context) -> Option<String> {
    let (unreadable, upgrades) = {
        let view = context.mirror.view();
        (unreadable(&view), with_schema(&view))
    };
    if unreadable.is_some() {
        return unreadable;
    }
    for (id, upgrade) in upgrades {
        if let Some(lacks) = schema::lacks(context, &upgrade).await {
            return Some(format!("upgrade {id} is active, and {lacks}"));
        }
    }
    None
}

/// A record of an upgrade that a newer version wrote, or that cannot be read at all, may mean more than we see.
fn unreadable(view: &View) -> Option<String> {
    let newer = view.fleet.active_upgrades().find(|(_, upgrade)| upgrade.record.is_newer());
    if let Some((id, upgrade)) = newer {
        let schema = upgrade.record.schema;
        return Some(format!(
            "upgrade {id} has a record of schema number {schema}, which this version does not know"
        ));
    }
    if let Some((name, stream)) = view.fleet.streams().find(|(_, stream)| stream.record.is_newer()) {
        let schema = stream.record.schema;
        return Some(format!(
            "release stream {name} has a record of schema number {schema}, which this version does not know"
        ));
    }
    let (key, why, _) = view.fleet.unreadable().find(|(key, ..)| key.kind() == Kind::Upgrade)?;
    Some(format!("the record {key} {why}"))
}

fn with_schema(view: &View) -> Vec<(UpgradeId, Upgrade)> {
    let active = view.fleet.active_upgrades().filter(|(_, upgrade)| upgrade.schema.is_some());
    active.map(|(id, upgrade)| (id.clone(), upgrade.record.body.clone())).collect()
}
