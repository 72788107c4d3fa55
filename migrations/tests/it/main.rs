//! The engine against real databases: SQLite everywhere, PostgreSQL in `real_postgres`.

mod support;

mod phases;
