//! Old and new writers on one table, in any order: both read the same, and the last writer wins.

use crate::support::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_migrations::{Dialect, Error, MigrationSet};

const ROWS: u32 = 4;
const WORDS: [&str; 3] = ["private", "shared", "public"];

/// What one of the two versions writes; rows by number.
#[derive(Debug, Clone)]
enum Act {
    OldInsert(u32, Option<bool>),
    OldPublish(u32, bool),
    OldRename(u32),
    OldUpsert(u32, bool),
    NewInsert(u32, usize),
    NewSet(u32, usize),
    NewSetAll(usize),
    NewBoth(u32, usize, bool),
    Member(u32),
    Fill,
    Delete(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let row = || 0..ROWS;
    prop_oneof![
        (row(), any::<Option<bool>>()).prop_map(|(r, p)| Act::OldInsert(r, p)),
        (row(), any::<bool>()).prop_map(|(r, p)| Act::OldPublish(r, p)),
        row().prop_map(Act::OldRename),
        (row(), any::<bool>()).prop_map(|(r, p)| Act::OldUpsert(r, p)),
        (row(), 0..3_usize).prop_map(|(r, w)| Act::NewInsert(r, w)),
        (row(), 0..3_usize).prop_map(|(r, w)| Act::NewSet(r, w)),
        (0..3_usize).prop_map(Act::NewSetAll),
        (row(), 0..3_usize, any::<bool>()).prop_map(|(r, w, p)| Act::NewBoth(r, w, p)),
        row().prop_map(Act::Member),
        Just(Act::Fill),
        row().prop_map(Act::Delete),
    ]
}

const UP: &str = "CASE WHEN is_public THEN 'public' WHEN EXISTS (SELECT 1 FROM image_members m \
                  WHERE m.image_id = images.id) THEN 'shared' ELSE 'private' END";

impl Act {
    fn sql(&self) -> String {
        let rest = "1, 's', 1, 0";
        match self {
            Act::OldInsert(r, None) => format!(
                "INSERT INTO images (id, name, size, checksum, written_by, updated_at) VALUES ('{r}', 'o', {rest}) ON CONFLICT DO NOTHING"
            ),
            Act::OldInsert(r, Some(p)) => format!(
                "INSERT INTO images (id, name, is_public, size, checksum, written_by, updated_at) VALUES ('{r}', 'o', {p}, {rest}) ON CONFLICT DO NOTHING"
            ),
            Act::OldPublish(r, p) => format!("UPDATE images SET is_public = {p} WHERE id = '{r}'"),
            Act::OldRename(r) => {
                format!("UPDATE images SET name = name || 'x', is_public = is_public WHERE id = '{r}'")
            }
            Act::OldUpsert(r, p) => format!(
                "INSERT INTO images (id, name, is_public, size, checksum, written_by, updated_at) VALUES ('{r}', 'u', {p}, {rest}) \
                 ON CONFLICT (id) DO UPDATE SET is_public = excluded.is_public"
            ),
            Act::NewInsert(r, w) => format!(
                "INSERT INTO images (id, name, size, checksum, written_by, updated_at, visibility) VALUES ('{r}', 'n', {rest}, '{}') ON CONFLICT DO NOTHING",
                WORDS[*w]
            ),
            Act::NewSet(r, w) => format!("UPDATE images SET visibility = '{}' WHERE id = '{r}'", WORDS[*w]),
            Act::NewSetAll(w) => format!("UPDATE images SET visibility = '{}'", WORDS[*w]),
            Act::NewBoth(r, w, p) => {
                format!(
                    "UPDATE images SET visibility = '{}', is_public = {p} WHERE id = '{r}' AND visibility <> '{}'",
                    WORDS[*w], WORDS[*w]
                )
            }
            Act::Member(r) => {
                format!("INSERT INTO image_members VALUES ('{r}', 'bob') ON CONFLICT DO NOTHING")
            }
            Act::Fill => format!("UPDATE images SET visibility = ({UP}) WHERE visibility IS NULL"),
            Act::Delete(r) => format!("DELETE FROM images WHERE id = '{r}'"),
        }
    }

    /// What its writer must find again where its row is.
    fn claim(&self) -> Option<(u32, String)> {
        match self {
            Act::OldPublish(r, p) | Act::OldUpsert(r, p) => Some((*r, format!("is_public = {p}"))),
            Act::NewSet(r, w) => Some((*r, format!("visibility = '{}'", WORDS[*w]))),
            _ => None,
        }
    }
}

async fn play(client: &mut Client, acts: &[Act]) -> Result<(), TestCaseError> {
    for act in acts {
        let shared_before = client.texts("SELECT id FROM images WHERE visibility = 'shared'").await;
        client.try_run(&act.sql()).await.map_err(|e| TestCaseError::fail(format!("{act:?}: {e}")))?;
        let apart = client
            .texts("SELECT id || ' ' || visibility || ' ' || is_public FROM images WHERE visibility IS NOT NULL AND is_public <> (visibility = 'public')")
            .await;
        prop_assert!(apart.is_empty(), "after {act:?}: {apart:?}");
        if let Some((row, claim)) = act.claim() {
            let lost = client
                .number(&format!("SELECT count(*) FROM images WHERE id = '{row}' AND NOT ({claim})"))
                .await;
            prop_assert_eq!(lost, 0, "after {:?}, {} is not so", act, claim);
        }
        if let Act::OldRename(_) = act {
            let shared = client.texts("SELECT id FROM images WHERE visibility = 'shared'").await;
            prop_assert!(shared_before.iter().all(|s| shared.contains(s)), "{act:?} lost `shared`");
        }
    }
    client.run(&Act::Fill.sql()).await;
    let nulls = client.number("SELECT count(*) FROM images WHERE visibility IS NULL").await;
    prop_assert_eq!(nulls, 0);
    Ok(())
}

async fn any_order(database: Database) {
    let database = database.seeded(0).await;
    let (engine, client) = (database.engine().await, database.client().await);
    engine.expand(&sample(), &term(1), &watcher(), &patient()).await.unwrap();
    // On PostgreSQL some rows are as before the expand: written while the triggers look away.
    let unfilled = match database.dialect() {
        Dialect::Postgres => "SET session_replication_role = replica",
        Dialect::Sqlite => "SELECT 1",
    };
    let filled = unfilled.replace("= replica", "= origin");
    let handle = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        let mut runner =
            TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
        let client = tokio::sync::Mutex::new(client);
        let acts = (0..=ROWS, proptest::collection::vec(act(), 1..25));
        runner
            .run(&acts, |(old_rows, acts)| {
                handle.block_on(async {
                    let client = &mut *client.lock().await;
                    client.run("DELETE FROM images; DELETE FROM image_members").await;
                    client.run(unfilled).await;
                    for row in 0..old_rows {
                        client.run(&Act::OldInsert(row, Some(row % 2 == 0)).sql()).await;
                    }
                    client.run(&filled).await;
                    play(client, &acts).await
                })
            })
            .unwrap_or_else(|e| panic!("{e}"));
    })
    .await
    .unwrap();
}

/// A migration of each version from 2 on: column `new` of a table, in sync with `old`.
fn synced(columns: &[(&str, &str, &str)]) -> MigrationSet {
    let texts = (2..).zip(columns).map(|(version, (table, old, new))| {
        let id = format!("000{version}_{new}");
        let ends = format!("{{ drop_sync = {{ table = '{table}', new = '{new}' }} }}");
        let text = format!(
            "id = '{id}'\nversion = {version}\nold_reads_migrated = true\n\
             [expand]\nsteps = [{{ add_column = {{ table = '{table}', column = '{new}', type = 'text' }} }}, \
             {{ sync = {{ table = '{table}', old = '{old}', new = '{new}', up = '{old}', down = '{new}' }} }}]\n\
             [contract]\nsteps = [{ends}]\n\
             [undo]\nsteps = [{ends}, {{ drop_column = {{ table = '{table}', column = '{new}' }} }}]\n"
        );
        (format!("{id}.toml"), text)
    });
    let texts: Vec<(String, String)> = texts.collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    set_in(written(&files).path())
}

async fn end_of_a_sync(database: Database) {
    let (engine, mut client) = (database.engine().await, database.client().await);
    client.run("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT)").await;
    let all = synced(&[("t", "a", "v"), ("t", "b", "v_1_x")]);
    engine.expand(&all, &term(1), &watcher(), &patient()).await.unwrap();
    engine.undo(&all.with_own(|m| m.version == 2), &term(1), &watcher(), &patient()).await.unwrap();
    client.run("INSERT INTO t (id, b) VALUES (1, 'x')").await;
    assert_eq!(client.texts("SELECT coalesce(v_1_x, 'stale') FROM t").await, ["x"]);
}

/// Gives the syncs that are there the names that an earlier program gave them.
async fn name_as_before(client: &mut Client, dialect: Dialect) {
    if dialect == Dialect::Postgres {
        for name in client.texts("SELECT proname::text FROM pg_proc WHERE proname LIKE 'tidegate%'").await {
            client.run(&format!("ALTER FUNCTION \"{name}\"() RENAME TO {}", name.replace('$', "_"))).await;
        }
        return;
    }
    for sql in client.texts("SELECT sql FROM sqlite_master WHERE type = 'trigger'").await {
        let name = sql.split('"').nth(1).unwrap();
        client.run(&format!("DROP TRIGGER \"{name}\"; {}", sql.replace('$', "_"))).await;
    }
}

async fn names_that_ran_together(database: Database, made_before: bool) {
    let (engine, mut client) = (database.engine().await, database.client().await);
    client
        .run("CREATE TABLE shop (id INTEGER PRIMARY KEY, a TEXT); CREATE TABLE shop_item (id INTEGER PRIMARY KEY, a TEXT)")
        .await;
    let (watch, cancel) = (watcher(), patient());
    let all = synced(&[("shop", "a", "item_price"), ("shop_item", "a", "price")]);
    engine.expand(&all.up_to(2), &term(1), &watch, &cancel).await.unwrap();
    if made_before {
        name_as_before(&mut client, database.dialect()).await;
    }
    engine.expand(&all, &term(1), &watch, &cancel).await.unwrap();
    client.run("INSERT INTO shop_item (id, a) VALUES (1, 'x')").await;
    assert_eq!(client.texts("SELECT coalesce(price, 'stale') FROM shop_item").await, ["x"]);
    engine.undo(&all.clone().with_own(|m| m.version == 3), &term(1), &watch, &cancel).await.unwrap();
    client.run("INSERT INTO shop (id, a) VALUES (1, 'x')").await;
    assert_eq!(client.texts("SELECT coalesce(item_price, 'stale') FROM shop").await, ["x"]);
    engine.undo(&all, &term(1), &watch, &cancel).await.unwrap();
    let left = match database.dialect() {
        Dialect::Postgres => "SELECT count(*) FROM pg_proc WHERE proname LIKE 'tidegate%'",
        Dialect::Sqlite => "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'",
    };
    assert_eq!(client.number(left).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_order_of_old_and_new_writers() {
    any_order(Database::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn syncs_of_names_that_run_together_stay_apart() {
    names_that_ran_together(Database::sqlite().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_with_the_names_of_an_earlier_program_is_ended() {
    names_that_ran_together(Database::sqlite().await, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_sync_leaves_one_whose_column_begins_alike() {
    end_of_a_sync(Database::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_says_what_its_triggers_cannot_fill() {
    let database = Database::sqlite().await;
    let mut client = database.client().await;
    client.run("CREATE TABLE images (id TEXT PRIMARY KEY, is_public BOOLEAN NOT NULL); CREATE TABLE image_members (image_id TEXT)").await;
    let engine = database.engine().await;
    let error = engine.expand(&sample(), &term(1), &watcher(), &patient()).await.unwrap_err();
    assert!(matches!(&error, Error::Unsupported { .. }) && error.to_string().contains("default"), "{error}");
    assert!(client.try_run("SELECT visibility FROM images").await.is_err(), "nothing is half done");
}

#[tokio::test(flavor = "multi_thread")]
async fn unfit_expressions_are_refused_before_any_write() {
    let database = Database::sqlite().await;
    let mut client = database.client().await;
    client.run("CREATE TABLE images (id TEXT PRIMARY KEY, is_public BOOLEAN)").await;
    let engine = database.engine().await;
    let error = engine.expand(&sample(), &term(1), &watcher(), &patient()).await.unwrap_err();
    assert!(matches!(&error, Error::Sql { .. }) && error.to_string().contains("image_members"), "{error}");
    client.run("INSERT INTO images VALUES ('a', true)").await;
}

mod real_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn any_order_of_old_and_new_writers() {
        any_order(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn end_of_a_sync_leaves_one_whose_column_begins_alike() {
        end_of_a_sync(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn syncs_of_names_that_run_together_stay_apart() {
        names_that_ran_together(Database::postgres().await, false).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn sync_with_the_names_of_an_earlier_program_is_ended() {
        names_that_ran_together(Database::postgres().await, true).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_new_writer_need_not_know_a_not_null_column_without_default() {
        let database = Database::postgres().await;
        let mut client = database.client().await;
        client.run("CREATE TABLE images (id TEXT PRIMARY KEY, is_public BOOLEAN NOT NULL); CREATE TABLE image_members (image_id TEXT)").await;
        let engine = database.engine().await;
        engine.expand(&sample(), &term(1), &watcher(), &patient()).await.unwrap();
        client.run("INSERT INTO images (id, visibility) VALUES ('a', 'public'), ('b', 'shared')").await;
        let public = client.texts("SELECT id FROM images WHERE is_public").await;
        assert_eq!(public, ["a"]);
    }

    /// Triggers are fired in the order of their names: of each pair, one comes before those of the sync and one after.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_other_before_triggers_change_is_carried() {
        let database = Database::postgres().await;
        let (engine, mut client) = (database.engine().await, database.client().await);
        client.run("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, seen TEXT, n INTEGER)").await;
        client
            .run("CREATE FUNCTION lowers() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := lower(NEW.a); RETURN NEW; END $$")
            .await;
        client
            .run("CREATE FUNCTION sees() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.seen := NEW.a; RETURN NEW; END $$")
            .await;
        client
            .run("CREATE FUNCTION renames() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := NEW.a || NEW.n; RETURN NEW; END $$")
            .await;
        let sees =
            "CREATE TRIGGER update_seen BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION sees()";
        client.run(sees).await;
        let all = synced(&[("t", "a", "v")]);
        engine.expand(&all, &term(1), &watcher(), &patient()).await.unwrap();
        for name in ["a_lowers", "update_lowers"] {
            client
                .run(&format!("CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION lowers()"))
                .await;
            client.run("DELETE FROM t; INSERT INTO t (id, a) VALUES (1, 'OLD')").await;
            assert_eq!(client.texts("SELECT a || ' ' || v FROM t").await, ["old old"], "{name}");
            client.run("UPDATE t SET a = 'OTHER'").await;
            assert_eq!(client.texts("SELECT a || ' ' || v FROM t").await, ["other other"], "{name}");
            // Who changes `new` wins.
            client.run("UPDATE t SET v = 'New'").await;
            assert_eq!(client.texts("SELECT a || ' ' || v FROM t").await, ["New New"], "{name}");
            client
                .run(
                    "SET session_replication_role = replica; INSERT INTO t (id, a) VALUES (2, 'FORMER'); \
                      SET session_replication_role = origin",
                )
                .await;
            client
                .run("BEGIN; SET LOCAL tidegate.fill = 'on'; UPDATE t SET v = a WHERE v IS NULL; COMMIT")
                .await;
            let filled = client.texts("SELECT a || ' ' || v FROM t WHERE id = 2").await;
            assert_eq!(filled, ["former former"], "{name}");
            client.run(&format!("DROP TRIGGER {name} ON t")).await;
        }
        for name in ["a_renames", "update_renames"] {
            client.run("DELETE FROM t; INSERT INTO t (id, v) VALUES (1, 'x')").await;
            assert_eq!(client.texts("SELECT seen FROM t").await, ["x"], "others see what was carried down");
            client
                .run(&format!(
                    "CREATE TRIGGER {name} BEFORE UPDATE OF n ON t FOR EACH ROW EXECUTE FUNCTION renames()"
                ))
                .await;
            client.run("UPDATE t SET n = 7").await;
            assert_eq!(client.texts("SELECT a || ' ' || v FROM t").await, ["x7 x7"], "{name}");
            client.run(&format!("DROP TRIGGER {name} ON t")).await;
        }
        engine.undo(&all, &term(1), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM pg_trigger WHERE tgname LIKE '%tidegate%'").await, 0);
    }
}
