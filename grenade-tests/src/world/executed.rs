//! The commands that were executed for an upgrade: which, when, and how they ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_proto::printable::one_line;
use tokio::time::Instant;

/// One command.
#[derive(Debug, Clone)]
pub struct Executed {
    /// When it began.
    pub at: Instant,
    /// Its words, as they would be typed.
    pub command: String,
    /// Why it failed; absent: it exited with 0.
    pub failed: Option<String>,
    /// Whether a plan asked for it, and not the upgrade.
    pub of_plan: bool,
}

/// All of them, in the order in which they ended. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Executions(Arc<Mutex<Vec<Executed>>>);

impl Executions {
    /// Executes a command, and records it.
    ///
    /// # Errors
    /// Those of `work`.
    pub async fn run<T>(
        &self,
        words: &[String],
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let at = Instant::now();
        let done = work.await;
        self.record(at, words, done.as_ref().err().map(|error| format!("{error:#}")));
        done
    }

    /// Records a command that began at an instant.
    pub fn record(&self, at: Instant, words: &[String], failed: Option<String>) {
        let command = words.iter().map(|word| typed(word)).collect::<Vec<_>>().join(" ");
        let failed = failed.map(|why| one_line(&why).into_owned());
        self.all_mut().push(Executed { at, command, failed, of_plan: false });
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all_mut().len()
    }

    /// A plan asked for those after the first `count`.
    pub fn are_of_plan_after(&self, count: usize) {
        self.all_mut().iter_mut().skip(count).for_each(|one| one.of_plan = true);
    }

    /// Those until now.
    pub fn all(&self) -> Vec<Executed> {
        self.all_mut().clone()
    }

    fn all_mut(&self) -> MutexGuard<'_, Vec<Executed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A word as it would be typed: in quotes, where it has spaces.
fn typed(word: &str) -> String {
    match word.is_empty() || word.contains(char::is_whitespace) {
        true => format!("'{}'", one_line(word)),
        false => one_line(word).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn command_is_recorded_with_its_end_and_whose_it_is() {
        let executions = Executions::default();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut approve = words("tidegate upgrade approve gate roll --note");
        approve.push("by a gate job".to_owned());
        executions.run(&approve, async { Ok(()) }).await.unwrap();
        let count = executions.count();
        let refused = async { Err::<(), _>(anyhow::anyhow!("it is over")) };
        executions.run(&words("tidegate upgrade pause gate"), refused).await.unwrap_err();
        executions.are_of_plan_after(count);
        let all = executions.all();
        assert_eq!(all[0].command, "tidegate upgrade approve gate roll --note 'by a gate job'");
        assert_eq!((all[0].failed.as_deref(), all[0].of_plan), (None, false));
        assert_eq!((all[1].failed.as_deref(), all[1].of_plan), (Some("it is over"), true));
    }
}
