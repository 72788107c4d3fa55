//! A contract that came after a set's own migrations, as where the store was restored to an earlier upgrade: it is seen,
//! although the set does not have its migration. And one that came before that of another migration of the set.

on_both! { later_contract_is_named_with_its_upgrade, later_contract_without_a_file_is_seen, empty_contract_below_a_later_one_is_final, contract_goes_on_without_a_column_it_verified_by }

mod story {
    use crate::support::*;
    use tidegate_migrations::{Engine, Error, LaterContract, MigrationSet, Owner, Phase};

    /// Version 1 makes the table. Version 2 adds a column and removes nothing, version 3 takes the first column away.
    const FILES: [(&str, &str); 3] = [
        (
            "0001_things.toml",
            "id = '0001_things'\nversion = 1\nold_reads_migrated = true\n\
             [expand]\nsteps = [{ sql = 'CREATE TABLE things (id INTEGER PRIMARY KEY, shade TEXT)' }]\n\
             [undo]\nsteps = [{ sql = 'DROP TABLE IF EXISTS things' }]\n",
        ),
        (
            "0002_size.toml",
            "id = '0002_size'\nversion = 2\nold_reads_migrated = true\n\
             [expand]\nsteps = [{ add_column = { table = 'things', column = 'size', type = 'integer' } }]\n\
             [undo]\nsteps = [{ drop_column = { table = 'things', column = 'size' } }]\n",
        ),
        (
            "0003_tone.toml",
            "id = '0003_tone'\nversion = 3\nold_reads_migrated = true\n\
             [expand]\nsteps = [{ add_column = { table = 'things', column = 'tone', type = 'text' } }]\n\
             [contract]\nsteps = [{ drop_column = { table = 'things', column = 'shade' } }]\n\
             [undo]\nsteps = [{ drop_column = { table = 'things', column = 'tone' } }]\n",
        ),
    ];

    fn hop(files: usize, from: u32, to: u32, upgrade: &str) -> MigrationSet {
        let all = set_in(written(&FILES[..files]).path());
        all.between(from, to).owned_by(Owner::upgrade(upgrade))
    }

    /// The first upgrade; the second, which has contracted, is no longer known to the store.
    fn first() -> MigrationSet {
        hop(3, 1, 2, "u1")
    }

    async fn at_version_3(database: &Database) -> Engine {
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let by_hand = set_in(written(&FILES).path()).up_to(1);
        engine.expand(&by_hand, &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&by_hand, &term(1), &watch, &cancel).await.unwrap();
        for (upgrade, of) in [(first(), 2), (hop(3, 2, 3, "u2"), 3)] {
            assert!(engine.status(&upgrade).await.unwrap().later.is_empty(), "it is the last one so far");
            engine.expand(&upgrade, &term(of), &watch, &cancel).await.unwrap();
            engine.migrate(&upgrade, &term(of), &watch, &cancel).await.unwrap();
            engine.contract(&upgrade, &term(of), &proof(), &agreed, &watch, &cancel).await.unwrap();
        }
        engine
    }

    fn contract(version: Option<u32>) -> LaterContract {
        LaterContract { migration: "0003_tone".to_owned(), version, owner: Some("u2".to_owned()) }
    }

    pub(super) async fn later_contract_is_named_with_its_upgrade(database: Database) {
        let engine = at_version_3(&database).await;
        assert_eq!(engine.status(&first()).await.unwrap().later, [contract(Some(3))]);
        let found = engine.obstacles(&first()).await.unwrap().join("; ");
        let named = "migration 0003_tone is of version 3, above `to` (2), and its contract has begun (in the name of u2)";
        assert!(found.contains(named), "{found}");
        let second = engine.status(&hop(3, 2, 3, "u2")).await.unwrap();
        assert!(second.later.is_empty(), "{second:?}");
        let by: Vec<_> = second.migrations.iter().map(|m| m.contracted_by.as_deref()).collect();
        assert_eq!(by, [None, None, Some("u2")], "a contract without steps removes nothing");
    }

    /// The coordinator's directory is of that time as well.
    pub(super) async fn later_contract_without_a_file_is_seen(database: Database) {
        let engine = at_version_3(&database).await;
        let status = engine.status(&hop(2, 1, 2, "u1")).await.unwrap();
        assert_eq!(status.later, [contract(None)]);
        let found = engine.obstacles(&hop(2, 1, 2, "u1")).await.unwrap().join("; ");
        assert!(!found.contains("0003_tone"), "its version is not known: {found}");
    }

    pub(super) async fn empty_contract_below_a_later_one_is_final(database: Database) {
        let (engine, mut client) = (at_version_3(&database).await, database.client().await);
        let undone = engine.undo(&first(), &term(4), &watcher(), &patient()).await.unwrap();
        assert_eq!(undone.steps, 0);
        client.run("SELECT size, tone FROM things").await;
        let status = engine.status(&first()).await.unwrap();
        assert!(status.migrations.iter().all(|m| !m.undoable), "{status:?}");
    }

    /// The contract of the first drops a column that the verify query of the second names.
    const OF_ONE_VERSION: [(&str, &str); 2] = [
        (
            "0002_sum.toml",
            "id = '0002_sum'\nversion = 2\nold_reads_migrated = true\n\
             [contract]\nsteps = [{ drop_column = { table = 'images', column = 'checksum' } }]\n",
        ),
        (
            "0003_title.toml",
            "id = '0003_title'\nversion = 2\nold_reads_migrated = true\n\
             [expand]\nsteps = [{ add_column = { table = 'images', column = 'title', type = 'text' } }]\n\
             [migrate]\nrequires = 'expanded'\nsteps = [{ backfill = { table = 'images', key = 'id', \
             set = { title = 'name' }, where = 'title IS NULL' } }]\n\
             verify = 'SELECT count(*) FROM images WHERE title IS NULL AND checksum IS NOT NULL'\n\
             [contract]\nsteps = [{ sql = 'DROP TABLE leftovers' }]\n\
             [undo]\nsteps = [{ drop_column = { table = 'images', column = 'title' } }]\n",
        ),
    ];

    pub(super) async fn contract_goes_on_without_a_column_it_verified_by(database: Database) {
        let database = database.seeded(3).await;
        let set = set_in(written(&OF_ONE_VERSION).path()).owned_by(Owner::upgrade("u1"));
        let (engine, mut client) = (database.engine().await, database.client().await);
        let (watch, cancel) = (watcher(), patient());
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        client.run("UPDATE images SET title = NULL").await;
        let error = engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap_err();
        assert!(matches!(&error, Error::Unverified { rows: 3, .. }), "{error}");
        client.run("SELECT checksum FROM images").await;
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();

        // The second one fails at first: its table is missing.
        let error = engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap_err();
        assert!(error.to_string().contains("leftovers"), "{error}");
        assert!(client.try_run("SELECT checksum FROM images").await.is_err());
        assert_eq!(engine.status(&set).await.unwrap().next, Some(Phase::Contract));
        assert_eq!(engine.pending_rows(&set).await.unwrap(), 0);
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        client.run("CREATE TABLE leftovers (id INTEGER)").await;
        engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
        assert_eq!(engine.status(&set).await.unwrap().next, None);
    }
}
