//! The two drivers that replace code, `process` and `command`, with the same operations: stage, verify, start, stop,
//! remove.

use super::artifact;
use crate::config::Service;
use crate::config::settings::{self, Hooks, Node};
use crate::file_error::FileError;
use crate::host::Done;
use crate::host::NotRun;
use crate::host::{self, Alive, HookSet, HookState, Host};
use crate::host::{NotStaged, ProcessError, ServiceProcess, Started, Target};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::{Chain, Digest, NodeId, ReleaseTag, mutant};

/// How the code of one service is replaced.
#[derive(Debug, Clone)]
pub(crate) struct Driver {
    host: Arc<dyn Host>,
    service: Service,
    node: NodeId,
    home: PathBuf,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Process(Arc<dyn ServiceProcess>),
    Command(Hooks),
}

/// Why a service was not started or stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A hook could not be run.
    #[error("the {hook} hook: {source}")]
    NotRun { hook: &'static str, source: NotRun },
    /// A hook ended badly.
    #[error("the {hook} hook failed: {found}")]
    Hook {
        hook: &'static str,
        /// How it ended and what it said.
        found: String,
    },
}

impl DriverError {
    /// Whether a hook was begun: it may have done what it is for, although it failed or was killed.
    pub(crate) fn hook_has_begun(&self) -> bool {
        matches!(self, Self::Hook { .. } | Self::NotRun { source: NotRun::Late { .. }, .. })
    }
}

impl Driver {
    /// The driver of a service, where one is configured.
    pub(crate) fn of(host: &Arc<dyn Host>, node: &Node, service: &Service, home: &Path) -> Option<Self> {
        let kind = match service.driver.clone()? {
            settings::Driver::Process(spec) => {
                let log = node.runtime_dir.join(format!("{}.log", service.name));
                Kind::Process(host.process(home, spec, log))
            }
            settings::Driver::Command(hooks) => Kind::Command(hooks),
        };
        Some(Self {
            host: Arc::clone(host),
            service: service.clone(),
            node: node.name.clone(),
            home: home.to_owned(),
            kind,
        })
    }

    /// The process of the agent, where the service is one.
    pub(crate) fn process(&self) -> Option<&dyn ServiceProcess> {
        match &self.kind {
            Kind::Process(process) => Some(process.as_ref()),
            Kind::Command(_) => None,
        }
    }

    /// What the configuration says of a release: it can be brought without a directive.
    pub(crate) fn configured(&self, tag: &ReleaseTag) -> Option<Target> {
        self.service.artifacts.get(tag).map(|artifact| Target::of_artifact(tag, artifact))
    }

    /// Brings the code of a release onto the node and verifies it; returns its digest.
    pub(crate) async fn stage(&self, target: &Target) -> Result<Digest, NotStaged> {
        let directory = artifact::directory(&self.home, &target.tag);
        if let Kind::Command(Hooks { stage: Some(hook), timeout, .. }) = &self.kind {
            return self.stage_by_hook(target, &directory, hook, *timeout).await;
        }
        let known = self.service.artifacts.get(&target.tag).cloned();
        let artifact = known.ok_or_else(|| NotStaged::Unknown(target.tag.clone()))?;
        let (tag, wanted) = (target.tag.clone(), target.sha256);
        self.blocking(move |host| host.stage(&directory, &tag, &artifact, wanted)).await
    }

    /// Runs the stage hook and verifies what it brought: by the digest that the directive or the configuration names, else
    /// by the one that the hook prints. Nothing is verified only where this node's own configuration declares so.
    async fn stage_by_hook(
        &self,
        target: &Target,
        directory: &Path,
        hook: &[String],
        limit: Duration,
    ) -> Result<Digest, NotStaged> {
        let (tag, service) = (target.tag.clone(), self.service.name.clone());
        let pinned = self.service.artifacts.get(&tag).and_then(|artifact| artifact.sha256);
        let asked = target.sha256.or(pinned);
        match (asked, pinned) {
            (Some(Digest::ABSENT), pinned) if pinned != Some(Digest::ABSENT) => {
                return Err(NotStaged::NotDeclared { tag, service });
            }
            (Some(wanted), Some(pinned)) if !pinned.is_absent() && wanted != pinned => {
                return Err(NotStaged::Pinned { tag, wanted, pinned });
            }
            _ => {}
        }
        self.host.make_directory(directory).map_err(FileError::at("make the directory", directory))?;
        let argv = self.filled(hook, target);
        let done = self.host.hooks(&self.home, HookSet::Staging).run("stage", &argv, limit).await;
        let done = done.map_err(|e| NotStaged::Hook(Chain(&e).to_string()))?;
        if !done.success {
            return Err(NotStaged::Hook(done.words()));
        }
        if asked == Some(Digest::ABSENT) {
            return Ok(Digest::ABSENT);
        }
        let wanted = asked.or_else(|| printed_digest(&done.stdout));
        let wanted = wanted.ok_or(NotStaged::NoDigest { tag, service })?;
        self.verify(&Target { sha256: Some(wanted), ..target.clone() }).await?;
        Ok(wanted)
    }

    /// Verifies the code of a release that is there, where a digest is asked for.
    async fn verify(&self, target: &Target) -> Result<Option<Digest>, NotStaged> {
        let Some(wanted) = target.sha256 else { return Ok(None) };
        let directory = artifact::directory(&self.home, &target.tag);
        let tag = target.tag.clone();
        self.blocking(move |host| host.verify(&directory, &tag, wanted)).await.map(|()| Some(wanted))
    }

    /// The code of a release, verified now: as it is there, or else staged again.
    pub(crate) async fn ensure(&self, target: &Target) -> Result<Digest, NotStaged> {
        match self.verify(target).await {
            Ok(Some(digest)) => Ok(digest),
            Ok(None) | Err(_) => self.stage(target).await,
        }
    }

    /// Removes the code of a release.
    pub(crate) async fn remove(&self, tag: &ReleaseTag) -> Result<(), NotStaged> {
        if let Kind::Command(Hooks { remove: Some(hook), timeout, .. }) = &self.kind {
            let version = self.service.artifacts.get(tag).map(|a| a.version).unwrap_or_default();
            let target = Target { tag: tag.clone(), version, sha256: None };
            let argv = self.filled(hook, &target);
            let staging = self.host.hooks(&self.home, HookSet::Staging);
            let done = staging.run("remove", &argv, *timeout).await;
            let done = done.map_err(|e| NotStaged::Hook(e.to_string()))?;
            if !done.success {
                return Err(NotStaged::Hook(format!("remove: {}", done.words())));
            }
        }
        let directory = artifact::directory(&self.home, tag);
        self.blocking(move |host| host.remove_release(&directory)).await
    }

    /// Starts a release whose code was verified. The probe verifies the effect of hooks.
    pub(crate) async fn start(&self, target: &Target) -> Result<Option<Started>, DriverError> {
        match &self.kind {
            Kind::Process(process) => {
                let directory = artifact::directory(&self.home, &target.tag);
                Ok(Some(process.start(target, &directory, &|word| self.fill(word, target))?))
            }
            Kind::Command(hooks) => {
                self.hook("start", &hooks.start, target).await?;
                Ok(None)
            }
        }
    }

    /// Stops what runs. For a process, returns when nothing of it is left; for hooks, the probe shows it.
    pub(crate) async fn stop(
        &self,
        running: Option<&Target>,
        started: Option<&Started>,
    ) -> Result<(), DriverError> {
        match &self.kind {
            Kind::Process(process) => Ok(process.stop(started).await?),
            Kind::Command(hooks) => {
                let none = || Target {
                    tag: "none".parse().expect("four letters are a tag"),
                    version: tidegate_proto::ServiceVersion::ABSENT,
                    sha256: None,
                };
                let target = running.cloned().unwrap_or_else(none);
                self.hook("stop", &hooks.stop, &target).await
            }
        }
    }

    /// The state of the start hook, where hooks replace code. A process was begun where it holds its lock: what answers
    /// without it was started by other means.
    pub(crate) fn start_hook(&self) -> HookState {
        match self.process() {
            Some(process) if process.alive() == Alive::Yes => HookState::Ended,
            _ => self.look_at("start"),
        }
    }

    /// The state of the stop hook, where hooks replace code.
    pub(crate) fn stop_hook(&self) -> HookState {
        self.look_at("stop")
    }

    fn look_at(&self, hook: &str) -> HookState {
        match &self.kind {
            Kind::Process(_) => HookState::NotBegun,
            Kind::Command(_) => self.host.hooks(&self.home, HookSet::Moving).look(hook),
        }
    }

    /// Whether the status hook says that the service does not run, by the exit codes of init scripts (1 to 3). Anything else,
    /// and no hook, is no answer.
    pub(crate) async fn has_ended(&self, limit: Duration) -> bool {
        let done = self.ask_status(limit).await;
        done.is_some_and(|done| done.is_ok_and(|done| matches!(done.code, Some(1..=3))))
    }

    /// Whether the status hook says that the service runs.
    pub(crate) async fn still_runs(&self, limit: Duration) -> bool {
        let done = self.ask_status(limit).await;
        done.is_some_and(|done| done.is_ok_and(|done| done.success))
            && !mutant::is("status-is-not-asked-of-a-stop")
    }

    /// Runs the status hook, where there is one.
    pub(crate) async fn ask_status(&self, limit: Duration) -> Option<Result<Done, NotRun>> {
        let Kind::Command(Hooks { status: Some(hook), .. }) = &self.kind else { return None };
        let fill = |word: &String| {
            word.replace("{node}", self.node.as_str()).replace("{service}", self.service.name.as_str())
        };
        let argv: Vec<String> = hook.iter().map(fill).collect();
        Some(self.host.run(&argv, limit).await)
    }

    /// Kills a hook that an earlier agent began.
    pub(crate) async fn end_hook(&self) -> std::io::Result<()> {
        self.host.hooks(&self.home, HookSet::Moving).end().await
    }

    async fn hook(&self, hook: &'static str, argv: &[String], target: &Target) -> Result<(), DriverError> {
        let Kind::Command(hooks) = &self.kind else { return Ok(()) };
        let argv = self.filled(argv, target);
        let moving = self.host.hooks(&self.home, HookSet::Moving);
        let done = moving.run(hook, &argv, hooks.timeout).await;
        let done = done.map_err(|source| DriverError::NotRun { hook, source })?;
        tracing::info!(hook, release = %target.tag, ending = %done.words(), "hook ended");
        if done.success { Ok(()) } else { Err(DriverError::Hook { hook, found: done.words() }) }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Host) -> Result<T, NotStaged> + Send + 'static,
    ) -> Result<T, NotStaged> {
        let host = Arc::clone(&self.host);
        let done = host::aside(self.host.as_ref(), move || work(host.as_ref())).await;
        done.unwrap_or_else(|e| {
            let at = FileError::at("finish the work on", Path::new("the release"));
            Err(at(std::io::Error::other(e)).into())
        })
    }

    fn filled(&self, argv: &[String], target: &Target) -> Vec<String> {
        argv.iter().map(|word| self.fill(word, target)).collect()
    }

    fn fill(&self, word: &str, target: &Target) -> String {
        let directory = artifact::directory(&self.home, &target.tag);
        word.replace("{release_dir}", &directory.to_string_lossy())
            .replace("{tag}", target.tag.as_str())
            .replace("{node}", self.node.as_str())
            .replace("{service}", self.service.name.as_str())
            .replace("{version}", &target.version.to_string())
    }
}

/// The digest that a stage hook prints as its last line, also with a file name after it, as `sha256sum` does.
fn printed_digest(stdout: &[u8]) -> Option<Digest> {
    let text = String::from_utf8_lossy(stdout);
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let digest: Digest = last.split_whitespace().next()?.parse().ok()?;
    (!digest.is_absent()).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_or_late_hook_has_begun_and_an_absent_one_has_not() {
        let (hook, program) = ("start", "/srv/start".to_owned());
        let limit = Duration::from_secs(60);
        let late = NotRun::Late { program: program.clone(), limit };
        let absent = NotRun::Start { program, source: std::io::ErrorKind::NotFound.into() };
        assert!(DriverError::Hook { hook, found: "exit status: 1".to_owned() }.hook_has_begun());
        assert!(DriverError::NotRun { hook, source: late }.hook_has_begun());
        assert!(!DriverError::NotRun { hook, source: absent }.hook_has_begun());
    }

    #[test]
    fn printed_digest_is_the_first_word_of_the_last_line() {
        let digest = Digest::of(b"code");
        for text in [format!("{digest}"), format!("fetched\n{digest}  service.json\n\n")] {
            assert_eq!(printed_digest(text.as_bytes()), Some(digest), "{text}");
        }
        for text in [String::new(), format!("{digest}\ndone\n"), "0".repeat(64)] {
            assert_eq!(printed_digest(text.as_bytes()), None, "{text}");
        }
    }
}
