//! The one user of the etcd client: range, watch, commit, lease, leader.
