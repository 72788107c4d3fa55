//! What persons ask of metadata groups, and what instances signal. Each verb is a function from what is seen to the commit
//! that applies it, to "that is so already", or to a refusal.

mod signal;

pub use signal::{MetadataSignal, signal};

use super::{Asker, Refusal};
use crate::fleet::{Fleet, Stored};
use crate::gate::Reason;
use crate::gate::store;
use crate::metadata::{self, Next, judge};
use crate::moment::Moment;
use crate::plan::metadata::{Writer, waited};
use crate::wave;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::metadata::{MAX_DOCUMENT_BYTES, MAX_MEMBERS, Pattern, UpdateRequest};
use tidegate_proto::record::group::{
    Document, DocumentVersion, EndedUpdate, ExposedPage, Group, GroupUpdate, Members, NamedMembers,
    UpdateOutcome, page_of,
};
use tidegate_proto::record::waves::PAGE_MEMBERS;
use tidegate_proto::{GroupName, Key, MetadataGeneration, NodeId, Revision};

/// The most metadata groups below one prefix.
pub const MAX_GROUPS: usize = 1_000;

/// What is done about something that was asked of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The generation concerned.
    pub generation: Option<MetadataGeneration>,
    /// What grants it; none = it is so already, and nothing is written.
    pub commit: Option<Commit>,
}

impl Asked {
    fn already(generation: Option<MetadataGeneration>) -> Self {
        Self { generation, commit: None }
    }
}

/// The group, which must be there and readable.
fn find<'a>(fleet: &'a Fleet, name: &GroupName) -> Result<&'a Stored<Group>, Refusal> {
    readable(fleet, name)?;
    fleet.group(name).ok_or_else(|| Refusal::not_found(format!(
            "there is no metadata group {name}: the first document that is set makes it (`tidegate metadata set {name} …`)"
        )))
}

/// Refuses what concerns records that cannot be read.
fn readable(fleet: &Fleet, name: &GroupName) -> Result<(), Refusal> {
    for key in [Key::Group(name.clone()), Key::Members(name.clone())] {
        if let Some(why) = fleet.unreadable_at(&key) {
            return Err(Refusal::state(format!(
                "the record {key} {why}: nothing is changed before it is restored (`tidegate metadata explain {name}` says how)"
            )));
        }
    }
    Ok(())
}

/// Gives a group another document. What says the same as what it has, or is being given, changes nothing.
pub fn set(
    fleet: &Fleet,
    moment: &Moment,
    name: &GroupName,
    request: &UpdateRequest,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    if let Some(flaw) = request.flaws().first() {
        return Err(Refusal::invalid(format!("{flaw}; nothing was changed")));
    }
    let bytes = request.document_bytes();
    if bytes > MAX_DOCUMENT_BYTES {
        let message = format!(
            "the document has {bytes} bytes, at most {MAX_DOCUMENT_BYTES} are allowed; nothing was changed"
        );
        return Err(Refusal::too_large(message));
    }
    readable(fleet, name)?;
    let stored = fleet.group(name);
    let group = stored.map(|stored| &stored.record.body);
    let wanted = wanted_members(fleet, name, group, request)?;
    let digest = request.digest();
    if let Some(update) = group.and_then(|group| group.update.as_ref()) {
        let same = update.to.digest == digest
            && update.strategy == request.strategy()
            && update.terms == request.terms()
            && wanted.changed.is_none();
        if same {
            return Ok(Asked::already(Some(update.to.generation)));
        }
        return Err(Refusal::state(format!(
            "generation {} of {name} is being exposed (batch {} of {}, asked for by {}), and one update runs at a time: \
                 wait for its end, or `tidegate metadata cancel {name} --why …`",
            update.to.generation,
            update.batch + 1,
            update.batches,
            update.by
        )));
    }
    let current = group.and_then(|group| group.current);
    if let Some(current) = current.filter(|current| current.digest == digest) {
        return Ok(match (&wanted.changed, stored) {
            (Some(_), Some(stored)) => Asked {
                generation: Some(current.generation),
                commit: Some(regrouped(moment, name, stored, wanted, asker)),
            },
            _ => Asked::already(Some(current.generation)),
        });
    }
    if group.is_none() && fleet.groups().count() >= MAX_GROUPS {
        return Err(Refusal::state(format!(
            "there are {MAX_GROUPS} metadata groups, and {name} would be one more"
        )));
    }
    let to =
        DocumentVersion { generation: MetadataGeneration::after(group.map(|group| group.latest)), digest };
    let drawn = drawn(name, to.generation, request, &wanted.nodes)?;
    let change = SetChange { fleet, moment, name, stored, request, asker, to };
    Ok(Asked { generation: Some(to.generation), commit: Some(change.commit(wanted, drawn)) })
}

/// Who is to belong to a group.
struct Wanted {
    members: Members,
    nodes: BTreeSet<NodeId>,
    /// The names to be written, where they are named and are others than before; else nothing but the kind changes.
    changed: Option<Option<NamedMembers>>,
}

fn wanted_members(
    fleet: &Fleet,
    name: &GroupName,
    group: Option<&Group>,
    request: &UpdateRequest,
) -> Result<Wanted, Refusal> {
    let before = group.map(|group| &group.members);
    if let Some(instances) = &request.instances {
        let stands = before == Some(&Members::Named)
            && fleet.named_members(name).is_some_and(|named| named.instances == *instances);
        let named = NamedMembers { instances: instances.clone() };
        let changed = (!stands).then_some(Some(named));
        return Ok(Wanted { members: Members::Named, nodes: instances.clone(), changed });
    }
    let members = match (&request.service, before) {
        (Some(service), _) => Members::Service(service.clone()),
        (None, Some(before)) => before.clone(),
        (None, None) => {
            return Err(Refusal::invalid(format!(
                "{name} is a new group: say who belongs to it, with service or with instances; nothing was changed"
            )));
        }
    };
    if let Members::Service(service) = &members
        && fleet.service(service).is_none_or(|service| service.is_empty())
    {
        return Err(Refusal::not_found(format!(
            "no instance of {service} was ever admitted, so {name} would be empty; nothing was changed"
        )));
    }
    let nodes = metadata::members(fleet, name, &members).cloned().collect();
    let changed = (before != Some(&members)).then_some(None);
    Ok(Wanted { members, nodes, changed })
}

/// The same document for other members.
fn regrouped(
    moment: &Moment,
    name: &GroupName,
    stored: &Stored<Group>,
    wanted: Wanted,
    asker: &Asker,
) -> Commit {
    let key = Key::Group(name.clone());
    let to = described(&wanted);
    let body = Group { members: wanted.members, ..stored.record.body.clone() };
    let commit =
        Commit::new().when(Precondition::At(key.clone(), stored.at)).put(key, stored.record.with(body));
    let commit = match wanted.changed.flatten() {
        Some(named) => commit.put(Key::Members(name.clone()), named),
        None => commit,
    };
    let words = ["other members".to_owned(), to];
    let event = (Subject::Group(name.clone()), moment.next_event);
    moment.with_event(commit, event, words, &asker.who, &asker.why)
}

fn described(wanted: &Wanted) -> String {
    match &wanted.members {
        Members::Service(service) => format!("the instances of {service}"),
        Members::Named => format!("{} named instances", wanted.nodes.len()),
    }
}

/// The batch of each instance; none where the update waits for no instance.
fn drawn(
    name: &GroupName,
    generation: MetadataGeneration,
    request: &UpdateRequest,
    nodes: &BTreeSet<NodeId>,
) -> Result<Option<wave::Drawn>, Refusal> {
    if request.pattern == Pattern::Immediate || nodes.is_empty() {
        return Ok(None);
    }
    if nodes.len() > MAX_MEMBERS {
        return Err(Refusal::invalid(format!(
            "{name} has {} instances, and an update by batches may have {MAX_MEMBERS}: divide the group, or expose it to all (immediate); nothing was changed",
            nodes.len()
        )));
    }
    let seed = format!("{name}-{generation}");
    Ok(Some(wave::draw(&seed, &request.strategy(), nodes.iter().map(|node| (node, "")))))
}

/// A new document in the making.
struct SetChange<'a> {
    fleet: &'a Fleet,
    moment: &'a Moment,
    name: &'a GroupName,
    stored: Option<&'a Stored<Group>>,
    request: &'a UpdateRequest,
    asker: &'a Asker,
    to: DocumentVersion,
}

impl SetChange<'_> {
    fn commit(self, wanted: Wanted, drawn: Option<wave::Drawn>) -> Commit {
        let (key, generation) = (Key::Group(self.name.clone()), self.to.generation);
        let document = Key::Document(self.name.clone(), generation);
        let at = self.stored.map_or(Revision::ABSENT, |stored| stored.at);
        let commit = Commit::new()
            .when(Precondition::At(key.clone(), at))
            .when(Precondition::At(document.clone(), Revision::ABSENT))
            .put(document, Document { document: self.request.document.clone() });
        let before = self.stored.map(|stored| &stored.record.body);
        // What was kept beside the current one is kept no longer.
        let commit = match before.and_then(|group| group.kept) {
            Some(kept) => commit.delete(Key::Document(self.name.clone(), kept)),
            None => commit,
        };
        let (pages, batches) = pages(generation, drawn.as_ref());
        let commit = self.pages(commit, &pages);
        let members = wanted.members.clone();
        let described = described(&wanted);
        let commit = match wanted.changed.flatten() {
            Some(named) => commit.put(Key::Members(self.name.clone()), named),
            None => commit,
        };
        let current = before.and_then(|group| group.current);
        let last = before.and_then(|group| group.last.clone());
        let body = match drawn {
            Some(drawn) => Group {
                members,
                latest: generation,
                current,
                kept: None,
                update: Some(self.update(drawn.members.len(), batches, pages.len())),
                last,
            },
            None => Group {
                members,
                latest: generation,
                current: Some(self.to),
                kept: current.map(|former| former.generation),
                update: None,
                last: Some(self.at_once(wanted.nodes.len())),
            },
        };
        let from =
            current.map_or_else(|| "no document".to_owned(), |now| format!("generation {}", now.generation));
        let to = match &body.update {
            Some(update) => format!(
                "generation {generation} at batch 1/{} for {} of {described}",
                update.batches, update.drawn
            ),
            None => format!("generation {generation} is served to all: {described}"),
        };
        let commit = match self.stored {
            Some(stored) => commit.put(key, stored.record.with(body)),
            None => commit.put(key, body),
        };
        let (who, why) = (&self.asker.who, &self.asker.why);
        let event = (Subject::Group(self.name.clone()), self.moment.next_event);
        self.moment.with_event(commit, event, [from, to], who, why)
    }

    /// The new pages, and none of an earlier update.
    fn pages(&self, commit: Commit, pages: &[ExposedPage]) -> Commit {
        let key = |page: u32| Key::Exposed(self.name.clone(), page);
        let earlier = self.fleet.exposed_pages(self.name).map(|(page, _)| page);
        let commit = earlier
            .filter(|page| *page as usize >= pages.len())
            .fold(commit, |commit, page| commit.delete(key(page)));
        (0..).zip(pages).fold(commit, |commit, (number, page)| commit.put(key(number), page.clone()))
    }

    fn update(&self, drawn: usize, batches: u32, pages: usize) -> GroupUpdate {
        GroupUpdate {
            to: self.to,
            strategy: self.request.strategy(),
            terms: self.request.terms(),
            drawn: drawn as u32,
            batches,
            pages: pages as u32,
            batch: 0,
            waited_ms: 0,
            by: self.asker.who.clone(),
            why: self.asker.why.clone(),
            at: self.moment.wall,
        }
    }

    fn at_once(&self, members: usize) -> EndedUpdate {
        let because = match (self.request.pattern, members) {
            (_, 0) => "there is no instance to wait for".to_owned(),
            (Pattern::Immediate, _) => {
                "immediate: exposed to all instances, without waiting for signals".to_owned()
            }
            _ => String::new(),
        };
        EndedUpdate {
            generation: self.to.generation,
            outcome: UpdateOutcome::Finished,
            because,
            who: self.asker.who.clone(),
            at: self.moment.wall,
        }
    }
}

/// The pages of a draw, and how many batches it has.
fn pages(generation: MetadataGeneration, drawn: Option<&wave::Drawn>) -> (Vec<ExposedPage>, u32) {
    let Some(drawn) = drawn else { return (Vec::new(), 0) };
    let count = drawn.members.len().div_ceil(PAGE_MEMBERS);
    let mut members = vec![BTreeMap::new(); count];
    for (node, batch) in &drawn.members {
        members[page_of(node, count as u32) as usize].insert(node.clone(), *batch);
    }
    let pages = members.into_iter().map(|members| ExposedPage { generation, members }).collect();
    (pages, drawn.sizes.len() as u32)
}

/// Calls an update off: all are returned to the former document.
pub fn cancel(fleet: &Fleet, moment: &Moment, name: &GroupName, asker: &Asker) -> Result<Asked, Refusal> {
    let stored = find(fleet, name)?;
    let Some(update) = &stored.update else {
        return Ok(Asked::already(stored.current.map(|current| current.generation)));
    };
    let writer = Writer { moment, name, stored, number: moment.next_event };
    let (_, commit, _) = writer.ends(fleet, UpdateOutcome::Cancelled, &asker.who, asker.why.clone());
    Ok(Asked { generation: Some(update.to.generation), commit: Some(commit) })
}

/// Why the update of a group does not move; empty = none runs, or it is about to.
pub fn explain(fleet: &Fleet, moment: &Moment, name: &GroupName) -> Result<Vec<Reason>, Refusal> {
    let group = find(fleet, name)?;
    let Some(update) = &group.update else { return Ok(Vec::new()) };
    if let Some(reason) = store::closed(fleet, moment) {
        return Ok(vec![reason]);
    }
    Ok(match judge(fleet, name, update, waited(moment, name, update)) {
        Next::Wait(reasons) => reasons,
        _ => Vec::new(),
    })
}
