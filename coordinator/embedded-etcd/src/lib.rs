//! The default store: etcd's v3 API in process, over redb.
