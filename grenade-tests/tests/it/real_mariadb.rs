//! The private MariaDB of a gate: it comes up with databases of its own, says why it does not, and leaves nothing.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use grenade_tests::world::mariadb::{self, MariaDb};
use grenade_tests::world::wait::wait_for;
use grenade_tests::world::{Spawn, WorldError, port, program};
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{LIMIT, Rig};

/// What a client prints for a statement on a database.
async fn asked(rig: &Rig, server: &MariaDb, database: &str, statement: &str) -> String {
    let url = server.url_of(database);
    let (user, rest) = url.strip_prefix("mysql://").unwrap().split_once(':').unwrap();
    let (password, rest) = rest.split_once('@').unwrap();
    let (host, port) = rest.split_once('/').unwrap().0.split_once(':').unwrap();
    let name = format!("asked-{}", uuid::Uuid::new_v4().simple());
    let client = Spawn::new(&name, &program::outside("mariadb").unwrap())
        .args(["--no-defaults", "--protocol=TCP", "--skip-ssl", "--batch", "--skip-column-names"])
        .args(["--host", host, "--port", port, "--user", user, database, "--execute", statement])
        .env("MYSQL_PWD", password);
    rig.world.run(client, LIMIT).await.unwrap();
    std::fs::read_to_string(rig.world.path(&format!("{name}.log"))).unwrap()
}

#[tokio::test]
async fn private_server_has_databases_apart_and_goes_with_its_value() {
    let rig = Rig::new();
    let server = mariadb::start(&rig.world).await.unwrap();
    for name in ["base", "plan_1_upgrade"] {
        let url = server.create_database(&rig.world, name).await.unwrap();
        assert_eq!(url, format!("mysql://gate:tide-and-gate@{}/{name}", server.address()));
    }
    asked(&rig, &server, "base", "CREATE TABLE t (n INT); INSERT INTO t VALUES (7)").await;
    assert_eq!(asked(&rig, &server, "base", "SELECT n FROM t").await, "7\n");
    assert_eq!(asked(&rig, &server, "plan_1_upgrade", "SHOW TABLES").await, "");
    assert!(server.address().ip().is_loopback());
    // Where it removes what other servers left: nothing of theirs may be there.
    let temporary = asked(&rig, &server, "base", "SELECT @@tmpdir").await;
    assert_eq!(Path::new(temporary.trim()), server.home());
    let refused = server.create_database(&rig.world, "a`b").await;
    assert!(matches!(refused, Err(WorldError::DatabaseName(name)) if name == "a`b"));
    let twice = server.create_database(&rig.world, "base").await.unwrap_err().to_string();
    assert!(twice.contains("database exists"), "{twice}");
    let (process, home) = (format!("/proc/{}", server.pid()), server.home().to_owned());
    assert!(Path::new(&process).exists() && home.exists());
    drop(server);
    assert!(!Path::new(&process).exists() && !home.exists(), "something of it is left");
}

#[tokio::test]
async fn taken_port_is_named_at_once_and_nothing_is_left() {
    let rig = Rig::new();
    let address = port::free().unwrap();
    let _holder = TcpListener::bind(address).unwrap();
    let began = Instant::now();
    let error = mariadb::start_at(&rig.world, address).await.unwrap_err().to_string();
    assert!(error.contains("mariadb ended") && error.contains("Address already in use"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(25), "it waited for a server that had ended");
    assert_eq!(rig.world.sweep(), 0);
}

#[test]
fn missing_server_is_named_with_package_before_any_start() {
    let rig = Rig::new();
    let gate = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates/mariadb.yaml");
    let mut command = Command::new(program::own("grenade").unwrap());
    command.arg("run").arg(gate).arg("--artifacts").arg(rig.world.path("artifacts"));
    // `mariadbd` itself is looked for in /usr/sbin too.
    let said = command.env("PATH", "/nowhere").output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(4), "{text}");
    for part in [
        "the program `mariadb-install-db` is not installed; Debian's package `mariadb-server-core` has it",
        "the program `mariadb` is not installed; Debian's package `mariadb-client-core` has it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!rig.world.path("artifacts/mariadb.log").exists(), "a server was started");
}

/// The processes that an error advises to end: `(kill PID PID)`.
fn advised(said: &str) -> Vec<i32> {
    let (_, pids) = said.rsplit_once("(kill ").unwrap_or_else(|| panic!("nothing is advised: {said}"));
    let (pids, _) = pids.split_once(')').unwrap();
    pids.split(' ').map(|pid| pid.parse().unwrap()).collect()
}

#[tokio::test]
async fn server_that_a_killed_run_left_is_named_by_the_next() {
    let rig = Rig::new();
    let (gates, artifacts) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("gates"), rig.world.path("artifacts"));
    let grenade = Spawn::new("grenade", &program::own("grenade").unwrap());
    let run = grenade.arg("run").arg(gates.join("mariadb.yaml")).arg("--artifacts").arg(&artifacts);
    let mut killed = rig.world.spawn(run.clone()).unwrap();
    let log = || std::fs::read_to_string(artifacts.join("mariadb.log")).unwrap_or_default();
    wait_for("the private server", LIMIT, || async {
        if log().contains("ready for connections") { Ok(()) } else { Err(log()) }
    })
    .await
    .unwrap();
    killed.crash().unwrap();
    let mut next = rig.world.spawn(run).unwrap();
    let status = next.wait(LIMIT).await.unwrap();
    let pids = advised(&next.tail());
    let of =
        |pid: &i32, what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let server = pids.iter().find(|pid| of(pid, "comm").trim() == "mariadbd");
    let data = server.map(|pid| of(pid, "cmdline"));
    // As advised; and the data, which the run would have removed.
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let data = data.unwrap_or_else(|| panic!("the server is not named: {}", next.tail()));
    let home =
        data.split('\0').find_map(|word| word.strip_prefix("--datadir=")?.strip_suffix("/data")).unwrap();
    std::fs::remove_dir_all(home).unwrap();
    assert_eq!(status.code(), Some(3), "{}", next.tail());
}
