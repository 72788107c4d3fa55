//! A world ends everything that it started, however it ends.

use std::time::Duration;

use grenade_tests::world::descendants::{Scope, living};
use grenade_tests::world::wait::wait_for;
use grenade_tests::world::{Process, Spawn, World, program};
use rustix::process::Signal;

use crate::rig::{LIMIT, Rig};

/// Pids whose environment bears the mark of a world, wherever they hang now.
fn with_mark(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|b| *b == 0).any(|entry| entry == mark.as_bytes()))
        })
        .collect()
}

/// The mark of a process. Its environment shows up a moment after it was started.
async fn mark_of(pid: u32) -> String {
    let path = format!("/proc/{pid}/environ");
    wait_for("the world's mark", LIMIT, || async {
        let environ = std::fs::read(&path).map_err(|e| e.to_string())?;
        let entry = environ.split(|b| *b == 0).find(|entry| entry.starts_with(b"TIDEGATE_WORLD="));
        entry.map_or(Err(format!("{} bytes", environ.len())), |e| Ok(String::from_utf8_lossy(e).into_owned()))
    })
    .await
    .unwrap()
}

/// A shell whose child outlives it, in a session of its own, and ignores every polite signal.
fn daemon(world: &World) -> Process {
    let script = "(trap '' INT TERM HUP; setsid sleep 600 & sleep 600) & sleep 600";
    world.spawn(Spawn::new("daemon", &program::outside("sh").unwrap()).args(["-c", script])).unwrap()
}

async fn three_of_them(mark: &str) {
    wait_for("the daemon's processes", LIMIT, || async {
        let pids = with_mark(mark);
        if pids.len() >= 4 { Ok(()) } else { Err(format!("{pids:?}")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_panic_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (go_on, gone_on) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let world = World::beside(&path).unwrap();
        let mut daemon = daemon(&world);
        sender.send(daemon.pid()).unwrap();
        gone_on.recv().unwrap();
        // Its children come to us as orphans.
        daemon.crash().unwrap();
        panic!("a test panics here on purpose");
    });
    let mark = mark_of(receiver.recv().unwrap()).await;
    three_of_them(&mark).await;
    go_on.send(()).unwrap();
    assert!(thread.join().is_err());
    assert_eq!(with_mark(&mark), Vec::<u32>::new());
    assert_eq!(living(&Scope::Marked(mark)), Vec::<i32>::new());
}

#[tokio::test]
async fn sigint_leaves_nothing() {
    let rig = Rig::new();
    let spawn = Spawn::new("held", &program::own("tidegate-world").unwrap())
        .arg("--dir")
        .arg(rig.world.path("held"))
        .args(["--instances", "2", "--rows", "100", "--rate", "20"]);
    let mut held = rig.world.spawn(spawn).unwrap();
    let log = held.log().to_owned();
    let ready = wait_for("the held world", LIMIT, || async {
        let text = std::fs::read_to_string(&log).map_err(|e| e.to_string())?;
        if text.contains("ready http://") { Ok(()) } else { Err(text) }
    })
    .await;
    held.must_run().unwrap();
    ready.unwrap();
    let inner: Vec<i32> = living(&Scope::Marked(mark_of(held.pid()).await));
    let below = children_of(held.pid());
    assert!(below.len() >= 3, "two instances and a balancer, not {below:?}");
    assert!(inner.iter().any(|pid| *pid as u32 == held.pid()));
    held.signal(Signal::INT).unwrap();
    assert!(held.wait(Duration::from_secs(20)).await.unwrap().success(), "{}", held.tail());
    let left: Vec<&u32> =
        below.iter().filter(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()).collect();
    assert!(left.is_empty(), "still there: {left:?}");
}

fn children_of(parent: u32) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
                let rest = &stat[stat.rfind(')').map_or(0, |at| at + 1)..];
                rest.split_whitespace().nth(1) == Some(&parent.to_string())
            })
        })
        .collect()
}

#[tokio::test]
async fn a_frozen_process_is_ended_too() {
    let rig = Rig::new();
    let process =
        rig.world.spawn(Spawn::new("sleeper", &program::outside("sleep").unwrap()).arg("600")).unwrap();
    let mark = mark_of(process.pid()).await;
    process.freeze().unwrap();
    assert_eq!(rig.world.sweep(), 1);
    assert_eq!(with_mark(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn failed_wait_reports_what_was_last_seen() {
    let late = wait_for("the tide", Duration::from_millis(100), || async { Err::<(), _>("ebb".to_owned()) });
    let said = late.await.unwrap_err().to_string();
    assert!(said.contains("the tide") && said.contains("ebb"), "{said}");
    let missing = program::outside("no-such-program-here").unwrap_err().to_string();
    assert!(missing.contains("no-such-program-here") && missing.contains("make deps"), "{missing}");
}
