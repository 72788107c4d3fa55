//! Both versions over one database: what one writes is read alike through the other, before, during and after.
//!
//! The schema change is made by hand here, in its smallest form; the real one belongs to the migrations.

use grenade_tests::fixture::pantry::Pantry;
use grenade_tests::world::wait::get;
use http::Method;
use serde_json::Value;
use sqlx::Executor;

use crate::rig::{Rig, json};

const EXPAND: &str = "
    ALTER TABLE images ADD COLUMN visibility TEXT;
    CREATE TRIGGER old_insert AFTER INSERT ON images WHEN NEW.visibility IS NULL BEGIN
        UPDATE images SET visibility = CASE WHEN NEW.is_public THEN 'public' ELSE 'private' END WHERE id = NEW.id; END;
    CREATE TRIGGER new_insert AFTER INSERT ON images WHEN NEW.visibility IS NOT NULL BEGIN
        UPDATE images SET is_public = (NEW.visibility = 'public') WHERE id = NEW.id; END;
    CREATE TRIGGER old_update AFTER UPDATE OF is_public ON images WHEN NEW.is_public IS NOT OLD.is_public BEGIN
        UPDATE images SET visibility = CASE WHEN NEW.is_public THEN 'public'
            WHEN EXISTS (SELECT 1 FROM image_members m WHERE m.image_id = NEW.id) THEN 'shared' ELSE 'private' END
        WHERE id = NEW.id; END;
    CREATE TRIGGER new_update AFTER UPDATE OF visibility ON images WHEN NEW.visibility IS NOT OLD.visibility BEGIN
        UPDATE images SET is_public = (NEW.visibility = 'public') WHERE id = NEW.id; END;
    CREATE TRIGGER old_member AFTER INSERT ON image_members BEGIN
        UPDATE images SET visibility = 'shared' WHERE id = NEW.image_id AND visibility = 'private'; END;";

pub(crate) const FILL: &str = "UPDATE images SET visibility = CASE WHEN is_public THEN 'public'
    WHEN EXISTS (SELECT 1 FROM image_members m WHERE m.image_id = images.id) THEN 'shared' ELSE 'private' END
    WHERE visibility IS NULL";

const CONTRACT: &str = "
    DROP TRIGGER old_insert; DROP TRIGGER new_insert; DROP TRIGGER old_update; DROP TRIGGER new_update;
    DROP TRIGGER old_member;
    ALTER TABLE images DROP COLUMN is_public;";

async fn run(database: &str, sql: &'static str) {
    let pool = sqlx::SqlitePool::connect(database).await.unwrap();
    pool.execute(sqlx::raw_sql(sql)).await.unwrap();
    pool.close().await;
}

/// The part of an answer that both versions must give alike.
fn stable(mut image: Value) -> Value {
    let fields = image.as_object_mut().unwrap();
    fields.shift_remove("is_public");
    fields.shift_remove("visibility");
    image
}

/// Writes through one instance, in each way there is, and reads through the other.
pub(crate) async fn write_here_read_there(here: &Pantry, there: &Pantry, id: &str) {
    let (w, r) = (here.plan.address, there.plan.address);
    let path = format!("/images/{id}");
    let body = |public: bool| format!(r#"{{"name":"{id}","public":{public}}}"#);
    let steps = [
        (
            Method::POST,
            "/images".to_owned(),
            format!(r#"{{"id":"{id}","name":"x","public":false}}"#),
            201,
            "private",
        ),
        (Method::PUT, path.clone(), body(true), 200, "public"),
        (Method::PUT, format!("{path}/members/m"), String::new(), 200, "public"),
        (Method::PUT, path.clone(), body(false), 200, "shared"),
        (Method::PUT, path.clone(), body(true), 200, "public"),
        (Method::PUT, format!("{path}/file"), "content".to_owned(), 200, "public"),
        (Method::PUT, path.clone(), body(false), 200, "shared"),
    ];
    for (method, at, body, status, audience) in steps {
        let written = json(w, method, &at, &body, status).await;
        let read = json(r, Method::GET, &path, "", 200).await;
        assert_eq!(stable(written.clone()), stable(read.clone()), "after {at} {body}");
        for answer in [written, read] {
            assert_eq!(answer["public"], audience == "public", "after {at} {body}: {answer}");
            assert_eq!(answer["shared"], audience == "shared", "after {at} {body}: {answer}");
        }
    }
    // A private one becomes shared by its first member.
    let other = format!("{id}-b");
    json(w, Method::POST, "/images", &format!(r#"{{"id":"{other}","name":"x"}}"#), 201).await;
    json(w, Method::PUT, &format!("/images/{other}/members/m"), "", 200).await;
    assert_eq!(json(r, Method::GET, &format!("/images/{other}"), "", 200).await["shared"], true);
}

/// Every seeded image, as each version lists it.
pub(crate) async fn lists_agree(one: &Pantry, other: &Pantry) {
    let mut lists = Vec::new();
    for pantry in [one, other] {
        let page = json(pantry.plan.address, Method::GET, "/images?limit=1000", "", 200).await;
        lists.push(page["images"].as_array().unwrap().iter().cloned().map(stable).collect::<Vec<_>>());
    }
    assert!(lists[0].len() >= 100, "{} images", lists[0].len());
    assert_eq!(lists[0], lists[1]);
}

#[tokio::test]
async fn two_versions_share_one_sqlite_file() {
    let rig = Rig::new();
    let database = rig.sqlite(100).await;
    let old = rig.pantry(1, "old", &database).await;
    run(&database, EXPAND).await;
    let mut new = Pantry::spawn(&rig.world, rig.plan(2, "new", &database)).unwrap();
    let at = new.plan.address;
    grenade_tests::world::wait::wait_for("the reason", crate::rig::LIMIT, || async {
        let (_, said) = get(at, "/healthcheck").await?;
        if said.contains("migrate has not finished") { Ok(()) } else { Err(said) }
    })
    .await
    .unwrap();
    run(&database, FILL).await;
    new.ready().await.unwrap();
    lists_agree(&old, &new).await;
    write_here_read_there(&old, &new, "by-old").await;
    write_here_read_there(&new, &old, "by-new").await;
    lists_agree(&old, &new).await;

    run(&database, CONTRACT).await;
    let second = rig.pantry(2, "second", &database).await;
    write_here_read_there(&new, &second, "contracted").await;
    lists_agree(&new, &second).await;
    let late = Pantry::spawn(&rig.world, rig.plan(1, "late", &database)).unwrap();
    let said =
        grenade_tests::world::wait::wait_for("the late old one's reason", crate::rig::LIMIT, || async {
            let (status, said) = get(late.plan.address, "/ready").await?;
            if status == 503 && said.contains("is_public") { Ok(said) } else { Err(said) }
        })
        .await;
    said.unwrap();
}

#[test]
fn version_1_does_not_know_the_word() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut read = 0;
    for entry in std::fs::read_dir(sources.join("sample")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
        let second = path.ends_with("v2.rs");
        assert_eq!(text.contains("visibility"), second, "{}", path.display());
        read += 1;
    }
    assert!(read >= 13, "only {read} source files were read");
    for file in ["sample.rs", "bin/pantry-v1.rs"] {
        let text = std::fs::read_to_string(sources.join(file)).unwrap().to_lowercase();
        assert!(!text.contains("visibility"), "{file}");
    }
}
