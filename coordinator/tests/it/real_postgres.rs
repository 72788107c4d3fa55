//! A database that goes away in mid-upgrade, and comes back.

mod withdrawn;

use crate::process::Daemon;
use crate::schema::{MIGRATION, SCHEMA};
use crate::world::spec;
use sqlx::{Connection, Executor, PgConnection};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

struct Postgres {
    dir: tempfile::TempDir,
    port: u16,
}

fn program(name: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let newest = versions.map(|entry| entry.unwrap().path()).max().unwrap();
    let path: PathBuf = newest.join("bin").join(name);
    // PostgreSQL refuses to run as root.
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !root {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
    command
}

fn succeed(command: &mut Command) {
    let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(done.success(), "{command:?} ended with {done}");
}

impl Postgres {
    fn init() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The server's user must be able to make its files here.
        std::os::unix::fs::chown(dir.path(), owner(), None).unwrap();
        let port = tidegate_port::free().unwrap().port();
        let postgres = Self { dir, port };
        let data = postgres.data();
        succeed(program("initdb").args(["-U", "op", "-A", "trust", "--no-sync", "-D"]).arg(data));
        postgres
    }

    /// A standby that answers reads, streaming from this server.
    fn standby(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(dir.path(), owner(), None).unwrap();
        let port = tidegate_port::free().unwrap().port();
        let standby = Self { dir, port };
        let from = format!("host=127.0.0.1 port={} user=op application_name=copy", self.port);
        let copy = ["-R", "--checkpoint=fast", "--no-sync", "-d", from.as_str(), "-D"];
        succeed(program("pg_basebackup").args(copy).arg(standby.data()));
        standby
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn start(&self) {
        let options =
            format!("-p {} -c listen_addresses=127.0.0.1 -k {}", self.port, self.dir.path().display());
        succeed(program("pg_ctl").args(["start", "-w", "-o", &options, "-D"]).arg(self.data()));
    }

    fn stop(&self) {
        succeed(program("pg_ctl").args(["stop", "-m", "immediate", "-w", "-D"]).arg(self.data()));
    }

    /// From the next start on, a client with this user name needs a password.
    fn asks_for_a_password(&self, user: &str) {
        let file = self.data().join("pg_hba.conf");
        let rules = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("host all {user} 127.0.0.1/32 scram-sha-256\n{rules}")).unwrap();
    }

    fn url(&self) -> String {
        format!("postgres://op@127.0.0.1:{}/postgres", self.port)
    }

    fn url_of(&self, user: &str) -> String {
        self.url().replace("op@", &format!("{user}@"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It may be stopped already.
        let _ = program("pg_ctl").args(["stop", "-m", "immediate", "-D"]).arg(self.data()).status();
    }
}

/// The user that it runs as, where that is not us.
fn owner() -> Option<u32> {
    let id = |args: &[&str]| {
        let said = Command::new("id").args(args).output().unwrap().stdout;
        String::from_utf8(said).unwrap().trim().parse::<u32>().unwrap()
    };
    (id(&["-u"]) == 0).then(|| id(&["-u", "postgres"]))
}

fn migrations(dir: &Path) -> PathBuf {
    let things = dir.join("migrations/things");
    std::fs::create_dir_all(&things).unwrap();
    std::fs::write(things.join("0002_colour.toml"), MIGRATION).unwrap();
    dir.join("migrations")
}

/// The table that the migrations change; its connection.
async fn things(postgres: &Postgres) -> PgConnection {
    let mut db = PgConnection::connect(&postgres.url()).await.unwrap();
    db.execute("CREATE TABLE things (id bigint PRIMARY KEY, shade text)").await.unwrap();
    db.execute("INSERT INTO things SELECT i, 'x' || i FROM generate_series(1, 3000) i").await.unwrap();
    db
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_starts_while_database_is_away_or_denies_login() {
    let postgres = Postgres::init();
    postgres.asks_for_a_password("deploy");
    let daemon = Daemon::embedded(|command, dir| {
        let url = postgres.url_of("deploy:secret-word");
        command.arg("--migrations").arg(migrations(dir)).env("THINGS_URL", url);
    });
    let end = CancellationToken::new();
    tokio::spawn(daemon.herd(3).await.run(end.clone()));
    let asked = SCHEMA.replace("approvals: [contract]", "approvals: [expand]");
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 1\n{asked}")));
    let started = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!((started.code, started.err.contains("waits in preflight")), (0, true), "{started:?}");
    let explain = ["upgrade", "explain", "u1"];
    daemon.until("the database is away", &explain, |said| {
        said.out.contains("u1: phase preflight") && said.out.contains("could not reach the database")
    });

    postgres.start();
    let mut db = things(&postgres).await;
    db.execute("CREATE ROLE deploy LOGIN SUPERUSER PASSWORD 'another-word'").await.unwrap();
    daemon.until("the password is not taken", &explain, |said| {
        said.out.contains("u1: phase preflight") && said.out.contains("the database refused who we are")
    });
    let tables =
        "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
    let count: i64 = sqlx::query_scalar(tables).fetch_one(&mut db).await.unwrap();
    assert_eq!(count, 1, "nothing is half done");
    db.execute("ALTER ROLE deploy PASSWORD 'secret-word'").await.unwrap();
    daemon.until("expand waits for a person", &explain, |said| said.out.contains("approve u1 expand"));
    let said = daemon.ask(&["upgrade", "history", "u1"]);
    assert!(said.out.contains("bound") && !said.out.contains("secret-word"), "{said:?}");
    assert!(!daemon.log().contains("secret-word"));
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_waits_for_absent_database_and_continues() {
    let postgres = Postgres::init();
    postgres.start();
    things(&postgres).await.close().await.unwrap();

    let daemon = Daemon::embedded(|command, dir| {
        command.arg("--migrations").arg(migrations(dir)).env("THINGS_URL", postgres.url());
    });
    let end = CancellationToken::new();
    tokio::spawn(daemon.herd(3).await.run(end.clone()));
    let asked = SCHEMA.replace("approvals: [contract]", "approvals: [expand, contract]");
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 1\n{asked}")));
    let started = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!(started.code, 0, "{started:?}");
    let explain = ["upgrade", "explain", "u1"];
    daemon.until("expand waits for a person", &explain, |said| said.out.contains("approve u1 expand"));

    postgres.stop();
    assert_eq!(daemon.ask(&["upgrade", "approve", "u1", "expand"]).code, 0);
    daemon.until("it waits for the database", &explain, |said| {
        said.out.contains("did not succeed and is repeated")
            && said.out.contains("could not reach the database")
    });
    assert!(daemon.http("/readyz").starts_with("HTTP/1.1 200"), "the coordinator itself is well");
    postgres.start();
    daemon.until("contract waits for a person", &explain, |said| said.out.contains("approve u1 contract"));

    // A session that is no service of ours closes contract, by name, until it is gone.
    let mut stranger = PgConnection::connect(&postgres.url()).await.unwrap();
    stranger.execute("SET application_name = 'somebody'").await.unwrap();
    assert_eq!(daemon.ask(&["upgrade", "approve", "u1", "contract"]).code, 0);
    daemon.until("the stranger is named", &explain, |said| said.out.contains("\"somebody\""));
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'things'";
    let count: i64 = sqlx::query_scalar(columns).fetch_one(&mut stranger).await.unwrap();
    assert_eq!(count, 3, "nothing was dropped");
    stranger.close().await.unwrap();
    let began = Instant::now();
    let watched = daemon.ask(&["upgrade", "watch", "u1"]);
    assert_eq!(watched.code, 0, "{watched:?}\n{}", daemon.log());
    assert!(began.elapsed() < Duration::from_secs(60));
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_database_holds_roll_and_late_rows_are_filled() {
    let postgres = Postgres::init();
    postgres.start();
    things(&postgres).await.close().await.unwrap();
    let daemon = Daemon::embedded(|command, dir| {
        command.arg("--migrations").arg(migrations(dir)).env("THINGS_URL", postgres.url());
    });
    let end = CancellationToken::new();
    tokio::spawn(daemon.herd(3).await.run(end.clone()));
    let asked = SCHEMA.replace("approvals: [contract]", "approvals: [expand, roll, remove, contract]");
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 1\n{asked}")));
    let started = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!(started.code, 0, "{started:?}");
    let until = |text: &str| {
        daemon.until(text, &["upgrade", "explain", "u1"], |said| said.out.contains(text));
    };
    let approve = |point: &str| assert_eq!(daemon.ask(&["upgrade", "approve", "u1", point]).code, 0);
    let (older, newer) = (postgres.dir.path().join("older"), postgres.dir.path().join("newer"));
    until("approve u1 expand");
    postgres.stop();
    succeed(Command::new("cp").arg("-a").arg(postgres.data()).arg(&older));
    postgres.start();
    approve("expand");
    until("approve u1 roll");
    // A standby that lacks the last writes takes over.
    postgres.stop();
    std::fs::rename(postgres.data(), &newer).unwrap();
    std::fs::rename(&older, postgres.data()).unwrap();
    postgres.start();
    approve("roll");
    until("the database no longer shows that expand is done");
    let spread = daemon.ask(&["fleet", "spread", "pantry-api"]);
    assert!(spread.out.contains("3 at 1"), "{spread:?}");
    postgres.stop();
    std::fs::rename(postgres.data(), &older).unwrap();
    std::fs::rename(&newer, postgres.data()).unwrap();
    postgres.start();
    until("approve u1 remove");
    let mut db = PgConnection::connect(&postgres.url()).await.unwrap();
    db.execute("INSERT INTO things VALUES (900000, 'late', NULL)").await.unwrap();
    db.close().await.unwrap();
    approve("remove");
    until("approve u1 contract");
    let mut db = PgConnection::connect(&postgres.url()).await.unwrap();
    db.execute("INSERT INTO things VALUES (900001, 'later', NULL)").await.unwrap();
    db.close().await.unwrap();
    approve("contract");
    let watched = daemon.ask(&["upgrade", "watch", "u1"]);
    assert_eq!(watched.code, 0, "{watched:?}\n{}", daemon.log());
    let mut db = PgConnection::connect(&postgres.url()).await.unwrap();
    let late: i64 = sqlx::query_scalar("SELECT count(*) FROM things WHERE colour LIKE 'clate%'")
        .fetch_one(&mut db)
        .await
        .unwrap();
    assert_eq!(late, 2);
    end.cancel();
}

/// A program that is no service of ours.
async fn stranger(postgres: &Postgres, name: &str) -> PgConnection {
    let mut session = PgConnection::connect(&postgres.url()).await.unwrap();
    let named = sqlx::AssertSqlSafe(format!("SET application_name = '{name}'"));
    session.execute(sqlx::raw_sql(named)).await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_every_endpoint_hold_contract_and_are_named() {
    let postgres = Postgres::init();
    postgres.start();
    things(&postgres).await.close().await.unwrap();
    let standby = postgres.standby();
    standby.start();
    let standby_url = standby.url_of("op:secret-word");
    let daemon = Daemon::embedded(|command, dir| {
        command.arg("--migrations").arg(migrations(dir)).env("THINGS_URL", postgres.url());
        command.env("STANDBY_URL", &standby_url);
    });
    let end = CancellationToken::new();
    tokio::spawn(daemon.herd(3).await.run(end.clone()));
    let asked = SCHEMA.replace(
        "migrations: things",
        "migrations: things, endpoints: [{from_env: STANDBY_URL}], allow_sessions: [copy, walreceiver]",
    );
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 1\n{asked}")));
    let (reader, writer) = (stranger(&standby, "reader").await, stranger(&postgres, "writer").await);
    let dry = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1", "--dry-run"]);
    let all = format!("{}{}", dry.out, dry.err);
    for expected in ["contract will wait", "\"reader\" (pid", "user op, client 127.0.0.1, at STANDBY_URL"] {
        assert!(all.contains(expected), "{expected}: {dry:?}");
    }
    let started = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!(started.code, 0, "{started:?}");
    let explain = ["upgrade", "explain", "u1"];
    daemon.until("contract waits for a person", &explain, |said| said.out.contains("approve u1 contract"));
    assert_eq!(daemon.ask(&["upgrade", "approve", "u1", "contract"]).code, 0);
    daemon.until("both sessions are named at once", &explain, |said| {
        said.out.contains("\"reader\" (pid")
            && said.out.contains("\"writer\" (pid")
            && said.out.contains("pg_terminate_backend(")
    });

    let accepted = daemon.ask(&["upgrade", "approve", "u1", "contract", "--accept", "session:writer"]);
    assert_eq!(accepted.code, 0, "as the finding advises: {accepted:?}");
    daemon.until("the accepted one is no finding", &explain, |said| {
        said.out.contains("\"reader\" (pid") && !said.out.contains("\"writer\" (pid")
    });
    reader.close().await.unwrap();
    standby.stop();
    let silent = daemon.until("an endpoint that does not answer closes contract", &explain, |said| {
        said.out.contains("STANDBY_URL") && said.out.contains("could not reach the database")
    });
    assert!(!silent.out.contains("secret-word") && !daemon.log().contains("secret-word"), "{silent:?}");
    standby.start();
    let watched = daemon.ask(&["upgrade", "watch", "u1"]);
    assert_eq!(watched.code, 0, "{watched:?}\n{}", daemon.log());
    let certificate = daemon.ask(&["upgrade", "certificate", "u1"]);
    let sealed: serde_json::Value = serde_json::from_str(&certificate.out).unwrap();
    let endpoints = serde_json::json!(["STANDBY_URL", "THINGS_URL"]);
    assert_eq!(sealed["certificate"]["endpoints"], endpoints, "{certificate:?}");
    let allowed = sealed["certificate"]["allowed_sessions"].as_array().unwrap();
    assert!(allowed.contains(&serde_json::json!("writer")), "{certificate:?}");
    writer.close().await.unwrap();
    let file = daemon.file("c.json", &certificate.out);
    let verified = crate::process::run(crate::process::tidegate().arg("certificate").arg("verify").arg(file));
    assert_eq!(verified.code, 0, "{verified:?}");
    end.cancel();
}
