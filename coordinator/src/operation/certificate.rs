//! The proof on which a contract ran, as it was stored.

use super::{OperationError, find, store_error, upgrade_id};
use crate::room::Room;
use tidegate_proto::Value;
use tidegate_proto::key::Kind;
use tidegate_proto::wire::v1::UpgradeCertificateRequest;
use tidegate_store::Scope;

/// The certificate of an upgrade, in its parts.
pub async fn certificate(
    room: &Room,
    asked: &UpgradeCertificateRequest,
) -> Result<Vec<String>, OperationError> {
    let id = upgrade_id(&asked.id)?;
    let without_schema = find(&room.mirror.picture().fleet, &id)?.spec.schema.is_none();
    let scope = Scope::Within(Kind::Certificate, id.to_string());
    let found = room.store.list(&scope).await.map_err(store_error("read the certificate"))?;
    if found.entries.is_empty() {
        let why = if without_schema {
            "it changes no schema, so nothing is contracted"
        } else {
            "it has not entered contract"
        };
        return Err(OperationError::NotFound(format!("upgrade {id} has no certificate: {why}")));
    }
    let parts = found.entries.into_iter().map(|entry| match entry.value {
        Ok(Value::Certificate(record)) => Ok(record.body.text),
        Ok(_) => {
            Err(OperationError::Refused(format!("the record {} is no page of a certificate", entry.key)))
        }
        Err(why) => Err(OperationError::Refused(format!("the record {} {why}", entry.key))),
    });
    parts.collect()
}
