//! What ran is what is written, or nothing goes on.

on_both! { a_changed_step_is_named_and_stops, comments_are_no_drift, a_missing_unfinished_migration_stops, every_version_has_its_own_set }

mod story {
    use crate::support::*;
    use tidegate_migrations::{Error, Phase};

    fn migration(column: &str) -> String {
        format!(
            "id = '0003_note'\nversion = 3\nold_reads_migrated = true\n[expand]\nsteps = [\n\
             {{ add_column = {{ table = 'images', column = 'first', type = 'text' }} }},\n\
             {{ sql = '''{column}''' }}]\n[undo]\nsteps = [\
             {{ drop_column = {{ table = 'images', column = 'first' }} }}, \
             {{ sql = 'DROP TABLE IF EXISTS notes' }}]\n"
        )
    }

    pub(super) async fn a_changed_step_is_named_and_stops(database: Database) {
        let database = database.seeded(1).await;
        let engine = database.engine().await;
        let (watch, cancel) = (watcher(), patient());
        let before = written(&[("0003_note.toml", &migration("CREATE TABLE notes (id TEXT PRIMARY KEY)"))]);
        engine.expand(&set_in(before.path()), &term(1), &watch, &cancel).await.unwrap();
        let after =
            written(&[("0003_note.toml", &migration("CREATE TABLE notes (id TEXT PRIMARY KEY, x TEXT)"))]);
        let changed = set_in(after.path());
        for error in [
            engine.migrate(&changed, &term(1), &watch, &cancel).await.map(|_| ()).unwrap_err(),
            engine.status(&changed).await.map(|_| ()).unwrap_err(),
            engine.undo(&changed, &term(1), &watch, &cancel).await.map(|_| ()).unwrap_err(),
        ] {
            let named = matches!(&error, Error::Drift { phase: Phase::Expand, step: 2, migration, .. } if migration == "0003_note");
            assert!(named && !error.retryable(), "{error}");
        }
        engine.migrate(&set_in(before.path()), &term(1), &watch, &cancel).await.unwrap();
    }

    pub(super) async fn comments_are_no_drift(database: Database) {
        let database = database.seeded(1).await;
        let engine = database.engine().await;
        let (watch, cancel) = (watcher(), patient());
        let before = written(&[("0003_note.toml", &migration("CREATE TABLE notes (id TEXT PRIMARY KEY)"))]);
        engine.expand(&set_in(before.path()), &term(1), &watch, &cancel).await.unwrap();
        let after = written(&[(
            "0003_note.toml",
            &migration("-- for people\nCREATE TABLE   notes (id TEXT /* the key */ PRIMARY KEY);\n"),
        )]);
        assert_eq!(set_in(before.path()).digest(), set_in(after.path()).digest());
        engine.migrate(&set_in(after.path()), &term(1), &watch, &cancel).await.unwrap();
    }

    pub(super) async fn a_missing_unfinished_migration_stops(database: Database) {
        let database = database.seeded(1).await;
        let engine = database.engine().await;
        let (watch, cancel) = (watcher(), patient());
        let before = written(&[("0003_note.toml", &migration("CREATE TABLE notes (id TEXT PRIMARY KEY)"))]);
        engine.expand(&set_in(before.path()), &term(1), &watch, &cancel).await.unwrap();
        let empty = set_in(written(&[]).path());
        let error = engine.migrate(&empty, &term(1), &watch, &cancel).await.unwrap_err();
        assert!(matches!(&error, Error::Drift { migration, .. } if migration == "0003_note"), "{error}");
        let set = set_in(before.path());
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
        engine.migrate(&empty, &term(1), &watch, &cancel).await.unwrap();
    }

    pub(super) async fn every_version_has_its_own_set(database: Database) {
        let database = database.seeded(10).await;
        let engine = database.engine().await;
        let (watch, cancel) = (watcher(), patient());
        let text = std::fs::read_to_string(sample().iter().next().unwrap().file()).unwrap();
        let later = migration("CREATE TABLE notes (id TEXT PRIMARY KEY)");
        let both =
            set_in(written(&[("0002_image_visibility.toml", &text), ("0003_note.toml", &later)]).path());
        let two = both.up_to(2);
        assert_eq!((both.len(), two.len(), both.up_to(1).is_empty()), (2, 1, true));
        assert_eq!(two.digest(), sample().digest());
        engine.expand(&two, &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&two, &term(1), &watch, &cancel).await.unwrap();
        engine.contract(&two, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
        assert_eq!(engine.status(&both).await.unwrap().next, Some(Phase::Expand));
        engine.expand(&both, &term(2), &watch, &cancel).await.unwrap();
        engine.undo(&both, &term(2), &watch, &cancel).await.unwrap();
        let mut client = database.client().await;
        client.run("SELECT visibility FROM images").await;
        assert!(client.try_run("SELECT first FROM images").await.is_err(), "only the later one is undone");
    }
}
