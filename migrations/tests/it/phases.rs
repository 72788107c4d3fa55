//! The way of a schema through its phases, and back.

on_both! { to_the_end, there_and_back, the_old_version_writes_on_while_all_comes_and_goes, old_and_new_at_once, fill_refuses_a_key_that_is_null, an_undo_follows_an_expand_that_was_cut_off, contract_needs_its_order_and_its_recheck, cancelled_transaction_is_not_committed, rows_that_come_after_the_fill_are_filled_before_contract, rows_that_no_step_fills_are_named, status_by_history_counts_no_rows }

mod story {
    use crate::support::*;
    use futures::FutureExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tidegate_migrations::{Dialect, Error, Phase, PhaseState};

    const WRONG: &str = "SELECT count(*) FROM images i WHERE visibility <> CASE WHEN is_public THEN 'public' \
         WHEN EXISTS (SELECT 1 FROM image_members m WHERE m.image_id = i.id) THEN 'shared' ELSE 'private' END";

    pub(super) async fn to_the_end(database: Database) {
        let database = database.seeded(20_000).await;
        let (engine, set, mut client) = (database.engine().await, sample(), database.client().await);
        assert_eq!(engine.status(&set).await.unwrap().next, Some(Phase::Expand));
        assert_eq!(engine.identity().await.unwrap().id, None);
        let id = engine.claim(&term(1), &patient()).await.unwrap();
        let identity = engine.identity().await.unwrap();
        assert_eq!((identity.id, identity.term), (Some(id), Some(term(1))));

        let (watch, cancel) = (watcher(), patient());
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        let status = engine.status(&set).await.unwrap();
        assert_eq!((status.next, status.migrations[0].pending_rows), (Some(Phase::Migrate), Some(20_000)));

        let mut progress = watch.subscribe();
        let seen = tokio::spawn(async move {
            let mut rows = Vec::new();
            while progress.changed().await.is_ok() {
                let level = progress.borrow();
                rows.extend((level.rows_total > 0).then_some((level.rows_done, level.rows_total)));
            }
            rows
        });
        let outcome = engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        drop(watch);
        // A level that the next step's comes after at once, as the last one's does, may never be seen.
        let seen = seen.await.unwrap();
        assert!(seen.is_sorted() && seen.iter().all(|(_, total)| *total == 20_000), "{seen:?}");
        assert!(matches!(seen[..], [.., (1..=20_000, _)]), "{seen:?}");
        assert_eq!(outcome.rows, 20_000);
        assert_eq!(engine.pending_rows(&set).await.unwrap(), 0);
        assert_eq!(client.number(WRONG).await, 0);
        assert_eq!(client.number("SELECT count(*) FROM images WHERE visibility = 'shared'").await, 2_000);

        let watch = watcher();
        let again = engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        assert_eq!((again.steps, again.rows), (0, 0), "what is done is not done again");
        engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
        let status = engine.status(&set).await.unwrap();
        assert_eq!((status.next, status.migrations[0].contract), (None, PhaseState::Done));
        assert!(client.try_run("SELECT is_public FROM images").await.is_err());
        let refused = client.try_run("UPDATE images SET visibility = NULL").await.unwrap_err().to_string();
        assert!(refused.to_lowercase().contains("not"), "{refused}");
        client.run("INSERT INTO images (id, name, size, checksum, written_by, updated_at, visibility) VALUES ('n', 'n', 1, 's', 2, 0, 'shared')").await;
        let undo = engine.undo(&set, &term(1), &watch, &cancel).await.unwrap();
        assert_eq!(undo.steps, 0, "nothing is undone after contract");
        let notes = client.texts("SELECT note FROM tidegate_history WHERE phase = 'contract'").await;
        assert!(notes.iter().all(|n| n.contains("certificate-1") && n.contains("sha256:00")), "{notes:?}");
        assert_eq!(left_behind(&mut client, database.dialect()).await, Vec::<String>::new());
    }

    /// Triggers and functions of a sync that is no more.
    async fn left_behind(client: &mut Client, dialect: Dialect) -> Vec<String> {
        let sql = match dialect {
            Dialect::Postgres => {
                "SELECT proname::text FROM pg_proc WHERE proname LIKE 'tidegate%' UNION \
                 SELECT tgname::text FROM pg_trigger WHERE tgname LIKE '%tidegate%' UNION \
                 SELECT conname::text FROM pg_constraint WHERE conname LIKE 'tidegate_nn%'"
            }
            Dialect::Sqlite => {
                "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name NOT LIKE 'tidegate_nn%'"
            }
        };
        client.texts(sql).await
    }

    pub(super) async fn there_and_back(database: Database) {
        let database = database.seeded(1_000).await;
        let (engine, set, mut client) = (database.engine().await, sample(), database.client().await);
        let (watch, cancel) = (watcher(), patient());
        let before = client.texts("SELECT id || name || is_public || size FROM images ORDER BY id").await;
        for round in 1..=2 {
            engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
            let outcome = engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
            assert_eq!(outcome.rows, 1_000, "round {round} fills again");
            engine.undo(&set, &term(1), &watch, &cancel).await.unwrap();
            let status = engine.status(&set).await.unwrap();
            assert_eq!(
                (status.next, status.migrations[0].expand),
                (Some(Phase::Expand), PhaseState::NotStarted)
            );
            assert!(client.try_run("SELECT visibility FROM images").await.is_err());
            assert_eq!(left_behind(&mut client, database.dialect()).await, Vec::<String>::new());
        }
        let after = client.texts("SELECT id || name || is_public || size FROM images ORDER BY id").await;
        assert_eq!(before, after, "the old version finds its rows as they were");
        let kept = client.number("SELECT count(*) FROM tidegate_history WHERE state = 'undone'").await;
        assert!(kept > 10, "the history of both rounds is kept, {kept} rows");
    }

    pub(super) async fn the_old_version_writes_on_while_all_comes_and_goes(database: Database) {
        let database = database.seeded(200).await;
        let (engine, set) = (database.engine().await, sample());
        let (watch, cancel) = (watcher(), patient());
        let stop = tokio_util::sync::CancellationToken::new();
        let (mut old, stopped) = (database.client().await, stop.clone());
        let count = std::sync::Arc::new(AtomicU32::new(0));
        let counted = count.clone();
        let writer = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                let written = counted.load(Ordering::Relaxed);
                old.run(&format!("INSERT INTO images (id, name, is_public, size, checksum, written_by, updated_at) VALUES ('old-{written}', 'o', true, 1, 's', 1, 0)")).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Each round is one more chance to insert between two steps.
        let mut rounds = 0;
        while rounds < 8 || (count.load(Ordering::Relaxed) < 50 && rounds < 500) {
            rounds += 1;
            engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
            engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
            engine.undo(&set, &term(1), &watch, &cancel).await.unwrap();
        }
        stop.cancel();
        writer.await.expect("every insert of the old version succeeds");
        let written = count.load(Ordering::Relaxed);
        let mut client = database.client().await;
        let there = client.number("SELECT count(*) FROM images WHERE id LIKE 'old-%'").await;
        assert_eq!(there, i64::from(written));
        assert!(written >= 50, "only {written} rows were written beside {rounds} rounds");
    }

    pub(super) async fn old_and_new_at_once(database: Database) {
        let database = database.seeded(20_000).await;
        let (engine, set) = (database.engine().await, sample());
        let (watch, cancel) = (watcher(), patient());
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        let stop = tokio_util::sync::CancellationToken::new();
        let (mut old, mut new) = (database.client().await, database.client().await);
        let written = std::sync::Arc::new(AtomicU32::new(0));
        let (old_stop, old_written) = (stop.clone(), written.clone());
        let old_writer = tokio::spawn(async move {
            for i in 0.. {
                if old_stop.is_cancelled() {
                    break;
                }
                old.run(&format!("INSERT INTO images (id, name, is_public, size, checksum, written_by, updated_at) VALUES ('old-{i}', 'o', {}, 1, 's', 1, 0)", i % 2 == 0)).await;
                old.run(&format!(
                    "UPDATE images SET is_public = NOT is_public WHERE id = 'image-{}'",
                    i * 7919 % 1_000_003
                ))
                .await;
                old_written.fetch_add(2, Ordering::Relaxed);
            }
        });
        let (new_stop, new_written) = (stop.clone(), written.clone());
        let new_writer = tokio::spawn(async move {
            for i in 0.. {
                if new_stop.is_cancelled() {
                    break;
                }
                let word = ["private", "shared", "public"][i % 3];
                new.run(&format!("INSERT INTO images (id, name, size, checksum, written_by, updated_at, visibility) VALUES ('new-{i}', 'n', 1, 's', 2, 0, '{word}')")).await;
                new.run(&format!(
                    "UPDATE images SET visibility = '{word}' WHERE id = 'image-{}'",
                    (i + 5_000) * 7919 % 1_000_003
                ))
                .await;
                new_written.fetch_add(2, Ordering::Relaxed);
            }
        });
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        stop.cancel();
        old_writer.await.unwrap();
        new_writer.await.unwrap();
        let mut client = database.client().await;
        assert!(written.load(Ordering::Relaxed) > 0, "the writers wrote while it filled");
        assert_eq!(client.number("SELECT count(*) FROM images WHERE visibility IS NULL").await, 0);
        let apart = "SELECT count(*) FROM images WHERE is_public <> (visibility = 'public')";
        assert_eq!(client.number(apart).await, 0, "both versions read the same");
        let lost = "SELECT count(*) FROM images WHERE id LIKE 'new-%' AND visibility <> CASE \
                    CAST(substr(id, 5) AS integer) % 3 WHEN 0 THEN 'private' WHEN 1 THEN 'shared' ELSE 'public' END";
        assert_eq!(client.number(lost).await, 0, "what the new version wrote is what it reads");
    }

    pub(super) async fn fill_refuses_a_key_that_is_null(database: Database) {
        let mut client = database.client().await;
        client.run("CREATE TABLE notes (id TEXT PRIMARY KEY, note TEXT)").await;
        client.run("INSERT INTO notes VALUES ('a', NULL)").await;
        let null = client.try_run("INSERT INTO notes VALUES (NULL, NULL)").await;
        let text = "id = '0002_note'\nversion = 2\nold_reads_migrated = true\n[migrate]\nrequires = 'expanded'\n\
            steps = [{ backfill = { table = 'notes', key = 'id', where = 'note IS NULL', set = { note = \"'x'\" } } }]\n\
            verify = 'SELECT count(*) FROM notes WHERE note IS NULL'\n";
        let (engine, set) = (database.engine().await, set_in(written(&[("0002_note.toml", text)]).path()));
        let (watch, cancel) = (watcher(), patient());
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        let filled = engine.migrate(&set, &term(1), &watch, &cancel).await;
        if database.dialect() == Dialect::Postgres {
            assert!(null.is_err() && filled.is_ok(), "PostgreSQL has no null in a primary key");
            return;
        }
        let said = filled.unwrap_err().to_string();
        assert!(said.contains("key id is null in some rows"), "{said}");
        client.run("DELETE FROM notes WHERE id IS NULL").await;
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM notes WHERE note = 'x'").await, 1);
    }

    pub(super) async fn an_undo_follows_an_expand_that_was_cut_off(database: Database) {
        let database = database.seeded(10).await;
        let migration = "id = '0003_note'\nversion = 3\nold_reads_migrated = true\n\
            [expand]\nsteps = [{ add_column = { table = 'images', column = 'note', type = 'text' } }, \
            { sql = 'CREATE TABLE notes (id TEXT PRIMARY KEY)' }, \
            { sql = 'CREATE VIEW broken AS SELECT nothing FROM nowhere' }, \
            { add_column = { table = 'absent', column = 'x', type = 'text' } }]\n\
            [undo]\nsteps = [{ sql = 'DROP VIEW IF EXISTS broken' }, { sql = 'DROP TABLE IF EXISTS notes' }, \
            { drop_column = { table = 'images', column = 'note' } }, \
            { drop_column = { table = 'absent', column = 'x' } }]\n";
        let directory = written(&[("0003_note.toml", migration)]);
        let (engine, set, mut client) =
            (database.engine().await, set_in(directory.path()), database.client().await);
        let (watch, cancel) = (watcher(), patient());
        let error = engine.expand(&set, &term(1), &watch, &cancel).await.unwrap_err();
        assert!(matches!(&error, Error::Sql { .. }) && !error.retryable(), "{error}");
        let status = engine.status(&set).await.unwrap();
        assert_eq!(status.migrations[0].expand, PhaseState::Running);
        engine.undo(&set, &term(1), &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT note FROM images").await.is_err());
        assert!(client.try_run("SELECT id FROM notes").await.is_err());
        assert_eq!(engine.status(&set).await.unwrap().migrations[0].expand, PhaseState::NotStarted);
    }

    pub(super) async fn contract_needs_its_order_and_its_recheck(database: Database) {
        let database = database.seeded(100).await;
        let (engine, set, mut client) = (database.engine().await, sample(), database.client().await);
        let (watch, cancel) = (watcher(), patient());
        let early = engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap_err();
        assert!(
            matches!(&early, Error::Order { .. }) && early.to_string().contains("run expand first"),
            "{early}"
        );
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        let early = engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap_err();
        assert!(
            matches!(&early, Error::Order { .. }) && early.to_string().contains("run migrate first"),
            "{early}"
        );
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        let no = || async { Err("node-7 is connected at version 1".to_owned()) }.boxed();
        let stopped = engine.contract(&set, &term(1), &proof(), &no, &watch, &cancel).await.unwrap_err();
        assert!(stopped.to_string().contains("node-7"), "{stopped}");
        client.run("SELECT is_public FROM images").await;
        // Asked once before it begins, and again before its first transaction.
        let asked = AtomicU32::new(0);
        let once = || {
            let times = asked.fetch_add(1, Ordering::Relaxed);
            async move { if times == 0 { Ok(()) } else { Err("node-8 came back".to_owned()) } }.boxed()
        };
        let stopped = engine.contract(&set, &term(1), &proof(), &once, &watch, &cancel).await.unwrap_err();
        assert!(stopped.to_string().contains("node-8"), "{stopped}");
        // No step of contract ran, so a rollback is still possible, and forth again.
        engine.undo(&set, &term(1), &watch, &cancel).await.unwrap();
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT is_public FROM images").await.is_err());
    }

    pub(super) async fn cancelled_transaction_is_not_committed(database: Database) {
        let database = database.seeded(100).await;
        let (engine, set, mut client) = (database.engine().await, sample(), database.client().await);
        let (watch, cancel) = (watcher(), patient());
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        // It is asked before the phase begins, and before its first step.
        for (at, begun) in [(0, 0), (1, 1)] {
            let (asked, stop) = (AtomicU32::new(0), patient());
            let stops = || {
                if asked.fetch_add(1, Ordering::Relaxed) == at {
                    stop.cancel();
                }
                async { Ok::<(), String>(()) }.boxed()
            };
            let error = engine.contract(&set, &term(1), &proof(), &stops, &watch, &stop).await.unwrap_err();
            assert!(matches!(error, Error::Cancelled), "{error}");
            let rows = "SELECT count(*) FROM tidegate_history WHERE phase = 'contract'";
            assert_eq!(client.number(rows).await, begun, "once it was cancelled, nothing more was written");
            client.run("SELECT is_public FROM images").await;
        }
        engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT is_public FROM images").await.is_err());
    }

    pub(super) async fn rows_that_come_after_the_fill_are_filled_before_contract(database: Database) {
        let database = database.seeded(300).await;
        let text = "id = '0003_note'\nversion = 3\nold_reads_migrated = true\n\
            [expand]\nsteps = [{ add_column = { table = 'images', column = 'note', type = 'text' } }]\n\
            [migrate]\nrequires = { floor = 3 }\nsteps = [{ backfill = { table = 'images', key = 'id', \
            set = { note = 'name' }, where = 'note IS NULL' } }]\n\
            verify = 'SELECT count(*) FROM images WHERE note IS NULL'\n\
            [undo]\nsteps = [{ drop_column = { table = 'images', column = 'note' } }]\n";
        let directory = written(&[("0003_note.toml", text)]);
        let (engine, set, mut client) =
            (database.engine().await, set_in(directory.path()), database.client().await);
        let (watch, cancel) = (watcher(), patient());
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        client.run("INSERT INTO images (id, name, size, checksum, written_by, updated_at) VALUES ('late', 'l', 1, 's', 1, 0)").await;
        assert_eq!(engine.pending_rows(&set).await.unwrap(), 1);
        for _ in 0..2 {
            let error =
                engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap_err();
            assert!(matches!(&error, Error::Unverified { rows: 1, .. }), "{error}");
        }
        assert_eq!(engine.status(&set).await.unwrap().next, Some(Phase::Migrate));
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
        assert_eq!(engine.status(&set).await.unwrap().next, None);
    }

    /// A column that the programs themselves fill; the query that counts the rows without it reads `from`.
    fn unfilled(from: &str) -> String {
        format!(
            "id = '0003_note'\nversion = 3\nold_reads_migrated = true\n\
             [expand]\nsteps = [{{ add_column = {{ table = 'images', column = 'note', type = 'text' }} }}]\n\
             [migrate]\nrequires = 'expanded'\nsteps = []\nverify = 'SELECT count(*) FROM {from}'\n\
             [undo]\nsteps = [{{ drop_column = {{ table = 'images', column = 'note' }} }}]\n"
        )
    }

    pub(super) async fn rows_that_no_step_fills_are_named(database: Database) {
        let database = database.seeded(3).await;
        let directory = written(&[("0003_note.toml", &unfilled("images WHERE note IS NULL"))]);
        let (engine, set, mut client) =
            (database.engine().await, set_in(directory.path()), database.client().await);
        let (watch, cancel) = (watcher(), patient());
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        client.run("UPDATE images SET note = name").await;
        engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
        client.run("UPDATE images SET note = NULL").await;
        let error = engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap_err();
        assert!(matches!(&error, Error::Unverified { rows: 3, .. }), "{error}");
    }

    pub(super) async fn status_by_history_counts_no_rows(database: Database) {
        let database = database.seeded(3).await;
        let directory = written(&[("0003_note.toml", &unfilled("absent"))]);
        let (engine, set) = (database.engine().await, set_in(directory.path()));
        let (watch, cancel) = (watcher(), patient());
        engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
        let error = engine.status(&set).await.unwrap_err();
        assert!(error.to_string().contains("absent"), "a count asks the table: {error}");
        let status = engine.status_by_history(&set).await.unwrap();
        assert_eq!((status.next, status.migrations[0].pending_rows), (Some(Phase::Migrate), None));
        assert!(engine.obstacles(&set.between(3, 4)).await.unwrap()[0].contains("is not migrated"));
    }
}
