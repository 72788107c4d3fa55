//! Who obeys and reports: the daemon on each node.
