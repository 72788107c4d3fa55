//! The node as the agent uses it: addresses, programs and files. [`Machine`](crate::machine::Machine) is the real node. A
//! simulation has its own, and the rest of the agent runs on it unchanged.
//!
//! # Invariants
//! * Time is tokio's clock, here and in everything that calls this: a simulation can pause it.
//! * No method decides anything: what an answer means is for the caller.

mod error;
mod value;

pub use error::{NoAnswer, NotRun, NotStaged, ProcessError};
pub use value::{Alive, Done, HookState, RunState, Started, Target, TaskEnd};

use crate::config::address::{Stats, Url};
use crate::config::settings::{Artifact, Process};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::StatusCode;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::{Digest, ReleaseTag, TaskId};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// A node.
pub trait Host: Debug + Send + Sync {
    /// Asks an address over HTTP; waits as long as it takes.
    fn get<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<(StatusCode, Bytes), NoAnswer>>;

    /// Asks a balancer's runtime socket for `show stat`; waits as long as it takes.
    fn show_stat<'a>(&'a self, stats: &'a Stats) -> BoxFuture<'a, io::Result<String>>;

    /// How many established connections a local port has; none where the kernel does not say.
    fn connections(&self, port: u16) -> BoxFuture<'_, Option<u32>>;

    /// Runs a program to its end, for at most `limit`.
    fn run<'a>(&'a self, argv: &'a [String], limit: Duration) -> BoxFuture<'a, Result<Done, NotRun>>;

    /// The hooks of the service whose directory is `home`.
    fn hooks(&self, home: &Path, set: HookSet) -> Arc<dyn Hooks>;

    /// The process of the service whose directory is `home`.
    fn process(&self, home: &Path, spec: Process, log: PathBuf) -> Arc<dyn ServiceProcess>;

    /// The hooks of tasks, run below `home`.
    fn task_runs(&self, home: &Path) -> Arc<dyn TaskRuns>;

    /// Copies the artifact of a release into its directory, unless it is there already; its digest. Blocks.
    fn stage(
        &self,
        directory: &Path,
        tag: &ReleaseTag,
        artifact: &Artifact,
        wanted: Option<Digest>,
    ) -> Result<Digest, NotStaged>;

    /// Whether some file of a release's directory has the digest `wanted`. Blocks.
    fn verify(&self, directory: &Path, tag: &ReleaseTag, wanted: Digest) -> Result<(), NotStaged>;

    /// Removes the directory of a release. Blocks.
    fn remove_release(&self, directory: &Path) -> Result<(), NotStaged>;

    /// The bytes of a regular file of at most `most` bytes. Blocks.
    fn read(&self, path: &Path, most: usize) -> io::Result<Vec<u8>>;

    /// Writes a file in place, at least as long as it was, and makes it where it is missing; on the disk when this
    /// returns. `bytes` say themselves whether they are whole. Blocks.
    fn write_in_place(&self, path: &Path, bytes: Vec<u8>) -> io::Result<()>;

    /// Replaces a file: at each moment it is the former one or this one, whole; on the disk when this returns. Blocks.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Makes a file that is to appear at `path`: whole, and on the disk. Blocks.
    fn make(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn Made>>;

    /// Removes a file; without waiting for the disk. Blocks.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a file where there is one; gone from the disk when this returns. Blocks.
    fn erase(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory and those above it. Blocks.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Removes what a crash left beside the files of a directory. Blocks.
    fn sweep(&self, directory: &Path);

    /// Begins work that blocks beside what goes on meanwhile. It is done, whether its end is waited for or not.
    fn aside(&self, work: Box<dyn FnOnce() + Send>);
}

/// The classes of hooks: one hook of a class runs at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookSet {
    /// Those that stop and start the service.
    Moving,
    /// Those that bring and drop its releases.
    Staging,
}

/// The hooks of one set of a service.
pub trait Hooks: Debug + Send + Sync {
    /// The state of `hook`, for an agent that did not see its end.
    fn look(&self, hook: &str) -> HookState;

    /// Runs `argv` as `hook` to its end, for at most `limit`. One that was begun earlier is waited for first, for as
    /// long, and then killed.
    fn run<'a>(
        &'a self,
        hook: &'a str,
        argv: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Done, NotRun>>;

    /// Kills what was begun earlier, and waits until it has ended.
    fn end(&self) -> BoxFuture<'_, io::Result<()>>;
}

/// The process of one service, as the agent runs it.
pub trait ServiceProcess: Debug + Send + Sync {
    /// Whether anything of it runs.
    fn alive(&self) -> Alive;

    /// The release that runs, where something does and is known.
    fn tag(&self) -> Option<ReleaseTag>;

    /// Starts `target`, with the placeholders of the configuration filled in by `fill`.
    fn start(
        &self,
        target: &Target,
        directory: &Path,
        fill: &dyn Fn(&str) -> String,
    ) -> Result<Started, ProcessError>;

    /// Stops whatever of it runs, and returns when nothing does.
    fn stop<'a>(&'a self, started: Option<&'a Started>) -> BoxFuture<'a, Result<(), ProcessError>>;
}

/// The hooks of tasks of a node. A run goes on when the agent ends, and is found again.
pub trait TaskRuns: Debug + Send + Sync {
    /// The state of a task's run that was journalled in the boot of the machine called `boot`.
    fn look(&self, id: &TaskId, boot: &str) -> RunState;

    /// Begins to run `argv` for a task, with `env` added to the agent's own environment, for at most `limit`.
    fn start(
        &self,
        id: &TaskId,
        argv: &[String],
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> io::Result<()>;

    /// Forgets a run.
    fn forget(&self, id: &TaskId);

    /// Forgets what an agent left behind that was ended before it had.
    fn forget_all_but(&self, active: Option<&TaskId>);
}

/// A file that is whole and not yet in its place. Dropped, it never was.
pub trait Made: Debug + Send {
    /// It appears at its path, unless a file is there: `AlreadyExists` then. Blocks.
    fn appear(self: Box<Self>) -> io::Result<()>;
}

/// Begins work that blocks aside; its answer comes there, and an error where the work broke.
pub fn aside<T: Send + 'static>(
    host: &dyn Host,
    work: impl FnOnce() -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (out, answer) = oneshot::channel();
    host.aside(Box::new(move || {
        // If the receiver is gone, only the answer is lost.
        let _ = out.send(work());
    }));
    answer
}

/// Does brief work that blocks, here; where the runtime has other threads, they take over what else is to be done.
pub fn briefly<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
