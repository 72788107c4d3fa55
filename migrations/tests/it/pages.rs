//! The fill that goes by the pages of the table, as PostgreSQL's does where it can.

mod real_postgres {
    use crate::child::Process;
    use crate::support::*;
    use rustix::process::Signal;
    use std::time::Duration;
    use tidegate_migrations::{Engine, MigrationSet};

    const ROWS: u32 = 3_000;
    const CURSOR: &str =
        "SELECT coalesce(max(cursor), '') FROM tidegate_history WHERE phase = 'migrate' AND step = 0";
    const LEFT: &str = "SELECT count(*) FROM images WHERE filled IS NULL";

    /// A fill of about 1 ms a row, and no sync: what comes later is found by `verify` alone.
    fn slow_fill() -> tempfile::TempDir {
        let text = "id = '0002_filled'\nversion = 2\nold_reads_migrated = true\n[expand]\n\
            steps = [{ add_column = { table = 'images', column = 'filled', type = 'integer' } }]\n\
            [migrate]\nrequires = 'expanded'\nverify = 'SELECT count(*) FROM images WHERE filled IS NULL'\n\
            steps = [{ backfill = { table = 'images', key = 'id', where = 'filled IS NULL', batch_ms = 40, \
            set = { filled = '(SELECT 1 FROM pg_sleep(0.001 + 0 * length(images.id)))' } } }]\n\
            [undo]\nsteps = [{ drop_column = { table = 'images', column = 'filled' } }]\n";
        written(&[("0002_filled.toml", text)])
    }

    /// A fill that was killed when some rows were filled and others were not.
    async fn killed_in_mid_fill() -> (Engine, MigrationSet, Client) {
        let database = Database::postgres().await.seeded(ROWS).await;
        let (engine, directory) = (database.engine().await, slow_fill());
        let (set, mut client) = (set_in(directory.path()), database.client().await);
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let child = Process::migrate(&database, directory.path(), 1);
        until(Duration::from_secs(30), async || {
            let left = client.number(LEFT).await;
            (left < i64::from(ROWS), left)
        })
        .await;
        child.signal(Signal::KILL);
        child.answer().await;
        let (cursor, left) = (client.texts(CURSOR).await, client.number(LEFT).await);
        assert!(cursor[0].contains("\"file\"") && left > 0, "{cursor:?}, {left} rows left");
        (engine, set, client)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn killed_fill_resumes_at_its_page() {
        let (engine, set, mut client) = killed_in_mid_fill().await;
        let left = client.number(LEFT).await;
        let outcome = engine.migrate(&set, &term(2), &watcher(), &patient()).await.unwrap();
        // The batch under way when the process was killed may have ended in the database meanwhile.
        assert!(outcome.rows.cast_signed() <= left, "{outcome:?}, {left} rows were left");
        assert_eq!(client.number(LEFT).await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn table_rewritten_in_mid_fill_is_filled() {
        let (engine, set, mut client) = killed_in_mid_fill().await;
        client.run("VACUUM FULL images").await;
        engine.migrate(&set, &term(2), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number(LEFT).await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_written_behind_the_walk_are_filled() {
        let (engine, set, mut client) = killed_in_mid_fill().await;
        // Free pages behind the walk, which the next rows take, and new ones after its end.
        client.run("DELETE FROM images WHERE filled IS NOT NULL").await;
        client.run("VACUUM images").await;
        client
            .run(
                "INSERT INTO images SELECT 'late-' || i, 'n', false, i, 's', 1, 0 FROM generate_series(1, 400) i",
            )
            .await;
        engine.migrate(&set, &term(2), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number(LEFT).await, 0);
        assert_eq!(
            client.number("SELECT count(*) FROM images WHERE id LIKE 'late-%' AND filled = 1").await,
            400
        );
    }

    /// As a fill left it that began before fills went by page.
    #[tokio::test(flavor = "multi_thread")]
    async fn fill_begun_by_key_goes_on_by_key() {
        let (engine, set, mut client) = killed_in_mid_fill().await;
        let half = client.texts("SELECT id FROM images ORDER BY id OFFSET 1500 LIMIT 1").await;
        let last = client.texts("SELECT max(id) FROM images").await;
        client
            .run(&format!(
                "UPDATE images SET filled = 1 WHERE id <= '{half}'; UPDATE tidegate_history SET cursor = \
                 '{{\"after\":{{\"text\":\"{half}\"}},\"until\":{{\"text\":\"{last}\"}},\"ended\":false}}' \
                 WHERE phase = 'migrate' AND step = 0",
                half = half[0],
                last = last[0]
            ))
            .await;
        let outcome = engine.migrate(&set, &term(2), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number(LEFT).await, 0);
        assert_eq!(outcome.rows, u64::from(ROWS) - 1_501);
        assert!(client.texts(CURSOR).await[0].contains("\"ended\":true"));
    }

    /// A walk by page leaves out the rows of a child table, so that what is left goes by key.
    #[tokio::test(flavor = "multi_thread")]
    async fn table_with_a_child_since_mid_fill_is_filled() {
        let (engine, set, mut client) = killed_in_mid_fill().await;
        client.run("CREATE TABLE old_images () INHERITS (images)").await;
        client.run("INSERT INTO old_images VALUES ('zz-old', 'n', false, 1, 's', 1, 0)").await;
        engine.migrate(&set, &term(2), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number(LEFT).await, 0);
        assert!(client.texts(CURSOR).await[0].contains("\"ended\":true"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn writers_of_both_versions_beside_the_fill_agree() {
        let database = Database::postgres().await.seeded(30_000).await;
        let (engine, set) = (database.engine().await, sample());
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let (running, same) = (engine.clone(), set.clone());
        let verb =
            tokio::spawn(async move { running.migrate(&same, &term(1), &watcher(), &patient()).await });
        let mut client = database.client().await;
        for row in 0.. {
            let size = 1 + row * 7 % 30_000;
            client.run(&format!("UPDATE images SET is_public = NOT is_public WHERE size = {size}")).await;
            client.run(&format!("UPDATE images SET visibility = 'public' WHERE size = {}", size + 1)).await;
            if verb.is_finished() {
                break;
            }
        }
        verb.await.unwrap().unwrap();
        let apart =
            "SELECT count(*) FROM images WHERE visibility IS NULL OR is_public <> (visibility = 'public')";
        assert_eq!(client.number(apart).await, 0);
    }
}
