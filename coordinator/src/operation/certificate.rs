//! The proof on which a contract ran, as it was stored.

use super::{OperationError, find, parse, store_error};
use crate::context::Context;
use tidegate_proto::key::Kind;
use tidegate_proto::record::certificate::CertificatePage;
use tidegate_proto::record::upgrade::{Phase, Upgrade};
use tidegate_proto::wire::v1::{CertificatePart, UpgradeCertificateRequest};
use tidegate_proto::{Key, UpgradeId, Value};
use tidegate_store::{Entry, Scope};

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
    let pages = pages(&id, found.entries)?;
    Ok(pages.into_iter().map(|page| CertificatePart { text: page.text }).collect())
}

/// The pages of a certificate, all of them and as they were stored.
fn pages(id: &UpgradeId, entries: Vec<Entry>) -> Result<Vec<CertificatePage>, OperationError> {
    let refused = |key: &Key, why: &str| Err(OperationError::Refused(format!("the record {key} {why}")));
    let missing = "is missing: it was removed after the certificate was stored";
    let mut pages: Vec<CertificatePage> = Vec::new();
    for (number, Entry { key, value, .. }) in (0..).zip(entries) {
        let expected = Key::Certificate(id.clone(), number);
        if key != expected {
            return refused(&expected, missing);
        }
        match value {
            Ok(Value::Certificate(record)) if record.body.is_altered() => {
                return refused(&key, "has another text than when the certificate was stored");
            }
            Ok(Value::Certificate(record)) => pages.push(record.body),
            Ok(_) => return refused(&key, "is no page of a certificate"),
            Err(why) => return refused(&key, &why.to_string()),
        }
    }
    let sealed = pages.iter().find_map(|page| page.seal.as_ref()).map(|seal| seal.pages);
    let found = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    match sealed {
        Some(all) if found < all => refused(&Key::Certificate(id.clone(), found), missing),
        Some(all) if found > all => {
            refused(&Key::Certificate(id.clone(), all), "was added after the certificate was stored")
        }
        _ => Ok(pages),
    }
}

/// Why an upgrade has none. Pages alone prove nothing: the transaction that enters contract makes them a certificate.
fn has_none(upgrade: &Upgrade) -> Option<&'static str> {
    if upgrade.spec.schema.is_none() {
        return Some("it changes no schema, so nothing is contracted");
    }
    let certified = matches!(upgrade.phase, Phase::Contract { .. } | Phase::Completed);
    (!certified).then_some("it has not entered contract")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::Revision;

    fn id() -> UpgradeId {
        "u1".parse().unwrap()
    }

    /// The entries of a certificate of three pages, and one that is no part of it.
    fn stored() -> Vec<Entry> {
        let page = |(number, text): (u32, &str)| Entry {
            key: Key::Certificate(id(), number),
            value: Ok(CertificatePage::sealed(text.to_owned(), 3).into()),
            bytes_len: 0,
            mod_revision: Revision(7),
            create_revision: Revision(7),
            lease: 0,
        };
        (0..).zip(["{\"a\":", "[1,", "2]}", "3"]).map(page).collect()
    }

    fn found(change: impl FnOnce(&mut Vec<Entry>)) -> Result<String, String> {
        let mut entries = stored();
        change(&mut entries);
        let pages = pages(&id(), entries).map_err(|error| error.to_string())?;
        Ok(pages.into_iter().map(|page| page.text).collect())
    }

    fn alter(entry: &mut Entry, alter: impl FnOnce(&mut CertificatePage)) {
        let Ok(Value::Certificate(record)) = &mut entry.value else { panic!("no page") };
        alter(&mut record.body);
    }

    #[test]
    fn altered_missing_or_added_certificate_page_is_named() {
        assert_eq!(found(|all| all.truncate(3)).as_deref(), Ok("{\"a\":[1,2]}"));
        for (missing, name) in [(0, "000000"), (1, "000001"), (2, "000002")] {
            let why = found(|all| {
                all.truncate(3);
                all.remove(missing);
            });
            assert!(why.unwrap_err().starts_with(&format!("the record certificates/u1/{name} is missing")));
        }
        let why = found(|all| alter(&mut all[1], |page| page.text = "[0,".to_owned())).unwrap_err();
        assert!(why.starts_with("the record certificates/u1/000001 has another text"), "{why}");
        let why = found(|_| ()).unwrap_err();
        assert!(why.starts_with("the record certificates/u1/000003 was added"), "{why}");
        // Pages of a former version have no seal.
        let unsealed = found(|all| all.iter_mut().for_each(|entry| alter(entry, |page| page.seal = None)));
        assert_eq!(unsealed.as_deref(), Ok("{\"a\":[1,2]}3"));
    }
}
