//! Hostile inputs at every border, for tests alone: a corpus of files is mutated with respect to its form, each input is
//! read under limits on memory and work, and an input that breaks one is shrunk and kept in the corpus.
//!
//! ```text
//! corpus files ──► mutation ──► input ──► the border's reader ──► no panic, memory and work within the limits
//!                     ▲                                                 │ broken
//!                     └── dice (proptest's seed)      shrunk, kept as corpus file `failed-*`
//! ```
//!
//! Allocations are counted in test binaries that have [`Counting`] as their global allocator. Stable Rust, no coverage
//! feedback: the corpus and the words in `mutation/hostile.rs` stand for it.

mod allocation;
mod border;
mod corpus;
mod dice;
mod growth;
mod input;
mod mutation;
mod watch;

pub use allocation::{Counting, Usage, measure};
pub use border::{Border, INPUTS, Limits};
pub use corpus::Seed;
pub use growth::Shape;
pub use mutation::Form;
