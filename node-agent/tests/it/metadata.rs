//! The document of a metadata group: in a file, a hook run when it has changed, its outcome reported while an update runs.

use crate::world::store::node;
use crate::world::{World, wait_for};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use tidegate_proto::metadata::{MetadataGeneration, UpdateRequest};
use tidegate_proto::record::group::{
    Document, DocumentVersion, EndedUpdate, ExposedPage, Group, GroupUpdate, Members, UpdateOutcome, page_of,
};
use tidegate_proto::record::signal::Signal;
use tidegate_proto::{Commit, GroupName, Key, NodeId, Value};

fn group() -> GroupName {
    "edge".parse().unwrap()
}

/// On how many pages an update stands.
const PAGES: u32 = 3;

fn request(x: u64) -> UpdateRequest {
    serde_json::from_value(json!({"document": {"x": x}, "pattern": "rolling"})).unwrap()
}

fn version(number: u64) -> DocumentVersion {
    DocumentVersion { generation: MetadataGeneration::new(number).unwrap(), digest: request(number).digest() }
}

/// What a coordinator would write: a group whose documents say their own generation.
async fn write(world: &World, current: Option<u64>, update: Option<(u64, u32)>) {
    let mut commit = Commit::new();
    for number in current.into_iter().chain(update.map(|(number, _)| number)) {
        let document = json!({"x": number});
        let key = Key::Document(group(), version(number).generation);
        commit = commit.put(key, Document { document });
    }
    let running = update.map(|(number, batch)| {
        let request = request(number);
        GroupUpdate {
            to: version(number),
            strategy: request.strategy(),
            terms: request.terms(),
            drawn: 2,
            batches: 2,
            pages: PAGES,
            batch,
            waited_ms: 0,
            by: "op".into(),
            why: String::new(),
            at: Default::default(),
        }
    });
    // This node is in the second batch, another one on the same page in the first.
    let members: BTreeMap<NodeId, u32> = [(node(), 1), ("other".parse().unwrap(), 0)].into();
    if let Some((number, _)) = update {
        let page = ExposedPage { generation: version(number).generation, members };
        commit = commit.put(Key::Exposed(group(), page_of(&node(), PAGES)), page);
    }
    let latest = MetadataGeneration::new(current.max(update.map(|(number, _)| number)).unwrap_or(1)).unwrap();
    let returned = EndedUpdate {
        generation: latest,
        outcome: UpdateOutcome::Returned,
        because: String::new(),
        who: "op".into(),
        at: Default::default(),
    };
    let body = Group {
        members: Members::Named,
        latest,
        current: current.map(version),
        kept: None,
        update: running,
        last: (current.is_none() && update.is_none()).then_some(returned),
    };
    world.store.store.commit(&commit.put(Key::Group(group()), body)).await.unwrap();
}

/// A world whose agent follows the group, with a hook that logs its arguments, then does something.
async fn world_with(then: &str) -> World {
    let mut world = World::new().await;
    let room = world.path().display().to_string();
    let hook = format!("echo {{generation}} >> {room}/hooks; {}", then.replace("@ROOM@", &room));
    world.top = format!(
        "[metadata.edge]\nfile = \"{room}/edge.json\"\nhook = [\"sh\", \"-c\", {hook:?}]\ntimeout = \"10s\"\n"
    );
    world
}

fn file(world: &World) -> Option<Json> {
    let bytes = std::fs::read(world.path().join("edge.json")).ok()?;
    Some(serde_json::from_slice(&bytes).expect("the file is whole"))
}

fn hooks(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.path().join("hooks")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

async fn wait_for_hooks(world: &World, runs: &[&str]) {
    wait_for("the runs of the hook", world, || async { hooks(world) }, |seen| seen == runs).await;
}

async fn word(world: &World) -> Option<Signal> {
    match world.store.store.get(&Key::GroupSignal(group(), node())).await.unwrap()?.value.unwrap() {
        Value::Signal(record) => Some(record.body),
        other => panic!("no signal: {other:?}"),
    }
}

async fn wait_for_word(world: &World, generation: u64) -> Signal {
    let of = |word: &Option<Signal>| {
        word.as_ref().is_some_and(|word| word.generation.map(|g| g.get()) == Some(generation))
    };
    wait_for("the node's word", world, || word(world), of).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn document_is_applied_in_its_batch_reported_and_returned() {
    let world = world_with("true").await;
    write(&world, Some(1), None).await;
    let agent = world.agent();
    wait_for_hooks(&world, &["1"]).await;
    assert_eq!(file(&world), Some(json!({"x": 1})));
    assert_eq!(word(&world).await, None, "no signal is asked for");

    write(&world, Some(1), Some((2, 0))).await;
    let reported = || async { world.log().contains("not exposed; the former document stands") };
    wait_for("a look at the update", &world, reported, |reported| *reported).await;
    assert_eq!((file(&world), hooks(&world)), (Some(json!({"x": 1})), vec!["1".to_owned()]));

    write(&world, Some(1), Some((2, 1))).await;
    let said = wait_for_word(&world, 2).await;
    assert!(said.success && said.who == "agent of n1", "{said:?}");
    assert_eq!(file(&world), Some(json!({"x": 2})));

    agent.kill();
    let _again = world.agent();
    write(&world, Some(1), None).await;
    wait_for_hooks(&world, &["1", "2", "1"]).await;
    assert_eq!(file(&world), Some(json!({"x": 1})), "all are back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_hook_is_reported_with_its_output_and_rolled_back() {
    let world = world_with("echo no such upstream >&2; exit 3").await;
    write(&world, None, Some((1, 1))).await;
    let _agent = world.agent();
    let said = wait_for_word(&world, 1).await;
    assert!(!said.success && said.failure.as_ref().is_some_and(|kind| kind.as_str() == "hook"), "{said:?}");
    assert!(said.why.contains("exit status: 3") && said.why.contains("no such upstream"), "{said:?}");
    write(&world, None, None).await;
    let last = |seen: &Vec<String>| seen.last().is_some_and(|last| last == "0");
    wait_for("the hook without a document", &world, || async { hooks(&world) }, last).await;
    assert_eq!(file(&world), None, "there was nothing before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_hook_is_repeated_and_last_signal_counts() {
    let world = world_with("[ -e @ROOM@/mended ]").await;
    write(&world, None, Some((1, 1))).await;
    let _agent = world.agent();
    assert!(!wait_for_word(&world, 1).await.success);
    std::fs::write(world.path().join("mended"), "").unwrap();
    let good = |word: &Option<Signal>| word.as_ref().is_some_and(|word| word.success);
    wait_for("the hook is run again", &world, || word(&world), good).await;
    assert_eq!(hooks(&world), ["1", "1"]);
    assert_eq!(file(&world), Some(json!({"x": 1})));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_return_to_no_document_is_repeated() {
    let world = world_with("[ {generation} != 0 ] || [ -e @ROOM@/mended ]").await;
    write(&world, None, Some((1, 1))).await;
    let _agent = world.agent();
    assert!(wait_for_word(&world, 1).await.success);
    write(&world, None, None).await;
    let failed = || async { world.log().contains("the return to no document did not go well") };
    wait_for("the hook to fail without a document", &world, failed, |failed| *failed).await;
    std::fs::write(world.path().join("mended"), "").unwrap();
    wait_for_hooks(&world, &["1", "0", "0"]).await;
    assert_eq!(file(&world), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_killed_in_hook_repeats_it_without_overlap() {
    let world = world_with("while [ ! -e @ROOM@/go ]; do sleep 0.02; done; echo ended >> @ROOM@/hooks").await;
    write(&world, None, Some((1, 1))).await;
    let agent = world.agent();
    wait_for_hooks(&world, &["1"]).await;
    agent.kill();
    let _again = world.agent();
    assert_eq!(word(&world).await, None, "it has not ended");
    std::fs::write(world.path().join("go"), "").unwrap();
    assert!(wait_for_word(&world, 1).await.success);
    assert_eq!(hooks(&world), ["1", "ended", "1", "ended"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signal_that_a_restored_store_lost_is_sent_again() {
    let world = world_with("true").await;
    write(&world, None, Some((1, 1))).await;
    let _agent = world.agent();
    assert!(wait_for_word(&world, 1).await.success);
    world.store.leave();
    let away = || async { world.log().contains("the store is away") };
    wait_for("the agent to notice", &world, away, |away| *away).await;
    // As in a backup from between the exposure and the signal: the group's record is as the agent saw it last.
    world.store.delete(Key::GroupSignal(group(), node())).await;
    world.store.come_back().await;
    assert!(wait_for_word(&world, 1).await.success);
    assert_eq!(hooks(&world), ["1"], "the document is not taken again");

    world.store.leave();
    // A person has signalled another outcome meanwhile, and the last signal counts.
    let by_person = Signal { success: false, who: "anna".into(), ..word(&world).await.unwrap() };
    world.store.put(Key::GroupSignal(group(), node()), by_person.clone()).await;
    world.store.come_back().await;
    let asked =
        |line: &str| line.contains("the store has a signal about this document") && line.contains("anna");
    let found = || async { world.log().lines().any(asked) };
    wait_for("the agent to find the person's signal", &world, found, |found| *found).await;
    assert_eq!(word(&world).await, Some(by_person));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unwritable_document_file_is_reported() {
    let world = world_with("true").await;
    std::fs::create_dir(world.path().join("edge.json")).unwrap();
    write(&world, None, Some((1, 1))).await;
    let _agent = world.agent();
    let said = wait_for_word(&world, 1).await;
    assert!(!said.success && said.failure.as_ref().is_some_and(|kind| kind.as_str() == "file"), "{said:?}");
    assert!(hooks(&world).is_empty(), "no hook without its file");
}

/// A store that was lost and begun again counts from 1, and its first update has not come to this node yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn document_of_a_lost_store_stays_until_its_batch() {
    let world = world_with("true").await;
    write(&world, Some(7), None).await;
    let agent = world.agent();
    wait_for_hooks(&world, &["7"]).await;
    agent.kill();

    write(&world, None, Some((1, 0))).await;
    let _again = world.agent();
    let warned = |line: &str| line.contains("WARN") && line.contains("the document of a former store stays");
    let stays = || async { world.log().lines().any(warned) };
    wait_for("a look at the update", &world, stays, |stays| *stays).await;
    assert_eq!((file(&world), hooks(&world)), (Some(json!({"x": 7})), vec!["7".to_owned()]));

    write(&world, None, Some((1, 1))).await;
    wait_for_hooks(&world, &["7", "1"]).await;
    assert_eq!(file(&world), Some(json!({"x": 1})));
}

/// The first update of the store that was begun again has ended with the generation of the document that this node has, and
/// never came to this node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn document_of_a_lost_store_outlasts_a_return() {
    let world = world_with("true").await;
    write(&world, Some(1), None).await;
    let agent = world.agent();
    wait_for_hooks(&world, &["1"]).await;
    write(&world, None, None).await;
    let warnings = || async {
        let log = std::fs::read_to_string(world.path().join("agent.log")).unwrap_or_default();
        log.matches("the document of a former store stays").count()
    };
    wait_for("a look at the record", &world, warnings, |warnings| *warnings == 1).await;
    agent.kill();
    let _again = world.agent();
    wait_for("a look after a restart", &world, warnings, |warnings| *warnings == 2).await;
    assert_eq!((file(&world), hooks(&world)), (Some(json!({"x": 1})), vec!["1".to_owned()]));

    write(&world, None, Some((2, 1))).await;
    wait_for_hooks(&world, &["1", "2"]).await;
    assert_eq!(file(&world), Some(json!({"x": 2})));
}

/// The first document was returned from while the agent was away, and its state directory was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_of_which_nothing_is_remembered_stays_and_is_named() {
    let world = world_with("true").await;
    let by_person = json!({"by": "a person"});
    std::fs::write(world.path().join("edge.json"), by_person.to_string()).unwrap();
    write(&world, None, None).await;
    let _agent = world.agent();
    let named = |line: &str| line.contains("WARN") && line.contains("nothing is remembered of the file");
    let stays = || async { world.log().lines().any(named) };
    wait_for("a look at the record", &world, stays, |stays| *stays).await;
    assert_eq!((file(&world), hooks(&world)), (Some(by_person), Vec::new()));

    write(&world, None, Some((2, 1))).await;
    wait_for_hooks(&world, &["2"]).await;
    assert_eq!(file(&world), Some(json!({"x": 2})));
}

/// The store was replaced by another one between this node's reads of the group's record and of the document.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn document_that_its_record_does_not_name_is_not_taken() {
    let world = world_with("true").await;
    write(&world, Some(1), None).await;
    let key = Key::Document(group(), version(1).generation);
    world.store.put(key.clone(), Document { document: json!({"x": 9}) }).await;
    let _agent = world.agent();
    let refused = || async { world.log().contains("not the one that its group's record names") };
    wait_for("a look at the document", &world, refused, |refused| *refused).await;
    assert_eq!((file(&world), hooks(&world)), (None, Vec::new()));

    world.store.put(key, Document { document: json!({"x": 1}) }).await;
    wait_for_hooks(&world, &["1"]).await;
    assert_eq!(file(&world), Some(json!({"x": 1})));
}

/// The update has ended between this node's read of the group's record and its read of the page: the record says that the
/// update runs, the page is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_that_ends_between_two_reads_shows_no_former_document() {
    let world = world_with("true").await;
    write(&world, Some(1), None).await;
    let agent = world.agent();
    wait_for_hooks(&world, &["1"]).await;
    write(&world, Some(1), Some((2, 1))).await;
    assert!(wait_for_word(&world, 2).await.success);
    agent.kill();

    let store = &world.store.store;
    store.commit(&Commit::new().delete(Key::Exposed(group(), page_of(&node(), PAGES)))).await.unwrap();
    let _again = world.agent();
    let kept = || async { world.log().contains("keeps the document that it has") };
    wait_for("a look at a record without its page", &world, kept, |kept| *kept).await;
    assert_eq!((file(&world), hooks(&world)), (Some(json!({"x": 2})), vec!["1".to_owned(), "2".to_owned()]));

    write(&world, Some(2), None).await;
    write(&world, Some(2), Some((3, 1))).await;
    assert!(wait_for_word(&world, 3).await.success);
    assert_eq!(hooks(&world), ["1", "2", "3"], "each document once, and none again");
}
