//! The proof on which a contract ran, as it was stored.

use super::{OperationError, find, parse, store_error};
use crate::context::Context;
use tidegate_proto::key::Kind;
use tidegate_proto::record::certificate::CertificatePage;
use tidegate_proto::record::upgrade::{Phase, Upgrade};
use tidegate_proto::wire::v1::{CertificatePart, UpgradeCertificateRequest};
use tidegate_proto::{Digest, Key, UpgradeId, Value};
use tidegate_store::{Entry, Scope};

/// The certificate of an upgrade, in its parts.
pub async fn upgrade_certificate(
    context: &Context,
    asked: &UpgradeCertificateRequest,
) -> Result<Vec<CertificatePart>, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    let entered = {
        let view = context.mirror.view();
        let upgrade = find(&view.fleet, &id)?;
        if let Some(why) = has_none(upgrade) {
            return Err(OperationError::NotFound(format!("upgrade {id} has no certificate: {why}")));
        }
        entered_with(upgrade)
    };
    let scope = Scope::Within(Kind::Certificate, id.to_string());
    let found = context.store.list(&scope).await.map_err(store_error("read the certificate"))?;
    if found.entries.is_empty() {
        let lost = format!("the certificate of upgrade {id} was removed from the store");
        return Err(OperationError::NotFound(lost));
    }
    let pages = pages(&id, found.entries)?;
    is_entered(&id, entered, &pages)?;
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

/// Whether the pages are the certificate with which contract was entered, where that is known: each page alone may have been
/// stored again with a digest of its own.
fn is_entered(
    id: &UpgradeId,
    entered: Option<Digest>,
    pages: &[CertificatePage],
) -> Result<(), OperationError> {
    let Some(entered) = entered else { return Ok(()) };
    let text: String = pages.iter().map(|page| page.text.as_str()).collect();
    let stored = Digest::of(text.as_bytes());
    match stored == entered {
        true => Ok(()),
        false => Err(OperationError::Refused(format!(
            "the stored certificate of upgrade {id} has digest {stored}, and contract was entered with {entered}"
        ))),
    }
}

/// The digest of the certificate with which contract was entered; none where an earlier version completed the upgrade.
fn entered_with(upgrade: &Upgrade) -> Option<Digest> {
    match &upgrade.phase {
        Phase::Contract { certificate } => Some(*certificate),
        _ => upgrade.certificate,
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

    #[test]
    fn page_sealed_again_is_not_what_contract_was_entered_with() {
        let sealed = |text: &str| [CertificatePage::sealed(text.to_owned(), 1)];
        let entered = Digest::of(b"{\"pending\":0}");
        let checked = |entered: Option<Digest>, text: &str| is_entered(&id(), entered, &sealed(text));
        assert!(checked(Some(entered), "{\"pending\":0}").is_ok());
        let why = checked(Some(entered), "{\"pending\":1}").unwrap_err().to_string();
        assert!(why.starts_with("the stored certificate of upgrade u1 has digest "), "{why}");
        assert!(why.ends_with(&format!("contract was entered with {entered}")), "{why}");
        assert!(checked(None, "{\"pending\":1}").is_ok(), "an earlier version completed the upgrade");
    }
}
