//! Rest.
