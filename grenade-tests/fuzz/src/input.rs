//! Inputs as proptest wants them: drawn from the corpus, and shrunk by leaving pieces out, large ones first.

use crate::corpus::Seed;
use crate::dice::Dice;
use crate::mutation::{self, Form};
use proptest::prelude::Rng;
use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::fmt;
use std::rc::Rc;

/// The bytes of one input. Its `Debug` form is short and can be read.
#[derive(Clone)]
pub(crate) struct Input(pub(crate) Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 600;
        let shown = &self.0[..self.0.len().min(SHOWN)];
        write!(f, "{} bytes: {}", self.0.len(), shown.escape_ascii())?;
        if self.0.len() > SHOWN { f.write_str("…") } else { Ok(()) }
    }
}

/// Mutated files of a corpus.
#[derive(Debug, Clone)]
pub(crate) struct Mutated {
    pub(crate) seeds: Rc<[Seed]>,
    pub(crate) form: Form,
    pub(crate) longest: usize,
}

impl Strategy for Mutated {
    type Tree = Shrinking;
    type Value = Input;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let mut dice = Dice::new(runner.rng().next_u64());
        let mut bytes = mutation::mutated(&self.seeds, self.form, &mut dice);
        bytes.truncate(self.longest);
        let piece = bytes.len();
        Ok(Shrinking { bytes, at: 0, piece, removed: None })
    }
}

/// An input without the piece that is left out on trial.
pub(crate) struct Shrinking {
    bytes: Vec<u8>,
    at: usize,
    piece: usize,
    removed: Option<Vec<u8>>,
}

impl ValueTree for Shrinking {
    type Value = Input;

    fn current(&self) -> Input {
        Input(self.bytes.clone())
    }

    fn simplify(&mut self) -> bool {
        // What was left out was not needed for the failure.
        self.removed = None;
        while self.at >= self.bytes.len() {
            if self.piece <= 1 || self.bytes.is_empty() {
                return false;
            }
            self.piece = self.piece.div_ceil(2);
            self.at = 0;
        }
        let end = (self.at + self.piece).min(self.bytes.len());
        self.removed = Some(self.bytes.drain(self.at..end).collect());
        true
    }

    fn complicate(&mut self) -> bool {
        let Some(removed) = self.removed.take() else { return false };
        let at = self.at;
        self.at += removed.len();
        self.bytes.splice(at..at, removed);
        true
    }
}
