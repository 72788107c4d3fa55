//! Chance that one number decides: a stream of its own for each use, so that one more throw somewhere moves no other.

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use sha2::{Digest, Sha256};

/// One stream of throws.
#[derive(Debug)]
pub struct Dice(StdRng);

impl Dice {
    /// The stream `name` of a seed.
    pub fn of(seed: u64, name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(seed.to_be_bytes());
        hash.update(name);
        Self(StdRng::from_seed(hash.finalize().into()))
    }

    /// A number from 0 to below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end.max(1))
    }

    /// A number of a range, both ends included.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        self.0.random_range(least..=most.max(least))
    }

    /// True in so many of a hundred throws.
    pub fn percent(&mut self, hits: u64) -> bool {
        self.below(100) < hits
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let at = self.below(of.len() as u64);
        of.get(usize::try_from(at).unwrap_or(0))
    }

    /// A number that nothing else is drawn from.
    pub fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }
}
