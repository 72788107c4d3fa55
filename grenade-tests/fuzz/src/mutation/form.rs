//! The form of an input.

/// The longest input that edits make, in bytes, before the border's own limit.
pub(super) const LONGEST: usize = 64 * 1024;

/// What an input looks like to those who write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// TOML.
    Toml,
    /// Lines of comma-separated values.
    Csv,
    /// A request of HTTP/1.1: head, empty line, body.
    Http,
    /// A line that names a gRPC method, then one message of protobuf.
    Call,
}
