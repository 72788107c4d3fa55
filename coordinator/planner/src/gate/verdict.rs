//! What gate jobs have found.

pub(crate) mod passed;

use super::description::{Description, Waits};
use serde::{Deserialize, Serialize};
use tidegate_proto::{Artifact, GateHop};

/// A gate that a recorded verdict opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum VerdictGate {
    GateVerdict { hop: Box<GateHop>, found: Option<String> },
}

/// How many digits of a digest a sentence shows; the command has all of them.
const SHOWN: usize = 12;

impl VerdictGate {
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        match self {
            Self::GateVerdict { hop, found } => {
                let GateHop { service, tag, from, to } = &**hop;
                let hop = format!("{tag} of {service} from version {} to version {}", shown(from), shown(to));
                Description::new(
                    match found {
                        None => format!("the spec requires a passed gate job, and no verdict is recorded: {hop}"),
                        Some(verdict) => {
                            format!("the spec requires a passed gate job, and the recorded verdict is {verdict}: {hop}")
                        }
                    },
                    "a gate job of these two artifacts that passes, and a person or build that records its report",
                )
                .next_step(waits.upgrade(|_| {
                    format!(
                        "grenade record report.json --from-sha256 {} --to-sha256 {}",
                        from.sha256.declared(),
                        to.sha256.declared()
                    )
                }))
                .timeout("none: the upgrade stays in preflight")
            }
        }
    }
}

fn shown(artifact: &Artifact) -> String {
    let Artifact { version, sha256 } = artifact;
    match sha256.is_absent() {
        true => format!("{version} (no sha256)"),
        false => format!("{version} (sha256 {:.SHOWN$}…)", sha256.to_string()),
    }
}
