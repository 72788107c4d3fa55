//! The two ways to replace code, behind the same verbs: bring, verify, start, stop, drop.

use super::artifact::{self, NotStaged};
use super::command;
use super::hook;
use super::process::{ProcessError, ServiceProcess};
use crate::config::Service;
use crate::config::settings::{self, Hooks, Node};
use crate::directive::phase::Target;
use crate::directive::seen::Hook;
use crate::journal::Started;
use std::path::{Path, PathBuf};
use tidegate_proto::{Digest, NodeId, ReleaseTag};

/// How the code of one service is replaced.
#[derive(Debug, Clone)]
pub struct Driver {
    service: Service,
    node: NodeId,
    home: PathBuf,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Process(ServiceProcess),
    Command(Hooks),
}

/// Why a service was not started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Its code is not what was asked for.
    #[error(transparent)]
    Code(#[from] NotStaged),
    /// Its process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A hook could not be run.
    #[error("the {hook} hook: {source}")]
    NotRun {
        /// Which.
        hook: &'static str,
        /// Why.
        source: command::NotRun,
    },
    /// A hook ended badly.
    #[error("the {hook} hook failed: {found}")]
    Hook {
        /// Which.
        hook: &'static str,
        /// How it ended and what it said.
        found: String,
    },
}

impl Driver {
    /// The driver of a service, where one is configured.
    pub fn of(node: &Node, service: &Service, home: &Path) -> Option<Self> {
        let kind = match service.driver.clone()? {
            settings::Driver::Process(spec) => {
                let log = node.runtime_dir.join(format!("{}.log", service.name));
                Kind::Process(ServiceProcess::new(home, spec, log))
            }
            settings::Driver::Command(hooks) => Kind::Command(hooks),
        };
        Some(Self { service: service.clone(), node: node.name.clone(), home: home.to_owned(), kind })
    }

    /// The process of the agent, where the service is one.
    pub fn process(&self) -> Option<&ServiceProcess> {
        match &self.kind {
            Kind::Process(process) => Some(process),
            Kind::Command(_) => None,
        }
    }

    /// What the configuration says of a release, where its artifact is a file that can be copied.
    pub fn configured(&self, tag: &ReleaseTag) -> Option<Target> {
        if matches!(&self.kind, Kind::Command(Hooks { stage: Some(_), .. })) {
            return None;
        }
        self.service.artifacts.get(tag).map(|artifact| Target::of_artifact(tag, artifact))
    }

    /// Brings the code of a release onto the node and verifies it; returns its digest.
    pub async fn stage(&self, target: &Target) -> Result<Digest, NotStaged> {
        let directory = artifact::directory(&self.home, &target.tag);
        if let Kind::Command(Hooks { stage: Some(hook), timeout, .. }) = &self.kind {
            std::fs::create_dir_all(&directory).map_err(|source| NotStaged::File {
                doing: "make the directory",
                path: directory.clone(),
                source,
            })?;
            let argv = self.filled(hook, target);
            let staging = hook::Hooks::staging(&self.home);
            let done = staging.run("stage", &argv, *timeout).await;
            let done = done.map_err(|e| NotStaged::Hook(e.to_string()))?;
            if !done.success {
                return Err(NotStaged::Hook(done.words()));
            }
            let wanted = target.sha256.ok_or_else(|| NotStaged::Unknown(target.tag.clone()))?;
            self.verify(target).await?;
            return Ok(wanted);
        }
        let known = self.service.artifacts.get(&target.tag).cloned();
        let artifact = known.ok_or_else(|| NotStaged::Unknown(target.tag.clone()))?;
        let (tag, wanted) = (target.tag.clone(), target.sha256);
        blocking(move || artifact::stage(&directory, &tag, &artifact, wanted)).await
    }

    /// Verifies the code of a release that is there, where a digest is asked for.
    async fn verify(&self, target: &Target) -> Result<Option<Digest>, NotStaged> {
        let Some(wanted) = target.sha256 else { return Ok(None) };
        let directory = artifact::directory(&self.home, &target.tag);
        let tag = target.tag.clone();
        blocking(move || artifact::verify(&directory, &tag, wanted)).await.map(|()| Some(wanted))
    }

    /// The code of a release, verified now: as it lies there, or else brought anew.
    pub async fn ensure(&self, target: &Target) -> Result<Digest, NotStaged> {
        match self.verify(target).await {
            Ok(Some(digest)) => Ok(digest),
            Ok(None) | Err(_) => self.stage(target).await,
        }
    }

    /// Removes the code of a release.
    pub async fn remove(&self, tag: &ReleaseTag) -> Result<(), NotStaged> {
        if let Kind::Command(Hooks { remove: Some(hook), timeout, .. }) = &self.kind {
            let version = self.service.artifacts.get(tag).map(|a| a.version).unwrap_or_default();
            let target = Target { tag: tag.clone(), version, sha256: None };
            let argv = self.filled(hook, &target);
            let staging = hook::Hooks::staging(&self.home);
            let done = staging.run("remove", &argv, *timeout).await;
            let done = done.map_err(|e| NotStaged::Hook(e.to_string()))?;
            if !done.success {
                return Err(NotStaged::Hook(format!("remove: {}", done.words())));
            }
        }
        let directory = artifact::directory(&self.home, tag);
        blocking(move || artifact::remove(&directory)).await
    }

    /// Starts a release, its code verified once more. The effect of hooks is for the probe to tell.
    pub async fn start(&self, target: &Target) -> Result<(Digest, Option<Started>), DriverError> {
        let digest = self.ensure(target).await?;
        let started = match &self.kind {
            Kind::Process(process) => {
                let directory = artifact::directory(&self.home, &target.tag);
                Some(process.start(target, &directory, |word| self.fill(word, target))?)
            }
            Kind::Command(hooks) => {
                self.hook("start", &hooks.start, target).await?;
                None
            }
        };
        Ok((digest, started))
    }

    /// Stops what runs. For a process, returns when nothing of it is left; for hooks, the probe tells.
    pub async fn stop(&self, running: Option<&Target>, started: Option<&Started>) -> Result<(), DriverError> {
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

    /// How the start hook stands, where hooks replace code.
    pub fn start_hook(&self) -> Hook {
        match &self.kind {
            Kind::Process(_) => Hook::NotBegun,
            Kind::Command(_) => hook::Hooks::moving(&self.home).look("start"),
        }
    }

    /// Kills the start hook of which nobody saw the end.
    pub async fn end_hook(&self) -> std::io::Result<()> {
        hook::Hooks::moving(&self.home).end().await
    }

    async fn hook(&self, hook: &'static str, argv: &[String], target: &Target) -> Result<(), DriverError> {
        let Kind::Command(hooks) = &self.kind else { return Ok(()) };
        let argv = self.filled(argv, target);
        let moving = hook::Hooks::moving(&self.home);
        let done = moving.run(hook, &argv, hooks.timeout).await;
        let done = done.map_err(|source| DriverError::NotRun { hook, source })?;
        tracing::info!(hook, release = %target.tag, ending = %done.words(), "hook ended");
        if done.success { Ok(()) } else { Err(DriverError::Hook { hook, found: done.words() }) }
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

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NotStaged> + Send + 'static,
) -> Result<T, NotStaged> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| {
        Err(NotStaged::File {
            doing: "finish the work on",
            path: PathBuf::from("the release"),
            source: std::io::Error::other(e),
        })
    })
}
