//! Which agent claims the tasks of a node: the one that reports the node's services. A second agent may have the same name,
//! and the same hooks on another machine.

use super::TaskError;
use crate::config::settings::Node;
use tidegate_proto::commit::Precondition;
use tidegate_proto::record::report::Identity;
use tidegate_proto::{Key, Value};
use tidegate_store::{Entry, Store};

/// The reports of a node.
pub(super) fn keys(node: &Node) -> Vec<Key> {
    node.services.keys().map(|service| Key::Report(service.clone(), node.name.clone())).collect()
}

/// What holds for as long as each report is there and of this agent.
pub(super) async fn held(
    store: &Store,
    reports: &[Key],
    own: &Identity,
) -> Result<Vec<Precondition>, TaskError> {
    let found = store.get_many(reports).await?;
    let mut held = Vec::with_capacity(reports.len());
    for key in reports {
        match found.get(key) {
            Some(Entry { value: Ok(Value::Report(report)), create_revision, .. })
                if report.body.identity == *own =>
            {
                held.push(Precondition::CreatedAt(key.clone(), *create_revision));
            }
            _ => return Err(TaskError::NotReported(Box::new(key.clone()))),
        }
    }
    Ok(held)
}

/// Whether a report that was compared is gone: such a conflict says nothing of the task.
pub(super) fn are_among(broken: &[Precondition]) -> bool {
    broken.iter().any(|broken| matches!(broken, Precondition::CreatedAt(..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_embedded_etcd::Embedded;
    use tidegate_proto::record::Timestamp;
    use tidegate_proto::record::report::Report;
    use tidegate_proto::record::task::{Outcome, TaskResult};
    use tidegate_proto::{Commit, NodeId, Prefix};
    use tidegate_store::CommitError;

    fn agent(nonce: &str, boot: &str) -> Identity {
        Identity { nonce: nonce.into(), boot: boot.into() }
    }

    async fn report(store: &Store, key: &Key, by: &Identity) {
        let report: Report = serde_json::from_value(serde_json::json!({ "identity": by })).unwrap();
        store.commit(&Commit::new().put(key.clone(), report)).await.unwrap();
    }

    #[tokio::test]
    async fn task_is_claimed_only_under_own_reports_of_all_services() {
        let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
        let (node, own): (NodeId, _) = ("n1".parse().unwrap(), agent("own", "b"));
        let keys = ["bakery", "pantry"].map(|service| Key::Report(service.parse().unwrap(), node.clone()));
        assert!(held(&store, &[], &own).await.unwrap().is_empty(), "a node without services has no report");
        report(&store, &keys[0], &own).await;
        assert!(held(&store, &keys, &own).await.is_err(), "the other service is not reported");
        for other in [agent("another", "b"), agent("own", "an earlier boot")] {
            report(&store, &keys[1], &other).await;
            assert!(held(&store, &keys, &own).await.is_err(), "{other:?}");
        }
        report(&store, &keys[1], &own).await;

        let result = Key::TaskResult(node, "t-1".parse().unwrap());
        let claim = held(&store, &keys, &own).await.unwrap().into_iter().fold(Commit::new(), Commit::when);
        let claim = claim.put(result, TaskResult::new(Outcome::Claimed, Timestamp(0)));
        report(&store, &keys[0], &own).await;
        assert!(store.commit(&claim).await.is_ok(), "a report may change meanwhile");
        store.commit(&Commit::new().delete(keys[0].clone())).await.unwrap();
        report(&store, &keys[0], &own).await;
        match store.commit(&claim).await {
            Err(CommitError::Conflict { broken, .. }) => assert!(are_among(&broken), "{broken:?}"),
            other => panic!("another agent may have reported it in between: {other:?}"),
        }
    }
}
