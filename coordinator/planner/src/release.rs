//! Compute releases: the moves of one, what it needs of storage, who it goes out to, and what its manifest says.

pub mod canary;
pub mod floor;
pub mod history;
pub mod manifest;
pub mod need;
pub mod settings;
pub mod status;
