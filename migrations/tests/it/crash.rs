//! A leader that is stopped or killed in mid-fill: nothing is filled twice, nothing is left out.

on_both! { a_killed_fill_goes_on_where_it_was, a_stopped_leader_comes_back_too_late, a_cancelled_fill_stops_soon_and_goes_on, two_of_one_term_fill_each_row_once }

mod story {
    use crate::child::{Process, slow_fill};
    use crate::support::*;
    use rustix::process::Signal;
    use std::time::{Duration, Instant};
    use tidegate_migrations::{Dialect, Error};

    const ROWS: u32 = 1_500;
    const DONE: &str = "SELECT coalesce(max(rows_done), 0) FROM tidegate_history WHERE phase = 'migrate'";
    const ONCE: &str = "SELECT count(*) FROM images WHERE filled = 1";

    async fn in_mid_fill(client: &mut Client) {
        until(Duration::from_secs(30), async || {
            let rows = client.number(DONE).await;
            (rows >= 200, rows)
        })
        .await;
    }

    pub(super) async fn a_killed_fill_goes_on_where_it_was(database: Database) {
        let database = database.seeded(ROWS).await;
        let (engine, directory) = (database.engine().await, slow_fill(database.dialect()));
        let (set, mut client) = (set_in(directory.path()), database.client().await);
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let child = Process::migrate(&database, directory.path(), 1);
        in_mid_fill(&mut client).await;
        child.signal(Signal::KILL);
        let answer = child.answer().await;
        assert!(answer.starts_with("no answer"), "it was killed in mid-fill: {answer}");
        let kept = client.number(DONE).await;
        let outcome = engine.migrate(&set, &term(2), &watcher(), &patient()).await.unwrap();
        let done = client.number(DONE).await;
        assert_eq!((done, client.number(ONCE).await), (i64::from(ROWS), i64::from(ROWS)), "each row once");
        assert!(
            outcome.rows <= u64::from(ROWS) - kept.unsigned_abs(),
            "{kept} rows were not walked again: {outcome:?}"
        );
    }

    pub(super) async fn a_stopped_leader_comes_back_too_late(database: Database) {
        let database = database.seeded(ROWS).await;
        let (engine, directory) = (database.engine().await, slow_fill(database.dialect()));
        let (set, mut client) = (set_in(directory.path()), database.client().await);
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let child = Process::migrate(&database, directory.path(), 1);
        in_mid_fill(&mut client).await;
        stop_between_writes(&database, &child).await;
        engine.migrate(&set, &term(2), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number(ONCE).await, i64::from(ROWS));
        child.signal(Signal::CONT);
        let answer = child.answer().await;
        assert!(answer.starts_with("Err(LowerTerm"), "{answer}");
        assert_eq!(client.number(ONCE).await, i64::from(ROWS), "nothing is filled twice");
        assert_eq!(engine.identity().await.unwrap().term, Some(term(2)));
    }

    /// PostgreSQL's engine ends the stopped session itself; SQLite's write lock lies in the stopped
    /// process, so it is stopped where it has none.
    async fn stop_between_writes(database: &Database, child: &Process) {
        let mut client = database.client().await;
        until(Duration::from_secs(30), async || {
            child.signal(Signal::STOP);
            if database.dialect() == Dialect::Postgres {
                return (true, Ok(()));
            }
            client.run("PRAGMA busy_timeout = 0").await;
            let free = client.try_run("BEGIN IMMEDIATE; COMMIT").await;
            if free.is_err() {
                child.signal(Signal::CONT);
            }
            (free.is_ok(), free)
        })
        .await;
    }

    pub(super) async fn a_cancelled_fill_stops_soon_and_goes_on(database: Database) {
        let database = database.seeded(ROWS).await;
        let (engine, directory) = (database.engine().await, slow_fill(database.dialect()));
        let (set, mut client) = (set_in(directory.path()), database.client().await);
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let cancel = patient();
        let (running, token) = (engine.clone(), cancel.clone());
        let same = set.clone();
        let verb = tokio::spawn(async move { running.migrate(&same, &term(1), &watcher(), &token).await });
        in_mid_fill(&mut client).await;
        let asked = Instant::now();
        cancel.cancel();
        let error = verb.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Cancelled), "{error}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        engine.migrate(&set, &term(1), &watcher(), &patient()).await.unwrap();
        assert_eq!(client.number(ONCE).await, i64::from(ROWS), "each row once");
    }

    pub(super) async fn two_of_one_term_fill_each_row_once(database: Database) {
        let database = database.seeded(ROWS).await;
        let (engine, directory) = (database.engine().await, slow_fill(database.dialect()));
        let (set, mut client) = (set_in(directory.path()), database.client().await);
        engine.expand(&set, &term(1), &watcher(), &patient()).await.unwrap();
        let (watch, cancel) = (watcher(), patient());
        let leader = term(1);
        let (one, two) = tokio::join!(
            engine.migrate(&set, &leader, &watch, &cancel),
            engine.migrate(&set, &leader, &watch, &cancel)
        );
        // SQLite lets both work, batch by batch; PostgreSQL's lock lets one, and may lose patience.
        let walked: u64 = [&one, &two].into_iter().flatten().map(|outcome| outcome.rows).sum();
        let fine = |r: &Result<_, Error>| matches!(r, Ok(_) | Err(Error::LockBusy { .. }));
        assert!(fine(&one) && fine(&two) && (one.is_ok() || two.is_ok()), "{one:?} {two:?}");
        assert_eq!((walked, client.number(ONCE).await), (u64::from(ROWS), i64::from(ROWS)), "each row once");
    }
}
