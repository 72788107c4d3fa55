//! Indexes: on PostgreSQL built while others write, on SQLite in one go.

use crate::database::{Session, Value};
use crate::error::Error;
use crate::leader::Leader;
use crate::presence::IS_BEING_BUILT;
use crate::unit::{Index, Name};

/// How long a concurrent build may wait for others' transactions. Its lock lets readers and writers pass, so that no
/// session stalls behind it; each try that fails leaves an invalid index to clean up.
const BUILD_LOCK_LIMIT: &str = "SET lock_timeout = '10min'";

/// Tries of a build that ends with an invalid index.
const TRIES: u32 = 3;

/// SQLite: the file has one writer anyway.
pub(super) async fn plain(session: &mut Session, index: &Index) -> Result<(), Error> {
    let sql = definition(index, "");
    session.run(&sql).await.map_err(|f| Error::of(f, &sql))
}

/// PostgreSQL: an invalid leftover of a build goes first, then the build, then it is seen to be valid.
pub(super) async fn concurrently(leader: &mut Leader, index: &Index) -> Result<(), Error> {
    leader.long(BUILD_LOCK_LIMIT).await?;
    for tried in 1.. {
        match validity(leader, index).await? {
            Some(true) => break,
            Some(false) => {
                let sql = format!("DROP INDEX CONCURRENTLY IF EXISTS {}", index.name);
                leader.long_change("an invalid index", &sql).await?;
            }
            None => {}
        }
        let built = leader.long_change("an index", &definition(index, "CONCURRENTLY ")).await;
        match built {
            Err(error) if tried < TRIES && error.lock_refused() => {
                tracing::warn!(%error, index = index.name.as_str(), "a concurrent build is tried again");
            }
            Err(error) => return Err(error),
            Ok(()) if tried >= TRIES && validity(leader, index).await? != Some(true) => {
                return Err(Error::Unsupported {
                    step: format!("index {}", index.name.as_str()),
                    found: format!("still invalid after {TRIES} builds"),
                    needs: "rows that the index allows".into(),
                });
            }
            Ok(()) => {}
        }
    }
    leader.long("RESET lock_timeout").await
}

/// Whether the index is there, and valid.
///
/// # Errors
/// [`Error::Unsupported`] where it is on another table, or another session is building it.
async fn validity(leader: &mut Leader, index: &Index) -> Result<Option<bool>, Error> {
    let sql = format!(
        "SELECT i.indisvalid AND i.indisready, i.indrelid IS NOT DISTINCT FROM to_regclass($2)::oid, \
         NOT i.indisvalid AND {IS_BEING_BUILT} FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = $1 AND n.nspname = current_schema()"
    );
    let values = [Value::from(index.name.as_str()), Value::from(index.table.to_string().as_str())];
    let rows = leader.session.read(&sql, &values).await.map_err(|f| Error::of(f, &sql))?;
    let refuse = |found: &str, needs: &str| {
        let step = format!("index {} on {}", index.name.as_str(), index.table.as_str());
        Err(Error::Unsupported { step, found: found.into(), needs: needs.into() })
    };
    match rows.first().map(Vec::as_slice) {
        None => Ok(None),
        Some([_, Value::Int(0), _]) => {
            refuse("an index of this name is on another table", "rename or remove that index")
        }
        Some([_, _, Value::Int(1)]) => {
            refuse("another session is building an index of this name", "wait until it has ended, or end it")
        }
        Some(row) => Ok(Some(row.first() == Some(&Value::Int(1)))),
    }
}

fn definition(index: &Index, concurrently: &str) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let columns = index.on.iter().map(Name::to_string).collect::<Vec<_>>().join(", ");
    let only = index.only.as_ref().map(|w| format!(" WHERE {}", w.text())).unwrap_or_default();
    let (name, table) = (&index.name, &index.table);
    format!("CREATE {unique}INDEX {concurrently}{name} ON {table} ({columns}){only}")
}
