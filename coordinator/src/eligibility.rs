//! Whether this coordinator may campaign: not while an active upgrade needs what it lacks, because it could only delay
//! what another could drive.

use crate::act::schema;
use crate::context::Context;
use crate::report::View;
use tidegate_proto::key::Kind;
use tidegate_proto::record::Malformed;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::{Key, Revision, UpgradeId};

/// Why it does not campaign; none = it does.
pub(crate) async fn hindrance(context: &Context) -> Option<String> {
    let (newer, upgrades) = {
        let view = context.mirror.view();
        (newer(&view), with_schema(&view))
    };
    if newer.is_some() {
        return newer;
    }
    for (id, upgrade) in upgrades {
        if let Some(lacks) = schema::lacks(context, &upgrade).await {
            return Some(format!("upgrade {id} is active, and {lacks}"));
        }
    }
    None
}

/// A record of an upgrade or of a stream that a newer version wrote may mean more than this one sees, and a coordinator of
/// that version may lead. One that no version can read closes its own gates only: nothing would lead beside it.
fn newer(view: &View) -> Option<String> {
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
    let is_newer = |(key, why, _): &(&Key, &Malformed, Revision)| {
        matches!(key.kind(), Kind::Upgrade | Kind::Stream) && matches!(why, Malformed::Newer { .. })
    };
    let (key, why, _) = view.fleet.unreadable().find(is_newer)?;
    Some(format!("the record {key} {why}"))
}

fn with_schema(view: &View) -> Vec<(UpgradeId, Upgrade)> {
    let active = view.fleet.active_upgrades().filter(|(_, upgrade)| upgrade.schema.is_some());
    active.map(|(id, upgrade)| (id.clone(), upgrade.record.body.clone())).collect()
}
