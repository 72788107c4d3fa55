//! When a compute release goes out, and what it requires.

pub(crate) mod canary;
pub mod deploy;
pub mod evidence;
pub(crate) mod needed;
pub mod storage;
pub(crate) mod trial;

use super::description::{Description, Waits};
use super::{CanaryCount, NeededBy, Reason, Sample};
use serde::{Deserialize, Serialize};
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::Stream;
use tidegate_proto::{ReleaseRevision, ReleaseTag, ServiceName, ServiceVersion, Span, StreamName};

/// A gate on a compute release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum ReleaseGate {
    Needed {
        service: ServiceName,
        floor: ServiceVersion,
        by: Box<NeededBy>,
    },
    Floor {
        service: ServiceName,
        floor: ServiceVersion,
        needs: ServiceVersion,
        /// The ceiling of the window, where every instance is there and no upgrade raises the floor: a person does.
        by_hand: Option<ServiceVersion>,
    },
    ReleaseUnknown {
        service: ServiceName,
        nodes: Sample,
    },
    NoStorage {
        compute: ReleaseTag,
    },
    Evidence {
        compute: ReleaseTag,
        storage: ReleaseTag,
        found: Option<String>,
    },
    ReleaseApproval {
        stream: StreamName,
        revision: ReleaseRevision,
    },
    ReleaseFailed {
        why: String,
        overtaken: Option<ReleaseRevision>,
    },
    Manual {
        tag: ReleaseTag,
    },
    NoStrategy,
    CanaryBusy {
        revision: ReleaseRevision,
    },
    RollsBack {
        revision: ReleaseRevision,
        failed: bool,
    },
    CanaryOpen {
        count: CanaryCount,
        deadline: Option<Span>,
    },
    NotAvailable {
        answered: Span,
        needed: Span,
        deadline: Span,
    },
    TooManyKept {
        count: usize,
        /// Of so many the image is still to be removed.
        unremoved: usize,
    },
}

const SIGNALS: &str =
    "the computes, which signal success or failure; or a person, who promotes or rolls back";

fn promote(waits: Waits<'_>) -> Option<String> {
    waits
        .release(|stream, revision| format!("tidegate release promote {revision} --stream {stream} --deploy"))
}

impl ReleaseGate {
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        match self {
            Self::Needed { service, floor, by } => needed(service, *floor, by, waits),
            Self::Floor { service, floor, needs, by_hand } => {
                floor_behind(service, (*floor, *needs), *by_hand, waits)
            }
            Self::ReleaseUnknown { service, nodes } => Description::new(
                format!(
                    "{service}: the running release is not known on {nodes}. If an agent does not learn it: in the agent's config give exactly one [service.{service}.artifact.\"TAG\"] of the version that runs"
                ),
                "the agent, once it knows which release runs; or a person, who names it in the agent's config",
            ),
            Self::NoStorage { compute } => Description::new(
                format!("{compute} requires evidence, and there is no storage instance to test with"),
                "a person",
            ),
            Self::Evidence { compute, storage, found } => evidence(compute, storage, found.as_deref(), waits),
            Self::ReleaseApproval { stream, revision } => {
                Description::new(
                    format!("revision {revision} of {stream} requires a manual approval"),
                    "a person",
                )
                .next_step(waits.release(|stream, revision| {
                    format!("tidegate release approve {revision} --stream {stream}")
                }))
            }
            Self::ReleaseFailed { why, overtaken } => Description::new(
                match overtaken {
                    None => format!("the release failed: {why}"),
                    Some(by) => format!(
                        "the release failed ({why}), and the later revision {by} is deployed: create it again"
                    ),
                },
                "a person",
            )
            .next_step(waits.release(retry).filter(|_| overtaken.is_none())),
            Self::Manual { tag } => Description::new(
                format!("the stream's manual strategy names {tag}, and manual wins"),
                "a person",
            )
            .next_step(waits.release(|stream, _| format!("tidegate release stream {stream} --set …"))),
            Self::NoStrategy => Description::new(
                "the stream's strategy deploys no release automatically: latest is off, and no tag is named",
                "a person",
            )
            .next_step(promote(waits)),
            Self::CanaryBusy { revision } => Description::new(
                format!("revision {revision} is in canary, and a stream has one canary at a time"),
                SIGNALS,
            )
            .next_step(waits.release(|stream, _| {
                format!("tidegate release promote {revision} --stream {stream} --deploy")
            })),
            Self::RollsBack { revision, failed } => rolls_back(*revision, *failed, waits),
            Self::CanaryOpen { count, deadline } => canary_open(count, *deadline, waits),
            Self::NotAvailable { answered, needed, deadline } => Description::new(
                format!("it has answered for {answered} without a break, and {needed} are needed"),
                "the process that reports whether the release answers",
            )
            .next_step(promote(waits))
            .timeout(format!("after {deadline} without becoming available it has failed")),
            Self::TooManyKept { count, unremoved } => too_many_kept(*count, *unremoved, waits),
        }
    }
}

fn rolls_back(revision: ReleaseRevision, failed: bool, waits: Waits<'_>) -> Description {
    if failed {
        let blocked_on =
            format!("revision {revision}, a rollback, failed, and no earlier release goes out automatically");
        return Description::new(blocked_on, "a person, who retries it or promotes a release")
            .next_step(waits.release(|stream, _| retry(stream, revision)));
    }
    Description::new(
        format!("revision {revision} rolls back to an earlier release and overtakes this one"),
        "what that rollback is blocked on",
    )
    .next_step(waits.release(|stream, _| format!("tidegate release explain {revision} --stream {stream}")))
}

fn needed(service: &ServiceName, floor: ServiceVersion, by: &NeededBy, waits: Waits<'_>) -> Description {
    let NeededBy { stream, revision, tag, hold, needs } = by;
    Description::new(
                    format!(
                        "the floor of {service} cannot fall to {floor}: revision {revision} of {stream} ({tag}) is {hold} and needs {needs}"
                    ),
                    "a person, who first rolls the compute release back or unpins it",
                )
                .next_step(waits.upgrade(|_| format!("tidegate release rollback … --stream {stream} --why …")))
}

fn floor_behind(
    service: &ServiceName,
    (floor, needs): (ServiceVersion, ServiceVersion),
    by_hand: Option<ServiceVersion>,
    waits: Waits<'_>,
) -> Description {
    let behind = format!("the floor of {service} is committed at {floor}, and {needs} is required");
    match by_hand {
        None => Description::new(behind, "the upgrade of the service, once its last instance is verified")
            .next_step(waits.release(|_, _| format!("tidegate upgrade list {service} --active"))),
        Some(ceiling) => Description::new(
            format!("{behind}; every instance is at {needs} or above, and no upgrade raises the floor"),
            "a person, who raises the floor",
        )
        .next_step(waits.release(|_, _| {
            format!("tidegate fleet window {service} --floor {needs} --ceiling {ceiling} --why …")
        })),
    }
}

fn evidence(
    compute: &ReleaseTag,
    storage: &ReleaseTag,
    found: Option<&str>,
    waits: Waits<'_>,
) -> Description {
    Description::new(
        match found {
            None => format!("no evidence that {compute} works with {storage}, which is in use"),
            Some(verdict) => format!(
                "the compatibility run of {compute} with {storage}, which is in use, ended with {verdict}"
            ),
        },
        "a compatibility run that passes",
    )
    .next_step(
        waits.release(|_, _| {
            format!("grenade compat --compute-tag {compute} --storage-tag {storage} -- COMMAND")
        }),
    )
}

fn canary_open(count: &CanaryCount, deadline: Option<Span>, waits: Waits<'_>) -> Description {
    let CanaryCount { successes, needed, failures, tolerated } = count;
    let needed = match needed {
        Some(needed) => format!("{needed} are needed"),
        None => "a person promotes it".to_owned(),
    };
    let description = Description::new(
                    format!(
                        "{successes} computes signalled success and {needed}; {failures} signalled failure and {tolerated} are tolerated"
                    ),
                    SIGNALS,
                )
                .next_step(promote(waits));
    match deadline {
        Some(deadline) => {
            description.timeout(format!("after {deadline} in canary without success it is withdrawn"))
        }
        None => description,
    }
}

fn too_many_kept(count: usize, unremoved: usize, waits: Waits<'_>) -> Description {
    let kept = format!("{count} superseded releases are kept, which is the maximum");
    if unremoved > 0 {
        return Description::new(
            format!("{kept}; the images of {unremoved} are still to be removed"),
            "the hooks that remove them; or a person, who retries these or changes the stream's settings",
        )
        .next_step(waits.release(|stream, _| format!("tidegate release explain --stream {stream}")));
    }
    Description::new(kept, "a person, who unpins computes; or computes that move to a later release")
        .next_step(waits.release(|stream, _| format!("tidegate release unpin … --stream {stream}")))
}

fn retry(stream: &StreamName, revision: ReleaseRevision) -> String {
    format!("tidegate release retry {revision} --stream {stream}")
}

/// What failed waits for a person, unless a later release is deployed.
pub(crate) fn failed(stream: &Stream) -> impl Iterator<Item = (ReleaseRevision, Vec<Reason>)> {
    let deployed = stream.deployed.as_ref().map(|head| head.release.revision);
    let errors = stream.heads().filter(|head| head.release.status == ReleaseStatus::Error);
    errors.map(move |head| {
        let overtaken = deployed.filter(|deployed| *deployed > head.release.revision);
        let why = head.release.because.clone();
        (head.release.revision, vec![ReleaseGate::ReleaseFailed { why, overtaken }.into()])
    })
}
