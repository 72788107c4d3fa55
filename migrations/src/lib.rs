//! How a schema changes under live traffic: expand, migrate, contract and undo.
