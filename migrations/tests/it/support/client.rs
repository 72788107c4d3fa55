//! A program that uses the database: the old version, the new one, or a person who looks.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};

pub(crate) enum Client {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Client {
    pub(crate) async fn try_run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Client::Postgres(c) => sql.execute(c).await.map(|_| ()),
            Client::Sqlite(c) => sql.execute(c).await.map(|_| ()),
        }
    }

    pub(crate) async fn run(&mut self, sql: &str) {
        self.try_run(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        let query = AssertSqlSafe(sql.to_owned());
        match self {
            Client::Postgres(c) => {
                sqlx::query(query).persistent(false).fetch_one(c).await.map(|row| row.get(0))
            }
            Client::Sqlite(c) => {
                sqlx::query(query).persistent(false).fetch_one(c).await.map(|row| row.get(0))
            }
        }
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// The first column of every row, as text.
    pub(crate) async fn texts(&mut self, sql: &str) -> Vec<String> {
        let query = AssertSqlSafe(sql.to_owned());
        match self {
            Client::Postgres(c) => sqlx::query(query)
                .persistent(false)
                .fetch_all(c)
                .await
                .map(|rows| rows.iter().map(|row| row.get(0)).collect()),
            Client::Sqlite(c) => sqlx::query(query)
                .persistent(false)
                .fetch_all(c)
                .await
                .map(|rows| rows.iter().map(|row| row.get(0)).collect()),
        }
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    pub(crate) async fn close(self) {
        match self {
            Client::Postgres(c) => c.close().await.unwrap(),
            Client::Sqlite(c) => c.close().await.unwrap(),
        }
    }
}
