//! Who a store is.

/// Who this store is, as the headers of its answers say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: u64,
    pub(crate) member: u64,
    /// How often the store was opened; returned as etcd's raft term.
    pub(crate) term: u64,
}
