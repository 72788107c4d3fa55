//! Random worlds in simulated time: no rule breaks, and a seed gives the same run each time.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use grenade_tests::world::descendants;
use rustix::process::{Pid, Signal, kill_process};

/// The long forms are given an optimised build.
fn simulate(arguments: &[&str]) -> Output {
    let given = std::env::var("TIDEGATE_SIMULATE");
    let mut command = Command::new(given.as_deref().unwrap_or(env!("CARGO_BIN_EXE_tidegate-simulate")));
    command.args(arguments).env_remove("RUST_LOG").output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The lines `SEED DIGEST`, by seed.
fn digests(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_digest = |line: &&str| {
        line.split_once(' ').is_some_and(|(seed, digest)| seed.parse::<u64>().is_ok() && digest.len() == 16)
    };
    let mut lines: Vec<String> = text.lines().filter(is_digest).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// `make test` plays them on what other tests leave idle of the cores.
#[test]
fn simulated_worlds_break_no_rule() {
    let done = simulate(&["--schedules", "1500", "--seed", "2"]);
    assert!(done.status.success(), "{}", text(&done));
    let said = text(&done);
    for phase in ["roll", "contract", "completed", "rolled-back"] {
        assert!(said.lines().any(|line| line.trim().starts_with(phase)), "{phase} was not reached:\n{said}");
    }
}

/// The same worlds, with each schema in a database of a private server.
#[test]
fn simulated_worlds_over_real_postgres_break_no_rule() {
    let done = simulate(&["--postgres", "--schedules", "20", "--within", "30", "--seed", "2"]);
    let said = text(&done);
    assert!(done.status.success(), "{said}");
    for phase in ["expand", "migrate", "contract", "completed", "rolled-back"] {
        assert!(said.lines().any(|line| line.trim().starts_with(phase)), "{phase} was not reached:\n{said}");
    }
}

#[test]
fn long_simulated_worlds_over_real_postgres_break_no_rule() {
    let done = simulate(&["--postgres", "--schedules", "1000000", "--within", "600", "--seed", "300000"]);
    assert!(done.status.success(), "{}", text(&done));
}

/// A run over PostgreSQL with its files in this directory, and its processes: the server's, and at least one schedule.
fn run_over_postgres(directory: &Path) -> (Child, Vec<i32>) {
    // The server's user is another one where this is root.
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_tidegate-simulate"))
        .args(["--postgres", "--schedules", "1000"])
        .env("TMPDIR", directory)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let processes = || descendants::below(i32::try_from(run.id()).unwrap());
    let began = Instant::now();
    while processes().len() < 8 {
        assert!(began.elapsed() < Duration::from_secs(60), "only {:?} run", processes());
        std::thread::sleep(Duration::from_millis(50));
    }
    let pids = processes();
    (run, pids)
}

#[test]
fn interrupted_simulation_leaves_no_real_postgres() {
    let directory = tempfile::tempdir().unwrap();
    let (mut run, pids) = run_over_postgres(directory.path());
    let files = || std::fs::read_dir(directory.path()).unwrap().count();
    assert!(files() > 0);
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let lives = |pid: &i32| Path::new(&format!("/proc/{pid}")).exists();
    let left: Vec<i32> = pids.into_iter().filter(lives).collect();
    assert!(left.is_empty() && files() == 0, "processes {left:?} and {} files are left", files());
}

/// The directories in memory in which these processes work.
fn in_memory(pids: &[i32]) -> BTreeSet<PathBuf> {
    let works_in = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let is_temporary = |path: &PathBuf| path.to_string_lossy().starts_with("/dev/shm/.tmp");
    pids.iter().filter_map(works_in).filter(is_temporary).collect()
}

#[test]
fn interrupted_simulation_removes_its_files_and_sums_up() {
    let run = Command::new(env!("CARGO_BIN_EXE_tidegate-simulate"))
        .args(["--schedules", "1000", "--seed", "2", "--jobs", "1"])
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut pids, mut directories) = (BTreeSet::new(), BTreeSet::new());
    let began = Instant::now();
    // The first has ended once there is a second.
    while pids.len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "only {pids:?} ran");
        let some = descendants::below(i32::try_from(run.id()).unwrap());
        directories.extend(in_memory(&some));
        pids.extend(some);
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let done = run.wait_with_output().unwrap();
    let said = text(&done);
    assert_eq!(done.status.code(), Some(130), "{said}");
    assert!(said.contains(" schedules in ") && said.contains("no rule was broken"), "{said}");
    assert!(said.contains("interrupted by SIGINT") && !said.contains("signal: "), "{said}");
    let left: Vec<&PathBuf> = directories.iter().filter(|path| path.exists()).collect();
    assert!(left.is_empty(), "{left:?} are left");
}

#[test]
fn output_that_cannot_be_written_is_no_panic() {
    let scenario_to = |stdout: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-simulate"));
        command.args(["--seed", "4", "--scenario"]).stdout(stdout).stderr(Stdio::piped());
        command.spawn().unwrap().wait_with_output().unwrap()
    };
    let full = scenario_to(File::options().write(true).open("/dev/full").unwrap().into());
    assert_eq!(full.status.code(), Some(2), "{}", text(&full));
    assert!(text(&full).contains("could not write to standard output: No space left"), "{}", text(&full));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = scenario_to(writer.into());
    assert!(closed.status.success() && closed.stderr.is_empty(), "{}", text(&closed));
}

#[test]
fn unknown_guard_in_the_environment_is_refused() {
    let done = Command::new(env!("CARGO_BIN_EXE_tidegate-simulate"))
        .args(["--schedules", "1"])
        .env("TIDEGATE_MUTANT", "ceiling-is-not-lowerd")
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2), "{}", text(&done));
    assert!(text(&done).contains("no guard is named \"ceiling-is-not-lowerd\""), "{}", text(&done));
}

#[test]
fn killed_simulation_leaves_no_real_postgres() {
    let directory = tempfile::tempdir().unwrap();
    let (mut run, pids) = run_over_postgres(directory.path());
    // No other process removes the directories of its schedules in memory.
    let in_memory = in_memory(&pids);
    run.kill().unwrap();
    run.wait().unwrap();
    let began = Instant::now();
    let left = || pids.iter().copied().filter(|pid| descendants::runs(*pid)).collect::<Vec<i32>>();
    while !left().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "still there: {:?}", left());
        std::thread::sleep(Duration::from_millis(50));
    }
    for path in in_memory {
        // A schedule may have removed it before the run was killed.
        let _ = std::fs::remove_dir_all(path);
    }
}

/// The gate file of the sample service.
const GATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/gates/pantry-sqlite.yaml");

/// What `grenade explore` draws, by dozens.
#[test]
fn simulated_plans_of_a_gate_break_no_rule() {
    let done = simulate(&["--gate", GATE, "--schedules", "40"]);
    let said = text(&done);
    assert!(done.status.success(), "{said}");
    let ended = |how: &str| said.lines().any(|line| line.trim().starts_with(how));
    assert!(ended("completed      40") && ended("rolled-back"), "{said}");
    for kind in
        ["AgentKilled", "AgentStalled", "CoordinatorKilled", "CoordinatorStalled", "Pause", "RollBack"]
    {
        assert!(ended(kind), "{kind} did not happen:\n{said}");
    }
}

#[test]
fn simulated_plan_from_a_file_happens_in_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.yaml");
    let steps = "steps:\n  - {when: {upgraded: 2}, do: {kill-agent: 1}}\n  - {when: {upgraded: 1}, do: roll-back}\n  \
                 - {when: {upgraded: 1}, do: {pause: 1s}}\n";
    std::fs::write(&plan, steps).unwrap();
    let plan = plan.display().to_string();
    let done = simulate(&["--gate", GATE, "--plan", &plan, "--log"]);
    let said = text(&done);
    assert!(done.status.success(), "{said}");
    let mut at = 0;
    for event in ["AgentKilled", "RollBack", "rolled-back", "Pause", "completed"] {
        let further = said[at..].find(event);
        at += further.unwrap_or_else(|| panic!("{event} does not come next:\n{said}"));
    }
    std::fs::write(&plan, "steps: [{when: {upgraded: 9}, do: roll-back}]\n").unwrap();
    let done = simulate(&["--gate", GATE, "--plan", &plan]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done).contains("steps[0].when.upgraded: 9; 1 to 3 is allowed"), "{}", text(&done));
}

/// Scenarios in which a fault was found once, made as small as they go.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");

#[test]
fn simulated_regressions_break_no_rule() {
    let files: Vec<_> = std::fs::read_dir(KEPT).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    let next = AtomicUsize::new(0);
    let failed = || -> Vec<String> {
        let mut failed = Vec::new();
        while let Some(file) = files.get(next.fetch_add(1, Ordering::SeqCst)) {
            let done = simulate(&["--replay", file.to_str().unwrap(), "--log"]);
            if !done.status.success() {
                failed.push(format!("{}:\n{}", file.display(), text(&done)));
            }
        }
        failed
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let failed: Vec<String> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..cores).map(|_| scope.spawn(failed)).collect();
        players.into_iter().flat_map(|player| player.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), files.len(), failed.join("\n"));
}

/// Each rule is falsified, and the judge finds each out.
fn is_found_out(arguments: &[&str]) {
    let done = simulate(arguments);
    let said = text(&done);
    assert!(done.status.success(), "{said}");
    for rule in 0..=12 {
        let of_it = |line: &&str| line.split_whitespace().take(2).eq(["ok", rule.to_string().as_str()]);
        assert!(said.lines().any(|line| of_it(&line)), "nothing was falsified against rule {rule}:\n{said}");
    }
}

#[test]
fn falsified_runs_are_found_out_by_their_rule() {
    is_found_out(&["--judge-the-judge"]);
}

#[test]
fn long_falsified_runs_over_real_postgres_are_found_out() {
    is_found_out(&["--judge-the-judge", "--postgres"]);
}

/// Twice as many schedules take some 20 s on two cores without optimisation.
const SHORT: usize = 40;

/// Plays so many seeds twice: one process for each core, then several for each, so that the system interrupts them anywhere.
fn same_twice(seeds: usize, first: &str) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let run = |jobs: usize| {
        let (seeds, jobs) = (seeds.to_string(), jobs.to_string());
        let done = simulate(&["--schedules", &seeds, "--seed", first, "--digests", "--jobs", &jobs]);
        (digests(&done), text(&done))
    };
    let ((once, said), (again, _)) = (run(cores), run(4 * cores));
    assert_eq!(once.len(), seeds, "{said}");
    let differ: Vec<_> = once.iter().zip(&again).filter(|(once, again)| once != again).collect();
    assert!(once == again, "seeds that gave another run: {differ:?}");
}

#[test]
fn simulated_seed_gives_the_same_run_also_under_load() {
    same_twice(SHORT, "5000");
}

#[test]
fn long_simulated_seeds_give_the_same_run() {
    same_twice(1000, "20000");
}

#[test]
fn long_simulated_worlds_break_no_rule() {
    let done = simulate(&["--schedules", "1000000", "--within", "900", "--seed", "100000"]);
    assert!(done.status.success(), "{}", text(&done));
}

#[test]
fn long_simulated_worlds_near_kept_ones_break_no_rule() {
    let done = simulate(&["--near", KEPT, "--schedules", "5000", "--within", "900", "--seed", "400000"]);
    assert!(done.status.success(), "{}", text(&done));
}

/// A directory of its own: what a seed means does not change with the kept scenarios.
#[test]
fn simulated_seed_near_kept_scenarios_gives_the_same_run() {
    let directory = tempfile::tempdir().unwrap();
    for seed in ["4", "5", "6"] {
        let drawn = simulate(&["--seed", seed, "--scenario"]);
        std::fs::write(directory.path().join(format!("{seed}.json")), &drawn.stdout).unwrap();
    }
    let near = directory.path().to_str().unwrap();
    let run = |jobs: &str| {
        let arguments = ["--near", near, "--schedules", "20", "--seed", "20", "--digests", "--jobs", jobs];
        let done = simulate(&arguments);
        (digests(&done), text(&done))
    };
    let ((once, said), (again, _)) = (run("2"), run("8"));
    assert_eq!(once.len(), 20, "{said}");
    assert_eq!(once, again);
    let printed = directory.path().join("printed");
    std::fs::write(&printed, simulate(&["--near", near, "--seed", "20", "--scenario"]).stdout).unwrap();
    let replayed = simulate(&["--replay", printed.to_str().unwrap(), "--seed", "20", "--digests"]);
    assert_eq!(digests(&replayed), once[..1], "{}", text(&replayed));
}

#[test]
fn directory_without_readable_scenarios_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let is_refused = |path: &Path, why: &str| {
        let path = path.to_str().unwrap();
        let done = simulate(&["--near", path, "--schedules", "1"]);
        assert_eq!(done.status.code(), Some(2), "{}", text(&done));
        assert!(text(&done).contains(path) && text(&done).contains(why), "{}", text(&done));
    };
    is_refused(&directory.path().join("missing"), "No such file or directory");
    is_refused(directory.path(), "has no scenario");
    let file = directory.path().join("cut-off.json");
    std::fs::write(&file, "{\"seed\": 1}").unwrap();
    is_refused(directory.path(), "cut-off.json: missing field");
    let drawn = simulate(&["--seed", "4", "--scenario"]);
    let mut scenario: serde_json::Value = serde_json::from_slice(&drawn.stdout).unwrap();
    scenario["upgrades"] = serde_json::json!([]);
    std::fs::write(&file, scenario.to_string()).unwrap();
    is_refused(directory.path(), "cut-off.json: it has no upgrade");
}

#[test]
fn scenario_that_is_printed_is_played_again() {
    let drawn = simulate(&["--seed", "4", "--scenario"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &drawn.stdout).unwrap();
    let path = file.path().to_str().unwrap();
    let (first, again) = (simulate(&["--seed", "4", "--log"]), simulate(&["--replay", path, "--log"]));
    assert!(first.status.success(), "{}", text(&first));
    assert_eq!(first.stdout, again.stdout);
    assert!(text(&first).contains("completed"), "{}", text(&first));
}

#[test]
fn scenario_that_cannot_be_read_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"seed\": 1}").unwrap();
    let is_refused = |arguments: &[&str], why: &str| {
        let done = simulate(arguments);
        assert_eq!(done.status.code(), Some(2), "{}", text(&done));
        assert!(text(&done).contains(arguments[1]) && text(&done).contains(why), "{}", text(&done));
    };
    let path = file.path().to_str().unwrap();
    is_refused(&["--replay", path], "missing field");
    is_refused(&["--replay", path, "--scenario"], "missing field");
    is_refused(&["--replay", "/nonexistent/scenario.json"], "No such file or directory");
}

#[test]
fn replay_names_the_faults_that_never_began() {
    let drawn = simulate(&["--seed", "4", "--scenario"]);
    let mut scenario: serde_json::Value = serde_json::from_slice(&drawn.stdout).unwrap();
    let never =
        serde_json::json!({"upgrade": 0, "phase": "failed", "after": 0, "lasts": 200, "what": "Compaction"});
    scenario["mishaps"].as_array_mut().unwrap().push(never);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), scenario.to_string()).unwrap();
    let done = simulate(&["--replay", file.path().to_str().unwrap(), "--log"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{}", text(&done));
    assert!(said.contains("never began: ") && said.contains("Compaction in failed of upgrade 0"), "{said}");
}
