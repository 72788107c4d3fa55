//! The command line of `make bench`. Only parses.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

const AFTER: &str = "\
Each figure is printed with its limit, and all of them are written to target/bench/report.json. Figures of a busy \
machine are worse than those of a quiet one; ratios are taken within one run, so that both sides feel it.

Examples:
  make bench                        all of them
  make bench ARGS=spread            one part
  make bench ARGS='spread rebuild'  some parts

Exit: 0 when every limit is kept; 1 when one is missed, or could not be measured; 2 for arguments that make no sense.";

/// The figures of Tidegate: each with its limit, measured on real programs.
#[derive(Debug, Clone, Parser)]
#[command(name = "tidegate-bench", version, after_help = AFTER)]
pub struct Arguments {
    /// What is measured [default: all]
    #[arg(value_enum)]
    pub parts: Vec<Part>,
    /// Where the report and the programs' files go [default: target/bench]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// One part of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// What a turn costs at 100,000 instances (pure)
    Spread,
    /// Reading 100,000 keys into a fleet, beside the plain read (real etcd)
    Rebuild,
    /// What an agent costs when nothing happens, and that it writes nothing (real etcd)
    Rest,
    /// How soon a decision follows the report that it waited for, beside a plain put (real etcd)
    Reaction,
}

impl Part {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Rebuild => "rebuild",
            Self::Rest => "rest",
            Self::Reaction => "reaction",
        }
    }
}

impl Arguments {
    /// What is measured, each once, in the order of the list.
    pub fn parts(&self) -> Vec<Part> {
        let asked = |part: &Part| self.parts.is_empty() || self.parts.contains(part);
        Part::value_variants().iter().copied().filter(asked).collect()
    }
}
