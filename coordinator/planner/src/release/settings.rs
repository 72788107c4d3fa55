//! The settings that a compute runs with: six layers, and of each value the layer that it came from. The order is
//! Neon's; a later layer replaces the whole value, `shared_preload_libraries` too.

use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A layer, in rising priority.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, strum::Display, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// 1: fixed in the coordinator's configuration.
    Static,
    /// 2: the manifest's, for all.
    Common,
    /// 3: the manifest's, for one version of PostgreSQL.
    VersionCommon,
    /// 4: the manifest's, for replicas of one version.
    VersionReplica,
    /// 5: of the user, project or endpoint.
    Override,
    /// 6: computed from the size of the compute.
    Dynamic,
}

impl Layer {
    /// The word for it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// What a compute is to its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It writes.
    Primary,
    /// It only reads.
    Replica,
}

/// For which compute settings are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The major version of PostgreSQL.
    pub pg_version: u32,
    /// What it is to its data.
    pub role: Role,
}

/// The layers that are not the manifest's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outside {
    /// Layer 1.
    pub fixed: BTreeMap<String, String>,
    /// Layer 5.
    pub overrides: BTreeMap<String, String>,
    /// Layer 6.
    pub dynamic: BTreeMap<String, String>,
}

/// A setting, resolved.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Setting {
    /// Its value.
    pub value: String,
    /// Where that came from.
    pub from: Layer,
    /// The values of lower layers that it replaced, lowest first.
    pub replaced: Vec<(Layer, String)>,
}

/// Resolves the settings of one compute.
pub fn resolve(manifest: &Json, asked: &Asked, outside: &Outside) -> BTreeMap<String, Setting> {
    let settings = &manifest["pg_settings"];
    let version = &settings["per_version"][asked.pg_version.to_string()];
    let replica = match asked.role {
        Role::Replica => section(&version["replica"]),
        Role::Primary => BTreeMap::new(),
    };
    let layers = [
        (Layer::Static, outside.fixed.clone()),
        (Layer::Common, section(&settings["common"])),
        (Layer::VersionCommon, section(&version["common"])),
        (Layer::VersionReplica, replica),
        (Layer::Override, outside.overrides.clone()),
        (Layer::Dynamic, outside.dynamic.clone()),
    ];
    let mut resolved: BTreeMap<String, Setting> = BTreeMap::new();
    for (layer, settings) in layers {
        for (name, value) in settings {
            let mut replaced = Vec::new();
            if let Some(lower) = resolved.remove(&name) {
                replaced = lower.replaced;
                replaced.push((lower.from, lower.value));
            }
            resolved.insert(name, Setting { value, from: layer, replaced });
        }
    }
    resolved
}

/// The strings of a section; a manifest was checked when it was posted, so there is nothing else.
fn section(value: &Json) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn outside() -> Outside {
        let one = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let mut outside = Outside {
            fixed: one("a", "static"),
            overrides: one("a", "override"),
            dynamic: one("a", "dynamic"),
        };
        outside.fixed.insert("fixed".to_owned(), "f".to_owned());
        outside
    }

    fn manifest() -> Json {
        json!({"pg_settings": {
            "common": {"a": "common", "b": "common", "libs": "x,y"},
            "per_version": {
                "16": {"common": {"b": "16"}},
                "17": {"common": {"b": "17", "libs": "x"}, "replica": {"b": "17 replica", "prefetch": "off"}},
            },
        }})
    }

    fn values(pg_version: u32, role: Role, outside: &Outside) -> BTreeMap<String, (String, &'static str)> {
        resolve(&manifest(), &Asked { pg_version, role }, outside)
            .into_iter()
            .map(|(name, setting)| (name, (setting.value, setting.from.word())))
            .collect()
    }

    #[test]
    fn a_higher_layer_replaces_the_whole_value_and_is_named() {
        let named = |pairs: &[(&str, &str, &'static str)]| {
            pairs.iter().map(|(n, v, l)| ((*n).to_owned(), ((*v).to_owned(), *l))).collect::<BTreeMap<_, _>>()
        };
        let nothing = Outside::default();
        assert_eq!(
            values(17, Role::Replica, &nothing),
            named(&[
                ("a", "common", "common"),
                ("b", "17 replica", "version-replica"),
                ("libs", "x", "version-common"),
                ("prefetch", "off", "version-replica"),
            ])
        );
        assert_eq!(values(17, Role::Primary, &nothing)["b"], ("17".to_owned(), "version-common"));
        assert_eq!(values(16, Role::Replica, &nothing)["b"], ("16".to_owned(), "version-common"));
        assert_eq!(values(14, Role::Replica, &nothing)["b"], ("common".to_owned(), "common"));
        let all = values(17, Role::Replica, &outside());
        assert_eq!(
            (&all["a"], &all["fixed"]),
            (&("dynamic".to_owned(), "dynamic"), &("f".to_owned(), "static"))
        );
    }

    #[test]
    fn replaced_settings_are_kept_in_order_of_layers() {
        let asked = Asked { pg_version: 17, role: Role::Replica };
        let setting = resolve(&manifest(), &asked, &outside()).remove("a").unwrap();
        let replaced: Vec<Layer> = setting.replaced.iter().map(|(layer, _)| *layer).collect();
        assert_eq!(replaced, [Layer::Static, Layer::Common, Layer::Override]);
    }

    #[test]
    fn stored_manifest_that_a_create_would_refuse_is_used_as_it_is() {
        let stored =
            json!({"pg_settings": {"common": {"work_mem": "4MB", "": "1"}, "per_version": {"017": {}}}});
        assert!(crate::release::manifest::findings(&stored).iter().any(|finding| finding.blocks));
        let asked = Asked { pg_version: 17, role: Role::Primary };
        let settings = resolve(&stored, &asked, &Outside::default());
        assert_eq!(settings["work_mem"].value, "4MB");
    }
}
