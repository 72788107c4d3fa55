//! An engine in a process of its own, which a test may stop or kill: this test binary, run again with only the test
//! below; its environment says what to do.

use crate::support::{Database, patient, set_in, watcher, written};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tidegate_migrations::{Engine, Term};

const URL: &str = "TIDEGATE_CHILD_URL";
const MIGRATIONS: &str = "TIDEGATE_CHILD_MIGRATIONS";
const TERM: &str = "TIDEGATE_CHILD_TERM";
const NAME: &str = "child::a_process_of_its_own_migrates";

/// A running child; killed when the story ends.
pub(crate) struct Process(Option<Child>);

impl Process {
    pub(crate) fn migrate(database: &Database, migrations: &Path, term: i64) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]).env(URL, &database.text).env(MIGRATIONS, migrations);
        command.env(TERM, term.to_string()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Process(Some(command.spawn().unwrap()))
    }

    fn child(&self) -> &Child {
        self.0.as_ref().unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(self.child());
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; what it said of its migrate.
    pub(crate) async fn answer(mut self) -> String {
        let child = self.0.take().unwrap();
        let waited = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let output = tokio::time::timeout(std::time::Duration::from_secs(60), waited).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|l| l.split_once("answer=")).map(|(_, answer)| answer.to_owned());
        line.unwrap_or_else(|| format!("no answer in {text:?}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A fill that takes its time (about 1 ms a row) and counts how often each row was filled, without
/// a condition that would hide a second time. It names the row, so that it is computed for each.
pub(crate) fn slow_fill(dialect: tidegate_migrations::Dialect) -> tempfile::TempDir {
    let slow = match dialect {
        tidegate_migrations::Dialect::Postgres => "(SELECT 0 FROM pg_sleep(0.001 + 0 * length(images.id)))",
        tidegate_migrations::Dialect::Sqlite => {
            "(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 400 + 0 * length(images.id)) \
             SELECT sum(i) * 0 FROM n)"
        }
    };
    let text = format!(
        "id = '0003_count'\nversion = 3\nold_reads_migrated = true\n\
         [expand]\nsteps = [{{ add_column = {{ table = 'images', column = 'filled', type = 'integer' }} }}]\n\
         [migrate]\nrequires = 'expanded'\nsteps = [{{ backfill = {{ table = 'images', key = 'id', where = '1 = 1', \
         batch_ms = 200, set = {{ filled = \"coalesce(filled, 0) + 1 + {slow}\" }} }} }}]\n\
         verify = 'SELECT count(*) FROM images WHERE filled IS NULL'\n\
         [undo]\nsteps = [{{ drop_column = {{ table = 'images', column = 'filled' }} }}]\n"
    );
    written(&[("0003_count.toml", &text)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_its_own_migrates() {
    if let Ok(url) = std::env::var(URL) {
        let engine = Engine::connect(&url.parse().unwrap()).await.unwrap();
        let set = set_in(Path::new(&std::env::var(MIGRATIONS).unwrap()));
        let revision: i64 = std::env::var(TERM).unwrap().parse().unwrap();
        let term = Term { revision, id: format!("term-{revision}") };
        println!("answer={:?}", engine.migrate(&set, &term, &watcher(), &patient()).await);
        return;
    }
    let database = Database::sqlite().await.seeded(500).await;
    let (engine, directory) = (database.engine().await, slow_fill(database.dialect()));
    let set = set_in(directory.path());
    engine.expand(&set, &crate::support::term(1), &watcher(), &patient()).await.unwrap();
    let answer = Process::migrate(&database, directory.path(), 1).answer().await;
    assert!(answer.starts_with("Ok") && answer.contains("rows: 500"), "{answer}");
}
