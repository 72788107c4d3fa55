//! A database of a PostgreSQL server. It is reached over a link to the server's socket: without the link, the server does
//! not answer.
//!
//! Where another database takes its place, its sessions end, as they do where a server is restored: no process keeps using
//! the former one.

pub(in crate::simulate) mod server;
#[cfg(test)]
mod tests;

use super::engine::{Engine, Table};
use crate::world::program;
use server::Session;
use sqlx::postgres::PgConnectOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use tidegate_migrations::held::session_ended;

/// The name of the judge's own session, which the spec of an upgrade allows.
const JUDGE: &str = "judge";

/// How long a dump waits for a lock that a stopped coordinator may have.
const LOCK_WAIT: &str = "--lock-wait-timeout=20";

/// How long a leader's session may be idle in a transaction, in milliseconds, as the engine asks its server.
const MOST_IDLE: u64 = 5_000;

/// A transaction without a statement: the process of its session, and since when, as the server says it.
type Idle = (String, Option<String>);

/// The database.
pub(super) struct PostgresDatabase {
    options: PgConnectOptions,
    name: String,
    /// The link to the server's socket.
    link: PathBuf,
    /// A dump of it.
    copy: PathBuf,
    session: Option<Session>,
    /// By their names.
    programs: BTreeMap<String, Session>,
    /// When each was seen first.
    idle: BTreeMap<Idle, u64>,
}

impl PostgresDatabase {
    /// Makes the database that a URL names; what is kept of it lies in `directory`.
    pub(super) fn create(url: &str, directory: &Path) -> anyhow::Result<Self> {
        let options = PgConnectOptions::from_str(url)?.application_name(JUDGE);
        let named = options.get_database().zip(options.get_socket());
        let (name, socket) =
            named.ok_or_else(|| anyhow::anyhow!("the URL names no database or no socket"))?;
        let (name, link) = (name.to_owned(), socket.join(format!(".s.PGSQL.{}", options.get_port())));
        let copy = directory.join(format!("{name}.sql"));
        server::administer(&format!("CREATE DATABASE {name}"))?;
        let (programs, idle) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { options, name, link, copy, session: None, programs, idle })
    }

    fn open(&mut self) -> Result<&mut Session, sqlx::Error> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Session::open(&self.options)?,
        };
        Ok(self.session.insert(session))
    }

    /// Ends every session with it. New ones come only from this process, which waits.
    fn end_sessions(&mut self) -> io::Result<()> {
        self.session = None;
        self.programs.clear();
        let name = &self.name;
        server::administer(&format!(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
        ))
    }

    fn idle(&self) -> io::Result<Vec<Idle>> {
        let sql = format!(
            "SELECT coalesce(json_agg(json_build_array(pid::text, state_change::text)), '[]')::text FROM pg_stat_activity \
             WHERE datname = '{}' AND state LIKE 'idle in transaction%'",
            self.name
        );
        serde_json::from_str(&server::ask(&sql)?).map_err(io::Error::other)
    }

    /// The name under which one is kept.
    fn kept(&self, as_what: &str) -> String {
        format!("{}_{as_what}", self.name)
    }

    fn drop_database(name: &str) -> io::Result<()> {
        server::administer(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
    }

    /// Gives a database another name, which another one may have had.
    fn rename(from: &str, to: &str) -> io::Result<()> {
        Self::drop_database(to)?;
        server::administer(&format!("ALTER DATABASE {from} RENAME TO {to}"))
    }

    /// Puts a kept one in its place, and keeps what was there under a number.
    fn take_place(&mut self, kept: &str, number: usize) -> io::Result<()> {
        self.end_sessions()?;
        Self::rename(&self.name, &self.kept(&format!("replaced{number}")))?;
        Self::rename(&self.kept(kept), &self.name)
    }

    /// Runs a program of PostgreSQL with the copy; it is another client.
    fn with_copy(&self, program: &str, arguments: &[&str]) -> io::Result<()> {
        let file: &OsStr = self.copy.as_ref();
        let mut command = Command::new(program::postgresql(program).map_err(io::Error::other)?);
        command
            .args(arguments)
            .arg("--file")
            .arg(file)
            .arg(format!("--dbname={}", server::connection(&self.name)?));
        let done = command.output()?;
        session_ended();
        match done.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
        }
    }
}

impl Engine for PostgresDatabase {
    fn run(&mut self, sql: &str) -> Result<(), String> {
        self.open().and_then(|session| session.run(sql)).map_err(|e| e.to_string())
    }

    fn text(&mut self, sql: &str) -> Result<String, String> {
        self.open().and_then(|session| session.text(sql)).map_err(|e| e.to_string())
    }

    fn query(&self, tables: &[Table<'_>]) -> String {
        let each = tables.iter().map(|(from, (name, text))| {
            format!("(SELECT coalesce(json_agg(json_build_array({name}, {text})), '[]') FROM {from} t)")
        });
        format!("SELECT json_build_array({})::text", each.collect::<Vec<_>>().join(", "))
    }

    /// The functions and triggers of a sync are among them: they go with it.
    fn objects(&self) -> &'static str {
        "(SELECT name, definition FROM (SELECT c.relname::text, coalesce(pg_get_indexdef(i.indexrelid), c.relkind::text) \
         FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid \
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relname !~ '^tidegate' \
         UNION ALL SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) FROM pg_proc p \
         WHERE p.pronamespace = current_schema()::regnamespace \
         UNION ALL SELECT g.tgname::text, pg_get_triggerdef(g.oid) FROM pg_trigger g WHERE NOT g.tgisinternal) \
         o (name, definition) ORDER BY name)"
    }

    fn columns(&self) -> &'static str {
        "(SELECT attname AS name, upper(format_type(atttypid, atttypmod)) AS type FROM pg_attribute \
         WHERE attrelid = to_regclass('items') AND attnum > 0 AND NOT attisdropped ORDER BY attname)"
    }

    fn set_programs(&mut self, names: &BTreeSet<String>) {
        self.programs.retain(|name, _| names.contains(name));
        for name in names {
            // Where it is refused, the program tries again.
            if !self.programs.contains_key(name)
                && let Ok(session) = Session::open(&self.options.clone().application_name(name))
            {
                self.programs.insert(name.clone(), session);
            }
        }
    }

    fn end_idle(&mut self, now: u64) {
        let Ok(idle) = self.idle() else { return };
        self.idle.retain(|seen, _| idle.contains(seen));
        for seen in idle {
            let since = *self.idle.entry(seen.clone()).or_insert(now);
            if now >= since + MOST_IDLE {
                // It may have ended meanwhile.
                let _ = server::administer(&format!("SELECT pg_terminate_backend({}, 5000)", seen.0));
            }
        }
    }

    fn judge(&self) -> Option<&'static str> {
        Some(JUDGE)
    }

    fn is_away(&self) -> bool {
        self.link.symlink_metadata().is_err()
    }

    fn set_away(&mut self, away: bool) -> io::Result<()> {
        let aside = self.link.with_extension("away");
        match (away, self.is_away()) {
            (true, false) => {
                std::fs::rename(&self.link, &aside)?;
                self.end_sessions()
            }
            (false, true) => std::fs::rename(&aside, &self.link),
            _ => Ok(()),
        }
    }

    /// A dump, as it is made beside sessions that go on.
    fn keep_copy(&mut self) -> io::Result<()> {
        self.with_copy("pg_dump", &["--no-sync", LOCK_WAIT])
    }

    fn put_copy(&mut self, keeps: bool) -> io::Result<()> {
        self.end_sessions()?;
        match keeps {
            true => Self::rename(&self.name, &self.kept("newest"))?,
            false => Self::drop_database(&self.name)?,
        }
        server::administer(&format!("CREATE DATABASE {}", self.name))?;
        self.with_copy("psql", &["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1"])
    }

    fn set_newest_aside(&mut self, number: usize) -> io::Result<()> {
        Self::rename(&self.kept("newest"), &self.kept(&format!("replaced{number}")))
    }

    fn put_newest(&mut self, number: usize) -> io::Result<()> {
        self.take_place("newest", number)
    }

    fn put_replaced(&mut self, number: usize, aside: usize) -> io::Result<()> {
        self.take_place(&format!("replaced{number}"), aside)
    }
}
