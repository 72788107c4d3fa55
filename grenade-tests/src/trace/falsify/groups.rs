//! Falsified histories of metadata groups. Each brings a group of its own: one document is served to all, and another one is
//! exposed to three instances, one after the other.

use std::collections::BTreeMap;

use tidegate_proto::key::{EventSeq, Subject};
use tidegate_proto::metadata::{UpdateTerms, document_digest};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::group::{
    Document, DocumentVersion, EndedUpdate, ExposedPage, Group, GroupUpdate, Members, UpdateOutcome,
};
use tidegate_proto::{Amount, GroupName, Key, MetadataGeneration, NodeId, Span, Value, spec::Strategy};

use super::super::{Put, Trace, Written};
use super::{PERSON, append, event, next};

/// The instances, each in a batch of its own.
const INSTANCES: [&str; 3] = ["n1", "n2", "n3"];

/// A group with its first document, while the first batch has the second one.
struct Stage<'a> {
    trace: &'a mut Trace,
    name: GroupName,
    group: Group,
    events: u64,
}

impl<'a> Stage<'a> {
    fn begin(trace: &'a mut Trace) -> Option<Self> {
        let (first, second) = (MetadataGeneration::new(1).ok()?, MetadataGeneration::new(2).ok()?);
        let last = EndedUpdate {
            generation: first,
            outcome: UpdateOutcome::Finished,
            because: String::new(),
            who: PERSON.to_owned(),
            at: Timestamp(1),
        };
        let group = Group {
            members: Members::Service("pantry".parse().ok()?),
            latest: first,
            current: Some(DocumentVersion {
                generation: first,
                digest: document_digest(&document(1).document),
            }),
            kept: None,
            update: None,
            last: Some(last),
        };
        let mut stage = Self { trace, name: "edge".parse().ok()?, group, events: 0 };
        stage.write(vec![stage.put(Key::Document(stage.name.clone(), first), document(1).into())]);
        stage.group.latest = second;
        stage.group.update = Some(update(second));
        let page = ExposedPage { generation: second, members: members()? };
        stage.write(vec![
            stage.put(Key::Document(stage.name.clone(), second), document(2).into()),
            stage.put(Key::Exposed(stage.name.clone(), 0), page.into()),
        ]);
        Some(stage)
    }

    fn put(&self, key: Key, value: Value) -> Written {
        Written { key, put: Some(Put { value, created: next(self.trace), lease: 0 }), gone: false }
    }

    /// Writes the group as it is now with its event, and this.
    fn write(&mut self, mut writes: Vec<Written>) {
        let seq = EventSeq { term: 1, number: self.events };
        self.events += 1;
        writes.push(self.put(Key::Event(Subject::Group(self.name.clone()), seq), event().into()));
        writes.push(self.put(Key::Group(self.name.clone()), self.group.clone().into()));
        append(self.trace, writes);
    }
}

fn document(number: u64) -> Document {
    Document { document: serde_json::json!({ "n": number }) }
}

fn update(to: MetadataGeneration) -> GroupUpdate {
    GroupUpdate {
        to: DocumentVersion { generation: to, digest: document_digest(&document(2).document) },
        strategy: Strategy::Rolling { batch: Amount::Count(1) },
        terms: UpdateTerms {
            timeout: Span::from_secs(300),
            pause: Span::default(),
            tolerate: Amount::Count(0),
            expected: Default::default(),
        },
        drawn: 3,
        batches: 3,
        pages: 1,
        batch: 0,
        waited_ms: 0,
        by: PERSON.to_owned(),
        why: String::new(),
        at: Timestamp(1),
    }
}

fn members() -> Option<BTreeMap<NodeId, u32>> {
    (0..).zip(INSTANCES).map(|(batch, node)| Some((node.parse().ok()?, batch))).collect()
}

/// After the first batch the third is exposed.
pub(super) fn batch_is_left_out(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::begin(trace)?;
    stage.group.update.as_mut()?.batch = 2;
    stage.write(Vec::new());
    Some(())
}

/// The document of the instances that are not exposed is removed as the second batch is.
pub(super) fn document_is_lost(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::begin(trace)?;
    stage.group.update.as_mut()?.batch = 1;
    let key = Key::Document(stage.name.clone(), stage.group.current?.generation);
    stage.write(vec![Written { key, put: None, gone: true }]);
    Some(())
}
