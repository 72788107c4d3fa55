//! Every key of the tree, as it is written, and back.

use proptest::prelude::*;
use tidegate_proto::key::{EventSeq, Kind, SignalSubject, Subject};
use tidegate_proto::{
    Artifact, Digest, GateHop, GateTag, Key, MetadataGeneration, NodeId, Prefix, ReleaseRevision,
    ServiceName, ServiceVersion,
};

fn service() -> ServiceName {
    "pantry-api".parse().unwrap()
}

fn node() -> NodeId {
    "n1".parse().unwrap()
}

const SEQ: EventSeq = EventSeq { term: 7, number: 3 };

fn every_key() -> Vec<(Key, &'static str)> {
    let keys = keys_of_upgrades().into_iter().chain(keys_of_releases());
    keys.chain(keys_of_groups()).collect()
}

fn keys_of_upgrades() -> Vec<(Key, &'static str)> {
    let upgrade = || "u1".parse().unwrap();
    let schema = || "s1".parse().unwrap();
    vec![
        (Key::Report(service(), node()), "/tidegate/reports/pantry-api/n1"),
        (Key::Inventory(service(), node()), "/tidegate/inventory/pantry-api/n1"),
        (Key::Decommission(service(), node()), "/tidegate/decommissions/pantry-api/n1"),
        (Key::Window(service()), "/tidegate/windows/pantry-api"),
        (Key::Directive(service(), node()), "/tidegate/directives/pantry-api/n1"),
        (Key::Upgrade(upgrade()), "/tidegate/upgrades/u1"),
        (Key::Waves(upgrade(), 2), "/tidegate/waves/u1/000002"),
        (Key::Exception(upgrade(), node()), "/tidegate/exceptions/u1/n1"),
        (Key::Active(service()), "/tidegate/active/pantry-api"),
        (Key::ActiveSchema(schema()), "/tidegate/active-schema/s1"),
        (Key::Schema(schema()), "/tidegate/schemas/s1"),
        (Key::Budget(service()), "/tidegate/budget/pantry-api"),
        (Key::Certificate(upgrade(), 0), "/tidegate/certificates/u1/000000"),
        (
            Key::Event(Subject::Upgrade(upgrade()), SEQ),
            "/tidegate/events/upgrade-u1/00000000000000000007-0000000003",
        ),
        (Key::Event(Subject::Fleet, SEQ), "/tidegate/events/fleet/00000000000000000007-0000000003"),
        (Key::Event(Subject::Leader, SEQ), "/tidegate/events/leader/00000000000000000007-0000000003"),
        (Key::Waiting(upgrade()), "/tidegate/waiting/u1"),
        (Key::Maintenance(node()), "/tidegate/maintenance/n1"),
        (Key::Token("k1".parse().unwrap()), "/tidegate/tokens/k1"),
        (Key::Reconciliation, "/tidegate/reconciliation"),
        (Key::Leader, "/tidegate/leader"),
        (Key::Term("t1".parse().unwrap()), "/tidegate/terms/t1"),
    ]
}

fn keys_of_releases() -> Vec<(Key, &'static str)> {
    let stream = || "compute".parse().unwrap();
    let tag = |text: &str| text.parse().unwrap();
    let revision = ReleaseRevision::new(53).unwrap();
    let artifact = |version, bytes: &[u8]| Artifact {
        version: ServiceVersion::new(version).unwrap(),
        sha256: Digest::of(bytes),
    };
    vec![
        (
            Key::Event(Subject::Stream(stream()), SEQ),
            "/tidegate/events/stream-compute/00000000000000000007-0000000003",
        ),
        (Key::Stream(stream()), "/tidegate/streams/compute"),
        (Key::Release(stream(), revision), "/tidegate/releases/compute/000000000053"),
        (
            Key::Manifest(Digest::of(b"")),
            "/tidegate/manifests/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (Key::ReleaseTag(stream(), tag("release-9057")), "/tidegate/release-tags/compute/release-9057"),
        (Key::Task(node(), "prewarm-1".parse().unwrap()), "/tidegate/tasks/n1/prewarm-1"),
        (Key::TaskResult(node(), "prewarm-1".parse().unwrap()), "/tidegate/results/n1/prewarm-1"),
        (Key::Need(service()), "/tidegate/needs/pantry-api"),
        (
            Key::Evidence(tag("release-9057"), tag("release-8100")),
            "/tidegate/evidence/release-9057/release-8100",
        ),
        (
            Key::GateVerdict(Box::new(GateHop {
                service: service(),
                tag: GateTag::ZeroDowntime,
                from: artifact(1, b""),
                to: artifact(2, b"2"),
            })),
            "/tidegate/verdicts/pantry-api/zero-downtime/1-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855/2-d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35",
        ),
        (
            Key::Signal(
                SignalSubject::Release("compute-1.2.x".parse().unwrap(), revision),
                "c1".parse().unwrap(),
            ),
            "/tidegate/signals/release-compute-1.2.x-53/c1",
        ),
    ]
}

fn keys_of_groups() -> Vec<(Key, &'static str)> {
    let group = || "edge-1".parse().unwrap();
    let generation = MetadataGeneration::new(7).unwrap();
    vec![
        (Key::GroupSignal(group(), node()), "/tidegate/signals/group-edge-1/n1"),
        (Key::Group(group()), "/tidegate/groups/edge-1"),
        (Key::Members(group()), "/tidegate/members/edge-1"),
        (Key::Document(group(), generation), "/tidegate/documents/edge-1/000000000007"),
        (Key::Exposed(group(), 2), "/tidegate/exposed/edge-1/000002"),
        (
            Key::Event(Subject::Group(group()), SEQ),
            "/tidegate/events/group-edge-1/00000000000000000007-0000000003",
        ),
    ]
}

#[test]
fn each_key_has_one_form_and_is_read_back() {
    let prefix = Prefix::default();
    let keys = every_key();
    for kind in Kind::ALL {
        assert!(keys.iter().any(|(key, _)| key.kind() == kind), "{kind:?} is not in this list");
    }
    for (key, text) in keys {
        assert_eq!(prefix.key(&key), text);
        assert_eq!(prefix.parse(text.as_bytes()), Some(Ok(key)));
    }
}

#[test]
fn foreign_keys_are_distinguished() {
    let prefix = Prefix::default();
    assert_eq!(prefix.parse(b"/elsewhere/leader"), None);
    assert_eq!(prefix.parse(b"/tidegate-2/leader"), None);
    let foreign: [&[u8]; 25] = [
        b"/tidegate/reports/pantry-api",
        b"/tidegate/reports/pantry-api/n1/x",
        b"/tidegate/reports/../n1",
        b"/tidegate/windows/",
        b"/tidegate/leader/x",
        b"/tidegate/nothing/x",
        b"/tidegate/waves/u1/x",
        b"/tidegate/events/upgrade-u1/7",
        b"/tidegate/reports/\xff/n1",
        b"/tidegate/releases/compute/0",
        b"/tidegate/releases/compute/x",
        b"/tidegate/manifests/abc",
        b"/tidegate/evidence/release-1",
        b"/tidegate/evidence/release-1/release-2/x/y",
        b"/tidegate/verdicts/pantry-api/zero-downtime/1-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        b"/tidegate/verdicts/pantry-api/zero-errors/1-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855/2-d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35",
        b"/tidegate/verdicts/pantry-api/rolling/01-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855/2-d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35",
        b"/tidegate/signals/release-compute/c1",
        b"/tidegate/signals/group-/n1",
        b"/tidegate/documents/edge/0",
        b"/tidegate/waves/u1/0",
        b"/tidegate/waves/u1/+00000",
        b"/tidegate/releases/compute/53",
        b"/tidegate/events/fleet/1-1",
        b"/tidegate/signals/release-compute-053/c1",
    ];
    for key in foreign {
        assert!(matches!(prefix.parse(key), Some(Err(_))), "{} was read", String::from_utf8_lossy(key));
    }
}

#[test]
fn a_prefix_is_slash_and_names() {
    for bad in ["", "/", "tidegate", "/tidegate/", "//x", "/a b", "/../x"] {
        assert!(bad.parse::<Prefix>().is_err(), "{bad:?} was taken for a prefix");
    }
    for good in ["/tidegate", "/tidegate/eu-1", "/a/b/c"] {
        assert_eq!(good.parse::<Prefix>().unwrap().as_str(), good);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_fall(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut key = b"/tidegate/".to_vec();
        key.extend(bytes);
        if let Some(Ok(read)) = Prefix::default().parse(&key) {
            let written = Prefix::default().key(&read);
            prop_assert_eq!(Prefix::default().parse(written.as_bytes()), Some(Ok(read)));
        }
    }

    #[test]
    fn the_order_of_event_keys_is_the_order_of_events(a in (0..i64::MAX, 0..9_999_999_999u64), b in (0..i64::MAX, 0..9_999_999_999u64)) {
        let key = |(term, number)| Prefix::default().key(&Key::Event(Subject::Fleet, EventSeq { term, number }));
        prop_assert_eq!(a.cmp(&b), key(a).cmp(&key(b)));
    }
}
