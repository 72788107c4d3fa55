//! Verdicts of gate jobs: recorded for two artifacts, and listed.

use super::{OperationError, mutation, remarking, store_error};
use crate::context::Context;
use crate::leadership::Leadership;
use std::fmt::Display;
use std::str::FromStr;
use tidegate_planner::ask;
use tidegate_proto::key::Kind;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::wire::v1::{Done, GateVerdict, ListGatesRequest, RecordGateRequest};
use tidegate_proto::{Artifact, Digest, GateHop, Key, ServiceName, ServiceVersion, Value};
use tidegate_store::{Entry, Scope};

/// Records a verdict.
pub async fn record_gate(
    context: &Context,
    leadership: &Leadership,
    asked: RecordGateRequest,
) -> Result<Done, OperationError> {
    let hop = GateHop {
        service: read("service", &asked.service)?,
        tag: read("tag", &asked.tag)?,
        from: artifact(("from", asked.from), ("from_sha256", &asked.from_sha256))?,
        to: artifact(("to", asked.to), ("to_sha256", &asked.to_sha256))?,
    };
    let report: Option<Digest> = match asked.report_sha256.as_str() {
        "" => None,
        text => Some(read("report_sha256", text)?),
    };
    if hop.to.version <= hop.from.version {
        return Err(OperationError::BadInput(format!(
            "to: {} is not above `from` ({}): a gate job judges an upgrade",
            hop.to.version, hop.from.version
        )));
    }
    let verdict: Verdict = read("verdict", &asked.verdict)?;
    let asker = remarking(&asked.who, "note", &asked.note)?;
    let revision = mutation::apply(context, leadership, |fleet, moment| {
        Ok(ask::gate_verdict(fleet, moment, &hop, verdict, report, &asker))
    })
    .await?;
    let GateHop { service, tag, from, to } = hop;
    let what = format!("{tag} of {service} from {} to {}: {verdict}", from.version, to.version);
    Ok(Done { what, revision: revision.0 })
}

/// Every verdict, those that cannot be read among them.
pub async fn list_gates(
    context: &Context,
    asked: &ListGatesRequest,
) -> Result<Vec<GateVerdict>, OperationError> {
    let scope = match asked.service.as_str() {
        "" => Scope::Kind(Kind::GateVerdict),
        service => Scope::Within(Kind::GateVerdict, read::<ServiceName>("service", service)?.to_string()),
    };
    let found = context.store.list(&scope).await.map_err(store_error("list the verdicts of gate jobs"))?;
    Ok(found.entries.into_iter().filter_map(shown).collect())
}

fn shown(entry: Entry) -> Option<GateVerdict> {
    let Key::GateVerdict(hop) = entry.key else { return None };
    let GateHop { service, tag, from, to } = *hop;
    let named = GateVerdict {
        service: service.to_string(),
        tag: tag.to_string(),
        from: from.version.get(),
        to: to.version.get(),
        from_sha256: from.sha256.declared(),
        to_sha256: to.sha256.declared(),
        ..GateVerdict::default()
    };
    Some(match entry.value {
        Ok(Value::GateVerdict(record)) => GateVerdict {
            verdict: Some(record.body.verdict.to_string()),
            report_sha256: record.body.report.map(|report| report.to_string()),
            note: record.body.note,
            who: record.body.who,
            at: Some(record.body.at.0),
            earlier: record.body.earlier.into_iter().map(Into::into).collect(),
            ..named
        },
        Ok(_) => GateVerdict { unreadable: Some("is no verdict".to_owned()), ..named },
        Err(why) => GateVerdict { unreadable: Some(why.to_string()), ..named },
    })
}

fn artifact(version: (&str, u32), sha256: (&str, &str)) -> Result<Artifact, OperationError> {
    let (field, number) = version;
    let version = ServiceVersion::new(i64::from(number))
        .map_err(|e| OperationError::BadInput(format!("{field}: {e}")))?;
    let sha256 = match sha256 {
        (field, "") => {
            return Err(OperationError::BadInput(format!("{field} is empty: a sha256 or absent is needed")));
        }
        (field, text) => Digest::from_declared(text)
            .map_err(|error| OperationError::BadInput(format!("{field}: {error}")))?,
    };
    Ok(Artifact { version, sha256 })
}

fn read<T: FromStr<Err: Display>>(field: &str, text: &str) -> Result<T, OperationError> {
    text.parse().map_err(|e: T::Err| OperationError::BadInput(format!("{field}: {e}")))
}
