//! Versions of a gate from commits and from directories, and a gate file from a service that runs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use grenade_tests::world::wait::wait_for_200;
use grenade_tests::world::{Spawn, port, program};

use super::gate_job::{Gate, contains, gate, place};
use crate::rig::{LIMIT, Rig};

const ITEMS: &str = include_str!("../../../gates/items/items.py");
const TWO: &str = include_str!("../../../gates/two-services.yaml");

/// One command in a directory, which must succeed.
fn run(directory: &Path, words: &[&str]) {
    let done = Command::new(words[0]).args(&words[1..]).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn commit(directory: &Path, what: &str) {
    run(directory, &["git", "add", "-A"]);
    let who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"];
    run(directory, &[&["git"], &who[..], &["commit", "-q", "-m", what]].concat());
}

/// The gate of the example, with each version from a commit: the version's number is in the code, and a build writes it.
fn from_git(base: &str, target: &str) -> String {
    let old = "command: [python3, \"/";
    let mut text = gate();
    for (version, reference) in [("1", base), ("2", target)] {
        let at = text.find(old).unwrap();
        let end = at + text[at..].find("--version").unwrap();
        let new = format!(
            "git: {reference}\n    build: [[sh, -c, \"cp number built; echo built >> $0\", \"{{here}}/builds\"]]\n    \
             command: [sh, \"{{source}}/start.sh\", "
        );
        text.replace_range(at..end, &new);
        text = text.replacen(&format!("--version, \"{version}\", "), "", 1);
    }
    text
}

/// A commit whose hook checks the gate: git names the index of that commit to its hooks, and what is committed must be what
/// was staged.
fn checked_by_a_hook(rig: &Rig, repository: &Path, text: &str, cache: &Path) {
    let file = rig.world.path("gate.yaml");
    std::fs::write(&file, text).unwrap();
    let (grenade, hook) = (program::own("grenade").unwrap(), repository.join(".git/hooks/pre-commit"));
    let script = format!(
        "#!/bin/sh\nexec env XDG_CACHE_HOME='{}' '{}' check '{}'\n",
        cache.display(),
        grenade.display(),
        file.display()
    );
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(repository.join("three"), "3").unwrap();
    commit(repository, "three");
    std::fs::remove_file(&hook).unwrap();
    let tree = Command::new("git").args(["ls-tree", "--name-only", "HEAD"]).current_dir(repository).output();
    let tree = String::from_utf8(tree.unwrap().stdout).unwrap();
    assert_eq!(tree.lines().collect::<Vec<_>>(), [".gitignore", "items.py", "number", "start.sh", "three"]);
    let changed =
        Command::new("git").args(["status", "--porcelain"]).current_dir(repository).output().unwrap();
    assert!(changed.stdout.is_empty(), "{}", String::from_utf8_lossy(&changed.stdout));
}

#[tokio::test]
async fn versions_are_checked_out_and_built_once_for_each_commit() {
    let rig = Rig::new();
    let repository = rig.world.dir().to_owned();
    run(&repository, &["git", "init", "-q", "-b", "main"]);
    std::fs::write(repository.join("items.py"), ITEMS).unwrap();
    let start = "exec python3 \"$(dirname \"$0\")/items.py\" --version \"$(cat \"$(dirname \"$0\")/built\")\" \"$@\"\n";
    std::fs::write(repository.join("start.sh"), start).unwrap();
    std::fs::write(repository.join(".gitignore"), "*.log\nartifacts\njunit.xml\ngate.yaml\ncache\nbuilds\n")
        .unwrap();
    std::fs::write(repository.join("number"), "1").unwrap();
    commit(&repository, "one");
    run(&repository, &["git", "checkout", "-q", "-b", "next"]);
    std::fs::write(repository.join("number"), "2").unwrap();
    commit(&repository, "two");
    run(&repository, &["git", "tag", "two"]);
    let cache = repository.join("cache");
    let text = from_git("merge-base main", "two");
    let built = || std::fs::read_to_string(repository.join("builds")).unwrap().lines().count();
    checked_by_a_hook(&rig, &repository, &text, &cache);
    assert_eq!(built(), 2);
    let done = Gate::with_cache(rig, &text, &cache).ends().await;
    assert_eq!(done.code, Some(0), "{}", done.said);
    contains(&done.said, &["PASS"]);
    assert_eq!(built(), 2, "each commit is built once: {}", done.said);
    let rig = done.rig();
    let wrong = from_git("no-such-tag", "two");
    let line = place(&wrong, "  base:", "git: no-such-tag");
    let refused = Gate::with_cache(rig, &wrong, &cache).ends().await;
    assert_eq!(refused.code, Some(4), "{}", refused.said);
    contains(&refused.said, &[&(line + "service.base.git: no-such-tag"), "there is no such commit in"]);
    let same = from_git("two", "two");
    let line = place(&same, "  target:", "git: two");
    let refused = Gate::with_cache(refused.rig(), &same, &cache).ends().await;
    assert_eq!(refused.code, Some(4), "{}", refused.said);
    let words = [
        "service.target.git: two: this and service.base.git (two) are the same commit, ",
        "nothing would be upgraded",
    ];
    contains(&refused.said, &[&(line + words[0]), words[1]]);
    let broken = text.replace("cp number built", "echo the compiler says no; exit 3");
    let refused = Gate::with_cache(refused.rig(), &broken, &cache).ends().await;
    assert_eq!(refused.code, Some(4), "{}", refused.said);
    contains(&refused.said, &["the compiler says no", "exit status: 3"]);
}

/// The code of both versions is in a submodule, which a worktree of git leaves empty.
#[tokio::test]
async fn submodules_of_a_commit_are_fetched_or_named() {
    let rig = Rig::new();
    let (module, repository) = (rig.world.path("module"), rig.world.path("repository"));
    for directory in [&module, &repository] {
        std::fs::create_dir(directory).unwrap();
        run(directory, &["git", "init", "-q", "-b", "main"]);
    }
    std::fs::write(module.join("items.py"), ITEMS).unwrap();
    commit(&module, "the module");
    // By default git takes no submodule from another directory of the same machine.
    let url = module.display().to_string();
    run(
        &repository,
        &["git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"],
    );
    commit(&repository, "one");
    let settings = rig.world.path("gitconfig");
    let check = |settings_of_git: &str| {
        std::fs::write(&settings, settings_of_git).unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates/items/items.py");
        let command = format!("command: [python3, \"{}\"", here.display());
        let git = "git: main\n    command: [python3, \"{source}/lib/items.py\"";
        let file = repository.join("gate.yaml");
        std::fs::write(&file, gate().replacen(&command, git, 2)).unwrap();
        let mut command = Command::new(program::own("grenade").unwrap());
        command.arg("check").arg(&file).env("XDG_CACHE_HOME", rig.world.path("cache"));
        let done = command.env("GIT_CONFIG_GLOBAL", &settings).stdin(Stdio::null()).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let (code, said) = check("");
    assert_eq!(code, Some(4), "{said}");
    contains(
        &said,
        &["service.base.git: main", "could not fetch its submodules (.gitmodules in ", "'file' not allowed"],
    );
    let (code, said) = check("[protocol \"file\"]\n\tallow = always\n");
    assert_eq!(code, Some(0), "{said}");
    contains(&said, &["fetching the submodules of"]);
}

/// Both services have a base and a target, and git is asked about each of them.
#[tokio::test]
async fn companion_from_a_commit_is_checked_out_too() {
    let rig = Rig::new();
    let repository = rig.world.path("repository");
    std::fs::create_dir(&repository).unwrap();
    run(&repository, &["git", "init", "-q", "-b", "main"]);
    std::fs::write(repository.join("items.py"), ITEMS).unwrap();
    commit(&repository, "one");
    run(&repository, &["git", "tag", "one"]);
    std::fs::write(repository.join("two"), "2").unwrap();
    commit(&repository, "two");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates");
    let from = |text: &str, reference: &str, indent: &str| {
        let command = format!("\n{indent}command: [python3, \"{{here}}/items/items.py\"");
        assert_eq!(text.matches(&command).count(), 2, "{text}");
        let git = format!("\n{indent}git: {reference}\n{indent}command: [python3, \"{{source}}/items.py\"");
        text.replace(&command, &git)
    };
    let text = from(&from(TWO, "main", "    "), "one", "        ");
    let file = repository.join("gate.yaml");
    std::fs::write(&file, text.replace("{here}", &here.display().to_string())).unwrap();
    let mut command = Command::new(program::own("grenade").unwrap());
    command.arg("check").arg(&file).env("XDG_CACHE_HOME", rig.world.path("cache"));
    let done = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    contains(&said, &["checking out main (", "checking out one ("]);
}

/// `grenade check`: its exit code, and what it said.
fn check(rig: &Rig, text: &str) -> (Option<i32>, String) {
    let file = rig.world.path("gate.yaml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(program::own("grenade").unwrap());
    let done = command.arg("check").arg(&file).stdin(Stdio::null()).output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

/// Beside it: what cannot be is said before anything is started.
#[tokio::test]
async fn version_from_a_directory_is_started_there() {
    let rig = Rig::new();
    let (one, two) = (rig.world.path("one"), rig.world.path("two"));
    for directory in [&one, &two] {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("items.py"), ITEMS).unwrap();
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates/items/items.py");
    let here = format!("command: [python3, \"{}\"", here.display());
    let source =
        |directory: &str| format!("directory: {directory}\n    command: [python3, \"{{source}}/items.py\"");
    let text = gate().replacen(&here, &source("one"), 1).replacen(&here, &source("two"), 1);
    let (code, said) = check(&rig, &text);
    assert_eq!(code, Some(0), "{said}");
    let wrong = text
        .replace("directory: one", "directory: three")
        .replace("directory: two", "git: main\n    directory: two");
    let (code, said) = check(&rig, &wrong);
    assert_eq!(code, Some(3), "{said}");
    contains(&said, &["three is no directory", "has both `directory` and `git`"]);
}

#[tokio::test]
async fn gate_file_from_a_service_that_runs_is_valid() {
    let rig = Rig::new();
    let (database, address) = (rig.world.path("items.db"), port::free().unwrap());
    let items = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates/items/items.py");
    run(rig.world.dir(), &["python3", items.to_str().unwrap(), "--init", "--db", database.to_str().unwrap()]);
    let spawn =
        Spawn::new("items", Path::new("/usr/bin/python3")).arg(&items).args(["--version", "1", "--port"]);
    let spawn = spawn.arg(address.port().to_string()).arg("--db").arg(&database);
    let _items = rig.world.spawn(spawn.args(["--disable-file", "/nonexistent/disable"])).unwrap();
    wait_for_200("items to be ready", LIMIT, address, "/ready").await.unwrap();
    let init = |url: &str| {
        let mut command = Command::new(program::own("grenade").unwrap());
        let done = command.args(["init", "--url", url]).stdin(Stdio::null()).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let (code, text) = init(&format!("http://{address}"));
    assert_eq!(code, Some(0), "{text}");
    contains(&text, &["version: {path: /version, pointer: /version}", "ready: /ready", "health: /health"]);
    let file = rig.world.path("made.yaml");
    std::fs::write(&file, &text).unwrap();
    grenade_tests::gate::file::load(&file).unwrap();
    let (code, said) = init(&format!("http://{}", port::free().unwrap()));
    assert_eq!(code, Some(4), "{said}");
    contains(&said, &["nothing that speaks HTTP answers"]);
}
