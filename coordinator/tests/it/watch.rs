//! `tidegate upgrade watch` on a terminal, which is a pseudo terminal here.

use crate::process::Daemon;
use crate::world::spec;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const OPEN: &str = "\u{1b}[?1049h\u{1b}[?25l";
const CLOSE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// A command on a terminal of its own.
struct Terminal {
    master: File,
    child: Child,
    shown: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Terminal {
    fn watch(daemon: &Daemon, id: &str) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let master = File::from(master);
        resize(&master, 80, 24);
        let slave = || {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(OFlags::NOCTTY.bits() as i32);
            options.open(&path).unwrap()
        };
        let mut command = daemon.command(&["--color", "never", "upgrade", "watch", id]);
        command.env("TERM", "xterm").stdin(slave()).stdout(slave()).stderr(slave());
        let child = command.spawn().unwrap();
        drop(command);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut from, to) = (master.try_clone().unwrap(), shown.clone());
        // The read fails when the last descriptor of the terminal is closed.
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                to.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { master, child, shown, reader: Some(reader) }
    }

    fn until(&self, words: &str) {
        let began = Instant::now();
        while !self.shown.lock().unwrap().contains(words) {
            let shown = self.shown.lock().unwrap();
            assert!(began.elapsed() < Duration::from_secs(60), "{words} is not shown: {shown}");
            drop(shown);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its exit code, and what it leaves on the usual screen.
    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.reader.take().unwrap().join().unwrap();
        let shown = self.shown.lock().unwrap();
        let (_, left) = shown.rsplit_once(CLOSE).expect("the usual screen and the cursor are back");
        assert!(!left.contains('\u{1b}'), "{left}");
        (code, left.replace('\r', ""))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn resize(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_draws_a_picture_and_leaves_the_last_one() {
    let daemon = Daemon::embedded(|_, _| {});
    let herd = daemon.herd(4).await;
    tokio::spawn(herd.run(CancellationToken::new()));
    let path = daemon.file("spec.yaml", &spec("approvals: [roll]\nmin_in_service: 2"));
    let started = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!(started.code, 0, "{started:?}");
    let terminal = Terminal::watch(&daemon, "u1");
    terminal.until(OPEN);
    terminal.until("next step: tidegate upgrade approve u1 roll");
    resize(&terminal.master, 40, 12);
    terminal.until("phases      preflight [stage] roll ..");
    assert_eq!(daemon.ask(&["upgrade", "approve", "u1", "roll"]).code, 0);
    let (code, left) = terminal.end();
    assert_eq!(code, Some(0), "{left}");
    let lines: Vec<&str> = left.lines().collect();
    assert_eq!(lines[0], "u1  completed  pantry-api 1 -> 2 (pantry");
    assert!(lines[1].ends_with("remove [completed]") && lines[2].ends_with("4/4 instances"), "{left}");
    assert!(lines.len() < 12 && lines.iter().all(|line| line.len() <= 40), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_watch_restores_the_terminal_and_ends_no_upgrade() {
    let daemon = Daemon::embedded(|_, _| {});
    let herd = daemon.herd(2).await;
    tokio::spawn(herd.run(CancellationToken::new()));
    let path = daemon.file("spec.yaml", &spec("approvals: [roll]\nmin_in_service: 1"));
    assert_eq!(daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]).code, 0);
    let terminal = Terminal::watch(&daemon, "u1");
    terminal.until("u1  stage");
    kill_process(Pid::from_child(&terminal.child), Signal::INT).unwrap();
    let (code, left) = terminal.end();
    assert_eq!((code, left.starts_with("u1  stage  pantry-api 1 -> 2")), (Some(130), true), "{left}");
    let active = daemon.ask(&["upgrade", "list", "--active"]);
    assert!(active.out.contains("u1 "), "{active:?}");
}
