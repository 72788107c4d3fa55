//! A database that is away, or does not know us: a typed error, and nothing half done.

use crate::support::*;
use std::path::Path;
use tidegate_migrations::{DatabaseUrl, Engine, Error};

#[tokio::test]
async fn a_missing_sqlite_file_is_unreachable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("absent.db");
    let error = Engine::connect(&format!("sqlite:{}", path.display()).parse().unwrap()).await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { .. }) && error.retryable(), "{error}");
    assert!(!path.exists(), "looking does not make a database");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.db");
    std::fs::write(&path, "these are notes, and there are many of them, but they are no database at all")
        .unwrap();
    let engine = Engine::connect(&format!("sqlite:{}", path.display()).parse().unwrap()).await;
    let error = match engine {
        Ok(engine) => engine.claim(&term(1), &patient()).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("not a database") && !error.retryable(), "{error}");
}

#[tokio::test]
async fn look_after_the_file_was_replaced_reads_the_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let url = |path: &Path| -> DatabaseUrl { format!("sqlite:{}", path.display()).parse().unwrap() };
    let [path, newer] = ["pantry.db", "newer.db"].map(|name| directory.path().join(name));
    for file in [&path, &newer] {
        std::fs::write(file, "").unwrap();
    }
    let engine = Engine::connect(&url(&path)).await.unwrap();
    assert!(engine.identity().await.unwrap().id.is_none());
    Engine::connect(&url(&newer)).await.unwrap().claim(&term(1), &patient()).await.unwrap();
    std::fs::rename(&newer, &path).unwrap();
    assert!(engine.identity().await.unwrap().id.is_some(), "its idle session has the former file open");
}

mod real_postgres {
    use super::*;
    use std::time::Duration;
    use tokio::net::{UnixListener, UnixStream};
    use tokio_util::sync::CancellationToken;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_wrong_password_is_said_and_never_shown() {
        let database = Database::postgres().await.seeded(10).await;
        let name = database.text.rsplit('/').next().unwrap();
        for (user, password, name) in
            [("postgres", "wr0ng", name), ("nobody", "wr0ng", name), ("postgres", "tide", "no_such_database")]
        {
            let url = Cluster::shared().url(user, password, name).parse().unwrap();
            let error = Engine::connect(&url).await.unwrap_err();
            let is_named = matches!(&error, Error::Authentication { .. }) && !error.retryable();
            assert!(is_named && error.to_string().contains("check user, password"), "{error}");
            assert!(!format!("{error:?} {url:?}").contains("wr0ng"), "{error:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_role_without_rights_does_nothing_by_halves() {
        let database = Database::postgres().await.seeded(10).await;
        let mut client = database.client().await;
        let name = database.text.rsplit('/').next().unwrap().to_owned();
        client.run("CREATE ROLE guest LOGIN PASSWORD 'guest'; GRANT SELECT ON images TO guest").await;
        let url = Cluster::shared().url("guest", "guest", &name).parse().unwrap();
        let engine = Engine::connect(&url).await.unwrap();
        let error = engine.expand(&sample(), &term(1), &watcher(), &patient()).await.unwrap_err();
        assert!(matches!(&error, Error::Authentication { .. }), "{error}");
        assert!(client.try_run("SELECT 1 FROM tidegate_schema").await.is_err());
    }

    /// Otherwise none of them would be pending, and contract would remove what they were to be filled from.
    #[tokio::test(flavor = "multi_thread")]
    async fn rows_that_a_policy_hides_are_not_passed_over() {
        let database = Database::postgres().await;
        let mut client = database.client().await;
        let name = database.text.rsplit('/').next().unwrap().to_owned();
        client
            .run("CREATE TABLE notes (id TEXT PRIMARY KEY, note TEXT); INSERT INTO notes VALUES ('a', NULL)")
            .await;
        client
            .run("CREATE ROLE tenant LOGIN PASSWORD 'tenant'; GRANT CREATE ON SCHEMA public TO tenant")
            .await;
        client.run("ALTER TABLE notes OWNER TO tenant; ALTER TABLE notes ENABLE ROW LEVEL SECURITY").await;
        client.run("ALTER TABLE notes FORCE ROW LEVEL SECURITY").await;
        let text = "id = '0002_note'\nversion = 2\nold_reads_migrated = true\n[migrate]\nrequires = 'expanded'\n\
            steps = [{ backfill = { table = 'notes', key = 'id', where = 'note IS NULL', set = { note = \"'x'\" } } }]\n\
            verify = 'SELECT count(*) FROM notes WHERE note IS NULL'\n";
        let set = set_in(written(&[("0002_note.toml", text)]).path());
        let url = Cluster::shared().url("tenant", "tenant", &name).parse().unwrap();
        let engine = Engine::connect(&url).await.unwrap();
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        for error in [
            engine.pending_rows(&set).await.map(|_| ()).unwrap_err(),
            engine.migrate(&set, &term(1), &watcher(), &patient()).await.map(|_| ()).unwrap_err(),
        ] {
            assert!(error.to_string().contains("row-level security policy for table \"notes\""), "{error}");
        }
        client.run("ALTER ROLE tenant BYPASSRLS").await;
        engine.migrate(&set, &term(1), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM notes WHERE note = 'x'").await, 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn address_without_a_listener_is_unreachable() {
        for address in ["postgres://u:p@127.0.0.1:1/d", "postgres://u:p@%2Fnonexistent/d"] {
            let error = Engine::connect(&address.parse().unwrap()).await.unwrap_err();
            assert!(matches!(&error, Error::Unreachable { .. }) && error.retryable(), "{error}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_session_that_is_cut_leaves_whole_steps_and_a_retry_ends_it() {
        let database = Database::postgres().await.seeded(2_000).await;
        let directory = crate::child::slow_fill(database.dialect());
        let (engine, set, mut client) =
            (database.engine().await, set_in(directory.path()), database.client().await);
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let (running, same) = (engine.clone(), set.clone());
        let verb =
            tokio::spawn(async move { running.migrate(&same, &term(1), &watcher(), &patient()).await });
        until(Duration::from_secs(20), async || {
            let rows = client.number("SELECT coalesce(max(rows_done), 0) FROM tidegate_history").await;
            (rows > 0, rows)
        })
        .await;
        client
            .run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate/1/schema'")
            .await;
        let error = verb.await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Unreachable { .. }) && error.retryable(), "{error}");
        engine.migrate(&set, &term(1), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM images WHERE filled = 1").await, 2_000);
    }

    /// Forwards connections to the server's socket. Those that are open once `vanished` is cancelled stay open without a word.
    fn forward(server: std::path::PathBuf, at: &Path, vanished: CancellationToken) {
        let listener = UnixListener::bind(at).unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let is_new = vanished.is_cancelled();
                let vanished = if is_new { CancellationToken::new() } else { vanished.clone() };
                let mut server = UnixStream::connect(&server).await.unwrap();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        () = vanished.cancelled() => std::future::pending().await,
                    }
                });
            }
        });
    }

    /// The address of a database behind [`forward`], the directory of its socket, and what makes its host vanish.
    fn fronted(database: &Database) -> (DatabaseUrl, tempfile::TempDir, CancellationToken) {
        let (directory, vanished) = (tempfile::tempdir().unwrap(), patient());
        let (front, name) = database.text.rsplit_once('/').unwrap();
        let (user, host) = front.rsplit_once('@').unwrap();
        let server = Path::new(&host.replace("%2F", "/")).join(".s.PGSQL.5432");
        forward(server, &directory.path().join(".s.PGSQL.5432"), vanished.clone());
        let through = directory.path().display().to_string().replace('/', "%2F");
        (format!("{user}@{through}/{name}").parse().unwrap(), directory, vanished)
    }

    /// As where a host loses its power: its end of the connection is never closed.
    #[tokio::test(flavor = "multi_thread")]
    async fn index_build_ends_where_its_host_has_vanished() {
        let database = Database::postgres().await.seeded(100).await;
        let (engine, mut writer, mut client) =
            (database.engine().await, database.client().await, database.client().await);
        engine.expand(&sample(), &term(1), &watcher(), &patient()).await.unwrap();
        let (url, _directory, vanished) = fronted(&database);
        let through = Engine::connect(&url).await.unwrap();
        writer.run("BEGIN; LOCK TABLE images IN ROW EXCLUSIVE MODE").await;
        let verb =
            tokio::spawn(async move { through.migrate(&sample(), &term(1), &watcher(), &patient()).await });
        // One of each engine is idle; the third looks at the build.
        let looking = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                       AND application_name = 'tidegate/sessions'";
        until(Duration::from_secs(20), async || {
            let looking = client.number(looking).await;
            (looking == 3, looking)
        })
        .await;
        vanished.cancel();
        client
            .run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate/1/schema'")
            .await;
        ends_unreachable(verb).await;
        writer.run("ROLLBACK").await;
        engine.migrate(&sample(), &term(1), &watcher(), &patient()).await.unwrap();
    }

    /// A server gives the number of a session that has ended to another one, which began later.
    #[tokio::test(flavor = "multi_thread")]
    async fn build_ends_where_another_session_has_its_number() {
        let database = Database::postgres().await.seeded(100).await;
        let (engine, mut writer, mut client) =
            (database.engine().await, database.client().await, database.client().await);
        engine.expand(&sample(), &term(1), &watcher(), &patient()).await.unwrap();
        client
            .run(
                "CREATE TABLE later (span interval NOT NULL); INSERT INTO later VALUES ('0 s');
                 CREATE FUNCTION pg_stat_get_activity(int) RETURNS TABLE (pid int, backend_start timestamptz)
                 LANGUAGE sql AS 'SELECT a.pid, a.backend_start + l.span
                 FROM pg_catalog.pg_stat_get_activity($1) a, later l'",
            )
            .await;
        let url = format!("{}?options[search_path]=public,pg_catalog", database.text).parse().unwrap();
        let misled = Engine::connect(&url).await.unwrap();
        writer.run("BEGIN; LOCK TABLE images IN ROW EXCLUSIVE MODE").await;
        let blocker = format!("session {} (", writer.number("SELECT pg_backend_pid()::bigint").await);
        let watch = watcher();
        let mut progress = watch.subscribe();
        let verb = tokio::spawn(async move { misled.migrate(&sample(), &term(1), &watch, &patient()).await });
        let named = progress.wait_for(|p| p.waiting.as_ref().is_some_and(|w| w.contains(&blocker)));
        tokio::time::timeout(Duration::from_secs(20), named).await.expect("it names who blocks it").unwrap();
        client.run("UPDATE later SET span = '1 s'").await;
        ends_unreachable(verb).await;
        writer.run("ROLLBACK").await;
        engine.migrate(&sample(), &term(1), &watcher(), &patient()).await.unwrap();
    }

    /// It ends soon, with an error after which it may be tried again.
    async fn ends_unreachable<T: std::fmt::Debug>(verb: tokio::task::JoinHandle<Result<T, Error>>) {
        let ended = tokio::time::timeout(Duration::from_secs(60), verb).await.expect("it ends");
        let error = ended.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Unreachable { .. }) && error.retryable(), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn count_ends_where_its_host_has_vanished() {
        let database = Database::postgres().await.seeded(100).await;
        let (engine, mut writer, mut client) =
            (database.engine().await, database.client().await, database.client().await);
        engine.expand(&sample(), &term(1), &watcher(), &patient()).await.unwrap();
        let (url, _directory, vanished) = fronted(&database);
        let through = Engine::connect(&url).await.unwrap();
        writer.run("BEGIN; LOCK TABLE images").await;
        let look = tokio::spawn(async move { through.pending_rows(&sample()).await });
        let counts = "FROM pg_stat_activity WHERE datname = current_database() \
                      AND application_name = 'tidegate/sessions' AND wait_event_type = 'Lock'";
        until(Duration::from_secs(20), async || {
            let waiting = client.number(&format!("SELECT count(*) {counts}")).await;
            (waiting == 1, waiting)
        })
        .await;
        vanished.cancel();
        client.run(&format!("SELECT pg_terminate_backend(pid) {counts}")).await;
        ends_unreachable(look).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fill_ends_where_its_host_has_vanished() {
        let database = Database::postgres().await.seeded(2_000).await;
        let directory = crate::child::slow_fill(database.dialect());
        let (engine, set, mut client) =
            (database.engine().await, set_in(directory.path()), database.client().await);
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let (url, _directory, vanished) = fronted(&database);
        let (through, same) = (Engine::connect(&url).await.unwrap(), set.clone());
        let verb =
            tokio::spawn(async move { through.migrate(&same, &term(1), &watcher(), &patient()).await });
        until(Duration::from_secs(20), async || {
            let rows = client.number("SELECT coalesce(max(rows_done), 0) FROM tidegate_history").await;
            (rows > 0, rows)
        })
        .await;
        vanished.cancel();
        client
            .run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate/1/schema'")
            .await;
        ends_unreachable(verb).await;
        engine.migrate(&set, &term(1), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM images WHERE filled = 1").await, 2_000);
    }
}
