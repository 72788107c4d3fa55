//! Run, change and read: what both drivers do alike, each with types of its own.

/// Writes these functions for a driver. It has `failure`, an error of it, and `value`, which reads a column.
macro_rules! statements {
    ($database:ty, $connection:ty, $row:ty) => {
        pub(super) async fn run(connection: &mut $connection, sql: &str) -> Result<(), Failure> {
            sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.map_err(failure)?;
            Ok(())
        }

        pub(super) async fn change(
            connection: &mut $connection,
            sql: &str,
            values: &[Value],
        ) -> Result<u64, Failure> {
            let done = query(sql, values).execute(connection).await.map_err(failure)?;
            Ok(done.rows_affected())
        }

        pub(super) async fn read(
            connection: &mut $connection,
            sql: &str,
            values: &[Value],
        ) -> Result<Vec<Vec<Value>>, Failure> {
            let rows = query(sql, values).fetch_all(connection).await.map_err(failure)?;
            rows.iter().map(|row: &$row| (0..row.len()).map(|at| value(row, at)).collect()).collect()
        }

        fn query<'q>(
            sql: &str,
            values: &[Value],
        ) -> sqlx::query::Query<'q, $database, <$database as sqlx::Database>::Arguments> {
            let mut query = sqlx::query(AssertSqlSafe(sql.to_owned())).persistent(false);
            for value in values {
                query = match value {
                    Value::Null => query.bind(None::<String>),
                    Value::Int(n) => query.bind(*n),
                    Value::Text(t) => query.bind(t.clone()),
                };
            }
            query
        }
    };
}

pub(super) use statements;
