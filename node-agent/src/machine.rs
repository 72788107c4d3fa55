//! The real node: sockets, processes and files of this machine.

use crate::config::address::{Stats, Url};
use crate::config::settings::{Artifact, Process};
use crate::drain::{balancer, in_flight};
use crate::host::{Done, NoAnswer, NotRun, NotStaged};
use crate::host::{HookSet, Hooks, Host, Made, ServiceProcess, TaskRuns};
use crate::replace::{artifact, command, hook, process};
use crate::task::run::Runs;
use crate::{durable, fetch, small};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::StatusCode;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::{Digest, ReleaseTag};

#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

impl Machine {
    /// A handle on it.
    pub fn shared() -> Arc<dyn Host> {
        Arc::new(Self)
    }
}

impl Host for Machine {
    fn get<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<(StatusCode, Bytes), NoAnswer>> {
        fetch::ask(url).boxed()
    }

    fn show_stat<'a>(&'a self, stats: &'a Stats) -> BoxFuture<'a, io::Result<String>> {
        balancer::show_stat(stats).boxed()
    }

    fn connections(&self, port: u16) -> BoxFuture<'_, Option<u32>> {
        in_flight::connections(port).boxed()
    }

    fn run<'a>(&'a self, argv: &'a [String], limit: Duration) -> BoxFuture<'a, Result<Done, NotRun>> {
        command::run(argv, limit).boxed()
    }

    fn hooks(&self, home: &Path, set: HookSet) -> Arc<dyn Hooks> {
        Arc::new(hook::Hooks::of(home, set))
    }

    fn process(&self, home: &Path, spec: Process, log: PathBuf) -> Arc<dyn ServiceProcess> {
        Arc::new(process::ServiceProcess::new(home, spec, log))
    }

    fn task_runs(&self, home: &Path) -> Arc<dyn TaskRuns> {
        Arc::new(Runs::within(home))
    }

    fn stage(
        &self,
        directory: &Path,
        tag: &ReleaseTag,
        artifact: &Artifact,
        wanted: Option<Digest>,
    ) -> Result<Digest, NotStaged> {
        artifact::stage(directory, tag, artifact, wanted)
    }

    fn verify(&self, directory: &Path, tag: &ReleaseTag, wanted: Digest) -> Result<(), NotStaged> {
        artifact::verify(directory, tag, wanted)
    }

    fn remove_release(&self, directory: &Path) -> Result<(), NotStaged> {
        artifact::remove(directory)
    }

    fn read(&self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        small::read(path, most)
    }

    fn write_in_place(&self, path: &Path, mut bytes: Vec<u8>) -> io::Result<()> {
        match OpenOptions::new().write(true).open(path) {
            Ok(file) => {
                let had = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
                // Nothing of what it held stays behind it.
                bytes.resize(bytes.len().max(had), b'\n');
                file.write_all_at(&bytes, 0)?;
                if bytes.len() > had { file.sync_all() } else { file.sync_data() }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => durable::replace(path, &bytes),
            Err(e) => Err(e),
        }
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        durable::replace(path, bytes)
    }

    fn make(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn Made>> {
        Ok(Box::new(durable::make(path, bytes)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn erase(&self, path: &Path) -> io::Result<()> {
        durable::remove(path)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn sweep(&self, directory: &Path) {
        durable::sweep(directory);
    }

    fn aside(&self, work: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_blocking(work);
    }
}

impl Made for durable::Made {
    fn appear(self: Box<Self>) -> io::Result<()> {
        durable::Made::appear(*self)
    }
}
