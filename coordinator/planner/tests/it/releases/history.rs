//! Revisions, versions and tags: what is the same, what falls, what is gone back to.

use super::fixture::{asker, request, revision, stream};
use crate::sim::World;
use serde_json::{Value as Json, json};
use tidegate_planner::ask::RefusalKind;
use tidegate_planner::ask::release;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::MAX_MANIFEST_BYTES;
use tidegate_proto::{Key, Value};

#[test]
fn release_identical_to_the_latest_is_not_created() {
    let mut world = World::at_version_1(1);
    world.release(9057, json!({"manifest": {"a": {"x": "1", "y": "2"}}}));
    let before = world.store.revision;
    let again =
        world.create(9057, json!({"manifest": {"a": {"y": "2", "x": "1"}}, "branch": "compute"})).unwrap();
    assert_eq!((again.revision, again.commit), (Some(revision(1)), None));
    assert_eq!(world.store.revision, before, "nothing was written");
    let other = world.create(9057, json!({"manifest": {"a": {"x": "1", "y": "3"}}})).unwrap();
    assert_eq!(other.revision, Some(revision(2)), "another manifest is another release");
}

#[test]
fn concurrent_identical_requests_create_one_release() {
    let mut world = World::at_version_1(1);
    let ask = |world: &World| {
        let request = request(1, json!({}));
        let tag = world.tag_record(&request.tag);
        release::create(world.store.fleet(), &world.moment(), &stream(), tag.as_ref(), &request, &asker("ci"))
            .unwrap()
    };
    let both = [ask(&world), ask(&world)].map(|asked| asked.commit.unwrap());
    assert!(world.store.commit(&both[0]));
    assert!(!world.store.commit(&both[1]), "the loser asks again");
    world.events += 1;
    let again = ask(&world);
    assert_eq!((again.revision, again.commit), (Some(revision(1)), None));
}

#[test]
fn branch_versions_never_fall_and_tags_keep_theirs() {
    let mut world = World::at_version_1(1);
    world.release(9057, json!({}));
    world.release(9058, json!({"branch": "hotfix"}));
    let cases = [
        (9056, json!({}), "below 9057, which branch compute has had"),
        (9057, json!({"branch": "hotfix", "tag": "other"}), "below 9058, which branch hotfix has had"),
        (
            9059,
            json!({"tag": "release-9057"}),
            "tag release-9057 belongs to version 9057 (revision 1) for ever",
        ),
    ];
    for (version, change, expected) in cases {
        let before = world.store.revision;
        let refused = world.create(version, change).unwrap_err();
        assert!(refused.message.contains(expected), "{refused}");
        assert_eq!((refused.kind, world.store.revision), (RefusalKind::State, before));
    }
    assert_eq!(
        world.release(9057, json!({"tag": "rebuilt-9057"})),
        3,
        "the same version may have another tag"
    );
}

#[test]
fn a_tag_that_was_used_meanwhile_is_noticed() {
    let mut world = World::at_version_1(1);
    let request = request(1, json!({"tag": "t"}));
    let stale = world.tag_record(&request.tag);
    world.release(1, json!({"tag": "t"}));
    let second = super::fixture::request(2, json!({"tag": "t"}));
    let asked = release::create(
        world.store.fleet(),
        &world.moment(),
        &stream(),
        stale.as_ref(),
        &second,
        &asker("ci"),
    );
    assert!(!world.store.commit(&asked.unwrap().commit.unwrap()), "the tag's record is compared");
}

#[test]
fn going_back_is_a_new_revision_with_the_old_body() {
    let mut world = World::at_version_1(1);
    world.release(1, json!({"manifest": {"extensions": {"x": "1"}}}));
    world.release(2, json!({}));
    world.configure(json!({"approval": "required"})).unwrap();
    world.create(3, json!({})).unwrap();
    world.settle();
    let asked = world.go_back(1).unwrap();
    world.check_releases();
    assert_eq!(asked.revision, Some(revision(4)));
    let (old, new) = (world.release_record(1).unwrap(), world.release_record(4).unwrap());
    assert_eq!((new.status, new.rollback_of), (ReleaseStatus::Deployed, Some(revision(1))));
    assert_eq!((&new.tag, new.version, new.manifest), (&old.tag, old.version, old.manifest));
    assert_eq!(
        [2, 3].map(|number| world.status(number)),
        [ReleaseStatus::Superseded; 2],
        "what waited is overtaken"
    );
    assert_eq!(
        world.tag_record(&old.tag).unwrap().revision,
        revision(4),
        "the latest revision of a tag wins"
    );
    let again = world.go_back(1).unwrap();
    assert_eq!((again.revision, again.commit), (Some(revision(4)), None), "asked again, it is so already");
    let never = world.go_back(3).unwrap_err();
    assert!(never.message.contains("was never deployed"), "{never}");
    let fallen = world.create(1, json!({"manifest": {"extensions": {"x": "2"}}})).unwrap_err();
    assert!(
        fallen.message.contains("below 3"),
        "a rollback does not lower what the branch has had: {fallen}"
    );
}

#[test]
fn rolled_back_release_that_is_created_again_goes_out() {
    let mut world = World::at_version_1(1);
    world.release(1, json!({}));
    world.release(2, json!({}));
    world.go_back(1).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(3));
    let same = world.create(1, json!({})).unwrap();
    assert_eq!((same.revision, same.commit), (Some(revision(3)), None), "the rollback is the latest");
    assert_eq!(world.release(2, json!({})), 4, "the latest is revision 3, which says something else");
    assert_eq!(world.deployed(), Some(4));
}

#[test]
fn requests_that_make_no_sense_change_nothing() {
    let many: Json = (0..17).map(|n| (format!("s{n}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let cases = [
        (json!({"manifest": []}), "not an object"),
        (
            json!({"manifest": {"pg_settings": {"common": {"work_mem": 4}}}}),
            "pg_settings.common.work_mem is a number",
        ),
        (
            json!({"manifest": {"pg_settings": {"common": {"work_mem": "1.5"}}}}),
            "pg_settings.common.work_mem is \"1.5\": the setting is a whole number",
        ),
        (
            json!({"manifest": {"pg_settings": {"per_version": {"017": {}}}}}),
            "without sign and leading zeros",
        ),
        (json!({"requires": many}), "17 services, at most 16"),
        (json!({"evidence": "required"}), "names no storage service"),
        (json!({"canary": {"fraction": 0.1, "promote_after": 0}}), "promote_after is 0"),
    ];
    let mut world = World::at_version_1(1);
    for (change, expected) in cases {
        let before = world.store.revision;
        let refused = world.create(1, change).unwrap_err();
        assert!(refused.message.contains(expected), "{refused}");
        assert_eq!((refused.kind, world.store.revision), (RefusalKind::Invalid, before));
    }
    let before = world.store.revision;
    let large = world.create(1, json!({"manifest": {"x": "y".repeat(MAX_MANIFEST_BYTES)}})).unwrap_err();
    assert!(large.message.contains("at most 524288 are allowed"), "{large}");
    assert_eq!((large.kind, world.store.revision), (RefusalKind::TooLarge, before));
    let settings = [
        (json!({"minimum_available": 0}), "minimum_available is 0"),
        (
            json!({"availability": {"min_healthy_time": "1m", "healthy_deadline": "1m"}}),
            "could ever become available",
        ),
        (json!({"prewarm": {"hook": "h", "nodes": []}}), "prewarm.nodes names 0 nodes"),
    ];
    for (change, expected) in settings {
        let refused = world.configure(change).unwrap_err();
        assert!(refused.message.contains(expected), "{refused}");
    }
}

#[test]
fn releases_of_a_grouped_stream_go_to_their_lines() {
    let mut world = World::at_version_1(1);
    world.configure(json!({"grouping": {"semver": "minor"}, "minimum_available": 2})).unwrap();
    let asked = world.create(1, json!({"tag": "v1.2.3"})).unwrap();
    assert_eq!(asked.stream.as_str(), "compute-1.2.x");
    let line = world.store.fleet().stream(&asked.stream).unwrap();
    assert_eq!(line.settings.minimum_available, 2, "a line begins with the settings of its stream");
    let unfit = world.create(2, json!({"tag": "release-2"})).unwrap_err();
    assert!(unfit.message.contains("tag release-2 holds none"), "{unfit}");
}

#[test]
fn equal_manifests_are_stored_once() {
    let mut world = World::at_version_1(1);
    for version in 1..=3 {
        world.release(version, json!({"manifest": {"extensions": {"x": "1"}}}));
    }
    let manifests: Vec<_> = world
        .store
        .keys
        .iter()
        .filter_map(|(key, (value, ..))| match (key, value) {
            (Key::Manifest(digest), Value::Manifest(record)) => Some((*digest, record.body.manifest.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(manifests, [(world.release_record(1).unwrap().manifest, json!({"extensions": {"x": "1"}}))]);
}

#[test]
fn semantic_versions_do_not_fall_within_a_line() {
    let mut world = World::at_version_1(1);
    world.configure(json!({"grouping": {"semver": "minor"}})).unwrap();
    world.create(1, json!({"tag": "v1.2.10"})).unwrap();
    for older in ["v1.2.9", "v1.2.10-rc.1"] {
        let refused = world.create(2, json!({"tag": older})).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::State);
        assert!(refused.message.contains("is older than v1.2.10 (revision 1)"), "{refused}");
    }
    for (version, newer) in [(3, "v1.2.11"), (4, "v1.3.0"), (5, "v1.1.0")] {
        world.create(version, json!({"tag": newer})).unwrap();
    }
}

#[test]
fn stream_that_is_not_there_is_not_made_by_a_release() {
    let world = World::at_version_1(1);
    let mistyped = "compute-eu".parse().unwrap();
    let asked = request(1, json!({}));
    let create = release::create(world.store.fleet(), &world.moment(), &mistyped, None, &asked, &asker("ci"));
    let refused = create.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NotFound);
    assert!(refused.message.contains("tidegate release stream compute-eu --set"), "{refused}");
}

#[test]
fn failed_release_is_explained_with_the_retry_that_helps() {
    let mut world = World::at_version_1(1);
    world.release(1, json!({}));
    world.create(2, json!({"canary": {"fraction": 0.99, "promote_after": 2}})).unwrap();
    world.settle();
    world.signal(2, "a", false).unwrap();
    world.settle();
    assert_eq!(world.status(2), ReleaseStatus::Error);
    let explained = |world: &World| {
        let reported = release::explain(world.store.fleet(), &world.moment(), &stream()).unwrap();
        reported[&revision(2)][0].clone()
    };
    let reason = explained(&world);
    assert_eq!((reason.kind.as_str(), reason.owner.as_str()), ("release-failed", "a person"));
    assert_eq!(reason.next_step.as_deref(), Some("tidegate release retry 2 --stream compute"));
    assert!(world.retry(2).unwrap().commit.is_some(), "it helps");
    world.settle();
    world.signal(2, "b", false).unwrap();
    world.settle();
    // Computes that run it hold it.
    world.run_computes(&[("release-2", 3)]).unwrap();
    world.release(3, json!({}));
    let reason = explained(&world);
    assert_eq!(reason.next_step, None, "a later one is deployed: {}", reason.blocked_on);
    assert!(
        world.retry(2).is_err() && reason.blocked_on.contains("the later revision 3"),
        "{}",
        reason.blocked_on
    );
}
