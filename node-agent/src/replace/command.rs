//! Runs a program to its end, with a time limit, in its own process group, which is killed as a whole; keeps the end of
//! its output.

use crate::host::Done;
use crate::host::NotRun;
use futures::FutureExt;
use futures::future::FusedFuture;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// How much output is kept of each stream, in bytes: the end of it. The rest is read and dropped, so that no program blocks on
/// it.
const MAX_OUTPUT: usize = 64 * 1024;

/// How long output may still come after a program has ended: what it left behind may hold its pipes open.
const AFTERWARDS: Duration = Duration::from_millis(200);

/// Runs `argv` (not empty) for at most `limit`.
pub(crate) async fn run(argv: &[String], limit: Duration) -> Result<Done, NotRun> {
    run_with(argv, Stdio::null(), limit, |_| {}).await
}

/// The same, with a standard input. `begun` is given the number of its process as soon as there is one.
pub(crate) async fn run_with(
    argv: &[String],
    stdin: Stdio,
    limit: Duration,
    begun: impl FnOnce(i32),
) -> Result<Done, NotRun> {
    let program = argv.first().cloned().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(&argv[1.min(argv.len())..]).stdin(stdin).process_group(0);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| NotRun::Start { program: program.clone(), source })?;
    // The lock is the child's alone from now on.
    drop(command);
    let group = Group::of(&child);
    if let Some(pid) = group.0 {
        begun(pid.as_raw_nonzero().get());
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = Box::pin(
        async {
            tokio::join!(keep(stdout, &mut out), keep(stderr, &mut err));
        }
        // It is waited for twice.
        .fuse(),
    );
    let ended = tokio::time::timeout(limit, async {
        tokio::select! {
            ended = child.wait() => ended,
            () = &mut output => child.wait().await,
        }
    });
    let ended = match ended.await {
        Ok(ended) => ended.map_err(|source| NotRun::Start { program: program.clone(), source })?,
        Err(_) => {
            group.kill();
            group.forget();
            // Killed just now: it is only reaped here.
            let _ = child.wait().await;
            return Err(NotRun::Late { program, limit });
        }
    };
    // Whatever still holds the pipes was left behind by the program on purpose: a service that it started.
    if !output.is_terminated() {
        let _ = tokio::time::timeout(AFTERWARDS, &mut output).await;
    }
    drop(output);
    group.forget();
    Ok(Done {
        success: ended.success(),
        code: ended.code(),
        ending: ended.to_string(),
        stdout: out,
        stderr: err,
    })
}

async fn keep(stream: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut piece = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut piece).await {
        into.extend_from_slice(&piece[..n]);
        // Not with each piece: what is kept is moved to the front.
        if into.len() > 2 * MAX_OUTPUT {
            keep_the_end(into);
        }
    }
    keep_the_end(into);
}

fn keep_the_end(output: &mut Vec<u8>) {
    output.drain(..output.len().saturating_sub(MAX_OUTPUT));
}

/// A process group that is killed unless it is forgotten: also when its future is dropped.
struct Group(Option<rustix::process::Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw))
    }

    fn kill(&self) {
        if let Some(pid) = self.0 {
            // Gone already is as good as killed.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }

    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    #[tokio::test]
    async fn output_and_exit_status_are_returned() {
        let done = run(&argv(&["sh", "-c", "echo out; echo why >&2; exit 3"]), Duration::from_secs(10))
            .await
            .unwrap();
        assert!(!done.success && done.words().contains("why") && done.words().contains('3'), "{done:?}");
        assert_eq!(done.stdout, b"out\n");
    }

    #[tokio::test]
    async fn the_whole_group_is_ended_when_it_takes_too_long() {
        let room = tempfile::tempdir().unwrap();
        let pid = room.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", pid.display());
        let late = run(&argv(&["sh", "-c", &script]), Duration::from_millis(300)).await;
        assert!(matches!(late, Err(NotRun::Late { .. })), "{late:?}");
        let inner = std::fs::read_to_string(&pid).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", inner.trim())).unwrap_or_default();
        for _ in 0..500 {
            if state().is_empty() || state().contains(") Z ") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the inner process still runs: {}", state());
    }

    #[tokio::test]
    async fn output_that_has_ended_is_not_waited_for() {
        let mut least = Duration::MAX;
        for _ in 0..10 {
            let began = std::time::Instant::now();
            run(&argv(&["sh", "-c", "exec >&- 2>&-; sleep 0.1"]), Duration::from_secs(20)).await.unwrap();
            least = least.min(began.elapsed());
        }
        assert!(least < Duration::from_millis(100) + AFTERWARDS, "each took {least:?} or longer");
    }

    #[tokio::test]
    async fn endless_output_is_bounded() {
        let script = "head -c 1000000 /dev/zero; echo the end";
        let done = run(&argv(&["sh", "-c", script]), Duration::from_secs(20)).await.unwrap();
        assert_eq!(done.stdout.len(), MAX_OUTPUT);
        assert!(done.stdout.ends_with(b"the end\n"));
    }
}
