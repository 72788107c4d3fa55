//! Checks out and builds the commits that a gate file names, once, in a cache that later runs use again.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::gate::file::Gate;
use crate::gate::file::source::{Commit, Source};
use crate::gate::launcher::{self, found};
use crate::world::{Spawn, World};

/// Before a branch it means the last commit that this one and the branch have in common.
const MERGE_BASE: &str = "merge-base ";
/// How long git may take.
const GIT: std::time::Duration = std::time::Duration::from_secs(120);
/// How long a build may take.
const BUILD: std::time::Duration = std::time::Duration::from_secs(3_600);
/// How often a lock is asked for.
const ASK_AGAIN: std::time::Duration = std::time::Duration::from_millis(200);
/// Says that a checkout was built, and by which commands.
const BUILT: &str = ".grenade-built";

/// Checks out and builds what the gate names by commit.
///
/// # Errors
/// When a reference does not exist, both are the same commit and start in the same way, or a build fails, with its last lines.
pub async fn prepare(world: &World, gate: &Gate, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
    let mut base: Option<(&Commit, String)> = None;
    for (name, version) in [("base", &gate.service.base), ("target", &gate.service.target)] {
        if let Source::Git(commit) = &version.source {
            let at = || format!("{}: {}", gate.origin.at(&format!("service.{name}.git")), commit.reference);
            let git = Git { world, here: &gate.here, service: gate.service.name.as_str(), name };
            let top = git.asks("top", &["rev-parse", "--show-toplevel"]).await.with_context(at)?;
            let id = resolved(&git, &top, commit).await.with_context(at)?;
            if let Some((other, same)) = base.replace((commit, id.clone()))
                && same == id
                && gate.service.base.starts_like(&gate.service.target)
            {
                bail!(
                    "{}: this and service.base.git ({}) are the same commit, {}, and start by the same command, so nothing would be \
                     upgraded: run the gate on the commit that changes the service, or name a tag that was released before",
                    at(),
                    other.reference,
                    short(&id)
                );
            }
            commit.is_in(checked_out(&git, gate, &top, &id, commit, say).await.with_context(at)?);
        }
    }
    Ok(())
}

/// As people write the ID of a commit.
fn short(id: &str) -> &str {
    &id[..12.min(id.len())]
}

/// The ID of a commit of the repository at `top`.
async fn resolved(git: &Git<'_>, top: &str, commit: &Commit) -> anyhow::Result<String> {
    let id = match commit.reference.strip_prefix(MERGE_BASE) {
        Some(branch) => git.asks("commit", &["merge-base", "HEAD", branch.trim()]).await,
        None => {
            let asked = format!("{}^{{commit}}", commit.reference);
            git.asks("commit", &["rev-parse", "--verify", "--quiet", "--end-of-options", &asked]).await
        }
    };
    match id {
        Ok(id) => Ok(id),
        Err(error) => Err(error.context(missing(git, top).await)),
    }
}

async fn checked_out(
    git: &Git<'_>,
    gate: &Gate,
    top: &str,
    id: &str,
    commit: &Commit,
    say: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<PathBuf> {
    let words = format!("{top}\n{:?}", commit.build);
    let digest = hex::encode(&Sha256::digest(words.as_bytes())[..6]);
    let cache = cache()?;
    let directory = cache.join(format!("{}-{digest}", short(id)));
    if directory.join(BUILT).is_file() {
        return Ok(directory);
    }
    std::fs::create_dir_all(&cache).with_context(|| format!("could not make {}", cache.display()))?;
    let lock = directory.with_extension("lock");
    let lock = File::create(&lock).with_context(|| format!("could not write {}", lock.display()))?;
    let _locked = alone(lock, &directory, say).await?;
    if directory.join(BUILT).is_file() {
        return Ok(directory);
    }
    say(&format!("checking out {} ({}) to {}", commit.reference, short(id), directory.display()));
    if directory.exists() {
        std::fs::remove_dir_all(&directory).context("could not remove a checkout that was not built")?;
    }
    let path = directory.display().to_string();
    git.asks("prune", &["worktree", "prune"]).await?;
    git.asks("add", &["worktree", "add", "--detach", "--force", &path, id]).await?;
    submodules(git, &directory, say).await?;
    build(git, gate, commit, &directory, say).await?;
    std::fs::write(directory.join(BUILT), words).context("could not mark a checkout as built")?;
    Ok(directory)
}

/// Why a commit may not be there.
async fn missing(git: &Git<'_>, top: &str) -> String {
    let shallow = git.asks("shallow", &["rev-parse", "--is-shallow-repository"]).await;
    match shallow.is_ok_and(|is| is == "true") {
        true => format!(
            "there is no such commit in {top}: that is a shallow clone; fetch the whole history (`git fetch --unshallow`, or \
             `fetch-depth: 0` of actions/checkout)"
        ),
        false => format!("there is no such commit in {top}"),
    }
}

/// Fills the submodules of a checkout, where the commit has some.
async fn submodules(git: &Git<'_>, directory: &Path, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
    if !directory.join(".gitmodules").exists() {
        return Ok(());
    }
    say(&format!("fetching the submodules of {}", directory.display()));
    let path = directory.display().to_string();
    let update = ["-C", &path, "submodule", "update", "--init", "--recursive"];
    git.runs("submodules", &update, BUILD).await.map(drop).with_context(|| {
        format!(
            "could not fetch its submodules (.gitmodules in {path} names them): the repositories must be reachable from here, \
             or name a `directory` that you have filled instead of a commit"
        )
    })
}

/// Runs the commands that build a checkout.
async fn build(
    git: &Git<'_>,
    gate: &Gate,
    commit: &Commit,
    directory: &Path,
    say: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<()> {
    let Git { world, service, name, .. } = git;
    for (n, command) in commit.build.iter().enumerate() {
        let words = command.words(&|place| launcher::place_of_build(gate, directory, place));
        let words = words.map_err(|name| anyhow::anyhow!("`{{{name}}}` has no value in a build"))?;
        say(&format!("building the {name}: {}", words.join(" ")));
        let program = found(&words[0], directory)?;
        let spawn =
            Spawn::new(&format!("build-{service}-{name}-{n}"), &program).args(&words[1..]).dir(directory);
        let mut process = world.spawn(spawn)?;
        let status = process.wait(BUILD).await?;
        ensure!(
            status.success(),
            "`{}` ended with {status}; its last lines:\n{}",
            words.join(" "),
            process.tail()
        );
    }
    Ok(())
}

/// Waits until no other run builds the same. Polling for a lock can be interrupted; a blocking wait would hold this
/// process beyond Ctrl-C.
async fn alone(lock: File, directory: &Path, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<File> {
    let mut waits = false;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(rustix::io::Errno::WOULDBLOCK) if waits => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                waits = true;
                say(&format!("another run builds {}; waiting for it", directory.display()));
            }
            Err(error) => return Err(error).context("could not lock the cache"),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// Where checkouts are kept.
fn cache() -> anyhow::Result<PathBuf> {
    // By the XDG specification, a relative path counts as none.
    let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = given("XDG_CACHE_HOME").or_else(|| Some(given("HOME")?.join(".cache")));
    Ok(home.context("neither XDG_CACHE_HOME nor HOME says where checkouts are to be kept")?.join("grenade"))
}

struct Git<'a> {
    world: &'a World,
    here: &'a Path,
    /// A companion has a base and a target too.
    service: &'a str,
    name: &'a str,
}

impl Git<'_> {
    /// One command of git in the directory of the gate file; its output, without the line's end, which is in a log of that
    /// name too.
    async fn asks(&self, what: &str, arguments: &[&str]) -> anyhow::Result<String> {
        self.runs(what, arguments, GIT).await
    }

    /// The same, for at most so long.
    async fn runs(
        &self,
        what: &str,
        arguments: &[&str],
        limit: std::time::Duration,
    ) -> anyhow::Result<String> {
        // Output is appended to the log of a name, and all of that is read as the answer.
        let name = format!("git-{}-{}-{what}", self.service, self.name);
        let spawn = Spawn::new(&name, &found("git", self.here)?);
        // A checkout of ours is nothing that a hook of the repository waits for.
        let spawn = spawn.args(["-c", "core.hooksPath=/dev/null"]).args(arguments);
        let mut process = self.world.spawn(spawn.dir(self.here))?;
        let status = process.wait(limit).await?;
        let said = std::fs::read_to_string(process.log()).context("could not read what git said")?;
        match status.success() {
            true => Ok(said.trim().to_owned()),
            false if said.trim().is_empty() => bail!("`git {}` ended with {status}", arguments.join(" ")),
            false => bail!("`git {}`: {}", arguments.join(" "), said.trim()),
        }
    }
}
