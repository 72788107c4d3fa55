//! The process that a task belongs to, for simulation in one process: a simulated process that is stopped, as by SIGSTOP,
//! does nothing until it goes on. None of its tasks is polled meanwhile, so it notices no answer and no timer, also not
//! that its lease has ended; when it goes on, it notices all of that at once.
//!
//! Outside of a simulation a task belongs to no process, and [`spawn`] is tokio's.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::task::JoinHandle;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static OWN: Process;
}

/// A simulated process. It has the tasks of [`Process::run`], and those that they [`spawn`].
#[derive(Debug, Clone, Default)]
pub struct Process(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    /// Tasks that were woken since it was stopped, in that order.
    woken: Vec<Waker>,
}

impl Process {
    /// Stops it. A task that is aborted is dropped all the same.
    pub fn stop(&self) {
        self.state().stopped = true;
    }

    /// Lets it go on: tasks that were woken meanwhile are polled in the order in which they were.
    pub fn go_on(&self) {
        let woken = {
            let mut state = self.state();
            state.stopped = false;
            std::mem::take(&mut state.woken)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Does `work` as a part of this process.
    pub fn run<F: Future>(&self, work: F) -> InProcess<F> {
        InProcess { process: self.clone(), work: Box::pin(OWN.scope(self.clone(), work)) }
    }

    /// Whether it is stopped; the task is woken when it goes on.
    fn holds(&self, task: &Waker) -> bool {
        let mut state = self.state();
        if state.stopped && !state.woken.iter().any(|other| other.will_wake(task)) {
            state.woken.push(task.clone());
        }
        state.stopped
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a process does, see [`Process::run`].
#[must_use = "nothing is done until it is awaited"]
pub struct InProcess<F> {
    process: Process,
    work: Pin<Box<TaskLocalFuture<Process, F>>>,
}

impl<F: Future> Future for InProcess<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        if this.process.holds(context.waker()) { Poll::Pending } else { this.work.as_mut().poll(context) }
    }
}

/// Spawns a task that belongs to the same process as the task that calls this; to none where that belongs to none.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match OWN.try_get() {
        Ok(process) => tokio::spawn(process.run(work)),
        Err(_) => tokio::spawn(work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    /// How much was done once each task that was woken has had its turn.
    async fn done(steps: &AtomicUsize) -> usize {
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        steps.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn stopped_process_and_what_it_spawned_do_nothing() {
        let [begins, ends] = [(), ()].map(|()| Arc::new(Notify::new()));
        let (process, steps) = (Process::default(), Arc::new(AtomicUsize::new(0)));
        let (begun, ended, taken) = (Arc::clone(&begins), Arc::clone(&ends), Arc::clone(&steps));
        let task = tokio::spawn(process.run(async move {
            begun.notified().await;
            taken.fetch_add(1, Ordering::SeqCst);
            let child = spawn(async move {
                ended.notified().await;
                taken.fetch_add(1, Ordering::SeqCst);
            });
            child.await.unwrap();
        }));
        assert_eq!(done(&steps).await, 0);
        process.stop();
        begins.notify_one();
        assert_eq!(done(&steps).await, 0, "it was woken while it was stopped");
        process.go_on();
        assert_eq!(done(&steps).await, 1);
        process.stop();
        ends.notify_one();
        assert_eq!(done(&steps).await, 1, "so was the task that it spawned");
        process.go_on();
        task.await.unwrap();
        assert_eq!(steps.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn aborted_task_of_a_stopped_process_is_dropped() {
        let process = Process::default();
        let task = tokio::spawn(process.run(std::future::pending::<()>()));
        tokio::task::yield_now().await;
        process.stop();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }

    #[tokio::test]
    async fn task_of_no_process_spawns_tasks_of_none() {
        let is_of_none = || OWN.try_get().is_err();
        assert!(is_of_none());
        assert!(spawn(async move { is_of_none() }).await.unwrap());
    }
}
