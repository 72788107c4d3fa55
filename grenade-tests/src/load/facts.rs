//! What the load knows to be true of the catalogue: what was acknowledged to it, and what was seeded.
//!
//! An image in the hands of a request is in nobody else's, so that each answer has exactly one right content. One whose
//! write got no clear answer is given up: nobody knows what it holds.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use rand::rngs::StdRng;

use crate::sample::image::Audience;
use crate::sample::seed::seed_image;

/// One image as it must be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether everybody may see it.
    pub public: bool,
    /// Whether it has members; it is shared if it has some and is not public.
    pub members: bool,
    /// Bytes of its file.
    pub size: u64,
    /// sha256 of its file in hex; empty before an upload.
    pub checksum: String,
    /// Which service version wrote it last; `None` before the first answer.
    pub written_by: Option<u32>,
}

impl Facts {
    /// Shared is derived, alike in both versions.
    pub fn shared(&self) -> bool {
        self.members && !self.public
    }

    /// What a seeded row must say, for ever.
    pub fn seeded(n: u32) -> Self {
        let image = seed_image(n);
        Self {
            id: image.id,
            name: image.name,
            public: image.audience == Audience::Public,
            members: image.audience == Audience::Shared,
            size: u64::try_from(image.size).unwrap_or_default(),
            checksum: image.checksum,
            written_by: u32::try_from(image.written_by).ok(),
        }
    }
}

/// The images that the load made and that no request holds now.
#[derive(Debug, Default)]
pub struct Idle(Mutex<Vec<Facts>>);

impl Idle {
    fn images(&self) -> MutexGuard<'_, Vec<Facts>> {
        // A list of values is whole even if a holder panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one out, by the dice given.
    pub fn take(&self, dice: &mut StdRng) -> Option<Facts> {
        let mut images = self.images();
        if images.is_empty() {
            return None;
        }
        let at = dice.random_range(0..images.len());
        Some(images.swap_remove(at))
    }

    /// Puts one back, or a new one in.
    pub fn put(&self, facts: Facts) {
        self.images().push(facts);
    }
}
