//! Metadata groups, told as stories: who is exposed to what, what is waited for, when all are returned.

mod edge;
mod properties;
mod stories;
