//! What a report is written over, and when the version has to be admitted again.

use super::*;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::Prefix;

fn own() -> Identity {
    Identity { nonce: "n".to_owned(), boot: "b".to_owned() }
}

fn report(generation: i64) -> Report {
    let text = serde_json::json!({ "identity": own(), "version": 1, "generation": Revision(generation) });
    serde_json::from_value(text).unwrap()
}

fn key() -> Key {
    Key::Report("pantry".parse().unwrap(), "n1".parse().unwrap())
}

/// An agent that has reported nothing yet, and its store.
struct Agent {
    store: Store,
    leased: Leased,
    publisher: Publisher,
}

impl Agent {
    async fn new() -> Self {
        let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
        let lease = Arc::new(store.lease(Duration::from_secs(60)).await.unwrap());
        let id = InstanceId::new("pantry".parse().unwrap(), "n1".parse().unwrap());
        Self { store, leased: Leased { epoch: 1, lease }, publisher: Publisher::new(id) }
    }

    fn begin(&mut self, generation: i64) {
        self.publisher.again_at = None;
        let (store, leased, own) = (self.store.clone(), self.leased.clone(), own());
        self.publisher.begin(store, leased, &own, report(generation), Instant::now(), Duration::ZERO);
    }

    async fn reports(&mut self, generation: i64) -> Result<(), NotPublished> {
        self.begin(generation);
        self.publisher.ended().await
    }

    /// A report of this agent that the publisher has no answer to: its own write, or one of a former process.
    async fn put(&self, generation: i64) -> Revision {
        self.store.commit(&Commit::new().put(key(), report(generation))).await.unwrap().revision
    }

    async fn remove(&self) {
        self.store.commit(&Commit::new().delete(key())).await.unwrap();
    }

    /// The generation that the store's report names; none where there is no report.
    async fn reported(&self) -> Option<i64> {
        match self.store.get(&key()).await.unwrap()?.value.unwrap() {
            Value::Report(record) => Some(record.body.generation.0),
            other => panic!("{other:?}"),
        }
    }
}

fn is_gone(done: &Result<(), NotPublished>) -> bool {
    matches!(done, Err(NotPublished::Gone(_)))
}

#[tokio::test]
async fn removed_report_is_written_only_after_another_admission() {
    let mut agent = Agent::new().await;
    agent.reports(1).await.unwrap();
    agent.remove().await;
    let done = agent.reports(2).await;
    assert!(is_gone(&done), "{done:?}");
    assert_eq!(agent.reported().await, None);
    assert!(agent.publisher.takes_lapse() && !agent.publisher.takes_lapse());
    agent.publisher.admitted_over(Revision::ABSENT);
    agent.reports(3).await.unwrap();
    assert_eq!(agent.reported().await, Some(3));
    assert!(!agent.publisher.takes_lapse());
}

#[tokio::test]
async fn first_report_is_written_over_what_the_admission_saw() {
    for lapses in [false, true] {
        let mut agent = Agent::new().await;
        let seen = agent.put(1).await;
        agent.publisher.admitted_over(seen);
        if lapses {
            agent.remove().await;
        }
        let done = agent.reports(2).await;
        assert_eq!(is_gone(&done), lapses, "{done:?}");
        assert_eq!(agent.reported().await, (!lapses).then_some(2));
        assert_eq!(agent.publisher.takes_lapse(), lapses);
    }
}

#[tokio::test]
async fn report_made_again_meanwhile_needs_another_admission() {
    let mut agent = Agent::new().await;
    agent.reports(1).await.unwrap();
    agent.remove().await;
    let again = agent.put(2).await;
    let done = agent.reports(3).await;
    assert!(is_gone(&done) && agent.publisher.takes_lapse(), "{done:?}");
    assert_eq!(agent.reported().await, Some(2));
    agent.publisher.admitted_over(again);
    agent.reports(4).await.unwrap();
    assert_eq!(agent.reported().await, Some(4));
}

#[tokio::test]
async fn put_whose_answer_was_lost_locks_no_agent_out() {
    let mut agent = Agent::new().await;
    agent.publisher.admitted_over(Revision::ABSENT);
    for generation in [1, 3] {
        agent.put(generation).await;
        agent.reports(generation + 1).await.unwrap();
        assert_eq!(agent.reported().await, Some(generation + 1));
        assert!(!agent.publisher.takes_lapse(), "its report was never gone");
    }
}

#[tokio::test]
async fn admission_beside_a_write_counts_while_its_report_stood() {
    for (was_there, lapses) in [(true, true), (true, false), (false, false)] {
        let mut agent = Agent::new().await;
        let seen = if was_there { agent.put(1).await } else { Revision::ABSENT };
        if lapses {
            agent.remove().await;
        }
        agent.begin(2);
        agent.publisher.admitted_over(seen);
        agent.publisher.ended().await.unwrap();
        assert_eq!(agent.publisher.takes_lapse(), lapses, "{was_there}");
    }
}

#[tokio::test]
async fn report_seen_gone_before_the_last_one_is_no_lapse() {
    let mut agent = Agent::new().await;
    agent.reports(1).await.unwrap();
    let at = agent.publisher.at();
    agent.publisher.seen_gone(Revision(at.0 - 1));
    assert!(!agent.publisher.takes_lapse(), "the watch is behind");
    for lapses in [true, false] {
        agent.publisher.seen_gone(Revision(at.0 + 1));
        assert_eq!(agent.publisher.takes_lapse(), lapses, "once");
    }
}
