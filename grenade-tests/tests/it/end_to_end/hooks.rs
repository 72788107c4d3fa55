//! Agents whose service is started and stopped by hooks, and whose version is in a file.

use std::path::Path;

use grenade_tests::fixture::node::PROGRAM;

use super::fleet::{Fleet, pid_with};

/// The agents go on with hooks and with `more` in their configuration, and read the version from a file, which the start hook writes: as where code is
/// reloaded under a server that goes on.
pub(super) async fn by_hooks(fleet: &mut Fleet, more: &str) {
    for n in 0..fleet.agents.len() {
        let (node, address) = fleet.nodes[n].clone();
        let (home, disable) = (fleet.home(&node), fleet.disable_file(&node));
        let pid = pid_with(disable.to_str().unwrap()).unwrap();
        std::fs::write(home.join("pid"), pid.to_string()).unwrap();
        put_back(fleet, &node, 1);
        fleet.agents[n].process.crash().unwrap();
        let config = fleet.agents[n].config.clone();
        let text = std::fs::read_to_string(&config).unwrap();
        let database = fleet.database.clone();
        let start = format!(
            "{{release_dir}}/{PROGRAM} --listen {address} --database '{database}' --node {{node}} \
             --disable-file {} >/dev/null 2>&1 & echo $! >{home}/pid; echo {{version}} >{home}/version",
            disable.display(),
            home = home.display()
        );
        std::fs::write(&config, format!("{}\n{more}", hooked(&text, &home, &start))).unwrap();
        fleet.agents[n].restart(&fleet.rig.world).unwrap();
    }
    fleet.all_serve(1).await;
}

fn hooked(config: &str, home: &Path, start: &str) -> String {
    let stop = format!(
        "pid=$(cat {}/pid); kill $pid; for i in $(seq 200); do grep -q . /proc/$pid/cmdline 2>/dev/null || exit 0; sleep 0.05; done; exit 1",
        home.display()
    );
    let lines = config.lines().map(|line| match line {
        _ if line.starts_with("probe = ") => format!("probe = {{ file = {:?} }}", home.join("version")),
        _ if line.ends_with(".driver.process]") => line.replace(".process]", ".command]"),
        _ if line.starts_with("argv = ") => format!("stop = [\"sh\", \"-c\", {stop:?}]"),
        _ if line.starts_with("stop_timeout = ") => format!("start = [\"sh\", \"-c\", {start:?}]"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Writes what the probe reads.
pub(super) fn put_back(fleet: &Fleet, node: &str, version: u32) {
    let home = fleet.home(node);
    std::fs::write(home.join("version.new"), version.to_string()).unwrap();
    std::fs::rename(home.join("version.new"), home.join("version")).unwrap();
}
