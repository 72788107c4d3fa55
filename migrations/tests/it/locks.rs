//! What others feel of our locks, and what we do when others hold them.

mod real_postgres {
    use crate::support::*;
    use std::time::{Duration, Instant};
    use tidegate_migrations::{DatabaseUrl, Engine, Error, LOCK_LIMIT, LoadError, PhaseProgress, Rule};
    use tokio::sync::watch;

    const PID: &str = "SELECT pg_backend_pid()::bigint";

    /// A reader that sits in a transaction blocks the expand; readers who come after it must not
    /// stall behind the expand for longer than one try.
    #[tokio::test(flavor = "multi_thread")]
    async fn idle_reader_delays_expand_alone() {
        let database = Database::postgres().await.seeded(100).await;
        let (engine, set) = (database.engine().await, sample());
        let (mut sitter, mut reader) = (database.client().await, database.client().await);
        engine.claim(&term(1), &patient()).await.unwrap();
        sitter.run("SET application_name = 'report-job'; BEGIN; SELECT count(*) FROM images").await;
        let held = format!("held by session {} (report-job, user postgres", sitter.number(PID).await);
        let watch = watcher();
        let mut progress = watch.subscribe();
        let running = engine.clone();
        let verb = tokio::spawn(async move { running.expand(&set, &term(1), &watch, &patient()).await });
        tokio::time::timeout(
            Duration::from_secs(10),
            progress.wait_for(|p| {
                p.waiting.as_ref().is_some_and(|w| {
                    w.contains("a lock for `add column images.visibility`") && w.contains(&held)
                })
            }),
        )
        .await
        .expect("the expand says what it waits for")
        .unwrap();
        let (mut worst, mut reads, since) = (Duration::ZERO, 0, Instant::now());
        while since.elapsed() < Duration::from_secs(2) {
            let began = Instant::now();
            reader.number("SELECT count(*) FROM images").await;
            worst = worst.max(began.elapsed());
            reads += 1;
        }
        assert!(!verb.is_finished(), "the sitter still holds the table");
        assert!(reads > 10, "{reads} reads");
        // The limit of one try, and room for a slow machine; without a limit it were the whole 2 s.
        assert!(worst < LOCK_LIMIT + Duration::from_millis(700), "a reader stalled {worst:?}");
        sitter.run("COMMIT").await;
        tokio::time::timeout(Duration::from_secs(30), verb).await.expect("it goes on").unwrap().unwrap();
        reader.run("SELECT visibility FROM images").await;
    }

    /// Waits until the progress of a verb says that it waits for this.
    async fn names(verb: &mut watch::Receiver<PhaseProgress>, what: &str) {
        let waits = |p: &PhaseProgress| p.waiting.as_ref().is_some_and(|w| w.contains(what));
        let named = tokio::time::timeout(Duration::from_secs(20), verb.wait_for(waits)).await;
        let named = named.is_ok_and(|named| named.is_ok());
        assert!(named, "{what}: {:?}", verb.borrow());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn prepared_transaction_is_named_with_its_end() {
        let database = Database::postgres().await.seeded(10).await;
        let (engine, set, mut client) = (database.engine().await, sample(), database.client().await);
        let orphan = "BEGIN; UPDATE images SET size = size + 1; PREPARE TRANSACTION 'or''phan'";
        let blocker = "prepared transaction 'or''phan' (user postgres, ";
        let end = "ROLLBACK PREPARED 'or''phan'";
        client.run(orphan).await;
        // Expand tries again and again; migrate builds an index concurrently.
        let (watch, running, same) = (watcher(), engine.clone(), set.clone());
        let mut progress = watch.subscribe();
        let verb = tokio::spawn(async move { running.expand(&same, &term(1), &watch, &patient()).await });
        names(&mut progress, blocker).await;
        client.run(end).await;
        verb.await.unwrap().unwrap();

        client.run("BEGIN; INSERT INTO image_members VALUES ('nobody', 'x'); LOCK TABLE images IN ROW EXCLUSIVE MODE; PREPARE TRANSACTION 'or''phan'").await;
        let (watch, running, same) = (watcher(), engine.clone(), set.clone());
        let mut progress = watch.subscribe();
        let verb = tokio::spawn(async move { running.migrate(&same, &term(1), &watch, &patient()).await });
        names(&mut progress, blocker).await;
        client.run(end).await;
        verb.await.unwrap().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn holder_of_a_qualified_table_is_named() {
        let database = Database::postgres().await;
        let (engine, mut sitter) = (database.engine().await, database.client().await);
        let text = "id = '0003_note'\nversion = 3\nold_reads_migrated = true\n[expand]\n\
            steps = [{ sql = 'ALTER TABLE app.things ADD COLUMN note text' }]\n\
            [undo]\nsteps = [{ sql = 'ALTER TABLE app.things DROP COLUMN IF EXISTS note' }]\n";
        let set = set_in(written(&[("0003_note.toml", text)]).path());
        sitter.run("CREATE SCHEMA app; CREATE TABLE app.things (id int)").await;
        sitter.run("BEGIN; SELECT * FROM app.things").await;
        let blocker = format!("session {} (", sitter.number(PID).await);
        let watch = watcher();
        let mut progress = watch.subscribe();
        let verb = tokio::spawn(async move { engine.expand(&set, &term(1), &watch, &patient()).await });
        names(&mut progress, &blocker).await;
        sitter.run("ROLLBACK").await;
        verb.await.unwrap().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_invalid_index_is_cleared_away_and_built() {
        let database = Database::postgres().await.seeded(1_000).await;
        let (engine, set, mut client) = (database.engine().await, sample(), database.client().await);
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        // A leftover under the very name, as a build that fails leaves it: 1,000 equal values.
        let failed =
            client.try_run("CREATE UNIQUE INDEX CONCURRENTLY images_visibility ON images (checksum)").await;
        assert!(failed.is_err());
        let valid =
            "SELECT count(*) FROM pg_index WHERE indexrelid = 'images_visibility'::regclass AND indisvalid";
        assert_eq!(client.number(valid).await, 0);
        engine.migrate(&set, &term(1), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number(valid).await, 1);
        let unique =
            "SELECT count(*) FROM pg_index WHERE indexrelid = 'images_visibility'::regclass AND indisunique";
        assert_eq!(client.number(unique).await, 0, "it is ours, not the leftover");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn invalid_index_on_another_table_is_not_dropped() {
        let database = Database::postgres().await.seeded(1_000).await;
        let (engine, set, mut client) = (database.engine().await, sample(), database.client().await);
        let failed = client
            .try_run("CREATE UNIQUE INDEX CONCURRENTLY images_visibility ON image_members (member)")
            .await;
        assert!(failed.is_err());
        let error = engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap_err();
        assert!(matches!(&error, Error::Present { .. }), "{error}");
        let there = "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('images_visibility')";
        assert_eq!(client.number(there).await, 1);
    }

    /// With it, a concurrent build waits.
    const WRITER: &str = "BEGIN; LOCK TABLE images IN ROW EXCLUSIVE MODE";

    async fn until_being_built(client: &mut Client) {
        let invalid = "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('images_visibility') \
                       AND NOT indisvalid";
        until(Duration::from_secs(20), async || {
            let invalid = client.number(invalid).await;
            (invalid == 1, invalid)
        })
        .await;
    }

    /// The answer to a migrate while a person builds an index of the same name, which stays as that person builds it.
    async fn refused_beside_a_build(database: &Database, engine: &Engine, writer: &mut Client) -> Error {
        let (mut person, mut client) = (database.client().await, database.client().await);
        writer.run(WRITER).await;
        let build = tokio::spawn(async move {
            person.run("CREATE INDEX CONCURRENTLY images_visibility ON images (name)").await;
        });
        until_being_built(&mut client).await;
        let (set, leader, watch, cancel) = (sample(), term(1), watcher(), patient());
        let refused = engine.migrate(&set, &leader, &watch, &cancel);
        let refused = tokio::time::timeout(Duration::from_secs(20), refused).await;
        writer.run("ROLLBACK").await;
        build.await.unwrap();
        let theirs = "SELECT count(*) FROM pg_indexes WHERE indexname = 'images_visibility' AND indexdef LIKE '%(name)'";
        assert_eq!(client.number(theirs).await, 1);
        refused.expect("it does not wait for the build").unwrap_err()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn index_that_another_session_builds_is_not_dropped() {
        let database = Database::postgres().await.seeded(100).await;
        let (engine, set) = (database.engine().await, sample());
        let (mut writer, mut client) = (database.client().await, database.client().await);
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let error = refused_beside_a_build(&database, &engine, &mut writer).await;
        assert!(matches!(&error, Error::Present { .. }), "{error}");
        client.run("DROP INDEX images_visibility").await;

        // The same where a build of the step has begun before.
        writer.run(WRITER).await;
        let (cancel, running) = (patient(), engine.clone());
        let token = cancel.clone();
        let verb = tokio::spawn(async move { running.migrate(&set, &term(1), &watcher(), &token).await });
        until_being_built(&mut client).await;
        cancel.cancel();
        verb.await.unwrap().unwrap_err();
        writer.run("ROLLBACK").await;
        client.run("DROP INDEX images_visibility").await;
        let error = refused_beside_a_build(&database, &engine, &mut writer).await;
        assert!(error.to_string().contains("another session is building"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_unique_index_that_cannot_be_is_an_error() {
        let database = Database::postgres().await.seeded(100).await;
        let text = "id = '0003_once'\nversion = 3\nold_reads_migrated = true\n[migrate]\nrequires = 'expanded'\n\
            steps = [{ index = { name = 'images_once', table = 'images', on = ['checksum'], unique = true } }]\n";
        let directory = written(&[("0003_once.toml", text)]);
        let (engine, set) = (database.engine().await, set_in(directory.path()));
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let error = engine.migrate(&set, &term(1), &watcher(), &patient()).await.unwrap_err();
        assert!(matches!(&error, Error::Sql { .. }) && error.to_string().contains("images_once"), "{error}");
    }

    /// The limit is meant for the statements of a service; a count of a big table takes longer.
    #[tokio::test(flavor = "multi_thread")]
    async fn limit_on_statements_ends_no_count_of_rows() {
        let database = Database::postgres().await.seeded(3).await;
        let text = "id = '0003_note'\nversion = 3\nold_reads_migrated = true\n\
            [expand]\nsteps = [{ add_column = { table = 'images', column = 'note', type = 'text' } }]\n\
            [migrate]\nrequires = 'expanded'\nsteps = []\n\
            verify = \"SELECT count(*) FROM images WHERE current_setting('statement_timeout') <> '0'\"\n\
            [undo]\nsteps = [{ drop_column = { table = 'images', column = 'note' } }]\n";
        let directory = written(&[("0003_note.toml", text)]);
        let set = set_in(directory.path());
        let url: DatabaseUrl = format!("{}?options[statement_timeout]=60s", database.text).parse().unwrap();
        let engine = Engine::connect(&url).await.unwrap();
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        assert_eq!(engine.pending_rows(&set).await.unwrap(), 0, "the look has no limit while it counts");
    }

    /// Servers before PostgreSQL 17 do not have the setting: there the build shows that nothing asks for it.
    #[tokio::test(flavor = "multi_thread")]
    async fn limit_on_transactions_ends_no_index_build() {
        let database = Database::postgres().await.seeded(3).await;
        let mut client = database.client().await;
        let known = "SELECT count(*) FROM pg_settings WHERE name = 'transaction_timeout'";
        let limit = match client.number(known).await {
            0 => "",
            _ => "?options[transaction_timeout]=1s",
        };
        let url: DatabaseUrl = format!("{}{limit}", database.text).parse().unwrap();
        let (engine, set) = (Engine::connect(&url).await.unwrap(), sample());
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        client.run("BEGIN; LOCK TABLE images IN ROW EXCLUSIVE MODE").await;
        let verb = tokio::spawn(async move { engine.migrate(&set, &term(1), &watcher(), &patient()).await });
        let mut other = database.client().await;
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX%' \
                     AND wait_event_type = 'Lock' AND xact_start < clock_timestamp() - interval '1500 ms'";
        until(Duration::from_secs(20), async || {
            let waits = other.number(waits).await;
            (waits == 1, waits)
        })
        .await;
        client.run("ROLLBACK").await;
        verb.await.unwrap().unwrap();
    }

    /// Over a socket of the same machine no such setting has an effect: only that it was made is seen.
    #[tokio::test(flavor = "multi_thread")]
    async fn session_of_a_leader_has_limits_on_its_network() {
        let database = Database::postgres().await;
        let (engine, mut client) = (database.engine().await, database.client().await);
        engine.claim(&term(1), &patient()).await.unwrap();
        client
            .run(
                "CREATE TABLE made (setting TEXT);
                 CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     INSERT INTO made SELECT name FROM pg_settings WHERE name LIKE 'tcp%' AND source = 'session';
                     RETURN NEW;
                 END $$;
                 CREATE TRIGGER keep BEFORE UPDATE ON tidegate_schema FOR EACH ROW EXECUTE FUNCTION keep()",
            )
            .await;
        engine.claim(&term(2), &patient()).await.unwrap();
        let made = client.texts("SELECT setting FROM made ORDER BY setting").await;
        let all =
            ["tcp_keepalives_count", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_user_timeout"];
        assert_eq!(made, all);
    }

    /// A validation reads the whole table, and what is locked before it in its transaction stays locked meanwhile.
    #[tokio::test(flavor = "multi_thread")]
    async fn validation_runs_under_no_lock_of_its_neighbours() {
        let database = Database::postgres().await.seeded(10).await;
        let (engine, mut client) = (database.engine().await, database.client().await);
        let set = |id: &str, contract: &str| {
            let text = format!(
                "id = '{id}'\nversion = 3\nold_reads_migrated = true\n[postgres.contract]\nsteps = [{contract}]\n"
            );
            set_in(written(&[(&format!("{id}.toml"), &text)]).path())
        };
        let apart = set(
            "0003_sized",
            "{ sql = 'ALTER TABLE images ADD CONSTRAINT sized CHECK (size >= 0) NOT VALID' }, \
             { sql = 'ALTER TABLE images VALIDATE CONSTRAINT sized' }, \
             { drop_column = { table = 'images', column = 'checksum' } }",
        );
        let (watch, cancel) = (watcher(), patient());
        engine.expand(&apart, &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&apart, &term(1), &watch, &cancel).await.unwrap();
        engine.contract(&apart, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
        let transactions =
            "SELECT count(DISTINCT xmin::text) FROM tidegate_history WHERE phase = 'contract' AND step >= 0";
        assert_eq!(client.number(transactions).await, 3);
        let valid = "SELECT count(*) FROM pg_constraint WHERE conname = 'sized' AND convalidated";
        assert_eq!(client.number(valid).await, 1);

        for (id, sql) in [
            ("0004_two", "DROP INDEX i; ALTER TABLE images VALIDATE CONSTRAINT c"),
            ("0004_one", "ALTER TABLE images DROP COLUMN name, VALIDATE CONSTRAINT c"),
        ] {
            let beside = set(id, &format!("{{ sql = '{sql}' }}"));
            let error = engine.expand(&beside, &term(1), &watch, &cancel).await.unwrap_err();
            let Error::Lint(LoadError::Findings(found)) = &error else { panic!("{error}") };
            assert!(found.len() == 1 && found[0].rule == Rule::SafeForm, "{found:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_busy_lock_names_its_holder_and_an_equal_term_is_let_be() {
        let database = Database::postgres().await.seeded(10).await;
        let engine = database.engine().await;
        engine.claim(&term(5), &patient()).await.unwrap();
        let mut holder = database.client().await;
        holder
            .run("SET application_name = 'tidegate/5/schema'; SELECT pg_advisory_lock(1953064037, hashtext(current_schema()) & 2147483647)")
            .await;
        let pid = holder.number("SELECT pg_backend_pid()::bigint").await;
        let error = engine.claim(&term(5), &patient()).await.unwrap_err();
        let Error::LockBusy { holder: Some(named) } = &error else { panic!("{error}") };
        assert_eq!((named.pid, named.application_name.as_str()), (pid, "tidegate/5/schema"));
        assert!(error.retryable());
        holder.run("SELECT 1").await;
        engine.claim(&term(6), &patient()).await.unwrap();
        assert!(holder.try_run("SELECT 1").await.is_err(), "a lower term's session was ended");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_long_index_build_ends_when_it_is_cancelled() {
        let database = Database::postgres().await.seeded(100).await;
        let (engine, set) = (database.engine().await, sample());
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        // A writer that stays in its transaction: a concurrent build waits for its end.
        let mut sitter = database.client().await;
        sitter
            .run("SET application_name = 'report-job'; BEGIN; INSERT INTO image_members VALUES ('nobody', 'x'); SELECT count(*) FROM images")
            .await;
        let blocker = format!("session {} (report-job, user postgres", sitter.number(PID).await);
        let (cancel, watch) = (patient(), watcher());
        let mut progress = watch.subscribe();
        let (token, running, same) = (cancel.clone(), engine.clone(), set.clone());
        let verb = tokio::spawn(async move { running.migrate(&same, &term(1), &watch, &token).await });
        let building = progress.wait_for(|p| p.doing.starts_with("index"));
        tokio::time::timeout(Duration::from_secs(20), building)
            .await
            .expect("it comes to the index")
            .unwrap();
        let named = progress.wait_for(|p| p.waiting.as_ref().is_some_and(|w| w.contains(&blocker)));
        tokio::time::timeout(Duration::from_secs(20), named).await.expect("it names who blocks it").unwrap();
        cancel.cancel();
        let error =
            tokio::time::timeout(Duration::from_secs(10), verb).await.expect("it ends").unwrap().unwrap_err();
        assert!(matches!(error, Error::Cancelled), "{error}");
        sitter.run("ROLLBACK").await;
        engine.migrate(&set, &term(1), &watcher(), &patient()).await.unwrap();
    }
}
