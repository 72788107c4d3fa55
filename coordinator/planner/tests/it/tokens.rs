//! Who may call: what is asked for is granted once, expires, and is taken back with a reason.

use crate::sim::World;
use tidegate_planner::ask::{self, Asker, RefusalKind, TokenRequest};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::token::{Credential, Role};
use tidegate_proto::{Commit, Digest, Key, Span, Value, Write};

fn asker() -> Asker {
    Asker { who: "operator for ann".into(), why: "the old one leaked".into(), accepts: Default::default() }
}

fn request(id: &str, name: &str, credential: Credential) -> TokenRequest {
    let lasts = Some(Span::from_secs(90));
    TokenRequest {
        id: id.parse().unwrap(),
        name: name.parse().unwrap(),
        role: Role::Release,
        credential,
        lasts,
    }
}

fn bearer() -> Credential {
    Credential::Digest(Digest::of(b"secret"))
}

fn certificate() -> Credential {
    Credential::Certificate("ci.example.org".parse().unwrap())
}

fn create(world: &mut World, request: TokenRequest) -> Commit {
    let commit = ask::create_token(world.store.fleet(), &world.moment(), request, &asker()).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    commit
}

#[test]
fn token_names_owner_and_expiry_and_is_in_the_history() {
    let mut world = World::at_version_1(1);
    let commit = create(&mut world, request("k1", "ci", bearer()));
    let now = world.moment().wall;
    let token = world.store.fleet().token(&"k1".parse().unwrap()).unwrap();
    assert_eq!(
        (token.name.as_str(), token.role, token.by.as_str()),
        ("ci", Role::Release, "operator for ann")
    );
    assert!(!token.has_expired(Timestamp(now.0 + 89_999)) && token.has_expired(Timestamp(now.0 + 90_000)));
    let put = commit.writes.iter().find_map(|write| match write {
        Write::Put(Key::Event(subject, _), Value::Event(event)) => Some((subject.to_string(), &event.body)),
        _ => None,
    });
    let (subject, event) = put.expect("an event is written with it");
    assert_eq!((subject.as_str(), event.to.as_str()), ("fleet", "tokens/k1 of ci (release)"));
    assert_eq!(event.who, "operator for ann");
}

#[test]
fn token_is_revoked_once_with_reason_and_stays_in_history() {
    let mut world = World::at_version_1(1);
    create(&mut world, request("k1", "ci", bearer()));
    let id = "k1".parse().unwrap();
    let fleet = world.store.fleet();
    let silent = Asker { why: String::new(), ..asker() };
    let refused = ask::revoke_token(fleet, &world.moment(), &id, &silent).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Invalid);
    let refused = ask::revoke_token(fleet, &world.moment(), &"k2".parse().unwrap(), &asker()).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NotFound);
    let commit = ask::revoke_token(fleet, &world.moment(), &id, &asker()).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let revoked = world.store.fleet().token(&id).unwrap().revoked.clone().unwrap();
    assert_eq!((revoked.by.as_str(), revoked.why.as_str()), ("operator for ann", "the old one leaked"));
    let again = ask::revoke_token(world.store.fleet(), &world.moment(), &id, &asker()).unwrap_err();
    assert!(again.kind == RefusalKind::State && again.message.contains("the old one leaked"), "{again}");
}

#[test]
fn a_certificate_is_known_as_one_principal_at_a_time() {
    let mut world = World::at_version_1(1);
    let fleet = world.store.fleet();
    // Two ask at once: both are planned from the same sight, and only one is carried out.
    let first =
        ask::create_token(fleet, &world.moment(), request("k1", "ci", certificate()), &asker()).unwrap();
    world.events += 1;
    let fleet = world.store.fleet();
    let second =
        ask::create_token(fleet, &world.moment(), request("k2", "cd", certificate()), &asker()).unwrap();
    assert!(world.store.commit(&first));
    assert!(!world.store.commit(&second), "the second was carried out over the first");
    let again = request("k2", "cd", certificate());
    let refused = ask::create_token(world.store.fleet(), &world.moment(), again, &asker()).unwrap_err();
    assert!(refused.kind == RefusalKind::State && refused.message.contains("token k1"), "{refused}");
    let revoke = ask::revoke_token(world.store.fleet(), &world.moment(), &"k1".parse().unwrap(), &asker());
    assert!(world.store.commit(&revoke.unwrap()));
    world.events += 1;
    create(&mut world, request("k2", "cd", certificate()));
}

#[test]
fn coordinators_own_names_are_refused() {
    let world = World::at_version_1(1);
    for name in ["coordinator", "operator"] {
        let asked = request("k1", name, bearer());
        let refused = ask::create_token(world.store.fleet(), &world.moment(), asked, &asker()).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Invalid, "{name}");
    }
    let at_once = TokenRequest { lasts: Some(Span::from_secs(0)), ..request("k1", "ci", bearer()) };
    let refused = ask::create_token(world.store.fleet(), &world.moment(), at_once, &asker()).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Invalid);
}
