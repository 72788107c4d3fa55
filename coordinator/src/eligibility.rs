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

/// A record of an upgrade, of a stream or of an update of metadata that a newer version wrote may mean more than this one
/// sees, and a coordinator of that version may lead. One that no version can read closes its own gates only: nothing would
/// lead beside it.
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
    let updated = view.fleet.groups().find(|(_, group)| group.update.is_some() && group.record.is_newer());
    if let Some((name, group)) = updated {
        let schema = group.record.schema;
        return Some(format!(
            "metadata group {name} has a record of schema number {schema}, which this version does not know"
        ));
    }
    let is_newer = |(key, why, _): &(&Key, &Malformed, Revision)| {
        matches!(key.kind(), Kind::Upgrade | Kind::Stream | Kind::Group)
            && matches!(why, Malformed::Newer { .. })
    };
    let (key, why, _) = view.fleet.unreadable().find(is_newer)?;
    Some(format!("the record {key} {why}"))
}

fn with_schema(view: &View) -> Vec<(UpgradeId, Upgrade)> {
    let active = view.fleet.active_upgrades().filter(|(_, upgrade)| upgrade.schema.is_some());
    active.map(|(id, upgrade)| (id.clone(), upgrade.record.body.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;
    use tidegate_proto::Value;
    use tidegate_store::{Entry, Snapshot};

    fn with_group(record: &Json) -> View {
        let (key, text) = (Key::Group("edge".parse().unwrap()), record.to_string());
        let entry = Entry {
            value: Value::decode(&key, text.as_bytes()),
            key,
            bytes_len: text.len(),
            mod_revision: Revision(7),
            create_revision: Revision(7),
            lease: 0,
        };
        View::of(Snapshot { revision: Revision(7), entries: vec![entry], ..Snapshot::default() })
    }

    #[test]
    fn metadata_update_of_a_newer_version_hinders() {
        let text = include_str!("../../proto/tests/golden/groups.1.json");
        let mut record: Json = serde_json::from_str(text).unwrap();
        assert_eq!(newer(&with_group(&record)), None);
        record["schema"] = 99.into();
        let why = newer(&with_group(&record)).unwrap();
        assert!(why.contains("metadata group edge") && why.contains("schema number 99"), "{why}");
        record["update"] = Json::Null;
        assert_eq!(newer(&with_group(&record)), None, "nothing is under way");
        record["members"] = "of another form".into();
        let why = newer(&with_group(&record)).unwrap();
        assert!(why.contains("the record groups/edge") && why.contains("schema number 99"), "{why}");
    }
}
