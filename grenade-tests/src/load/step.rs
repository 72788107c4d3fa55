//! What a request is to do: the mix. Its choices come from the plan's seed alone.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use sha2::{Digest, Sha256};

use crate::load::facts::{Facts, Idle};
use crate::load::plan::LoadPlan;

/// Images in one page of a list.
pub const PAGE: u32 = 20;
/// Pieces of an upload are sent so far apart.
const PIECE_EVERY: Duration = Duration::from_millis(100);
/// Bytes of one piece.
const PIECE: usize = 4096;

/// What one request does. `before` is what was true, `after` what is true once it was acknowledged.
#[derive(Debug, Clone)]
pub enum Step {
    /// Make an image.
    Create {
        /// The image.
        after: Facts,
    },
    /// Read one; a seeded one is never put back, it is never taken.
    Read {
        /// The image.
        known: Facts,
        /// Whether it is a seeded one.
        seeded: bool,
    },
    /// Read a page of the seeded images that follow number `after`.
    List {
        /// The number of the marker.
        after: u32,
        /// How many rows were seeded.
        rows: u32,
    },
    /// Give one another name and say anew whether it is public.
    Update {
        /// What it becomes.
        after: Facts,
    },
    /// Add a member.
    Share {
        /// What it becomes.
        after: Facts,
    },
    /// Send its file, slowly.
    Upload {
        /// What it becomes.
        after: Facts,
        /// The file.
        file: File,
    },
}

/// A file to send in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// How many pieces.
    pub pieces: u32,
    /// The pause before each piece but the first.
    pub every: Duration,
    /// The byte it is made of.
    pub byte: u8,
}

impl File {
    /// How long sending takes at least.
    pub fn length(&self) -> Duration {
        self.every * self.pieces.saturating_sub(1)
    }

    /// One piece.
    pub fn piece(&self) -> Vec<u8> {
        vec![self.byte; PIECE]
    }

    /// All bytes.
    pub fn size(&self) -> u64 {
        u64::from(self.pieces) * PIECE as u64
    }

    fn checksum(&self) -> String {
        let (mut digest, piece) = (Sha256::new(), self.piece());
        (0..self.pieces).for_each(|_| digest.update(&piece));
        hex::encode(digest.finalize())
    }
}

impl Step {
    /// The word for the ledger.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Read { .. } => "read",
            Self::List { .. } => "list",
            Self::Update { .. } => "update",
            Self::Share { .. } => "share",
            Self::Upload { .. } => "upload",
        }
    }

    /// How long the request takes by itself, without any fault of the service.
    pub fn own_length(&self) -> Duration {
        match self {
            Self::Upload { file, .. } => file.length(),
            _ => Duration::ZERO,
        }
    }

    /// Draws the step of request `seq`: 20 % create, 40 % read, 10 % list, 20 % update, 5 % share, 5 % upload. Where
    /// there is no image to work on yet, one is made instead. `run` keeps the images of two loads apart.
    pub fn draw(seq: u64, run: &str, plan: &LoadPlan, idle: &Idle, dice: &mut StdRng) -> Self {
        let rows = plan.seeded_rows;
        let drawn = match dice.random_range(0..100_u32) {
            0..20 => None,
            20..40 if rows > 0 => {
                Some(Self::Read { known: Facts::seeded(dice.random_range(0..rows)), seeded: true })
            }
            20..60 => idle.take(dice).map(|known| Self::Read { known, seeded: false }),
            60..70 if rows > 0 => Some(Self::List { after: dice.random_range(0..rows), rows }),
            60..90 => idle.take(dice).map(|known| Self::Update {
                after: Facts { name: format!("renamed by {seq}"), public: dice.random_bool(0.5), ..known },
            }),
            90..95 => idle.take(dice).map(|known| Self::Share { after: Facts { members: true, ..known } }),
            _ => idle.take(dice).map(|known| Self::upload(known, plan, dice)),
        };
        drawn.unwrap_or_else(|| Self::Create {
            after: Facts {
                // `z` sorts these behind every seeded id.
                id: format!("z-{run}-{seq}"),
                name: format!("made by {seq}"),
                public: dice.random_bool(0.5),
                members: false,
                size: 0,
                checksum: String::new(),
                written_by: None,
            },
        })
    }

    fn upload(known: Facts, plan: &LoadPlan, dice: &mut StdRng) -> Self {
        let (shortest, longest) = plan.upload;
        let length = dice.random_range(shortest.as_millis()..=longest.as_millis());
        let pieces = 1 + u32::try_from(length / PIECE_EVERY.as_millis()).unwrap_or(1);
        let file = File { pieces, every: PIECE_EVERY, byte: dice.random() };
        Self::Upload { after: Facts { size: file.size(), checksum: file.checksum(), ..known }, file }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::Step;
    use crate::load::facts::{Facts, Idle};
    use crate::load::plan::LoadPlan;

    fn kinds(seed: u64, draws: u64) -> Vec<&'static str> {
        let plan = LoadPlan::new(([127, 0, 0, 1], 1).into(), 100, 1000, "unused".into());
        let (idle, mut dice) = (Idle::default(), StdRng::seed_from_u64(seed));
        let kind = |seq| {
            // There is always one image to work on.
            idle.put(Facts::seeded(1));
            Step::draw(seq, "run", &plan, &idle, &mut dice).kind()
        };
        (0..draws).map(kind).collect()
    }

    #[test]
    fn the_mix_is_as_stated() {
        let mut counts = BTreeMap::new();
        for kind in kinds(1, 20_000) {
            *counts.entry(kind).or_insert(0_i32) += 1;
        }
        let stated =
            [("create", 20), ("read", 40), ("list", 10), ("update", 20), ("share", 5), ("upload", 5)];
        for (kind, percent) in stated {
            let off = counts[kind] - percent * 200;
            assert!(off.abs() < 200, "{kind}: {} of 20,000 is not {percent} %", counts[kind]);
        }
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(kinds(7, 500), kinds(7, 500));
        assert_ne!(kinds(7, 500), kinds(8, 500));
    }
}
