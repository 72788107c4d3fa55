//! The proof on which a contract ran, as it was stored.

use super::{OperationError, find, parse, store_error};
use crate::context::Context;
use tidegate_proto::key::Kind;
use tidegate_proto::record::upgrade::{Phase, Upgrade};
use tidegate_proto::wire::v1::{CertificatePart, UpgradeCertificateRequest};
use tidegate_proto::{UpgradeId, Value};
use tidegate_store::Scope;

/// The certificate of an upgrade, in its parts.
pub async fn upgrade_certificate(
    context: &Context,
    asked: &UpgradeCertificateRequest,
) -> Result<Vec<CertificatePart>, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    if let Some(why) = has_none(find(&context.mirror.view().fleet, &id)?) {
        return Err(OperationError::NotFound(format!("upgrade {id} has no certificate: {why}")));
    }
    let scope = Scope::Within(Kind::Certificate, id.to_string());
    let found = context.store.list(&scope).await.map_err(store_error("read the certificate"))?;
    if found.entries.is_empty() {
        let lost = format!("the certificate of upgrade {id} was removed from the store");
        return Err(OperationError::NotFound(lost));
    }
    let parts = found.entries.into_iter().map(|entry| match entry.value {
        Ok(Value::Certificate(record)) => Ok(CertificatePart { text: record.body.text }),
        Ok(_) => {
            Err(OperationError::Refused(format!("the record {} is no page of a certificate", entry.key)))
        }
        Err(why) => Err(OperationError::Refused(format!("the record {} {why}", entry.key))),
    });
    parts.collect()
}

/// Why an upgrade has none. Pages alone prove nothing: the transaction that enters contract makes them a certificate.
fn has_none(upgrade: &Upgrade) -> Option<&'static str> {
    if upgrade.spec.schema.is_none() {
        return Some("it changes no schema, so nothing is contracted");
    }
    let certified = matches!(upgrade.phase, Phase::Contract { .. } | Phase::Completed);
    (!certified).then_some("it has not entered contract")
}
