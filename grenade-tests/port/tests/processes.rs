//! Several processes that draw ports side by side.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// Set for a process that shall draw.
const DRAW: &str = "TIDEGATE_TEST_DRAW_PORTS";
/// What such a process writes before each port that it drew: the harness writes lines as well.
const PORT: &str = "drew ";
/// So many processes and ports that without reservations some sixty would be drawn twice.
const PROCESSES: usize = 4;
const PORTS: usize = 500;

#[test]
fn draw_ports_where_that_is_asked_for() {
    if std::env::var_os(DRAW).is_none() {
        return;
    }
    for _ in 0..PORTS {
        println!("\n{PORT}{}", tidegate_port::free().unwrap().port());
    }
    // They are held until the one that asked has seen them all.
    let _ = std::io::stdin().read(&mut [0]);
}

struct Drawing(Child);

impl Drop for Drawing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn drawing() -> Drawing {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args(["--exact", "--nocapture", "draw_ports_where_that_is_asked_for"]).env(DRAW, "1");
    Drawing(
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a test can be started"),
    )
}

#[test]
fn no_port_is_drawn_by_two_living_processes() {
    let mut processes: Vec<_> = (0..PROCESSES).map(|_| drawing()).collect();
    let mut drawn = BTreeSet::new();
    for process in &mut processes {
        let lines = BufReader::new(process.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        let ports = lines.filter_map(|line| line.strip_prefix(PORT).map(|port| port.parse::<u16>().unwrap()));
        for port in ports.take(PORTS) {
            assert!(drawn.insert(port), "{port} was drawn twice");
        }
    }
    assert_eq!(drawn.len(), PROCESSES * PORTS);
}
