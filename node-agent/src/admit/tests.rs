//! What is admitted, by what is read and by what has changed since.

use super::*;
use crate::directive::tests::story::order;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Report;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Prefix, ServiceName};

fn version(n: i64) -> ServiceVersion {
    ServiceVersion::new(n).unwrap()
}

/// One that asks to be admitted.
struct Asker {
    instance: InstanceId,
    labels: BTreeMap<String, String>,
    identity: Identity,
}

impl Asker {
    fn n1() -> Self {
        Self {
            instance: InstanceId::new("pantry-api".parse().unwrap(), "n1".parse().unwrap()),
            labels: BTreeMap::new(),
            identity: Identity { nonce: "n".into(), boot: "b".into() },
        }
    }

    fn asks(&self, n: i64) -> Candidate<'_> {
        Candidate {
            instance: &self.instance,
            version: version(n),
            release: None,
            labels: &self.labels,
            identity: &self.identity,
            known: Revision::ABSENT,
            obeyed: Revision::ABSENT,
            accepted: Revision::ABSENT,
            shown: None,
        }
    }
}

async fn set_window(store: &Store, service: &ServiceName, floor: i64, ceiling: i64) -> Revision {
    let window = Window {
        floor: version(floor),
        ceiling: version(ceiling),
        set_by: "u1".parse().unwrap(),
        contracted: None,
    };
    let commit = Commit::new().put(Key::Window(service.clone()), window);
    store.commit(&commit).await.unwrap().revision
}

#[tokio::test]
async fn only_what_is_within_the_window_is_admitted() {
    let client = Embedded::in_memory().client().await.unwrap();
    let store = Store::over(client, Prefix::default());
    let n1 = Asker::n1();
    assert!(admit(&store, &n1.asks(9)).await.is_ok(), "without a window anything may");
    set_window(&store, &n1.instance.service, 2, 3).await;
    for (n, fits) in [(1, false), (2, true), (3, true), (4, false)] {
        let answer = admit(&store, &n1.asks(n)).await;
        assert_eq!(answer.is_ok(), fits, "version {n}: {answer:?}");
    }
}

#[tokio::test]
async fn refusal_names_the_bound_that_refuses() {
    let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
    let n1 = Asker::n1();
    set_window(&store, &n1.instance.service, 2, 3).await;
    for (n, is_above, bound) in [(1, false, "below the floor 2"), (4, true, "above the ceiling 3")] {
        let Err(NotAdmitted::Refused(refusal)) = admit(&store, &n1.asks(n)).await else { panic!("{n}") };
        assert_eq!((refusal.above, refusal.reason.contains(bound)), (is_above, true), "{}", refusal.reason);
    }
}

/// The revision of the record that shows that the store fell back.
fn fell_back(answer: Result<Admission, NotAdmitted>) -> Revision {
    match answer {
        Err(NotAdmitted::FellBack { found, .. }) => found,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn older_window_than_obeyed_admits_and_refuses_nothing() {
    let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
    let n1 = Asker::n1();
    let obeyed = Revision(100);
    let asks = |n| Candidate { obeyed, ..n1.asks(n) };
    assert_eq!(fell_back(admit(&store, &asks(2)).await), Revision::ABSENT, "a blank store");
    let older = set_window(&store, &n1.instance.service, 2, 3).await;
    for version in [1, 2] {
        assert_eq!(fell_back(admit(&store, &asks(version)).await), older, "version {version}");
    }
    assert!(admit(&store, &Candidate { obeyed: older, ..n1.asks(2) }).await.is_ok());
}

/// A person put the window back into a restored store, after the agent had looked at it last.
#[tokio::test]
async fn later_window_beside_an_older_directive_admits_nothing() {
    let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
    let n1 = Asker::n1();
    let asks = |n| Candidate { accepted: Revision(100), ..n1.asks(n) };
    set_window(&store, &n1.instance.service, 2, 3).await;
    assert!(admit(&store, &asks(2)).await.is_ok(), "a directive that is not there says nothing");
    let InstanceId { service, node } = n1.instance.clone();
    let serve = order(1, Disposition::Serve { returning: false }).directive;
    let commit = Commit::new().put(Key::Directive(service, node), serve);
    let older = store.commit(&commit).await.unwrap().revision;
    for version in [1, 2] {
        assert_eq!(fell_back(admit(&store, &asks(version)).await), older, "version {version}");
    }
    assert!(admit(&store, &Candidate { accepted: older, ..n1.asks(2) }).await.is_ok());
}

#[tokio::test]
async fn report_without_version_needs_another_admission() {
    let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
    let n1 = Asker::n1();
    let first = admit(&store, &n1.asks(1)).await.unwrap().revision;
    let asks = Candidate { known: first, ..n1.asks(1) };
    let InstanceId { service, node } = n1.instance.clone();
    let key = Key::Report(service, node);
    for (version, stands) in [(Some(1), true), (None, false)] {
        let report = serde_json::json!({ "identity": n1.identity, "admission": first, "version": version });
        let report: Report = serde_json::from_value(report).unwrap();
        let at = store.commit(&Commit::new().put(key.clone(), report)).await.unwrap().revision;
        let admission = admit(&store, &asks).await.unwrap();
        assert_eq!(admission.revision == first, stands, "{version:?}: {admission:?}");
        assert_eq!(admission.report, at, "{version:?}");
    }
}

/// A watch that has resumed shows later what was written meanwhile.
#[tokio::test]
async fn unshown_admission_of_another_agent_is_waited_for() {
    let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
    let n1 = Asker::n1();
    let another = Identity { nonce: "another".into(), ..n1.identity.clone() };
    admit(&store, &Candidate { identity: &another, ..n1.asks(1) }).await.unwrap();
    let read = read(&store, &n1.instance).await.unwrap();
    let [.., key] = keys(&n1.instance);
    let Some(Ok(Value::Inventory(record))) = read.get(&key).map(|entry| &entry.value) else {
        panic!("nothing was admitted")
    };
    let earlier = Inventory { identity: n1.identity.clone(), ..record.body.clone() };
    let asks = |shown| Candidate { shown: Some(shown), ..n1.asks(1) };
    for shown in [None, Some(&earlier)] {
        let answer = admit(&store, &asks(shown)).await;
        assert!(matches!(answer, Err(NotAdmitted::Unshown(_))), "{shown:?}: {answer:?}");
    }
    assert!(admit(&store, &asks(Some(&record.body))).await.is_ok());
    assert!(admit(&store, &asks(None)).await.is_ok(), "the agent itself was admitted last");
}

#[tokio::test]
async fn window_change_refuses_admission_read_under_former_one() {
    let client = Embedded::in_memory().client().await.unwrap();
    let store = Store::over(client, Prefix::default());
    let n1 = Asker::n1();
    set_window(&store, &n1.instance.service, 1, 2).await;
    let read = read(&store, &n1.instance).await.unwrap();
    set_window(&store, &n1.instance.service, 2, 2).await;
    let answer = decide(&store, &n1.asks(1), &read).await;
    assert!(matches!(answer, Err(NotAdmitted::Commit(CommitError::Conflict { .. }))), "{answer:?}");
}

#[tokio::test]
async fn admission_uses_watched_keys_only_while_they_are_current() {
    let client = Embedded::in_memory().client().await.unwrap();
    let store = Store::over(client, Prefix::default());
    let n1 = Asker::n1();
    let InstanceId { service, node } = n1.instance.clone();
    let report: Report = serde_json::from_value(serde_json::json!({ "identity": n1.identity })).unwrap();
    let key = Key::Report(service.clone(), node.clone());
    let report_at = store.commit(&Commit::new().put(key, report)).await.unwrap().revision;
    let window_at = set_window(&store, &n1.instance.service, 1, 2).await;
    let window =
        Window { floor: version(1), ceiling: version(2), set_by: "u1".parse().unwrap(), contracted: None };
    let window = Known { revision: window_at, window };
    let first = admit_as_watched(&store, &n1.asks(2), &window, report_at).await.unwrap();
    assert_eq!(first, Admission { revision: Revision(window_at.0 + 1), report: report_at });

    // The watched window is outdated, whichever way it has moved since.
    set_window(&store, &n1.instance.service, 3, 3).await;
    let refused = admit_as_watched(&store, &n1.asks(2), &window, report_at).await;
    assert!(matches!(refused, Err(NotAdmitted::Refused(_))), "{refused:?}");
    assert!(
        admit_as_watched(&store, &n1.asks(3), &window, report_at).await.is_ok(),
        "the window admits it now"
    );

    // Another agent's report forbids the write, although the watch did not show it.
    let other = Identity { nonce: "another".into(), boot: "b".into() };
    let report: Report = serde_json::from_value(serde_json::json!({ "identity": other })).unwrap();
    let key = Key::Report(service.clone(), node.clone());
    store.commit(&Commit::new().put(key, report)).await.unwrap();
    let window = Known { revision: set_window(&store, &n1.instance.service, 1, 2).await, ..window };
    let held = admit_as_watched(&store, &n1.asks(2), &window, report_at).await;
    assert!(matches!(held, Err(NotAdmitted::Held { .. })), "{held:?}");
}
